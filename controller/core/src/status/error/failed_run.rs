//! Errors of failed runs.

use argus_crds::error::{ActionId, Code, SpecEdit, StructuredError};
use argus_crds::status::ServiceStatus;
use serde_json::{Value, json};

use crate::desired::Service;
use crate::failed_run;
use crate::failed_run::{FailedRun, FailureKind, REPORTED_LINES, RunFacts};
use crate::observed::Outage;
use crate::preflight::size;
use crate::remedy::{self, EditContext};
use crate::repair::RepairMemory;
use crate::secrets::Secrets;
use crate::state::{ServiceHistory, restart};
use crate::status::StatusInput;
use crate::status::redact;
use crate::status::wait::in_budgets;

use super::{ErrorScope, call, dependency, image_command, probe_result};

/// Lines of each stream in an error; the evidence has the rest.
const TAIL: usize = 20;
/// Maximum size of such a tail in bytes.
const TAIL_BYTES: usize = 4 * 1024;

/// Inputs of an error besides the failed run itself.
pub(super) struct FailureContext<'a> {
    input: StatusInput<'a>,
    environment: &'a str,
    name: &'a str,
    secrets: Secrets,
    outages: &'a [Outage],
    can_roll_back: bool,
    service: Option<&'a Service>,
    edits: Option<EditContext<'a>>,
    repairs: &'a RepairMemory,
}

impl<'a> FailureContext<'a> {
    pub(super) fn of(input: &StatusInput<'a>, error_scope: &ErrorScope<'a>) -> Self {
        let name = error_scope.service.unwrap_or_default();
        let service = super::service_of(input, error_scope);
        let edits = input
            .accepted
            .zip(service)
            .map(|(accepted, service)| super::context::edit_context(input, accepted, service));
        Self {
            input: *input,
            environment: input.env.as_str(),
            name,
            secrets: redact::secrets(input),
            outages: input.outages,
            can_roll_back: input.can_roll_back,
            service,
            edits,
            repairs: input.repairs,
        }
    }

