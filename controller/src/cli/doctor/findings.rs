//! What is wrong, the worst first, each with what can be done about it.

use argus_crds::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{BreakerState, CheckResult, EnvironmentStatus, Mode, Phase};
use argus_reconciler::specs::{FileEntry, FileState};
use serde::Serialize;

use super::DoctorInputs;
use crate::cli::output;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FindingSeverity {
    /// Something does not work.
    Fail,
    /// Something is to be known.
    Warn,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// How bad it is.
    pub(super) severity: FindingSeverity,
    /// Where: `preflight/disk`, `specs/FILE`, `environment/ENV`.
    #[serde(rename = "where")]
    pub(super) place: String,
    /// What was found.
    pub(super) message: String,
    /// The error it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    /// What to do, in words with commands.
    pub(super) remedies: Vec<String>,
}

/// All of it; within one gravity in the order in which a person would look: what the rest stands on comes first.
pub(super) fn of(seen: &DoctorInputs) -> Vec<Finding> {
    let mut all = preflight(seen);
    all.extend(controller(seen));
    all.extend(specs(seen));
    all.extend(seen.environments.iter().filter_map(environment));
    all.extend(incidents(seen));
    for one in &mut all {
        one.message = seen.secrets.redacted(&one.message);
        one.remedies
            .iter_mut()
            .for_each(|remedy| *remedy = seen.secrets.redacted(remedy));
    }
    all.sort_by_key(|one| one.severity);
    all
}

