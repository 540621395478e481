//! Evidence of failed runs in the state directory. Reading it needs no controller.

mod lines;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use argus_crds::error::Reason;
use argus_reconciler::executor::evidence_store::{EvidenceFacts, FACTS_FILE};
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::state_file;

pub(crate) use lines::Line;

use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;

/// Stored evidence of one failed run.
#[derive(Debug)]
pub(crate) struct StoredRun {
    /// Content of its facts file.
    pub(crate) facts: EvidenceFacts,
    /// Folder of its files.
    pub(crate) folder: PathBuf,
    /// Total size of its files in bytes.
    pub(crate) bytes: u64,
}

impl StoredRun {
    /// Lines of one stream.
    pub(crate) fn read_stream(&self, stderr: bool) -> Result<Vec<Line>, Failure> {
        let path = self.folder.join(if stderr { "stderr.log" } else { "stdout.log" });
        let bytes = match state_file::read(&path, state_file::MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable_failure(&path, &error)),
        };
        Ok(lines::parse_lines(&String::from_utf8_lossy(&bytes), stderr))
    }

    /// Lines of both streams, merged by the engine's timestamps.
    pub(crate) fn read_lines(&self) -> Result<Vec<Line>, Failure> {
        Ok(lines::merge_streams(
            self.read_stream(false)?,
            self.read_stream(true)?,
        ))
    }
}

/// Services of an environment with an evidence folder, sorted by name.
pub(crate) fn list_services(state: &StateDir, env: &str) -> Result<Vec<String>, Failure> {
    list_folder(&state.evidence().join(env))
}

/// Numbers of the stored runs of a service, oldest first.
pub(crate) fn list_run_numbers(state: &StateDir, env: &str, service: &str) -> Result<Vec<u64>, Failure> {
    let entries = list_folder(&state.evidence().join(env).join(service))?;
    let mut numbers: Vec<u64> = entries.iter().filter_map(|name| name.parse().ok()).collect();
    // The facts file is written last. Without it, the evidence is incomplete.
    numbers.retain(|number| {
        state
            .evidence_run(env, service, *number)
            .join(FACTS_FILE)
            .exists()
    });
    numbers.sort_unstable();
    Ok(numbers)
}

/// Evidence of one run, or `None` if it is not stored.
pub(crate) fn find_run(
    state: &StateDir,
    env: &str,
    service: &str,
    number: u64,
) -> Result<Option<StoredRun>, Failure> {
    let folder = state.evidence_run(env, service, number);
    let path = folder.join(FACTS_FILE);
    let bytes = match state_file::read(&path, state_file::MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable_failure(&path, &error)),
    };
    let facts = serde_json::from_slice(&bytes);
    let facts = facts.map_err(|error| status::damaged_failure(&path, "the evidence of a run", &error))?;
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let bytes = files
        .filter_map(|file| file.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    Ok(Some(StoredRun { facts, folder, bytes }))
}

/// Evidence of all stored runs of a service, oldest first. Invalid evidence is skipped with a note on stderr.
pub(crate) fn list_runs(state: &StateDir, env: &str, service: &str) -> Result<Vec<StoredRun>, Failure> {
    let mut all = Vec::new();
    for number in list_run_numbers(state, env, service)? {
        match find_run(state, env, service, number) {
            Ok(kept) => all.extend(kept),
            Err(Failure::Error { error, .. }) => output::print_note(&format!("note: {}", error.message)),
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
        }
    }
    Ok(all)
}

/// Evidence of the requested run, or of the newest one. It is an error if it is not stored.
pub(crate) fn select_run(
    state: &StateDir,
    env: &str,
    service: &str,
    number: Option<u64>,
) -> Result<StoredRun, Failure> {
    let numbers = list_run_numbers(state, env, service)?;
    let wanted = number.or_else(|| numbers.last().copied());
    if let Some(number) = wanted
        && let Some(kept) = find_run(state, env, service, number)?
    {
        return Ok(kept);
    }
    if numbers.is_empty() {
        return Err(no_evidence_failure(state, env, Some(service)));
    }
    let known: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let message = format!(
        "run {} of `{env}/{service}` is not stored; stored runs: {}",
        wanted.unwrap_or_default(),
        known.join(", ")
    );
    let hint = format!("list the stored runs with `argus evidence {env} {service} --list`");
    Err(not_found_failure(message).with_hint(hint))
}

/// Error for missing evidence: no such environment or service, or no recent failed run.
pub(crate) fn no_evidence_failure(state: &StateDir, env: &str, service: Option<&str>) -> Failure {
    let status = match status::find_environment(state, env) {
        Ok(status) => status,
        Err(failure) => return failure,
    };
    let Some(service) = service else {
        let message = format!("no evidence for `{env}`: no recent failed run");
        return not_found_failure(message).with_hint(format!("see its state with `argus why {env}`"));
    };
    if status.services.iter().any(|row| row.name == service) {
        let message = format!("no evidence for `{env}/{service}`: no recent failed run");
        return not_found_failure(message)
            .with_hint(format!("read its logs with `argus logs {env} {service}`"));
    }
    no_service_failure(&status, service)
}

/// Error: the environment has no service of this name.
pub(crate) fn no_service_failure(status: &argus_crds::status::EnvironmentStatus, service: &str) -> Failure {
    let env = &status.environment;
    let names: Vec<&str> = status.services.iter().map(|row| row.name.as_str()).collect();
    let known = if names.is_empty() {
        "it has no services".to_owned()
    } else {
        format!("its services: {}", names.join(", "))
    };
    not_found_failure(format!("environment `{env}` has no service `{service}`; {known}"))
        .with_hint(format!("list its services with `argus get {env}`"))
}

fn not_found_failure(message: String) -> Failure {
    Failure::with_reason(Reason::NotFound, message).with_exit(Exit::Unexpected)
}

fn list_folder(folder: &Path) -> Result<Vec<String>, Failure> {
    status::list_folder(folder).map_err(|error| unreadable_failure(folder, &error))
}

fn unreadable_failure(path: &Path, error: &io::Error) -> Failure {
    let failure = status::unreadable_failure(path, error);
    if error.kind() == ErrorKind::PermissionDenied {
        return failure
            .with_hint("run this command as the controller's user, because evidence is private to it");
    }
    failure
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;

    use super::*;

    #[test]
    fn damaged_evidence_is_named_with_its_removal() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::at(folder.path().join("it's"));
        let run = state.evidence_run("shop", "api", 1);
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join(FACTS_FILE), "{\"exit").unwrap();
        let error = find_run(&state, "shop", "api", 1).unwrap_err().into_error();
        assert_eq!(error.code, Code::PrereqMissing);
        assert_eq!(error.details["reason"], "unreadable");
        let path = run.join(FACTS_FILE).display().to_string();
        assert!(error.message.contains(&path), "{}", error.message);
        let hint = error.details["hint"].as_str().unwrap();
        assert!(
            hint.contains(&format!("`rm '{}'`", path.replace('\'', r"'\''"))),
            "{hint}"
        );
        assert!(error.suggested_actions.is_empty(), "no bug report: {error:?}");
    }
}
