//! Conditions of an environment, each with its reason and its last transition.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Condition, Phase, ServiceStatus, Truth};

use crate::wait::WaitReason;

use super::error::is_blocking;
use super::wait::describe_wait;
use super::{StatusInput, phase};
use crate::outcome::one_line;

/// All conditions, the most basic first.
pub(super) fn all(
    input: &StatusInput<'_>,
    phase: Phase,
    services: &[ServiceStatus],
    errors: &[StructuredError],
) -> Vec<Condition> {
    let conditions = [
        ("SpecAccepted", spec_accepted(input)),
        ("SpecsAvailable", specs_available(input)),
        ("EngineReachable", engine_reachable(input)),
        ("Progressing", progressing(input, phase, services)),
        ("Ready", ready(input, phase, services)),
        ("Degraded", degraded(input, phase, services)),
        ("Blocked", blocked(input, errors)),
        ("Held", held(input)),
        ("Verified", super::connectivity::verified(input)),
    ];
    conditions
        .into_iter()
        .map(|(kind, state)| with_transition_time(input, kind, state))
        .collect()
}

/// Truth of a condition, its reason as an identifier, and its message.
pub(super) type ConditionValue = (Truth, &'static str, String);

fn with_transition_time(
    input: &StatusInput<'_>,
    kind: &str,
    (status, reason, message): ConditionValue,
) -> Condition {
    let previous = input
        .previous
        .and_then(|previous| previous.conditions.iter().find(|old| old.kind == kind));
    let last_transition_time = match previous {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        Some(_) | None => input.now.to_string(),
    };
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time,
    }
}

fn spec_accepted(input: &StatusInput<'_>) -> ConditionValue {
    let Some(rejected) = input.rejected else {
        return match input.accepted {
            Some(accepted) => (
                Truth::True,
                "Accepted",
                format!("`{}` is accepted", accepted.spec_path),
            ),
            None if !input.specs_scanned => (
                Truth::Unknown,
                "NotScanned",
                "the specs folder has not been scanned yet".to_owned(),
            ),
            None => (Truth::Unknown, "SpecRemoved", "its file was removed".to_owned()),
        };
    };
    let refusals: Vec<_> = rejected
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    let reason = match rejected.code {
        Code::SpecConflict => "SpecConflict",
        Code::PolicyViolation => "PolicyViolation",
        _ => "SpecInvalid",
    };
    let first = refusals.first().map_or_else(String::new, |first| {
        let line = first
            .location
            .map_or_else(String::new, |place| format!("line {}: ", place.line));
        format!("{line}{}", one_line(&first.message))
    });
    let more = match refusals.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let keeps = if input.accepted.is_some() {
        "; the last good revision keeps running"
    } else {
        ""
    };
    (
        Truth::False,
        reason,
        format!("`{}` is rejected: {first}{more}{keeps}", rejected.spec_path),
    )
}

fn specs_available(input: &StatusInput<'_>) -> ConditionValue {
    match input.specs_problem {
        None => (Truth::True, "Scanned", "the specs folder is readable".to_owned()),
        Some(problem) => {
            let (reason, message) = problem.condition();
            (Truth::False, reason, message)
        }
    }
}

fn engine_reachable(input: &StatusInput<'_>) -> ConditionValue {
    let engine = input.engine;
    if engine.synced {
        (Truth::True, "Reachable", "the engine answers".to_owned())
    } else if engine.reachable {
        (
            Truth::Unknown,
            "NotListed",
            "the engine has not been listed yet".to_owned(),
        )
    } else if engine.reason.is_empty() {
        (
            Truth::Unknown,
            "NotContacted",
            "the engine has not answered yet".to_owned(),
        )
    } else {
        (
            Truth::False,
            "NoAnswer",
            format!("the engine does not answer: {}", one_line(engine.reason)),
        )
    }
}

fn progressing(input: &StatusInput<'_>, phase: Phase, services: &[ServiceStatus]) -> ConditionValue {
    let is_acting = input.plan.is_some_and(|plan| {
        let can_proceed = |on: &WaitReason| !never_resolves_alone(on) && !blocks_everything(on);
        !plan.steps.is_empty() || plan.waits.iter().any(|wait| can_proceed(&wait.on))
    });
    match phase {
        Phase::Ready => (Truth::False, "Settled", "nothing is left to do".to_owned()),
        Phase::Terminating => (Truth::True, "Terminating", removal_message(services)),
        Phase::Held => (Truth::False, "Held", "it is on hold".to_owned()),
        Phase::Pending | Phase::Progressing | Phase::Degraded | Phase::Failed if is_acting => {
            (Truth::True, "Converging", wait_messages(input, services))
        }
        Phase::Pending | Phase::Progressing | Phase::Degraded | Phase::Failed => {
            (Truth::False, "Waiting", wait_messages(input, services))
        }
    }
}

fn ready(input: &StatusInput<'_>, phase: Phase, services: &[ServiceStatus]) -> ConditionValue {
    match phase {
        Phase::Ready => all_ready(services),
        Phase::Terminating => (Truth::False, "Terminating", removal_message(services)),
        Phase::Failed if input.accepted.is_none() => (
            Truth::False,
            "SpecRejected",
            "waits for a valid version of its file, which was never accepted".to_owned(),
        ),
        Phase::Pending | Phase::Progressing | Phase::Degraded | Phase::Failed | Phase::Held => {
            (Truth::False, "NotReady", wait_messages(input, services))
        }
    }
}

