//! An open breaker as a structured error, and as the line of it in the status.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{BreakerChange, BreakerScope, BreakerState, BreakerStatus};
use serde_json::json;

use crate::observed::ContainerState;
use crate::plan::{Subject, WaitingOn};
use crate::state::BreakerRegistry;
use crate::state::breaker::{Breaker, CircuitState};
use crate::status::StatusInput;
use crate::status::wait::one_line;
use crate::time::Timestamp;

use super::{Place, call};

/// The one error of an environment whose acts no breaker lets through.
pub(super) fn of(input: &StatusInput<'_>) -> Option<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let engine = waits.iter().find_map(|wait| match wait.on {
        WaitingOn::Breaker { engine, .. } => Some(engine),
        _ => None,
    })?;
    let breaker = if engine {
        input.breakers.engine()
    } else {
        input.breakers.of(input.env)?
    };
    let (told, opened) = (status(breaker, scope(engine)), opened(breaker));
    let since = opened.unwrap_or(input.now);
    let pending: Vec<String> = waits
        .iter()
        .filter(|wait| {
            matches!(
                wait.on,
                WaitingOn::Breaker { .. } | WaitingOn::RelistPending { .. }
            )
        })
        .map(|wait| wait.subject.to_string())
        .collect();
    let message = format!(
        "the circuit breaker of {} is not closed: {}",
        if engine { "the engine" } else { "this environment" },
        one_line(breaker.last_failure().unwrap_or("it is tried"))
    );
    let mut error = StructuredError::new(Code::CircuitOpen, message)
        .details(json!({
            "breaker": told,
            "pending": pending,
            "cleanupPending": is_half_made(input),
            "stale": true,
        }))
        .with_call(call::of_breaker(breaker));
    if let CircuitState::Open { until } = breaker.state() {
        // Counted from the opening, so that the same opening is told in the same words at every look.
        error = error.retry_after_span(until.since(since));
    }
    Some(Place::environment(input).finish(error, since))
}

/// Something was begun and not finished, or is to be removed: it is dealt with first when calls are made again.
fn is_half_made(input: &StatusInput<'_>) -> bool {
    let created = |state| matches!(state, ContainerState::Created);
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    input
        .observed
        .containers
        .values()
        .any(|container| created(container.state))
        || waits.iter().any(|wait| {
            matches!(wait.on, WaitingOn::RelistPending { .. })
                || (matches!(wait.on, WaitingOn::Breaker { .. })
                    && matches!(
                        wait.subject,
                        Subject::ExtraContainer { .. } | Subject::ExtraNetwork { .. }
                    ))
        })
}

/// The breaker that matters most to an environment; `None` while nothing was ever counted.
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

/// A breaker as programs read it.
pub fn status(breaker: &Breaker, scope: BreakerScope) -> BreakerStatus {
    let (state, failures, retry_at) = match breaker.state() {
        CircuitState::Closed { failures } => (BreakerState::Closed, *failures, None),
        CircuitState::Open { until } => (BreakerState::Open, 0, Some(until.to_string())),
        CircuitState::HalfOpen { .. } => (BreakerState::HalfOpen, 0, None),
    };
    BreakerStatus {
        scope,
        state,
        failures,
        times_opened: breaker.times_opened(),
        retry_at,
        last_failure: breaker.last_failure().map(one_line),
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

/// When it opened last.
fn opened(breaker: &Breaker) -> Option<Timestamp> {
    let mut epochs = breaker
        .history()
        .iter()
        .rev()
        .filter(|change| change.to == "open");
    epochs.next().map(|change| change.at)
}
