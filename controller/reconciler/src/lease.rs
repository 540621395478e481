//! The lease of this controller: written as soon as there is an engine, renewed as long as it lives, taken away at a clean
//! stop. What others wrote is read with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, LeaseSpec, Leases, OwnIdentity};
use argus_core::observed::{Observed, Store};
use argus_core::outcome::ActionError;
use argus_core::reconcile::ControllerIdentity;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::lock::host_name;
use crate::overrides::DesiredState;
use crate::snapshot::Snapshot;

pub mod process;

/// A stop does not wait for an engine that is away.
const RELEASE: Duration = Duration::from_secs(3);
/// After a call that failed on an engine that is said to answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Who holds the lease, and for how long it is good.
#[derive(Debug, Clone)]
pub(crate) struct OwnLease {
    pub(crate) identity: OwnIdentity,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) processes: String,
    /// Others call it dead after this.
    pub(crate) ttl: Duration,
}

impl OwnLease {
    /// This process, on this state directory.
    pub(crate) fn new(identity: &ControllerIdentity, place: String, ttl: Duration) -> Self {
        Self {
            identity: OwnIdentity {
                controller: identity.controller.clone(),
                run: identity.run.clone(),
                place,
                holds: true,
            },
            host: host_name(),
            pid: std::process::id(),
            processes: process::space(),
            ttl,
        }
    }
}

/// What the lease is about.
#[derive(Debug, Clone)]
pub(crate) struct LeaseInputs {
    pub(crate) desires: watch::Receiver<Arc<DesiredState>>,
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    /// Closed when the last act has come back.
    pub(crate) snapshots: watch::Receiver<Arc<Snapshot>>,
}

struct LeaseTask<B> {
    backend: Arc<B>,
    holder: OwnLease,
    facts: LeaseInputs,
    leases: watch::Sender<Leases>,
    clock: Clock,
    /// The lease as it was written last.
    written: Option<(Timestamp, BTreeSet<EnvName>)>,
}

/// Holds the lease until the stop, and then until the acts in flight have come back.
pub(crate) async fn run<B: Backend>(
    backend: Arc<B>,
    holder: OwnLease,
    facts: LeaseInputs,
    leases: watch::Sender<Leases>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut keeper = LeaseTask {
        backend,
        holder,
        facts,
        leases,
        clock,
        written: None,
    };
    let mut snapshots = keeper.facts.snapshots.clone();
    let acts_ended = async {
        stop.cancelled().await;
        while snapshots.changed().await.is_ok() {}
    };
    tokio::select! {
        () = acts_ended => {}
        () = keeper.keep() => {}
    }
    keeper.release().await;
}

impl<B: Backend> LeaseTask<B> {
    async fn keep(&mut self) {
        loop {
            let next = if self.facts.stores.borrow_and_update().reachable() {
                self.look_or_renew().await
            } else {
                self.leases.send_if_modified(Leases::lost);
                None
            };
            self.wait(next).await;
        }
    }

    /// Until there is something to do: the time has come, something else is claimed, or the engine came back.
    async fn wait(&mut self, until: Option<Timestamp>) {
        let reachable = self.facts.stores.borrow().reachable();
        loop {
            let facts = &mut self.facts;
            tokio::select! {
                Ok(()) = facts.desires.changed() => {}
                Ok(()) = facts.stores.changed() => {}
                () = self.clock.sleep_until(until) => return,
            }
            if self.facts.stores.borrow().reachable() != reachable || (reachable && self.claims_more()) {
                return;
            }
        }
    }

    async fn look_or_renew(&mut self) -> Option<Timestamp> {
        let (now, ttl) = (self.clock.now(), self.holder.ttl);
        let again = Some(now + AGAIN.min(ttl / 9));
        let adds = self.claims_more() && self.is_well();
        // Whoever was away looks first who came meanwhile.
        if !adds && self.written.is_some() && !self.look().await {
            return again;
        }
        // Half a look too early is better than one too late.
        let due = |at: Timestamp| at + ttl / 3 <= now + ttl / 18;
        let due = self.written.as_ref().is_none_or(|(at, _)| due(*at));
        if (adds || due || !self.is_well()) && !self.renew().await {
            return again;
        }
        Some(now + ttl / 9)
    }

