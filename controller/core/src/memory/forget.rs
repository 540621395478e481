//! What the memory lets go of, so that it stays as small as what is wanted or there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::desired::{Accepted, Desired};
use crate::diagnose::Ending;
use crate::ident::EnvName;
use crate::memory::{ImageMemory, Memory};
use crate::observed::World;
use crate::plan::port::REFUSAL_REMEMBERED;
use crate::plan::{Subject, image, storm};
use crate::time::Timestamp;

impl Memory {
    /// A new input is a new try: failures, deaths and known-missing images of an environment are forgotten.
    pub fn forget_failures(&mut self, env: &EnvName, desired: Option<&Desired>) {
        let images: BTreeSet<String> = desired
            .into_iter()
            .flat_map(|desired| desired.services.values())
            .map(|s| image::key(&s.image))
            .collect();
        self.failures.retain(|subject, _| match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment }
            | Subject::Volume { environment, .. } => environment != env,
            Subject::Image { key } => !images.contains(key),
            Subject::StrayContainer { .. } | Subject::StrayNetwork { .. } => true,
        });
        self.images
            .retain(|key, known| *known == ImageMemory::Present || !images.contains(key));
        if let Some(memory) = self.environments.get_mut(env) {
            for service in memory.services.values_mut() {
                // A run that goes on unhealthy has not ended: it fails anew, and is dealt with anew.
                let last = service
                    .deaths
                    .last()
                    .filter(|death| death.ending == Ending::Exited);
                service.forgiven = last.map(|death| (death.container.clone(), death.started_at));
                service.deaths.clear();
                service.flips.clear();
            }
        }
    }

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
        self.reattached.retain(|id, _| world.container(id).is_some());
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
