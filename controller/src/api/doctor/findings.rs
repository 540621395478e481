//! Findings of `argus doctor`, most severe first, each with its remedies.

use argus_core::quoting::{PathText as _, escape_line, shell_path, shell_word};
use argus_crds::Diagnostic;
use argus_crds::error::{ActionId, Code, StructuredError};
use argus_crds::status::{BreakerState, CheckResult, EnvironmentStatus, Mode, Phase, Truth};
use argus_reconciler::specs::{FileEntry, FileState};
use schemars::JsonSchema;
use serde::Serialize;

use super::notifications::ReachedLimit;
use super::report::DoctorInputs;
use crate::metrics::REFUSALS;
use crate::render::output;
use crate::settings::abandoned::Abandoned;
use crate::view::ENGINE_READABLE;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FindingSeverity {
    /// An error or a broken state.
    Fail,
    /// A risk or a degraded state.
    Warn,
}

/// A problem with its location and its remedies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// Severity; findings are sorted by it.
    pub(crate) severity: FindingSeverity,
    /// Location, such as `preflight/disk`, `specs/FILE`, `environment/ENV`.
    #[serde(rename = "where")]
    pub(crate) place: String,
    /// Description in one line.
    pub(crate) message: String,
    /// Error code, if the problem is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    /// Remedies in words, with commands.
    pub(crate) remedies: Vec<String>,
}

/// Collects all findings, sorted by severity. Within a severity, causes come first: preflight, controller, specs,
/// environments, incidents.
pub(crate) fn collect_findings(inputs: &DoctorInputs) -> Vec<Finding> {
    let mut all = check_preflight(inputs);
    all.extend(check_controller(inputs));
    all.extend(check_specs(inputs));
    all.extend(inputs.environments.iter().filter_map(check_environment));
    all.extend(check_running(inputs));
    all.extend(check_incidents(inputs));
    all.extend(inputs.reached_limit.as_ref().map(describe_reached_limit));
    all.extend(inputs.abandoned.iter().map(describe_abandoned));
    let shown = |text: &String| as_line(&inputs.secrets.redacted(text));
    for one in &mut all {
        one.message = shown(&one.message);
        one.remedies = one.remedies.iter().map(shown).collect();
    }
    all.sort_by_key(|one| one.severity);
    all
}

/// Returns a text as one line. It can contain names and keys of a file.
fn as_line(text: &str) -> String {
    escape_line(&text.lines().collect::<Vec<_>>().join(" ")).into_owned()
}