impl Finding {
    fn new(gravity: FindingSeverity, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: gravity,
            place: place.into(),
            message: message.into(),
            code: None,
            remedies: Vec::new(),
        }
    }

    fn code(mut self, code: Option<Code>) -> Self {
        self.remedies.extend(
            code.into_iter()
                .flat_map(|code| output::hints(&StructuredError::new(code, ""))),
        );
        self.code = code;
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

fn preflight(seen: &DoctorInputs) -> Vec<Finding> {
    let checks = seen.preflight.checks.iter();
    let one = |check: &argus_crds::status::PreflightCheck| {
        let gravity = match check.result {
            CheckResult::Fail => FindingSeverity::Fail,
            CheckResult::Warn => FindingSeverity::Warn,
            CheckResult::Pass | CheckResult::Skipped => return None,
        };
        let place = format!("preflight/{}", check.name);
        Some(Finding::new(gravity, place, &check.message).code(check.code))
    };
    checks.filter_map(one).collect()
}

fn controller(seen: &DoctorInputs) -> Vec<Finding> {
    let mut found = Vec::new();
    let finding = |gravity, message: String| Finding::new(gravity, "controller", message);
    if !seen.alive {
        let root = seen.state.root().display();
        let message = format!("no controller runs on `{root}`");
        found.push(finding(FindingSeverity::Warn, message).remedy("`argus run` starts one"));
        return found;
    }
    let Some(status) = &seen.controller else {
        return found;
    };
    let why = status.mode_reason.as_deref().unwrap_or("no reason is known");
    match status.mode {
        Mode::Full | Mode::Recovery => {}
        Mode::Safe => {
            let message = format!("mode Safe, nothing is done: {why}");
            found.push(finding(FindingSeverity::Fail, message).remedy("mend that, then `argus resume`"));
        }
        Mode::Limited | Mode::Reduced | Mode::Minimal => {
            found.push(finding(
                FindingSeverity::Warn,
                format!("mode {:?}: {why}", status.mode),
            ));
        }
    }
    if status.version != env!("CARGO_PKG_VERSION") {
        let ours = env!("CARGO_PKG_VERSION");
        let message = format!("runs version {}, and this is version {ours}", status.version);
        found.push(finding(FindingSeverity::Warn, message));
    }
    if let Some(breaker) = status
        .breaker
        .as_ref()
        .filter(|it| it.state != BreakerState::Closed)
    {
        let message = format!("the engine's breaker is {:?}", breaker.state).to_lowercase();
        found.push(finding(FindingSeverity::Fail, message).code(Some(Code::CircuitOpen)));
    }
    for error in &status.errors {
        let mut one = finding(FindingSeverity::Fail, error.message.clone());
        one.code = Some(error.code);
        one.remedies = output::hints(error);
        found.push(one);
    }
    found
}

fn specs(seen: &DoctorInputs) -> Vec<Finding> {
    let folder = &seen.settings.specs;
    if let Some(why) = &seen.book.unavailable {
        let hint = "`--specs` names the folder, and `argus init` writes a first file";
        return vec![
            Finding::new(FindingSeverity::Fail, "specs", why)
                .code(Some(Code::PrereqMissing))
                .remedy(hint),
        ];
    }
    let mut found = Vec::new();
    for (path, entry) in &seen.book.files {
        let place = format!("specs/{}", path.display());
        let hint = format!("`argus validate {}`", folder.join(path).display());
        found.extend(file(entry, &place).map(|one| one.remedy(hint)));
    }
    let notes = seen.book.notes.iter();
    found.extend(notes.map(|note| Finding::new(FindingSeverity::Warn, "specs", note)));
    found
}

fn file(entry: &FileEntry, place: &str) -> Option<Finding> {
    let first = |all: &[Diagnostic], error: bool| {
        let mut some = all.iter().filter(|one| one.is_error() == error);
        let first = some.next()?;
        let words = if first.path.is_empty() {
            first.message.clone()
        } else {
            format!("`{}`: {}", first.path, first.message)
        };
        Some(match some.count() {
            0 => words,
            more => format!("{words}, and {more} more"),
        })
    };
    let refused = match &entry.state {
        FileState::Rejected | FileState::Unread => {
            let why = first(&entry.diagnostics, true);
            Some((
                Code::SpecInvalid,
                why.unwrap_or_else(|| "it is not read".to_owned()),
            ))
        }
        FileState::Conflict { holder } => {
            let why = first(&entry.diagnostics, true);
            let held = || format!("what it claims is held by `{}`", holder.display());
            Some((Code::SpecConflict, why.unwrap_or_else(held)))
        }
        FileState::Accepted => None,
    };
    match refused {
        Some((code, why)) => {
            let mut one = Finding::new(FindingSeverity::Fail, place, format!("file refused: {why}"));
            one.code = Some(code);
            Some(one)
        }
        None => first(&entry.diagnostics, false).map(|why| Finding::new(FindingSeverity::Warn, place, why)),
    }
}

fn environment(status: &EnvironmentStatus) -> Option<Finding> {
    let env = &status.environment;
    let gravity = match status.phase {
        Phase::Ready if status.errors.is_empty() => return None,
        Phase::Failed | Phase::Degraded => FindingSeverity::Fail,
        Phase::Ready | Phase::Pending | Phase::Progressing | Phase::Held | Phase::Terminating => {
            FindingSeverity::Warn
        }
    };
    let of_services = status.services.iter().filter_map(|row| row.last_error.as_ref());
    let error = status.errors.iter().chain(of_services).next();
    let why = match error {
        Some(error) => error.message.clone(),
        None => crate::cli::waits(status),
    };
    let message = format!("{:?}: {why}", status.phase);
    let mut one = Finding::new(gravity, format!("environment/{env}"), message);
    one.code = error.map(|error| error.code);
    one.remedies = error.map(output::hints).unwrap_or_default();
    Some(one.remedy(format!("`argus why {env}`")))
}

fn incidents(seen: &DoctorInputs) -> Option<Finding> {
    let newest = seen.incidents.last()?;
    let message = format!(
        "{}, the newest at {}",
        output::count(seen.incidents.len(), "run") + " of the controller did not end well",
        newest.at
    );
    let hint = format!("`argus incidents {}`", newest.id);
    Some(Finding::new(FindingSeverity::Warn, "incidents", message).remedy(hint))
}
