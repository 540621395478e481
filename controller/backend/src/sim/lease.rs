//! Leases on the engine in memory.

use std::time::Duration;

use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;

use super::Engine;
use super::faults::Fault;

/// A lease that has been dead for so many times its own time is swept away by whoever renews.
const SWEPT_AFTER: u32 = 10;

impl Engine {
    /// All leases.
    ///
    /// # Errors
    /// As the weather is.
    pub fn leases(&mut self, now: Timestamp) -> Result<Vec<ControllerLease>, ActionError> {
        self.pass(now);
        match self.fault()? {
            Some(error) => Err(error),
            None => Ok(self.model.leases.values().cloned().collect()),
        }
    }

    /// Writes a lease and answers with all.
    ///
    /// # Errors
    /// As the weather is; it may be written all the same.
    pub fn renew_lease(
        &mut self,
        note: &LeaseSpec,
        now: Timestamp,
    ) -> Result<Vec<ControllerLease>, ActionError> {
        self.pass(now);
        let lost = self.fault()?;
        self.model.write_lease(note, now);
        match lost {
            Some(error) => Err(error),
            None => Ok(self.model.leases.values().cloned().collect()),
        }
    }

    /// Takes a lease away.
    ///
    /// # Errors
    /// As the weather is.
    pub fn release_lease(&mut self, run: &str, now: Timestamp) -> Result<(), ActionError> {
        self.pass(now);
        let lost = self.fault()?;
        self.model.leases.retain(|_, lease| lease.spec.run != run);
        lost.map_or(Ok(()), Err)
    }

    /// `Err`: nothing is done. `Ok(Some)`: it is done, and nobody is told.
    fn fault(&mut self) -> Result<Option<ActionError>, ActionError> {
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
    /// A lease as its holder would write it.
    pub fn write_lease(&mut self, note: &LeaseSpec, now: Timestamp) {
        self.made += 1;
        let name = format!("argus-lease-{}-{:012}", note.run, self.made);
        // An engine dates its volumes to the second.
        let made_at = Timestamp(now.0 - now.0.rem_euclid(1000));
        let lease = ControllerLease {
            name: name.clone(),
            spec: note.clone(),
            made_at,
            renewed_at: made_at,
        };
        self.leases.retain(|_, old| {
            let dead: Duration = old.spec.ttl * SWEPT_AFTER;
            old.spec.run != note.run && old.spec.place != note.place && now.since(old.made_at) < dead
        });
        self.leases.insert(name, lease);
    }

    /// A person prunes volumes.
    pub fn person_prunes_leases(&mut self) {
        self.leases.clear();
    }
}
