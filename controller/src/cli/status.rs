//! The status files as the commands read them: with or without a controller behind them.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use argus_core::ident::EnvName;
use argus_crds::error::Reason;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, Mode};
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::output::note;
use crate::exit::{Exit, Failure};
use crate::http::client;

/// No file of a controller is larger.
const LARGEST: u64 = 256 << 20;
/// What to do about an environment that is not known.
pub(crate) const LIST: &str = "`argus get` lists the environments";

/// The environments that have a status, by name.
pub(crate) fn names(state: &StateDir) -> Result<Vec<String>, Failure> {
    let folder = state.environments();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Failure::fault(
                &format!("cannot read `{}`", folder.display()),
                &error,
            ));
        }
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let name = name.strip_suffix(".json")?;
        (!name.starts_with('.')).then(|| name.to_owned())
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// A name that an environment can have.
pub(crate) fn named(env: &str) -> Result<EnvName, Failure> {
    EnvName::new(env).map_err(|error| Failure::usage(error.to_string()).hint(LIST))
}

/// The status of one environment; `None` where it has none.
pub(crate) fn one(state: &StateDir, env: &str) -> Result<Option<EnvironmentStatus>, Failure> {
    // A name is checked before it becomes a path.
    named(env)?;
    let path = state.environments().join(format!("{env}.json"));
    read(&path).map_err(|failure| failure.environment(env))
}

/// The status of one environment that has to be there.
pub(crate) fn existing(state: &StateDir, env: &str) -> Result<EnvironmentStatus, Failure> {
    if let Some(status) = one(state, env)? {
        return Ok(status);
    }
    let back = format!("an edit of its file or `argus retry {env}` brings it back");
    let persisted: PersistedState = peek(&state.state_json());
    let known = names(state)?;
    let (message, hint) = if persisted
        .overrides
        .expired
        .iter()
        .any(|over| over.as_str() == env)
    {
        (
            format!("environment `{env}` was taken down: its `argus.ttl` is over"),
            back,
        )
    } else if persisted.overrides.down.keys().any(|down| down.as_str() == env) {
        (format!("environment `{env}` was removed by `argus down`"), back)
    } else {
        let root = state.root().display();
        (
            format!(
                "environment `{env}` has no status in `{root}`; {}",
                listed(&known)
            ),
            format!("{LIST}; where `argus down` removed it, {back}"),
        )
    };
    Err(Failure::missing(Reason::NotFound, message)
        .about(json!({ "environment": env, "known": known }))
        .exit(Exit::Unexpected)
        .hint(hint))
}

/// The environments that there are, in words.
pub(crate) fn listed<T: std::fmt::Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        "there is no environment".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    }
}

/// A private file of the controller; as if there was none where another user's state is private.
pub(crate) fn peek<T: Default + DeserializeOwned>(path: &Path) -> T {
    let about = std::fs::metadata(path).ok();
    // What is no file may never end, and is none of the controller's.
    let is_ours = about.is_some_and(|about| about.is_file() && about.len() <= LARGEST);
    is_ours
        .then(|| std::fs::read(path).ok())
        .flatten()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// `2026-01-01T00:00:00Z` of a time that is told more exactly: in a table that is enough.
pub(crate) fn to_the_second(at: &str) -> String {
    const SECOND: usize = "2026-01-01T00:00:00".len();
    at.get(..SECOND)
        .map_or_else(|| at.to_owned(), |at| format!("{at}Z"))
}

/// The statuses of all environments.
pub(crate) fn all(state: &StateDir) -> Result<Vec<EnvironmentStatus>, Failure> {
    let mut statuses = Vec::new();
    for name in names(state)? {
        // One that went away in between is gone.
        statuses.extend(one(state, &name)?);
    }
    Ok(statuses)
}

/// The status of the controller.
pub(crate) fn controller(state: &StateDir) -> Result<Option<ControllerStatus>, Failure> {
    read(&state.controller_json())
}

/// Says on stderr that no controller keeps these files up to date, where that is so.
pub(crate) fn say_if_alone(state: &StateDir) {
    if is_alive(state) {
        say_if_safe(state);
        return;
    }
    match controller(state) {
        Ok(Some(status)) if !status.as_of.is_empty() => {
            note(&format!(
                "note: controller is not running since {}",
                last_sign(&status)
            ));
        }
        _ => note("note: controller is not running"),
    }
}

/// Says on stderr that a controller does nothing; it is asked, for on a full disk the files stay as they were.
fn say_if_safe(state: &StateDir) {
    let asked = super::block_on(async {
        let answer = client::get(&crate::client::socket(state), crate::http::HEALTH).await;
        Ok(answer.ok())
    });
    let Ok(Some(answer)) = asked else { return };
    let Ok(health) = serde_json::from_slice::<crate::http::Health>(&answer) else {
        return;
    };
    if health.mode == Mode::Safe {
        let why = health.mode_reason.unwrap_or_default();
        note(&format!(
            "note: controller is in mode Safe and does nothing: {why}"
        ));
        note("hint: mend that, then `argus resume`");
    }
}

/// Whether a controller answers on this state directory.
pub(crate) fn is_alive(state: &StateDir) -> bool {
    match UnixStream::connect(crate::client::socket(state)) {
        Ok(_) => true,
        // Another user's: its process tells.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let pid = controller(state).ok().flatten().map(|status| status.pid);
            pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
        }
        Err(_) => false,
    }
}

/// When it stopped; of one that was killed, when it wrote last.
fn last_sign(status: &ControllerStatus) -> &str {
    status.stopped_at.as_deref().unwrap_or(&status.as_of)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::fault(
                &format!("cannot read `{}`", path.display()),
                &error,
            ));
        }
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Failure::bug(&format!("`{}` is not a status file", path.display()), &error))
}
