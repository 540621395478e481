//! Compose options of a controller in the background. A later command without options ends them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder;
use argus_crds::error::Reason;
use argus_reconciler::lock;
use argus_reconciler::state_dir::{StateDir, write_private};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::controller_end::{END_TIMEOUT, end_process, find_controller};
use crate::process::exit::{Exit, Failure};
use crate::render::output;

/// Maximum size of the record, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Flags of the options of Compose files.
const FLAGS: [&str; 4] = ["--file=", "--profile=", "--env-file=", "--service="];
/// Flags of the name of the environment. A controller that starts again without them would remove it.
const NAMES: [&str; 2] = ["--project-name=", "--namespace-from="];

/// Record of the controller that a command started in the background.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    pid: u32,
    file: PathBuf,
    flags: Vec<String>,
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

    /// Refuses a command for the same file without the name that this controller gives the environment.
    fn check_name(&self, command: &Self) -> Result<(), Failure> {
        let ((name, _), (new_name, _)) = (self.split(), command.split());
        if self.file != command.file || name == new_name || name.is_empty() {
            return Ok(());
        }
        let message = format!("the running controller has the option `{}`", name.join(" "));
        Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint("end it with `argus stop`; its containers keep running"))
    }

    /// Returns true if a command for the same environment has no options, and this controller has some.
    fn has_former_flags(&self, command: &Self) -> bool {
        let ((name, former), (new_name, options)) = (self.split(), command.split());
        (&self.file, name) == (&command.file, new_name) && options.is_empty() && !former.is_empty()
    }
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
        let Some(started) = Started::read(state) else {
            return Ok(None);
        };
        let running = find_controller(state).await?;
        let is_started = |pid: &Pid| u32::try_from(pid.as_raw_nonzero().get()).ok() == Some(started.pid);
        let pid = running.filter(is_started);
        if pid.is_some() {
            started.check_name(&command)?;
        }
        let pid = pid.filter(|_| started.has_former_flags(&command));
        Ok(pid.map(|pid| Self {
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
        let refused = named.check_name(&plain).unwrap_err();
        assert!(refused.message().contains("`--project-name=foo`"), "{refused:?}");
        assert!(debug.check_name(&plain).is_ok());
        let same_name = started("compose.yaml", "run compose.yaml --project-name=foo");
        assert!(named.has_former_flags(&same_name) && named.check_name(&same_name).is_ok());
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.private()).unwrap();
        debug.write(&state).unwrap();
        assert_eq!(Started::read(&state), Some(debug));
    }
}
