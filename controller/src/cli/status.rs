//! The status files as the commands read them: with or without a controller behind them.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use argus_crds::error::Code;
use argus_crds::status::{ControllerStatus, EnvironmentStatus};
use argus_reconciler::state::StateDir;
use serde::de::DeserializeOwned;

use super::output::note;
use crate::exit::{Exit, Failure};

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

/// The status of one environment; `None` where it has none.
pub(crate) fn one(state: &StateDir, env: &str) -> Result<Option<EnvironmentStatus>, Failure> {
    // A name is checked before it becomes a path.
    argus_core::ident::EnvName::new(env).map_err(|error| Failure::usage(error.to_string()))?;
    read(&state.environments().join(format!("{env}.json")))
}

/// The status of one environment that has to be there.
pub(crate) fn existing(state: &StateDir, env: &str) -> Result<EnvironmentStatus, Failure> {
    if let Some(status) = one(state, env)? {
        return Ok(status);
    }
    let names = names(state)?;
    let known = if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Failure::of(
        Code::PrereqMissing,
        format!(
            "environment `{env}` has no status in `{}`",
            state.root().display()
        ),
    )
    .exit(Exit::Unexpected)
    .hint(known))
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
        return;
    }
    match controller(state) {
        Ok(Some(status)) if !status.as_of.is_empty() => {
            note(&format!(
                "note: controller is not running since {}",
                last_sign(state, &status)
            ));
        }
        _ => note("note: controller is not running"),
    }
}

/// Whether a controller answers on this state directory.
pub(crate) fn is_alive(state: &StateDir) -> bool {
    match UnixStream::connect(crate::http::socket(state)) {
        Ok(_) => true,
        // Another user's: its process tells.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let pid = controller(state).ok().flatten().map(|status| status.pid);
            pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
        }
        Err(_) => false,
    }
}

/// When the controller wrote last: later than what it wrote, which it writes only when it differs.
fn last_sign(state: &StateDir, status: &ControllerStatus) -> String {
    let stopped = std::fs::metadata(state.clean_shutdown())
        .and_then(|meta| meta.modified())
        .ok();
    let since = stopped.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let at = since
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .map(argus_core::time::Timestamp);
    at.map_or_else(|| status.as_of.clone(), |at| at.to_string())
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
        .map_err(|error| Failure::fault(&format!("`{}` is not a status file", path.display()), &error))
}