/// Number of ready services, and the names of optional services that are not ready.
fn all_ready(services: &[ServiceStatus]) -> ConditionValue {
    let (ready_rows, others): (Vec<_>, Vec<_>) = services.iter().partition(|row| phase::is_good(row));
    let counted = format!("{} of {} services are ready", ready_rows.len(), services.len());
    if others.is_empty() {
        (Truth::True, "AllReady", counted)
    } else {
        let names = names(others.into_iter());
        (
            Truth::True,
            "RequiredReady",
            format!("{counted}; not required: {names}"),
        )
    }
}

fn degraded(input: &StatusInput<'_>, phase: Phase, services: &[ServiceStatus]) -> ConditionValue {
    let unhealthy = || names(services.iter().filter(|row| !phase::is_good(row)));
    match phase {
        Phase::Failed => (Truth::True, "Failed", format!("gave up: {}", unhealthy())),
        Phase::Degraded => (Truth::True, "NotAllReady", format!("not ready: {}", unhealthy())),
        Phase::Pending | Phase::Progressing | Phase::Ready | Phase::Held | Phase::Terminating => {
            let mut given_up = services
                .iter()
                .filter(|row| phase::is_given_up_with_warning(input, row))
                .peekable();
            if given_up.peek().is_none() {
                (Truth::False, "AsExpected", "Argus gave up no service".to_owned())
            } else {
                (Truth::True, "Warned", format!("gave up: {}", names(given_up)))
            }
        }
    }
}

fn held(input: &StatusInput<'_>) -> ConditionValue {
    if input.accepted.is_some_and(|accepted| accepted.desired.hold) {
        return (
            Truth::True,
            "HeldByFile",
            "its file sets `argus.hold: true`".to_owned(),
        );
    }
    match super::users::holds(input).first() {
        None => (Truth::False, "NotHeld", "no hold is active".to_owned()),
        Some(hold) => (Truth::True, "Held", hold.sentence("the environment")),
    }
}

/// Reports if the environment cannot become ready without an intervention. The reason is the first such error.
fn blocked(input: &StatusInput<'_>, errors: &[StructuredError]) -> ConditionValue {
    // Another file that claims the same name changes nothing here.
    let is_own = |error: &&StructuredError| error.code != Code::SpecConflict || input.rejected.is_some();
    match errors.iter().filter(is_own).find(|error| is_blocking(error)) {
        Some(error) => {
            let service = error
                .service
                .as_ref()
                .map_or_else(String::new, |service| format!("`{service}`: "));
            (
                Truth::True,
                error.code.reason(),
                format!("{service}{}", one_line(&error.message)),
            )
        }
        None => (
            Truth::False,
            "NotBlocked",
            "no manual action is required".to_owned(),
        ),
    }
}

/// True for waits that stop every action on the environment.
pub(super) fn blocks_everything(on: &WaitReason) -> bool {
    matches!(
        on,
        WaitReason::Engine { .. }
            | WaitReason::Specs
            | WaitReason::Breaker { .. }
            | WaitReason::Safe { .. }
            | WaitReason::ControllerLease
            | WaitReason::LeaseHeldByOther { .. }
    )
}

/// True for waits that only a change or a person ends.
pub(super) fn never_resolves_alone(on: &WaitReason) -> bool {
    on.is_given_up() || matches!(on, WaitReason::Safe { .. })
}

fn names<'a>(rows: impl Iterator<Item = &'a ServiceStatus>) -> String {
    let names: Vec<_> = rows.map(|row| format!("`{}`", row.name)).collect();
    if names.is_empty() {
        "the environment".to_owned()
    } else {
        names.join(", ")
    }
}

fn removal_message(services: &[ServiceStatus]) -> String {
    if services.is_empty() {
        "its remaining objects are being removed".to_owned()
    } else {
        format!("its containers are being removed: {}", names(services.iter()))
    }
}

/// Wait messages by service; never empty.
fn wait_messages(input: &StatusInput<'_>, services: &[ServiceStatus]) -> String {
    const MAX_SHOWN: usize = 3;
    let messages: Vec<String> = services
        .iter()
        .filter_map(|row| {
            row.waiting_on
                .as_ref()
                .map(|on| format!("`{}`: {}", row.name, on.message))
        })
        .collect();
    if !messages.is_empty() {
        let more = messages.len().saturating_sub(MAX_SHOWN);
        let shown = messages[..messages.len().min(MAX_SHOWN)].join("; ");
        return if more > 0 {
            format!("{shown}; and {more} more")
        } else {
            shown
        };
    }
    if !input.engine.synced {
        return describe_wait(&WaitReason::Engine {
            why: input.engine.reason.to_owned(),
        })
        .message;
    }
    let Some(plan) = input.plan else {
        return "the first scan of specs and engine".to_owned();
    };
    let open = phase::unfinished(input, plan).next();
    open.map_or_else(
        || "the next check of the engine".to_owned(),
        |subject| format!("waits for {subject}"),
    )
}
