//! Breaker filter of a plan: a breaker that is not closed turns steps into waits.

use super::{Plan, PlanInput};
use crate::wait::Wait;

/// Turns the blocked steps into waits: all of them, or all but the test call of a half-open breaker.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    let breakers = &input.state.breakers;
    let (allowed, on) = match breakers.blocked_by(input.env, input.now) {
        Some(on) => (0, on),
        None => match breakers.half_open_limit(input.env) {
            Some(on) => (1, on),
            None => return,
        },
    };
    let blocked = plan.steps.split_off(allowed.min(plan.steps.len()));
    plan.waits.extend(blocked.into_iter().map(|step| Wait {
        subject: step.subject,
        on: on.clone(),
    }));
}
