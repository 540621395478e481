//! Images of environments with all overrides.

use std::collections::BTreeSet;
use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::ident::EnvName;

use super::{DesiredState, Overrides};
use crate::specs::SpecRegistry;

impl Overrides {
    /// References and ids of the images that no clean-up removes: those of the desired state, of known good revisions, rollbacks and forks.
    pub fn used_images(&self, desired: &DesiredState) -> BTreeSet<String> {
        let rollbacks = self.rollbacks.values().map(|rollback| &rollback.to);
        let others = self.known_good.values().flatten().chain(rollbacks);
        let all = desired.values().chain(others).chain(self.forks.values());
        let services = all.flat_map(|accepted| accepted.desired.services.values());
        services
            .map(|service| service.image.reference().to_owned())
            .collect()
    }

    /// Image keys that no other environment waits for. A fork or a rollback runs other images than the spec file lists.
    pub(crate) fn images_of_only(&self, env: &EnvName, specs: &SpecRegistry) -> BTreeSet<String> {
        let images = |accepted: Arc<Accepted>| -> Vec<String> {
            let services = accepted.desired.services.values();
            services.map(|service| service.image.key()).collect()
        };
        let is_waiting = |other: &&EnvName| {
            let mut holds = self.requests.holds.iter();
            let is_held = holds.any(|hold| hold.environment == **other && hold.service.is_none());
            *other != env && !is_held && !self.down.contains_key(*other)
        };
        let others = specs.environments.keys().chain(self.forks.keys());
        let others = others
            .filter(is_waiting)
            .filter_map(|other| self.accepted(other, specs));
        let others: BTreeSet<String> = others.flat_map(images).collect();
        let own = self.accepted(env, specs).into_iter().flat_map(images);
        own.filter(|key| !others.contains(key)).collect()
    }
}