impl Finding {
    pub(crate) fn new(
        severity: FindingSeverity,
        place: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            place: place.into(),
            message: message.into(),
            code: None,
            remedies: Vec::new(),
        }
    }

    fn with_code(mut self, code: Option<Code>) -> Self {
        self.remedies.extend(hints_of(code, CheckResult::Fail));
        self.code = code;
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

/// Remedies of a code in words. A warning about a port is about one that moves or works, so no other strategy is necessary.
fn hints_of(code: Option<Code>, result: CheckResult) -> Vec<String> {
    let hints = |code| {
        let error = StructuredError::new(code, "");
        output::format_hints(&match result {
            CheckResult::Warn => error.without(&[ActionId::UseAutoPorts]),
            CheckResult::Fail | CheckResult::Pass | CheckResult::Skipped => error,
        })
    };
    code.map(hints).unwrap_or_default()
}

fn check_preflight(inputs: &DoctorInputs) -> Vec<Finding> {
    let checks = inputs.preflight.checks.iter();
    let one = |check: &argus_crds::status::PreflightCheck| {
        let severity = match check.result {
            CheckResult::Fail => FindingSeverity::Fail,
            CheckResult::Warn => FindingSeverity::Warn,
            CheckResult::Pass | CheckResult::Skipped => return None,
        };
        let place = format!("preflight/{}", check.name);
        let mut one = Finding::new(severity, place, &check.message);
        one.code = check.code;
        one.remedies = hints_of(check.code, check.result);
        Some(one)
    };
    checks.filter_map(one).collect()
}

fn check_controller(inputs: &DoctorInputs) -> Vec<Finding> {
    let mut found = Vec::new();
    let finding = |severity, message: String| Finding::new(severity, "controller", message);
    if !inputs.alive {
        let root = inputs.state.root().shown();
        let message = format!("no controller is running on `{root}`");
        found.push(finding(FindingSeverity::Warn, message).with_remedy("start one with `argus run`"));
        return found;
    }
    let Some(status) = &inputs.controller else {
        return found;
    };
    let reason = status.mode_reason.as_deref().unwrap_or("unknown reason");
    match status.mode {
        Mode::Full | Mode::Recovery => {}
        Mode::Safe => {
            let message = format!("the controller is in mode `Safe` and performs no actions: {reason}");
            found.push(
                finding(FindingSeverity::Fail, message).with_remedy("fix the cause, then run `argus resume`"),
            );
        }
        Mode::Limited | Mode::Reduced | Mode::Minimal => {
            found.push(finding(
                FindingSeverity::Warn,
                format!("mode {:?}: {reason}", status.mode),
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
        found.push(finding(FindingSeverity::Fail, message).with_code(Some(Code::CircuitOpen)));
    }
    let mut conditions = status.conditions.iter();
    let unreadable = conditions.find(|it| it.kind == ENGINE_READABLE && it.status == Truth::False);
    found.extend(unreadable.map(|it| finding(FindingSeverity::Warn, it.message.clone())));
    if inputs.refused_requests > 0 {
        let requests = usize::try_from(inputs.refused_requests).unwrap_or(usize::MAX);
        let message = format!(
            "{} refused since the start of the controller, because too many were open",
            output::format_count(requests, "HTTP request")
        );
        let hint =
            format!("see the reached limits in `{REFUSALS}` of `/metrics`, and close unused connections");
        found.push(finding(FindingSeverity::Warn, message).with_remedy(hint));
    }
    for error in &status.errors {
        let severity = match error.code {
            // The HTTP address is taken, often by the controller of another project. Commands use the socket.
            Code::PortConflict => FindingSeverity::Warn,
            _ => FindingSeverity::Fail,
        };
        let mut one = finding(severity, error.message.clone());
        one.code = Some(error.code);
        one.remedies = output::format_hints(error);
        found.push(one);
    }
    found
}

fn check_specs(inputs: &DoctorInputs) -> Vec<Finding> {
    let folder = inputs.settings.spec_source().folder;
    if let Some(reason) = &inputs.registry.unavailable {
        let hint = "set the folder with `--specs`, or write a first file with `argus init`";
        return vec![
            Finding::new(FindingSeverity::Fail, "specs", reason)
                .with_code(Some(Code::PrereqMissing))
                .with_remedy(hint),
        ];
    }
    let mut found = Vec::new();
    for (path, entry) in &inputs.registry.files {
        let place = format!("specs/{}", path.shown());
        let hint = format!(
            "check the file with `argus validate {}`",
            shell_path(folder.join(path))
        );
        found.extend(check_file(entry, &place).map(|one| one.with_remedy(hint)));
    }
    let notes = inputs.registry.notes.iter();
    found.extend(notes.map(|note| Finding::new(FindingSeverity::Warn, "specs", note)));
    found
}

fn check_file(entry: &FileEntry, place: &str) -> Option<Finding> {
    let first = |all: &[Diagnostic], error: bool| {
        let mut some = all.iter().filter(|one| one.is_error() == error);
        let first = some.next()?;
        let words = if first.path.is_empty() {
            first.message.clone()
        } else {
            format!("`{}`: {}", escape_line(&first.path), first.message)
        };
        Some(match some.count() {
            0 => words,
            more => format!("{words}, and {more} more"),
        })
    };
    let refused = match &entry.state {
        FileState::Rejected | FileState::Unread => {
            let reason = first(&entry.diagnostics, true);
            Some((
                Code::SpecInvalid,
                reason.unwrap_or_else(|| "it was not read".to_owned()),
            ))
        }
        FileState::Conflict { holder } => {
            let reason = first(&entry.diagnostics, true);
            let conflict = || format!("`{}` claims the same names", holder.shown());
            Some((Code::SpecConflict, reason.unwrap_or_else(conflict)))
        }
        FileState::Accepted => None,
    };
    match refused {
        Some((code, reason)) => {
            let mut one = Finding::new(FindingSeverity::Fail, place, format!("file rejected: {reason}"));
            one.code = Some(code);
            Some(one)
        }
        None => {
            first(&entry.diagnostics, false).map(|reason| Finding::new(FindingSeverity::Warn, place, reason))
        }
    }
}

fn check_environment(status: &EnvironmentStatus) -> Option<Finding> {
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
    let reason = match error {
        Some(error) => error.message.clone(),
        None => crate::render::status_text::format_waits(status),
    };
    let message = format!("{:?}: {reason}", status.phase);
    let mut one = Finding::new(severity, format!("environment/{env}"), message);
    one.code = error.map(|error| error.code);
    one.remedies = error.map(output::format_hints).unwrap_or_default();
    Some(one.with_remedy(format!("see the causes with `argus why {env}`")))
}

/// Warnings about running environments that do not come from their files.
fn check_running(inputs: &DoctorInputs) -> Vec<Finding> {
    let of_files = |one: &Diagnostic| {
        let mut files = inputs.registry.files.values();
        files.any(|entry| entry.diagnostics.contains(one))
    };
    let mut found = Vec::new();
    for status in &inputs.environments {
        let place = format!("environment/{}", status.environment);
        let warnings = status.diagnostics.iter().filter(|one| !one.is_error());
        found.extend(warnings.filter(|one| !of_files(one)).map(|one| {
            let finding = Finding::new(FindingSeverity::Warn, &place, &one.message);
            match &one.hint {
                Some(hint) => finding.with_remedy(hint),
                None => finding,
            }
        }));
    }
    found
}

fn describe_reached_limit(limit: &ReachedLimit) -> Finding {
    let message = format!(
        "the user has reached `{}` ({}), so changes of files are found by scans only",
        limit.name, limit.value
    );
    let remedy = format!(
        "raise it with `{}`, or end programs that watch files",
        limit.command()
    );
    Finding::new(FindingSeverity::Warn, "notifications", message).with_remedy(remedy)
}

fn describe_abandoned(one: &Abandoned) -> Finding {
    let (folder, project) = (one.folder.shown(), one.project.shown());
    let message = format!("`{folder}` contains the state of `{project}`, which is removed or replaced");
    Finding::new(FindingSeverity::Warn, "state", message).with_remedy("remove it with `argus prune`")
}

fn check_incidents(inputs: &DoctorInputs) -> Option<Finding> {
    let newest = inputs.incidents.last()?;
    let message = format!(
        "{}, the newest at {}",
        output::format_count(inputs.incidents.len(), "run") + " of the controller ended uncleanly",
        newest.at
    );
    let hint = format!("see the report with `argus incidents {}`", shell_word(&newest.id));
    Some(Finding::new(FindingSeverity::Warn, "incidents", message).with_remedy(hint))
}

#[cfg(test)]
mod tests {
    use argus_crds::status::PreflightReport;
    use argus_reconciler::specs::SpecRegistry;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::report::read_inputs;
    use super::*;
    use crate::settings::{Options, Settings, SpecOptions};

    #[test]
    fn unreadable_response_of_the_engine_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        let stop = CancellationToken::new();
        let mut inputs = read_inputs(settings, PreflightReport::default(), &stop).unwrap();
        (inputs.alive, inputs.reached_limit) = (true, None);
        inputs.registry = SpecRegistry::default();
        let text = "cannot read an event";
        let warning = Finding::new(FindingSeverity::Warn, "controller", text);
        for (status, expected) in [(Truth::False, vec![warning]), (Truth::True, Vec::new())] {
            let condition = json!({
                "type": "EngineReadable", "status": status, "reason": "R", "message": text,
                "lastTransitionTime": "",
            });
            let controller = json!({ "version": env!("CARGO_PKG_VERSION"), "conditions": [condition] });
            inputs.controller = serde_json::from_value(controller).unwrap();
            assert_eq!(collect_findings(&inputs), expected, "{status:?}");
        }
    }

    #[test]
    fn warning_about_a_port_proposes_no_strategy() {
        for (result, expected) in [(CheckResult::Warn, false), (CheckResult::Fail, true)] {
            let hints = hints_of(Some(Code::PortConflict), result).join("\n");
            assert!(hints.contains("free the port"), "{hints}");
            assert_eq!(hints.contains("portConflictStrategy"), expected, "{hints}");
        }
    }

    #[test]
    fn key_of_a_rejected_file_is_a_part_of_its_line() {
        let mut entry = FileEntry::default();
        let key = "a\n##vso[x]\r\u{202e}";
        entry.diagnostics.push(Diagnostic::error(key, "wrong"));
        let found = check_file(&entry, "specs/e2e.yaml").unwrap();
        assert_eq!(
            found.message,
            "file rejected: `a\\u{a}##vso[x]\\u{d}\\u{202e}`: wrong"
        );
        assert_eq!(as_line("one\r\ntwo\u{85}"), "one two\\u{85}");
    }
}
