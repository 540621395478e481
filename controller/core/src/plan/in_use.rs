//! Containers on an undesired network or volume. The object waits for those that leave. Those that stay keep only what they use.

use super::{Plan, PlanInput, stop_order};
use crate::action::Subject;
use crate::labels;
use crate::lease::Liveness;
use crate::observed::Container;
use crate::wait::WaitReason;

/// Maximum number of named containers.
const MAX_NAMED: usize = 10;

/// Wait reason of the removal of an object, for the containers on it. Those that stay keep the object only if they are its users.
pub(super) fn wait(
    input: &PlanInput<'_>,
    plan: &Plan,
    object: String,
    is_on: impl Fn(&Container) -> bool,
    is_user: impl Fn(&Container) -> bool,
) -> Option<WaitReason> {
    let mut users = Vec::new();
    for container in input.observed.containers.values() {
        if !is_on(container) {
            continue;
        }
        if !stays(input, plan, container) {
            return Some(WaitReason::Containers);
        }
        if is_user(container) && users.len() < MAX_NAMED {
            users.push(format!("`{}`", container.name));
        }
    }
    let containers = users.join(", ");
    (!users.is_empty()).then_some(WaitReason::InUse { object, containers })
}

/// True for a container that Argus must not remove, or whose removal has failed for 30 s. One that Argus must not remove yet leaves.
fn stays(input: &PlanInput<'_>, plan: &Plan, container: &Container) -> bool {
    let id = &container.id;
    let subject = Subject::ExtraContainer { id: id.clone() };
    if input.state.not_owned.contains(id) {
        return true;
    }
    if plan.steps.iter().any(|step| step.subject == subject) {
        return false;
    }
    if let Some(wait) = plan.waits.iter().find(|wait| wait.subject == subject) {
        return match &wait.on {
            WaitReason::Failed { .. } => true,
            WaitReason::Retry { failure, .. } => !stop_order::is_recent(failure),
            _ => false,
        };
    }
    if let Some(orphan) = plan.orphans.iter().find(|orphan| orphan.id == id.as_str()) {
        return orphan.until().is_none();
    }
    let (controller, _) = labels::maker(&container.labels);
    matches!(input.leases.liveness(controller, input.now), Liveness::Alive(_))
}
