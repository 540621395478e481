//! Controller leases on the simulated engine.

use std::time::Duration;

use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;

use super::Engine;
use super::faults::Fault;

/// Age at which any renewal removes a foreign lease, in multiples of the lease's TTL.
const REMOVED_AFTER_TTLS: u32 = 10;

impl Engine {
    /// Returns all leases.
    ///
    /// # Errors
    /// A fault of the profile, or an engine that is down.
    pub fn leases(&mut self, now: Timestamp) -> Result<Vec<ControllerLease>, ActionError> {
        self.advance(now);
        match self.draw_fault()? {
            Some(error) => Err(error),
            None => Ok(self.model.leases.values().cloned().collect()),
        }
    }

    /// Writes a lease and returns all leases.
    ///
    /// # Errors
    /// A fault of the profile, or an engine that is down. Some faults occur after the write.
    pub fn renew_lease(
        &mut self,
        spec: &LeaseSpec,
        now: Timestamp,
    ) -> Result<Vec<ControllerLease>, ActionError> {
        self.advance(now);
        let lost = self.draw_fault()?;
        self.model.write_lease(spec, now);
        match lost {
            Some(error) => Err(error),
            None => Ok(self.model.leases.values().cloned().collect()),
        }
    }

    /// Removes the lease of a run.
    ///
    /// # Errors
    /// A fault of the profile, or an engine that is down. Some faults occur after the removal.
    pub fn release_lease(&mut self, run: &str, now: Timestamp) -> Result<(), ActionError> {
        self.advance(now);
        let lost = self.draw_fault()?;
        self.model.leases.retain(|_, lease| lease.spec.run != run);
        lost.map_or(Ok(()), Err)
    }

    /// Draws the fault of a call. `Err`: the call has no effect. `Ok(Some)`: it has its effect, then fails with the error.
    fn draw_fault(&mut self) -> Result<Option<ActionError>, ActionError> {
        if self.down {
            return Err(ActionError::Unreachable("connection refused".to_owned()));
        }
        match Fault::of(&self.faults, &mut self.rng) {
            Fault::None => Ok(None),
            Fault::Before(error) => Err(error),
            Fault::Hangs(_) => Err(ActionError::Unknown("no answer".to_owned())),
            Fault::ReplyLost(_) | Fault::AppliedAndHangs(_) | Fault::AppliedLate(..) => {
                Ok(Some(ActionError::Unknown("no answer".to_owned())))
            }
        }
    }
}

impl super::Model {
    /// Writes a lease as its holder would, and removes the leases that it replaces.
    pub fn write_lease(&mut self, spec: &LeaseSpec, now: Timestamp) {
        self.created_count += 1;
        let name = format!("argus-lease-{}-{:012}", spec.run, self.created_count);
        // An engine reports the creation time of a volume in whole seconds.
        let created_at = Timestamp(now.0 - now.0.rem_euclid(1000));
        let lease = ControllerLease {
            name: name.clone(),
            spec: spec.clone(),
            created_at,
            renewed_at: created_at,
        };
        self.leases.retain(|_, old| {
            let stale_age: Duration = old.spec.ttl * REMOVED_AFTER_TTLS;
            old.spec.run != spec.run
                && old.spec.state_dir != spec.state_dir
                && now.since(old.created_at) < stale_age
        });
        self.leases.insert(name, lease);
    }

    /// Removes all leases, as `docker volume prune` by a person would.
    pub fn person_prunes_leases(&mut self) {
        self.leases.clear();
    }
}
