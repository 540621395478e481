//! Status files, as commands read them. They exist with and without a running controller.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

use argus_backend::host_path::folder;
use argus_core::ident::EnvName;
use argus_core::quoting::{PathText as _, shell_path};
use argus_core::status::env_file;
use argus_crds::error::Reason;
use argus_crds::status::{ControllerStatus, EnvironmentStatus};
use argus_crds::suggestion;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::state_file;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::process::correlation;
use crate::process::exit::{Exit, Failure};

/// Maximum size of a file that [`read_or_default`] reads.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Hint for errors about unknown environments.
pub(crate) const LIST_HINT: &str = "list the environments with `argus get`";

/// Names of the environments with a status file, sorted. A file that a repository contains does not count, but one that cannot be read does.
pub(crate) fn list_names(state: &StateDir) -> Result<Vec<String>, Failure> {
    let folder = state.environments();
    let files = list_folder(&folder).map_err(|error| unreadable_failure(&folder, &error))?;
    let is_missing = |file: &String| {
        let read = state.read_status(&folder.join(file), MAX_FILE_BYTES);
        read.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let names = files
        .iter()
        .filter_map(|file| Some((file, file.strip_suffix(".json")?)));
    // Only files in a project have a seal, and a list needs no other read.
    let names = names.filter(|(file, _)| !(state.has_outer_private() && is_missing(file)));
    Ok(names.map(|(_, name)| name.to_owned()).collect())
}

/// Names in a folder, sorted and without hidden ones. A missing folder is empty.
pub(crate) fn list_folder(folder: &Path) -> io::Result<Vec<String>> {
    let names = folder::list(folder)?.into_iter();
    let names = names.filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

pub(crate) fn unreadable_failure(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::NotADirectory {
        return Failure::with_reason(
            Reason::Unreadable,
            format!("cannot read `{}`: {error}", path.shown()),
        )
        .with_exit(Exit::Unexpected)
        .with_hint("remove the link or the file, or choose another folder with `--state`");
    }
    Failure::operation_failed(&format!("cannot read `{}`", path.shown()), error)
}

/// Failure of a file in the state directory that is not what Argus wrote.
pub(crate) fn damaged_failure(path: &Path, what: &str, error: &serde_json::Error) -> Failure {
    let message = format!("`{}` is damaged, it is not {what}: {error}", path.shown());
    Failure::with_reason(Reason::Unreadable, message)
        .with_exit(Exit::Unexpected)
        .with_hint(format!("remove the damaged file with `rm {}`", shell_path(path)))
}

/// Parses the name of an environment.
pub(crate) fn parse_environment(env: &str) -> Result<EnvName, Failure> {
    if let Some((name, _)) = env.split_once('/')
        && EnvName::new(name).is_ok()
    {
        let message = format!("`{env}` is a service, but the command acts on whole environments");
        return Err(Failure::usage(message).with_hint(format!("pass only `{name}`")));
    }
    EnvName::new(env).map_err(|error| Failure::usage(error.to_string()).with_hint(LIST_HINT))
}

/// Status of one environment, with the calls behind its errors if the request shows them. `None` without a status file.
pub(crate) fn read_environment(state: &StateDir, env: &str) -> Result<Option<EnvironmentStatus>, Failure> {
    // The name is validated before it becomes a path.
    parse_environment(env)?;
    let path = state.environments().join(format!("{env}.json"));
    let found = read_status_file::<EnvironmentStatus>(state, &path);
    let mut found = found.map_err(|failure| failure.with_environment(env))?;
    if let Some(status) = found.as_mut().filter(|_| correlation::shows_calls()) {
        status.put_calls(&read_or_default(&state.debug(env)));
    }
    Ok(found)
}

/// Status of one environment. It is an error if it has no status file.
pub(crate) fn find_environment(state: &StateDir, env: &str) -> Result<EnvironmentStatus, Failure> {
    if let Some(status) = read_environment(state, env)? {
        return Ok(status);
    }
    if let Some(removed) = removal_failure(state, env) {
        return Err(removed);
    }
    let (root, known) = (state.root().shown(), list_names(state)?);
    let nearest = suggestion::nearest(env, known.iter().map(String::as_str));
    let nearest = nearest.map_or_else(String::new, |name| format!("; the nearest is `{name}`"));
    let message = format!(
        "environment `{env}` has no status in `{root}`; {}{nearest}",
        format_known(&known)
    );
    let hint = suggest_service(state, env)
        .unwrap_or_else(|| format!("{LIST_HINT}, or start a removed one again with `argus retry {env}`"));
    Err(unknown_failure(env, message, &known).with_hint(hint))
}

/// Failure of an environment that a person removed, or that has expired.
pub(crate) fn removal_failure(state: &StateDir, env: &str) -> Option<Failure> {
    let message = list_removed(state).remove(env)?;
    let hint = format!("start it again by editing its file or with `argus retry {env}`");
    let known = list_names(state).unwrap_or_default();
    Some(unknown_failure(env, message, &known).with_hint(hint))
}

/// Environments that a person removed, or that have expired, each with the description of its removal.
pub(crate) fn list_removed(state: &StateDir) -> BTreeMap<String, String> {
    let overrides = read_or_default::<PersistedState>(&state.state_json()).overrides;
    let down = overrides.down.keys().map(|env| {
        let message = format!("environment `{env}` was removed by a command such as `argus down`");
        (env.to_string(), message)
    });
    let expired = overrides.ttl_expired.iter().map(|env| {
        let message = format!("environment `{env}` expired after its `argus.ttl`");
        (env.to_string(), message)
    });
    down.chain(expired).collect()
}

/// Note about a removed environment.
pub(crate) fn format_removal(name: &str, message: &str) -> String {
    format!("note: {message}; start it again with `argus retry {name}`")
}

fn unknown_failure(env: &str, message: String, known: &[String]) -> Failure {
    Failure::with_reason(Reason::NotFound, message)
        .with_details(json!({ "environment": env, "known": known }))
        .with_exit(Exit::Unexpected)
}

/// Hint for the name of an unknown environment.
pub(crate) fn hint_for_unknown(state: &StateDir, name: &str) -> String {
    suggest_service(state, name).unwrap_or_else(|| LIST_HINT.to_owned())
}

/// Suggests `ENV/SERVICE` for the name of a service of exactly one environment. Unreadable files suggest nothing.
pub(crate) fn suggest_service(state: &StateDir, name: &str) -> Option<String> {
    let statuses = read_environments(state).ok()?;
    let has_service = |status: &&EnvironmentStatus| status.services.iter().any(|row| row.name == name);
    let mut owners = statuses.iter().filter(has_service);
    let env = &owners.next()?.environment;
    owners
        .next()
        .is_none()
        .then(|| format!("pass `{env}/{name}`, because `{name}` is a service of `{env}`"))
}

/// Variables for tests and shells: the name of the environment, and the addresses of its ports.
pub(crate) fn list_variables(status: &EnvironmentStatus) -> BTreeMap<String, String> {
    let lines = env_file(&status.port_mappings);
    let ports = lines.lines().filter_map(|line| line.split_once('='));
    let name = ("ARGUS_ENVIRONMENT", status.environment.as_str());
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    ports.chain([name]).map(owned).collect()
}

/// List of the known environments in words.
pub(crate) fn format_known<T: std::fmt::Display>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        "no environments exist".to_owned()
    } else {
        format!("environments: {}", names.join(", "))
    }
}

