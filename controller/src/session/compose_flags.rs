//! Compose options of a controller in the background. A later command without options ends them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder;
use argus_crds::error::Reason;
use argus_reconciler::lock::{self, LockHolder};
use argus_reconciler::state_dir::{StateDir, write_private};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::controller_end::{END_TIMEOUT, end_process, find_controller};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;

/// Maximum size of the record, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Flags of the options of Compose files.
const FLAGS: [&str; 4] = ["--file=", "--profile=", "--env-file=", "--service="];
/// Flags of the name of the environment. A controller that starts again without them would remove it.
const NAMES: [&str; 2] = [PROJECT_NAME, "--namespace-from="];
const PROJECT_NAME: &str = "--project-name=";

/// Record of the controller that a command started in the background.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Started {
    pid: u32,
    file: PathBuf,
    /// Name of the environment of the file.
    environment: String,
    flags: Vec<String>,
    /// Compose variables of the flags.
    variables: BTreeMap<String, String>,
}

impl Started {
    pub(super) fn new(pid: u32, file: &Path, arguments: &[OsString]) -> Self {
        let flags = arguments.iter().map(|argument| argument.to_string_lossy());
        let flags =
            flags.filter(|argument| FLAGS.iter().chain(&NAMES).any(|flag| argument.starts_with(flag)));
        Self {
            pid,
            file: file.to_owned(),
            flags: flags.map(String::from).collect(),
            ..Self::default()
        }
    }

    /// Adds the environment of the file, and the variables of the options.
    pub(super) fn of(self, environment: &str, variables: &BTreeMap<String, String>) -> Self {
        Self {
            environment: environment.to_owned(),
            variables: variables.clone(),
            ..self
        }
    }

    pub(super) fn write(&self, state: &StateDir) -> std::io::Result<()> {
        write_private(&path(state), &serde_json::to_vec(self)?)
    }

    fn read(state: &StateDir) -> Option<Self> {
        serde_json::from_slice(&folder::read(&path(state), MAX_BYTES).ok()?).ok()
    }

    /// Flags of the name of the environment, and the other ones.
    fn split(&self) -> (Vec<&str>, Vec<&str>) {
        let flags = self.flags.iter().map(String::as_str);
        flags.partition(|flag| NAMES.iter().any(|name| flag.starts_with(name)))
    }

    /// Record of the running controller; `None` if no command started it in the background.
    pub(super) fn of_running(state: &StateDir) -> Option<Self> {
        let started = Self::read(state)?;
        let holder = LockHolder::read(&state.lock())?;
        let is_holder = holder.pid == started.pid && holder.host == lock::host_name();
        (is_holder && status::is_alive(state)).then_some(started)
    }

    /// Returns true if the controller has this option already.
    pub(super) fn has_option(&self, name: &str, value: &str) -> bool {
        self.variables.get(name).is_some_and(|known| known == value)
    }

    /// Refuses a command that names the environment of the same file otherwise than the option of this controller.
    fn check_name(&self, file: &Path, environment: &str) -> Result<(), Failure> {
        let name = self.flags.iter().find(|flag| flag.starts_with(PROJECT_NAME));
        let (Some(name), true) = (name, self.file == file && self.environment != environment) else {
            return Ok(());
        };
        let message = format!(
            "the running controller names the environment of this file `{}`, not `{environment}`",
            self.environment
        );
        let hint = format!("repeat the command with `{name}`, or end the controller first with `argus stop`");
        Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(hint))
    }

    /// Returns true if a command for the same environment has no options, and this controller has some.
    fn has_former_flags(&self, command: &Self) -> bool {
        let ((name, former), (new_name, options)) = (self.split(), command.split());
        (&self.file, name) == (&command.file, new_name) && options.is_empty() && !former.is_empty()
    }
}

/// Refuses a command whose environment the running controller does not create, because an option gave it another name.
pub(crate) fn check_name(state: &StateDir, file: &Path, environment: &str) -> Result<(), Failure> {
    Started::of_running(state).map_or(Ok(()), |started| started.check_name(file, environment))
}