    /// Text without the secrets of the environment.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.secrets.redacted(text)
    }

    /// Last output of a run, without the engine's timestamps and without secrets.
    fn tail(&self, lines: &[String]) -> String {
        let from = lines.len().saturating_sub(TAIL);
        let text = lines[from..].join("\n");
        let text = self.redacted(&text);
        let cut = text.len().saturating_sub(TAIL_BYTES);
        let from = (cut..=text.len())
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text[from..].to_owned()
    }

    /// Line of the output that names the cause, without secrets.
    fn cause_line(&self, failed_run: &FailedRun) -> Option<String> {
        let line = failed_run.evidence.as_ref().and_then(remedy::cause_line)?;
        Some(self.redacted(line))
    }

    /// Describes a failure, after a failed health check with its last request and response.
    fn describe(&self, failed_run: &FailedRun) -> String {
        let mut what = describe(failed_run);
        if let Some(dependency) = failed_run.explaining_dependency() {
            let meanwhile = dependency::describe(dependency, failed_run.dependency_state);
            what = format!("{what} while {meanwhile}");
        }
        let last = failed_run.last_probe_output();
        let probe = self.service.and_then(|service| service.probe.as_ref());
        if let Some(last) = last.filter(|_| failed_run::kind(failed_run) == FailureKind::Unhealthy) {
            let evidence = failed_run.evidence.as_ref();
            let listening = evidence.and_then(|evidence| evidence.listening.as_deref());
            let result = probe_result::describe(probe, &self.redacted(last), listening);
            what = format!("{what}: {result}");
        }
        let reached = self.edits.and_then(|edits| edits.reached_pids_limit(failed_run));
        match reached {
            Some(limit) => format!("{what}; the container has reached its limit of {limit} processes"),
            None => what,
        }
    }

    /// Last lines on stderr without secrets, oldest first.
    fn last_lines(&self, failed_run: &FailedRun) -> Vec<String> {
        let lines = failed_run
            .evidence
            .as_ref()
            .map_or(&[][..], |evidence| &evidence.stderr);
        failed_run::last_lines(lines.iter().map(String::as_str), REPORTED_LINES)
            .iter()
            .map(|line| self.redacted(line))
            .collect()
    }

    fn run_details(&self, failed_run: &FailedRun) -> Value {
        let by_engine = restart::is_caused_by_engine(failed_run, self.outages);
        let mut run_details = json!(RunFacts::from_run(failed_run, by_engine));
        let folder = format!(
            "private/evidence/{}/{}/{}",
            self.environment, self.name, failed_run.number
        );
        run_details["evidence"] = json!(folder);
        run_details["lastLines"] = json!(self.last_lines(failed_run));
        if let Some(last) = failed_run.last_probe_output() {
            run_details["probeOutput"] = json!(self.redacted(last));
        }
        if let Some(evidence) = &failed_run.evidence {
            if !evidence.network_diagnostics.is_empty() {
                run_details["probeAnswers"] = json!(evidence.network_diagnostics);
            }
            run_details["missing"] = json!(evidence.missing);
        }
        run_details
    }

    /// Adds the run and its evidence to an error.
    fn with_evidence(&self, error: StructuredError, failed_run: &FailedRun) -> StructuredError {
        let calls = call::of_run(self.service, failed_run);
        let error = calls.into_iter().rev().fold(error, StructuredError::with_call);
        let error = error
            .exit_code(failed_run.exit_code)
            .container_id(failed_run.container.as_str());
        let mut error = match failed_run.explaining_dependency() {
            Some(name) => dependency::with_remedies(&self.input, error, name),
            None => self.with_edit(error, failed_run),
        };
        error.correlation_id.clone_from(&failed_run.started_by);
        if let Some(seen) = self.repairs.find(self.name, failed_run) {
            error.details.insert("seenBefore".to_owned(), json!(seen));
        }
        match &failed_run.evidence {
            Some(evidence) if !evidence.stdout.is_empty() || !evidence.stderr.is_empty() => {
                error.tails(&self.tail(&evidence.stdout), &self.tail(&evidence.stderr))
            }
            Some(_) | None => error,
        }
    }

    /// Adds the change that fixes the cause of a run.
    fn with_edit(&self, error: StructuredError, failed_run: &FailedRun) -> StructuredError {
        let edit = self.edits.and_then(|edits| edits.of_run(failed_run));
        let edit = image_command::with_place(self.service, failed_run, edit);
        let has_output = failed_run
            .evidence
            .as_ref()
            .is_some_and(|evidence| !evidence.stdout.is_empty() || !evidence.stderr.is_empty());
        match edit {
            Some(edit) => with_steps(error, edit, has_output),
            None => error,
        }
    }
}

/// Adds a change and the steps after it. The output is in the error already, and a change outside the spec file needs a
/// retry.
fn with_steps(error: StructuredError, edit: SpecEdit, has_output: bool) -> StructuredError {
    let is_outside = edit.key.is_empty();
    let mut useless = vec![ActionId::FixContainer];
    useless.extend(has_output.then_some(ActionId::InspectLogs));
    let error = error.edit(edit).without(&useless);
    if is_outside {
        error.without(&[ActionId::Retry]).then(ActionId::Retry)
    } else {
        error
    }
}

/// Error of one failed run.
pub(super) fn of(context: &FailureContext<'_>, failed_run: &FailedRun) -> StructuredError {
    let code = match failed_run::kind(failed_run) {
        FailureKind::OutOfMemory => Code::ContainerOom,
        FailureKind::NotRunnable => Code::EntrypointNotFound,
        FailureKind::Unhealthy => Code::HealthCheckTimeout,
        FailureKind::Exit | FailureKind::Signal => Code::ContainerCrash,
    };
    let mut details = context.run_details(failed_run);
    if !failed_run.probe_output.is_empty() {
        let lines = failed_run.probe_output.iter().map(|line| context.redacted(line));
        details["probeLog"] = lines.collect();
    }
    let number = u32::try_from(failed_run.number).unwrap_or(u32::MAX);
    let mut error = StructuredError::new(code, context.describe(failed_run)).details(details);
    if code == Code::EntrypointNotFound {
        let line = context.cause_line(failed_run).unwrap_or_default();
        let is_absent = |found: &Value| !image_command::has_script(context.service, failed_run, found);
        let missing = remedy::missing_program(&line).filter(is_absent);
        error = error.details(missing.unwrap_or_default());
    }
    context.with_evidence(error.attempt(number.max(1)), failed_run)
}

