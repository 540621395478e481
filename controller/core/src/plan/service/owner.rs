//! Controllers that own the containers of a service.

use super::{NAME_RETRY, ServicePlanner};
use crate::labels;
use crate::lease::{LeaseHolder, Liveness};
use crate::observed::Container;
use crate::wait::WaitReason;

impl ServicePlanner<'_> {
    /// True if this controller may replace the container. It adopts the container of a live controller, but never
    /// replaces it; the container of a dead controller counts as its own.
    pub(super) fn can_replace(&self, container: &Container) -> bool {
        let (input, controller) = (self.input, controller_of(container));
        container.is_made_by(&input.identity.controller)
            || input.leases.can_take_over(input.env, controller, input.now)
    }

    pub(super) fn wait_for_owner(&self, other: &Container) -> WaitReason {
        let controller = controller_of(other);
        if let Liveness::Alive(lease) = self.input.leases.liveness(controller, self.input.now) {
            let (controller, until) = (Box::new(LeaseHolder::of(lease, self.input.leases)), None);
            return WaitReason::LeaseHeldByOther { controller, until };
        }
        WaitReason::NameTaken {
            name: other.name.clone(),
            conflicting_object: format!("container {} of another controller ({controller})", other.name),
            until: self.input.now + NAME_RETRY,
            attempts: Vec::new(),
            compose_project: None,
        }
    }
}

fn controller_of(container: &Container) -> &str {
    container
        .labels
        .get(labels::CONTROLLER)
        .map_or("", String::as_str)
}
