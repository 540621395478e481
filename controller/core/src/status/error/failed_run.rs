//! A failure of a container that nobody asked for as a structured error.

use argus_crds::error::{ActionId, Code, StructuredError};
use serde_json::{Value, json};

use crate::desired::Service;
use crate::diagnose::{self, FailureKind};
use crate::observed::{Container, Outage};
use crate::outcome::Evidence;
use crate::secrets::Secrets;
use crate::state::{FailedRun, restart};
use crate::status::StatusInput;
use crate::status::redact;

use super::{Place, call};

/// Lines of each stream that go into an error; the rest is in the evidence.
const TAIL: usize = 20;
/// Most bytes of such a tail.
const TAIL_BYTES: usize = 4 * 1024;

/// What a failure is told with, beside itself.
pub(super) struct FailureContext<'a> {
    environment: &'a str,
    name: &'a str,
    secrets: Secrets,
    outages: &'a [Outage],
    can_roll_back: bool,
    service: Option<&'a Service>,
}

impl<'a> FailureContext<'a> {
    pub(super) fn of(input: &StatusInput<'a>, place: &Place<'a>) -> Self {
        let name = place.service.unwrap_or_default();
        Self {
            environment: input.env.as_str(),
            name,
            secrets: redact::secrets(input),
            outages: input.outages,
            can_roll_back: input.can_roll_back,
            service: super::service_of(input, place),
        }
    }

    /// A text without the secrets of the service.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.secrets.redacted(text)
    }

    /// What a run wrote last, without the engine's times and without secrets.
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

    fn facts(&self, failed_run: &FailedRun) -> Value {
        let lost_code = failed_run.exit_code == 255 && restart::engine_caused(failed_run, self.outages);
        let mut facts = json!({
            "kind": diagnose::kind(failed_run),
            "containerId": failed_run.container,
            "startedAt": failed_run.started_at.map(|at| at.to_string()),
            "endedAt": failed_run.at.to_string(),
            "exitCode": failed_run.exit_code,
            "exitCodeKnown": !lost_code,
            "signal": diagnose::signal(failed_run.exit_code),
            "oomKilled": failed_run.oom_killed,
            "oomEvent": failed_run.oom_event,
            "oomSuspected": diagnose::oom_suspected(failed_run),
            "memoryLimit": failed_run.memory_limit,
            "memoryPeak": failed_run.peak(),
            "run": failed_run.number,
            "evidence": format!("private/evidence/{}/{}/{}", self.environment, self.name, failed_run.number),
            "lastLine": failed_run.evidence.as_ref().and_then(last_line).map(|line| self.redacted(line)),
        });
        if let Some(last) = failed_run.probe_output.last() {
            facts["probeOutput"] = json!(self.redacted(last));
        }
        if let Some(left) = &failed_run.evidence {
            if !left.questions.is_empty() {
                facts["questions"] = json!(left.questions);
            }
            facts["missing"] = json!(left.missing);
        }
        facts
    }

    /// The error with the run and with what it left.
    fn with_evidence(&self, error: StructuredError, failed_run: &FailedRun) -> StructuredError {
        let calls = call::of_run(self.service, failed_run);
        let error = calls.into_iter().rev().fold(error, StructuredError::with_call);
        let error = error
            .exit_code(failed_run.exit_code)
            .container_id(failed_run.container.as_str());
        match &failed_run.evidence {
            Some(left) if !left.stdout.is_empty() || !left.stderr.is_empty() => {
                error.tails(&self.tail(&left.stdout), &self.tail(&left.stderr))
            }
            Some(_) | None => error,
        }
    }
}

fn last_line(evidence: &Evidence) -> Option<&String> {
    evidence.stderr.last()
}