/// Error of a spent restart budget, with all failures in its details.
pub(super) fn exhausted(
    context: &FailureContext<'_>,
    restarts: u32,
    failures: &[FailedRun],
) -> StructuredError {
    let last = failures.last();
    let pattern = pattern(restarts, failures);
    let repeated_line = last
        .filter(|last| {
            pattern.is_some() && failed_run::kind(last) != FailureKind::Unhealthy && !is_signal(last)
        })
        .and_then(|last| context.cause_line(last));
    let message = match last {
        Some(last) => format!(
            "gave up after {restarts} restarts; {}: {}",
            pattern.as_deref().unwrap_or("last failure"),
            repeated_line.unwrap_or_else(|| context.describe(last))
        ),
        None => format!("gave up after {restarts} restarts"),
    };
    let error = StructuredError::new(Code::ContainerRestartExhausted, message)
        .attempt(restarts.max(1))
        .details(json!({
            "restarts": restarts,
            "attempts": attempts(context, failures),
            "pattern": pattern,
            "crashLoop": is_crash_loop(failures),
        }));
    let actions = Code::ContainerRestartExhausted.explanation().actions;
    let possible = |action: &ActionId| context.can_roll_back || *action != ActionId::Rollback;
    let actions: Vec<ActionId> = actions.iter().copied().filter(possible).collect();
    let error = error.suggest(&actions);
    match last {
        Some(last) => context.with_evidence(error, last),
        None => error,
    }
}

/// True if a signal ended the process, which is a cause of its own.
fn is_signal(failed_run: &FailedRun) -> bool {
    failed_run::kind(failed_run) == FailureKind::Signal
}

/// Error of a failure that is the same in several restart budgets.
pub(super) fn halted(context: &FailureContext<'_>, budgets: u32, failures: &[FailedRun]) -> StructuredError {
    let last = failures.last();
    let line = last.map(|last| {
        let own = context.cause_line(last).filter(|_| !is_signal(last));
        own.unwrap_or_else(|| context.describe(last))
    });
    let line = line.unwrap_or_default();
    let message = format!("failed in the same way in {}: {line}", in_budgets(budgets));
    let error = StructuredError::new(Code::LoopHalted, message).details(json!({
        "event": "loop.halted",
        "budgets": budgets,
        "fingerprint": last.and_then(|last| fingerprint(context, last)),
        "attempts": attempts(context, failures),
        "crashLoop": is_crash_loop(failures),
    }));
    match last {
        Some(last) => context.with_evidence(error, last),
        None => error,
    }
}

// A secret without its digits is still mostly a secret, so it is redacted before the digits are removed.
fn fingerprint(context: &FailureContext<'_>, failed_run: &FailedRun) -> Option<failed_run::Fingerprint> {
    let fingerprint_of_run = failed_run::fingerprint(failed_run)?;
    let line = failed_run.evidence.as_ref()?.stderr.last()?;
    Some(failed_run::Fingerprint {
        line: failed_run::normalised(&context.redacted(line)),
        ..fingerprint_of_run
    })
}

/// Describes the failures of a spent budget if they are all the same, such as `the same failure 4 times`.
fn pattern(restarts: u32, failures: &[FailedRun]) -> Option<String> {
    let attempts = restarts.saturating_add(1);
    let is_same = failed_run::repetitions(failures) >= usize::try_from(attempts).unwrap_or(usize::MAX);
    (restarts > 0 && is_same).then(|| format!("the same failure {attempts} times"))
}

fn attempts(context: &FailureContext<'_>, failures: &[FailedRun]) -> Vec<Value> {
    failures
        .iter()
        .map(|failed_run| context.run_details(failed_run))
        .collect()
}

