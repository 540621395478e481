//! What a plan leaves for later because a breaker is not closed.

use super::{Plan, PlanInput, Wait};

/// Turns the steps that no breaker lets through into waits: all of them, or all but the one that tries it.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    let breakers = &input.state.breakers;
    let (room, on) = match breakers.blocked_by(input.env, input.now) {
        Some(on) => (0, on),
        None => match breakers.half_open_limit(input.env) {
            Some(on) => (1, on),
            None => return,
        },
    };
    let later = plan.steps.split_off(room.min(plan.steps.len()));
    plan.waits.extend(later.into_iter().map(|step| Wait {
        subject: step.subject,
        on: on.clone(),
    }));
}