/// The error of one failure.
pub(super) fn of(
    case: &FailureContext<'_>,
    failed_run: &FailedRun,
    container: Option<&Container>,
) -> StructuredError {
    let code = match diagnose::kind(failed_run) {
        FailureKind::OutOfMemory => Code::ContainerOom,
        FailureKind::NotRunnable => Code::EntrypointNotFound,
        FailureKind::Unhealthy => Code::HealthCheckTimeout,
        FailureKind::Exit | FailureKind::Signal => Code::ContainerCrash,
    };
    let mut details = case.facts(failed_run);
    if let Some(map) = details.as_object_mut() {
        let said = Some(failed_run.error.as_str()).filter(|said| !said.is_empty());
        map.insert("engineError".to_owned(), json!(said));
        if !failed_run.probe_output.is_empty() {
            let said = failed_run.probe_output.iter().map(|line| case.redacted(line));
            map.insert("probeLog".to_owned(), json!(said.collect::<Vec<_>>()));
        }
        let stopped = container.and_then(|container| container.stopped_by_other);
        if let Some(at) = stopped {
            map.insert("stoppedByOther".to_owned(), json!(at.to_string()));
        }
    }
    case.with_evidence(
        StructuredError::new(code, words(failed_run)).details(details),
        failed_run,
    )
}

/// The error of a spent restart budget, with every failure inline.
pub(super) fn exhausted(case: &FailureContext<'_>, restarts: u32, failures: &[FailedRun]) -> StructuredError {
    let last = failures.last();
    let message = match last {
        Some(last) => format!(
            "gave up after {restarts} restarts; the last time its {}",
            words(last)
        ),
        None => format!("gave up after {restarts} restarts"),
    };
    let error = StructuredError::new(Code::ContainerRestartExhausted, message)
        .attempt(restarts)
        .details(json!({
            "restarts": restarts,
            "attempts": attempts(case, failures),
            "crashLoop": is_crash_loop(failures),
        }));
    let actions = Code::ContainerRestartExhausted.about().actions;
    let possible = |action: &ActionId| case.can_roll_back || *action != ActionId::Rollback;
    let actions: Vec<ActionId> = actions.iter().copied().filter(possible).collect();
    let error = error.suggest(&actions);
    match last {
        Some(last) => case.with_evidence(error, last),
        None => error,
    }
}

/// The error of a failure that comes back the same.
pub(super) fn halted(case: &FailureContext<'_>, repetitions: u32, failures: &[FailedRun]) -> StructuredError {
    let last = failures.last();
    let said = last
        .and_then(|last| last.evidence.as_ref())
        .and_then(last_line)
        .map(|line| case.redacted(line))
        .unwrap_or_default();
    let message = format!("failed in the same way {repetitions} times in a row: {said}");
    let error = StructuredError::new(Code::LoopHalted, message).details(json!({
        "event": "loop.halted",
        "repetitions": repetitions,
        "fingerprint": last.and_then(|last| fingerprint(case, last)),
        "attempts": attempts(case, failures),
        "crashLoop": is_crash_loop(failures),
    }));
    match last {
        Some(last) => case.with_evidence(error, last),
        None => error,
    }
}

/// A secret without its digits is most of a secret still, so it goes before they do.
fn fingerprint(case: &FailureContext<'_>, failed_run: &FailedRun) -> Option<diagnose::Fingerprint> {
    let found = diagnose::fingerprint(failed_run)?;
    let said = failed_run.evidence.as_ref().and_then(last_line)?;
    Some(diagnose::Fingerprint {
        line: diagnose::normalised(&case.redacted(said)),
        ..found
    })
}

fn attempts(case: &FailureContext<'_>, failures: &[FailedRun]) -> Vec<Value> {
    failures.iter().map(|failed_run| case.facts(failed_run)).collect()
}

/// It ends again and again, in the same way, before it did anything.
fn is_crash_loop(failures: &[FailedRun]) -> bool {
    let alike = |pair: &[FailedRun]| pair[0].exit_code == pair[1].exit_code;
    failures.len() > 1 && failures.windows(2).all(alike)
}

/// A failure in words, as in `process ended with exit code 3`.
pub(super) fn words(failed_run: &FailedRun) -> String {
    let ran = failed_run
        .started_at
        .map(|started| failed_run.at.since(started).as_secs());
    let after = ran.map_or_else(String::new, |seconds| format!(" after {seconds} s"));
    match (diagnose::kind(failed_run), diagnose::signal(failed_run.exit_code)) {
        (FailureKind::OutOfMemory, _) => format!("process ran out of memory{after}"),
        (FailureKind::Unhealthy, _) => format!("health check failed past its retries{after}"),
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