/// True if all failures have the same exit code.
fn is_crash_loop(failures: &[FailedRun]) -> bool {
    let is_equal = |pair: &[FailedRun]| pair[0].exit_code == pair[1].exit_code;
    failures.len() > 1 && failures.windows(2).all(is_equal)
}

/// Describes a failure, such as `process ended with exit code 3`.
pub(in crate::status) fn describe(failed_run: &FailedRun) -> String {
    let ran = failed_run
        .started_at
        .map(|started| failed_run.at.since(started).as_secs());
    let after = ran.map_or_else(String::new, |seconds| format!(" after {seconds} s"));
    if let Some(used) = failed_run.memory_used {
        let limit = failed_run.memory_limit.map(size).unwrap_or_default();
        let used = size(used);
        return format!("memory use of {used} of {limit} was above `argus.restart.memoryAbove`{after}");
    }
    match (
        failed_run::kind(failed_run),
        failed_run::signal(failed_run.exit_code),
    ) {
        (FailureKind::OutOfMemory, _) => format!("process ran out of memory{after}"),
        (FailureKind::Unhealthy, _) => {
            format!("health check failed more often than its `retries` allow{after}")
        }
        (FailureKind::NotRunnable, _) if failed_run.has_wrong_format() => {
            let evidence = failed_run.evidence.as_ref();
            let platform = evidence.and_then(|evidence| evidence.wrong_platform.as_deref());
            let why = platform
                .unwrap_or("the program is built for another architecture, or is a script without `#!`");
            format!("command cannot be run: {why} (exec format error){after}")
        }
        (FailureKind::NotRunnable, _) => {
            format!(
                "command cannot be run (exit code {}){after}",
                failed_run.exit_code
            )
        }
        (FailureKind::Signal, Some(signal)) => format!("process was ended by {signal}{after}"),
        (FailureKind::Signal | FailureKind::Exit, _) => {
            format!("process ended with exit code {}{after}", failed_run.exit_code)
        }
    }
}

/// Error of a spent restart budget while `slowRetry` continues.
pub(super) fn spent_budget_error(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    history: &ServiceHistory,
) -> Option<StructuredError> {
    let policy = &input.accepted?.desired.restart;
    let at = history.failures.last()?.at;
    match restart::decide_restart(policy, history, input.outages) {
        restart::RestartDecision::StartSlowly(_, attempt) => {
            let context = FailureContext::of(input, error_scope);
            Some(error_scope.finish(exhausted(&context, attempt - 1, &history.failures), at))
        }
        restart::RestartDecision::StartAt(..)
        | restart::RestartDecision::WhenDependenciesReady
        | restart::RestartDecision::GaveUp(_)
        | restart::RestartDecision::Halted(_)
        | restart::RestartDecision::NotRunnable(_)
        | restart::RestartDecision::ProbeNotRunnable
        | restart::RestartDecision::Disabled => None,
    }
}

/// Error of the last failed run in the history.
pub(in crate::status) fn error_of_last_run(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    history: &ServiceHistory,
) -> Option<StructuredError> {
    let last = history.failures.last()?;
    let error = of(&FailureContext::of(input, error_scope), last);
    Some(error_scope.finish(error, last.at))
}

/// Error of the last failed run of a service that may not restart. The error of its spent budget alone would hide the code of the cause.
pub(super) fn cause_of_spent_budget(input: &StatusInput<'_>, row: &ServiceStatus) -> Option<StructuredError> {
    let spent = row.last_error.as_ref()?;
    let accepted = input.accepted?;
    if spent.code != Code::ContainerRestartExhausted || accepted.desired.restart.max_restarts > 0 {
        return None;
    }
    let (_, history) = input
        .history
        .services
        .iter()
        .find(|(name, _)| name.as_str() == row.name)?;
    let error_scope = ErrorScope::environment(input).of_service(&row.name, row.container_id.as_deref());
    error_of_last_run(input, &error_scope, history).map(|cause| cause.severity(spent.severity))
}
