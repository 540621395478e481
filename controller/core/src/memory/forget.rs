//! What the memory lets go of, so that it stays as small as what is wanted or there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::memory::Memory;
use crate::observed::World;
use crate::plan::port::REFUSAL_REMEMBERED;
use crate::plan::{Subject, image, storm};
use crate::time::Timestamp;

impl Memory {
    /// Forgets what concerns nothing that is wanted or there; tells whether an environment is among it.
    pub fn forget_the_old(
        &mut self,
        specs: &BTreeMap<EnvName, Arc<Accepted>>,
        world: &World,
        now: Timestamp,
    ) -> bool {
        self.refused
            .retain(|_, refused| refused.at + REFUSAL_REMEMBERED > now);
        self.restarts.retain(|at| *at + storm::WINDOW > now);
        let flying = !self.in_flight.is_empty();
        self.stopped_by_us
            .retain(|id, _| flying || world.container(id).is_some());
        let wanted = |env: &EnvName| specs.contains_key(env) || world.of(env).is_some();
        let known = self.environments.len();
        self.environments.retain(|env, _| wanted(env));
        self.not_ours.retain(|id| world.container(id).is_some());
        self.volumes.retain(|(env, _)| wanted(env));
        self.failures.retain(|subject, _| match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment }
            | Subject::Volume { environment, .. } => wanted(environment),
            Subject::StrayContainer { id } => world.container(id).is_some(),
            Subject::StrayNetwork { id } => world.network(id).is_some(),
            Subject::Image { .. } => true,
        });
        self.environments.len() < known
    }

    /// What is known of an image is kept as long as somebody wants it.
    pub fn forget_images(&mut self, specs: &BTreeMap<EnvName, Arc<Accepted>>) {
        let wanted: BTreeSet<String> = specs
            .values()
            .flat_map(|accepted| accepted.desired.services.values())
            .map(|service| image::key(&service.image))
            .collect();
        self.images.retain(|key, _| wanted.contains(key));
        self.failures.retain(|subject, _| match subject {
            Subject::Image { key } => wanted.contains(key),
            Subject::Service { .. }
            | Subject::Network { .. }
            | Subject::Volume { .. }
            | Subject::StrayContainer { .. }
            | Subject::StrayNetwork { .. } => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ImageMemory;

    #[test]
    fn an_image_that_nobody_wants_is_forgotten() {
        let mut memory = Memory::default();
        memory.images.insert("web:1".to_owned(), ImageMemory::Present);
        memory.forget_images(&BTreeMap::new());
        assert!(memory.images.is_empty());
    }
}
