//! Findings of `argus doctor`, most severe first, each with its remedies.

use argus_crds::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{BreakerState, CheckResult, EnvironmentStatus, Mode, Phase};
use argus_reconciler::specs::{FileEntry, FileState};
use serde::Serialize;

use super::DoctorInputs;
use crate::cli::output;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FindingSeverity {
    /// An error or a broken state.
    Fail,
    /// A risk or a degraded state.
    Warn,
}

/// A problem with its location and its remedies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// Severity; findings are sorted by it.
    pub(super) severity: FindingSeverity,
    /// Location, such as `preflight/disk`, `specs/FILE`, `environment/ENV`.
    #[serde(rename = "where")]
    pub(super) place: String,
    /// Description in one line.
    pub(super) message: String,
    /// Error code, if the problem is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    /// Remedies in words, with commands.
    pub(super) remedies: Vec<String>,
}

/// Collects all findings, sorted by severity. Within a severity, causes come first: preflight, controller, specs,
/// environments, incidents.
pub(super) fn of(inputs: &DoctorInputs) -> Vec<Finding> {
    let mut all = preflight(inputs);
    all.extend(controller(inputs));
    all.extend(specs(inputs));
    all.extend(inputs.environments.iter().filter_map(environment));
    all.extend(incidents(inputs));
    for one in &mut all {
        one.message = inputs.secrets.redacted(&one.message);
        one.remedies
            .iter_mut()
            .for_each(|remedy| *remedy = inputs.secrets.redacted(remedy));
    }
    all.sort_by_key(|one| one.severity);
    all
}

impl Finding {
    fn new(severity: FindingSeverity, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
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

fn preflight(inputs: &DoctorInputs) -> Vec<Finding> {
    let checks = inputs.preflight.checks.iter();
    let one = |check: &argus_crds::status::PreflightCheck| {
        let severity = match check.result {
            CheckResult::Fail => FindingSeverity::Fail,
            CheckResult::Warn => FindingSeverity::Warn,
            CheckResult::Pass | CheckResult::Skipped => return None,
        };
        let place = format!("preflight/{}", check.name);
        Some(Finding::new(severity, place, &check.message).code(check.code))
    };
    checks.filter_map(one).collect()
}

fn controller(inputs: &DoctorInputs) -> Vec<Finding> {
    let mut found = Vec::new();
    let finding = |severity, message: String| Finding::new(severity, "controller", message);
    if !inputs.alive {
        let root = inputs.state.root().display();
        let message = format!("no controller is running on `{root}`");
        found.push(finding(FindingSeverity::Warn, message).remedy("start one with `argus run`"));
        return found;
    }
    let Some(status) = &inputs.controller else {
        return found;
    };
    let why = status.mode_reason.as_deref().unwrap_or("unknown reason");
    match status.mode {
        Mode::Full | Mode::Recovery => {}
        Mode::Safe => {
            let message = format!("mode Safe, no actions: {why}");
            found.push(
                finding(FindingSeverity::Fail, message).remedy("fix the cause, then run `argus resume`"),
            );
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
        let message = format!(
            "the controller runs version {}, this command is version {ours}",
            status.version
        );
        found.push(finding(FindingSeverity::Warn, message));
    }
    if let Some(breaker) = status
        .breaker
        .as_ref()
        .filter(|it| it.state != BreakerState::Closed)
    {
        let message = format!("the engine's circuit breaker is {:?}", breaker.state).to_lowercase();
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

fn specs(inputs: &DoctorInputs) -> Vec<Finding> {
    let folder = &inputs.settings.specs;
    if let Some(why) = &inputs.book.unavailable {
        let hint = "set the folder with `--specs`, or write a first file with `argus init`";
        return vec![
            Finding::new(FindingSeverity::Fail, "specs", why)
                .code(Some(Code::PrereqMissing))
                .remedy(hint),
        ];
    }
    let mut found = Vec::new();
    for (path, entry) in &inputs.book.files {
        let place = format!("specs/{}", path.display());
        let hint = format!(
            "check the file with `argus validate {}`",
            folder.join(path).display()
        );
        found.extend(file(entry, &place).map(|one| one.remedy(hint)));
    }
    let notes = inputs.book.notes.iter();
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
                why.unwrap_or_else(|| "it was not read".to_owned()),
            ))
        }
        FileState::Conflict { holder } => {
            let why = first(&entry.diagnostics, true);
            let conflict = || format!("`{}` claims the same names", holder.display());
            Some((Code::SpecConflict, why.unwrap_or_else(conflict)))
        }
        FileState::Accepted => None,
    };
    match refused {
        Some((code, why)) => {
            let mut one = Finding::new(FindingSeverity::Fail, place, format!("file rejected: {why}"));
            one.code = Some(code);
            Some(one)
        }
        None => first(&entry.diagnostics, false).map(|why| Finding::new(FindingSeverity::Warn, place, why)),
    }
}

fn environment(status: &EnvironmentStatus) -> Option<Finding> {
    let env = &status.environment;
    let severity = match status.phase {
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
    let mut one = Finding::new(severity, format!("environment/{env}"), message);
    one.code = error.map(|error| error.code);
    one.remedies = error.map(output::hints).unwrap_or_default();
    Some(one.remedy(format!("see the causes with `argus why {env}`")))
}

fn incidents(inputs: &DoctorInputs) -> Option<Finding> {
    let newest = inputs.incidents.last()?;
    let message = format!(
        "{}, the newest at {}",
        output::count(inputs.incidents.len(), "run") + " of the controller ended uncleanly",
        newest.at
    );
    let hint = format!("see the report with `argus incidents {}`", newest.id);
    Some(Finding::new(FindingSeverity::Warn, "incidents", message).remedy(hint))
}