fn path(state: &StateDir) -> PathBuf {
    state.private().join("controller.options")
}

/// Controller in the background that has options of an earlier command, unlike the new command.
pub(super) struct Former {
    pid: Pid,
    flags: Vec<String>,
}

impl Former {
    pub(super) async fn find(
        state: &StateDir,
        file: &Path,
        arguments: &[OsString],
    ) -> Result<Option<Self>, Failure> {
        let command = Started::new(0, file, arguments);
        let Some(started) = Started::read(state).filter(|it| it.has_former_flags(&command)) else {
            return Ok(None);
        };
        let running = find_controller(state).await?;
        let is_started = |pid: &Pid| u32::try_from(pid.as_raw_nonzero().get()).ok() == Some(started.pid);
        Ok(running.filter(is_started).map(|pid| Self {
            pid,
            flags: started.split().1.into_iter().map(String::from).collect(),
        }))
    }

    /// Ends it. Returns false if a newer controller has taken the state directory.
    pub(super) async fn end(self, state: &StateDir) -> Result<bool, Failure> {
        end_process(state, self.pid, END_TIMEOUT).await?;
        let is_free = !lock::is_held(&state.lock());
        if is_free {
            output::print_note(&format!(
                "note: the controller starts again without `{}` of an earlier command",
                self.flags.join(" ")
            ));
        }
        Ok(is_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_of_an_earlier_command_for_the_file_differ() {
        let started = |file: &str, arguments: &str| {
            let arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            Started::new(7, Path::new(file), &arguments)
        };
        let debug = started("compose.yaml", "run compose.yaml --listen=off --profile=debug");
        assert_eq!(debug.flags, ["--profile=debug"]);
        let plain = started("compose.yaml", "run compose.yaml --listen=off");
        assert!(debug.has_former_flags(&plain));
        assert!(!plain.has_former_flags(&plain));
        assert!(!plain.has_former_flags(&debug), "the command is refused");
        assert!(!debug.has_former_flags(&started("other.yaml", "run other.yaml")));
        let named = started(
            "compose.yaml",
            "run compose.yaml --profile=debug --project-name=foo",
        );
        assert!(!named.has_former_flags(&plain), "it would remove `foo`");
        let same_name = started("compose.yaml", "run compose.yaml --project-name=foo");
        assert!(named.has_former_flags(&same_name));
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.private()).unwrap();
        debug.write(&state).unwrap();
        assert_eq!(Started::read(&state), Some(debug));
    }

    #[test]
    fn running_controller_refuses_another_name_for_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.private()).unwrap();
        let file = Path::new("compose.yaml");
        let variables = BTreeMap::from([("COMPOSE_PROJECT_NAME".to_owned(), "foo".to_owned())]);
        let arguments = [OsString::from("--project-name=foo")];
        let pid = std::process::id();
        Started::new(pid, file, &arguments)
            .of("foo", &variables)
            .write(&state)
            .unwrap();
        let check = |file: &str, environment| check_name(&state, Path::new(file), environment);
        assert!(check("compose.yaml", "shop").is_ok(), "no controller runs");
        let holder = |pid| LockHolder {
            pid,
            host: lock::host_name(),
            ..LockHolder::default()
        };
        let write = |holder: &LockHolder| {
            std::fs::write(state.lock(), serde_json::to_vec(holder).unwrap()).unwrap();
        };
        let _socket = std::os::unix::net::UnixListener::bind(state.socket()).unwrap();
        write(&holder(pid));
        let refused = check("compose.yaml", "shop").unwrap_err();
        assert!(refused.message().contains("`foo`, not `shop`"), "{refused:?}");
        assert!(check("compose.yaml", "foo").is_ok() && check("other.yaml", "shop").is_ok());
        let running = Started::of_running(&state).unwrap();
        assert!(running.has_option("COMPOSE_PROJECT_NAME", "foo"));
        assert!(!running.has_option("COMPOSE_PROJECT_NAME", "bar"));
        write(&holder(pid + 1));
        assert!(check("compose.yaml", "shop").is_ok(), "another controller runs");
    }
}
