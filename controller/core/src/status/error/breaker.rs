//! Breakers in a status: the error of an open breaker, and its report.

use argus_crds::error::{ActionId, Code, StructuredError};
use argus_crds::status::{BreakerChange, BreakerFailure, BreakerScope, BreakerState, BreakerStatus};
use serde_json::json;

use crate::action::Subject;
use crate::observed::ContainerState;
use crate::outcome::one_line;
use crate::state::BreakerRegistry;
use crate::state::breaker::{Breaker, CircuitState, CountedFailure};
use crate::status::StatusInput;
use crate::time::Timestamp;
use crate::wait::WaitReason;

use super::{ErrorScope, call};

/// Error of an environment whose actions are blocked by a breaker.
pub(super) fn of(input: &StatusInput<'_>) -> Option<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let engine = waits.iter().find_map(|wait| match wait.on {
        WaitReason::Breaker { engine, .. } => Some(engine),
        _ => None,
    })?;
    let breaker = if engine {
        input.breakers.engine()
    } else {
        input.breakers.of(input.env)?
    };
    let (report, last_opening) = (status(breaker, scope(engine)), last_opening(breaker));
    let since = last_opening.unwrap_or(input.now);
    let pending: Vec<String> = waits
        .iter()
        .filter(|wait| {
            matches!(
                wait.on,
                WaitReason::Breaker { .. } | WaitReason::RelistPending { .. }
            )
        })
        .map(|wait| wait.subject.to_string())
        .collect();
    let message = format!(
        "the circuit breaker of {} is not closed: {}",
        if engine { "the engine" } else { "this environment" },
        one_line(breaker.last_failure().unwrap_or("a test call is in progress"))
    );
    let mut error = StructuredError::new(Code::CircuitOpen, message)
        .details(json!({
            "breaker": report,
            "pending": pending,
            "cleanupPending": is_cleanup_pending(input),
            "stale": true,
        }))
        .with_call(call::of_breaker(breaker));
    if input.engine.reachable {
        // A restart of an engine that answers would end the containers of others.
        error = error.suggest(&[ActionId::ResetCircuit, ActionId::Wait, ActionId::RunPreflight]);
    }
    if let CircuitState::Open { until } = breaker.state() {
        // The delay counts from the opening, so that repeated reports of the same opening are equal.
        error = error.retry_after_span(until.since(since));
    }
    Some(ErrorScope::environment(input).finish(error, since))
}

/// True if an unfinished or removable object exists; Argus handles it first when calls are possible again.
fn is_cleanup_pending(input: &StatusInput<'_>) -> bool {
    let created = |state| matches!(state, ContainerState::Created);
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    input
        .observed
        .containers
        .values()
        .any(|container| created(container.state))
        || waits.iter().any(|wait| {
            matches!(wait.on, WaitReason::RelistPending { .. })
                || (matches!(wait.on, WaitReason::Breaker { .. })
                    && matches!(
                        wait.subject,
                        Subject::ExtraContainer { .. } | Subject::ExtraNetwork { .. }
                    ))
        })
}

/// Most important breaker of an environment; `None` before the first counted failure.
pub(crate) fn of_environment(
    breakers: &BreakerRegistry,
    env: &crate::ident::EnvName,
) -> Option<BreakerStatus> {
    let engine = breakers.engine();
    if !engine.is_closed() {
        return Some(status(engine, BreakerScope::Engine));
    }
    let own = breakers.of(env)?;
    Some(status(own, BreakerScope::Environment))
}

/// Report of a breaker for programs.
pub fn status(breaker: &Breaker, scope: BreakerScope) -> BreakerStatus {
    let (state, retry_at) = match breaker.state() {
        CircuitState::Closed => (BreakerState::Closed, None),
        CircuitState::Open { until } => (BreakerState::Open, Some(until.to_string())),
        CircuitState::HalfOpen { .. } => (BreakerState::HalfOpen, None),
    };
    let failure = |failure: &CountedFailure| BreakerFailure {
        at: failure.at.to_string(),
        operation: failure.operation.clone(),
        error: one_line(&failure.error),
    };
    BreakerStatus {
        scope,
        state,
        failures: breaker.failure_count(),
        times_opened: breaker.openings(),
        retry_at,
        last_failure: breaker.last_failure().map(one_line),
        last_failures: breaker.failures().iter().map(failure).collect(),
        history: breaker
            .history()
            .iter()
            .map(|change| BreakerChange {
                at: change.at.to_string(),
                to: change.to.to_owned(),
                reason: one_line(&change.why),
            })
            .collect(),
    }
}

fn scope(engine: bool) -> BreakerScope {
    if engine {
        BreakerScope::Engine
    } else {
        BreakerScope::Environment
    }
}

/// Time of the last opening.
fn last_opening(breaker: &Breaker) -> Option<Timestamp> {
    let mut openings = breaker
        .history()
        .iter()
        .rev()
        .filter(|change| change.to == "open");
    openings.next().map(|change| change.at)
}