    fn is_well(&self) -> bool {
        self.leases.borrow().is_well(self.clock.now())
    }

    async fn look(&self) -> bool {
        let found = self.backend.leases().await;
        self.take(found)
    }

    async fn renew(&mut self) -> bool {
        let now = self.clock.now();
        let wanted = self.wanted();
        let note = LeaseSpec {
            controller: self.holder.identity.controller.clone(),
            run: self.holder.identity.run.clone(),
            place: self.holder.identity.place.clone(),
            host: self.holder.host.clone(),
            pid: self.holder.pid,
            processes: self.holder.processes.clone(),
            ttl: self.holder.ttl,
            claims: self.leases.borrow().claims(&wanted, now),
        };
        let found = match self.backend.renew_lease(&note).await {
            Err(ActionError::DiskFull(why)) => self.alone_on_a_full_disk(note, why).await,
            other => other,
        };
        let went_well = self.take(found);
        if went_well {
            self.written = Some((now, wanted));
        }
        went_well
    }

    /// On a full disk nobody can write a lease: who comes later cannot begin, and who is the only one there goes on.
    async fn alone_on_a_full_disk(
        &self,
        note: LeaseSpec,
        why: String,
    ) -> Result<Vec<ControllerLease>, ActionError> {
        let mut all = self.backend.leases().await?;
        if all.iter().any(|lease| lease.spec.controller != note.controller) {
            return Err(ActionError::DiskFull(why));
        }
        let now = self.clock.now();
        let made_at = self.leases.borrow().engine_time(now);
        tracing::warn!(
            why,
            "lease cannot be written on a full disk, and nobody else has one"
        );
        all.retain(|lease| lease.spec.run != note.run);
        all.push(ControllerLease {
            name: String::new(),
            spec: note,
            made_at,
            renewed_at: now,
        });
        Ok(all)
    }

    fn take(&self, found: Result<Vec<ControllerLease>, ActionError>) -> bool {
        let now = self.clock.now();
        match found {
            Ok(mut found) => {
                process::forget_the_dead(&mut found);
                self.leases.send_if_modified(|leases| leases.take(found, now));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "leases are not read or written");
                false
            }
        }
    }

    /// What is desired, and what we still have something of.
    fn wanted(&self) -> BTreeSet<EnvName> {
        let store = self.facts.stores.borrow();
        let left = store
            .environments()
            .iter()
            .filter(|(_, seen)| self.has_some_of(seen));
        let desires = self.facts.desires.borrow();
        desires.keys().chain(left.map(|(env, _)| env)).cloned().collect()
    }

    fn claims_more(&self) -> bool {
        let Some((_, written)) = &self.written else {
            return true;
        };
        let store = self.facts.stores.borrow();
        let left = store
            .environments()
            .iter()
            .filter(|(_, seen)| self.has_some_of(seen));
        let desires = self.facts.desires.borrow();
        let mut all = desires.keys().chain(left.map(|(env, _)| env));
        all.any(|env| !written.contains(env))
    }

    fn has_some_of(&self, seen: &Observed) -> bool {
        let mut containers = seen.containers.values();
        containers.any(|container| container.is_made_by(&self.holder.identity.controller))
    }

    async fn release(&self) {
        if self.written.is_none() {
            return;
        }
        let released =
            tokio::time::timeout(RELEASE, self.backend.release_lease(&self.holder.identity.run)).await;
        match released {
            Ok(Ok(())) => tracing::info!("lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "lease is not released, it runs out by itself"),
            Err(_) => tracing::warn!("lease is not released in time, it runs out by itself"),
        }
    }
}