/// Reads a private file of the controller. Missing, unreadable and invalid files give the default.
pub(crate) fn read_or_default<T: Default + DeserializeOwned>(path: &Path) -> T {
    state_file::read(path, MAX_FILE_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Truncates a timestamp to seconds, such as `2026-01-01T00:00:00Z`, for tables.
pub(crate) fn truncate_to_second(at: &str) -> String {
    const SECOND: usize = "2026-01-01T00:00:00".len();
    at.get(..SECOND)
        .map_or_else(|| at.to_owned(), |at| format!("{at}Z"))
}

/// Statuses of all environments.
pub(crate) fn read_environments(state: &StateDir) -> Result<Vec<EnvironmentStatus>, Failure> {
    let mut statuses = Vec::new();
    for name in list_names(state)? {
        // A status file may disappear between the two reads.
        statuses.extend(read_environment(state, &name)?);
    }
    Ok(statuses)
}

/// Status of the controller. `None` if no controller ever ran.
pub(crate) fn read_controller(state: &StateDir) -> Result<Option<ControllerStatus>, Failure> {
    read_status_file(state, &state.controller_json())
}

/// Returns true if a controller listens on the socket of this state directory.
pub(crate) fn is_alive(state: &StateDir) -> bool {
    match UnixStream::connect(state.socket()) {
        Ok(_) => true,
        // The socket belongs to another user. The controller's process shows that it runs.
        Err(error) if error.kind() == ErrorKind::PermissionDenied || state.is_of_another_user() => {
            let pid = read_controller(state).ok().flatten().map(|status| status.pid);
            pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
        }
        Err(_) => false,
    }
}

fn read_status_file<T: DeserializeOwned>(state: &StateDir, path: &Path) -> Result<Option<T>, Failure> {
    let bytes = match state.read_status(path, MAX_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let hint = "run the command as the user of the controller, or let a group read with `argus run --status-group NAME`";
            return Err(unreadable_failure(path, &error).with_hint(hint));
        }
        Err(error) => return Err(unreadable_failure(path, &error)),
    };
    let parsed = serde_json::from_slice(&bytes).map(Some);
    parsed.map_err(|error| damaged_failure(path, "a status file", &error))
}
