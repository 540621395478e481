//! What failed runs left, as commands find it in the state directory: with or without a controller.

mod lines;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use argus_crds::error::Reason;
use argus_reconciler::executor::evidence_store::{EvidenceFacts, FACTS};
use argus_reconciler::state_dir::StateDir;

pub(crate) use lines::Line;

use super::{output, status};
use crate::exit::{Exit, Failure};

/// One failed run of which something is kept.
#[derive(Debug)]
pub(crate) struct StoredRun {
    /// What is known of it.
    pub(crate) facts: EvidenceFacts,
    /// Where it lies.
    pub(crate) folder: PathBuf,
    /// Size of all of it.
    pub(crate) bytes: u64,
}

impl StoredRun {
    /// The lines of one of its streams.
    pub(crate) fn lines(&self, stderr: bool) -> Result<Vec<Line>, Failure> {
        let path = self.folder.join(if stderr { "stderr.log" } else { "stdout.log" });
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        Ok(lines::parse(&String::from_utf8_lossy(&bytes), stderr))
    }

    /// The lines of both, in the order of the engine's times.
    pub(crate) fn transcript(&self) -> Result<Vec<Line>, Failure> {
        Ok(lines::merged(self.lines(false)?, self.lines(true)?))
    }
}

/// The services of an environment that have a folder, by name.
pub(crate) fn services(state: &StateDir, env: &str) -> Result<Vec<String>, Failure> {
    let mut names = entries(&state.evidence().join(env))?;
    names.sort();
    Ok(names)
}

/// The numbers of the failed runs of a service of which something is kept, oldest first.
pub(crate) fn numbers(state: &StateDir, env: &str, service: &str) -> Result<Vec<u64>, Failure> {
    let entries = entries(&state.evidence().join(env).join(service))?;
    let mut numbers: Vec<u64> = entries.iter().filter_map(|name| name.parse().ok()).collect();
    // The facts are written last: without them it is being written, or was never finished.
    numbers.retain(|number| state.run(env, service, *number).join(FACTS).exists());
    numbers.sort_unstable();
    Ok(numbers)
}

/// What is kept of one run; `None` where nothing is.
pub(crate) fn one(
    state: &StateDir,
    env: &str,
    service: &str,
    number: u64,
) -> Result<Option<StoredRun>, Failure> {
    let folder = state.run(env, service, number);
    let path = folder.join(FACTS);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let facts = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::bug(&format!("`{}` holds no facts of a run", path.display()), &error))?;
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let bytes = files
        .filter_map(|file| file.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    Ok(Some(StoredRun { facts, folder, bytes }))
}

/// All that is kept of a service, oldest first; what cannot be understood is told and left out.
pub(crate) fn all(state: &StateDir, env: &str, service: &str) -> Result<Vec<StoredRun>, Failure> {
    let mut all = Vec::new();
    for number in numbers(state, env, service)? {
        match one(state, env, service, number) {
            Ok(kept) => all.extend(kept),
            Err(Failure::Error { error, .. }) => output::note(&format!("note: {}", error.message)),
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
        }
    }
    Ok(all)
}

/// The run that is asked for, or the newest; it has to be there.
pub(crate) fn chosen(
    state: &StateDir,
    env: &str,
    service: &str,
    number: Option<u64>,
) -> Result<StoredRun, Failure> {
    let numbers = numbers(state, env, service)?;
    let wanted = number.or_else(|| numbers.last().copied());
    if let Some(number) = wanted
        && let Some(kept) = one(state, env, service, number)?
    {
        return Ok(kept);
    }
    if numbers.is_empty() {
        return Err(nothing(state, env, Some(service)));
    }
    let known: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let message = format!(
        "run {} of `{env}/{service}` is not kept; there are: {}",
        wanted.unwrap_or_default(),
        known.join(", ")
    );
    let hint = format!("`argus evidence {env} {service} --list` shows what is kept");
    Err(missing(message).hint(hint))
}

/// That nothing is kept: because there is no such environment or service, or because none of its runs failed.
pub(crate) fn nothing(state: &StateDir, env: &str, service: Option<&str>) -> Failure {
    let status = match status::existing(state, env) {
        Ok(status) => status,
        Err(failure) => return failure,
    };
    let Some(service) = service else {
        let message = format!("nothing is kept of `{env}`: none of its runs failed lately");
        return missing(message).hint(format!("`argus why {env}` tells how it is"));
    };
    if status.services.iter().any(|row| row.name == service) {
        let message = format!("nothing is kept of `{env}/{service}`: none of its runs failed lately");
        return missing(message).hint(format!(
            "`argus logs {env} {service}` shows what its container writes"
        ));
    }
    no_service(&status, service)
}

/// That an environment has no service of this name.
pub(crate) fn no_service(status: &argus_crds::status::EnvironmentStatus, service: &str) -> Failure {
    let env = &status.environment;
    let names: Vec<&str> = status.services.iter().map(|row| row.name.as_str()).collect();
    let known = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    missing(format!("environment `{env}` has no service `{service}`; {known}"))
        .hint(format!("`argus get {env}` shows its services"))
}

fn missing(message: String) -> Failure {
    Failure::missing(Reason::NotFound, message).exit(Exit::Unexpected)
}

fn entries(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::fault(&format!("cannot read `{}`", path.display()), error);
    if error.kind() == ErrorKind::PermissionDenied {
        return failure.hint("what containers wrote is private to the controller's user: ask as that user");
    }
    failure
}
