//! Check of the engine's breaker before an operation that needs the engine.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::BreakerState;
use argus_reconciler::state_dir::StateDir;
use serde_json::json;

use crate::local_state::status;
use crate::process::exit::Failure;

/// Rejects a command that needs the engine while a live controller has the engine's breaker open. The error contains
/// the last known state of the breaker.
pub(super) fn check_engine_breaker(state: &StateDir) -> Result<(), Failure> {
    let Some(controller) = status::read_controller(state).ok().flatten() else {
        return Ok(());
    };
    let Some(breaker) = controller
        .breaker
        .filter(|breaker| breaker.state != BreakerState::Closed)
    else {
        return Ok(());
    };
    if !status::is_alive(state) {
        return Ok(());
    }
    let cause = breaker.last_failure.clone().unwrap_or_default();
    let message = format!("the circuit breaker of the engine is not closed: {cause}");
    let mut error = StructuredError::new(Code::CircuitOpen, message).details(json!({
        "breaker": breaker,
        "stale": true,
        "asOf": controller.as_of,
    }));
    let left = breaker
        .retry_at
        .as_deref()
        .and_then(argus_core::time::Timestamp::parse)
        .map(|at| at.since(argus_reconciler::clock::now()).as_secs().max(1));
    if let Some(left) = left {
        error = error.retry_after(left);
    }
    Err(Failure::new(error).with_hint("test the engine now with `argus breaker reset`"))
}
