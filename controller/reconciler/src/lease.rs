//! Lease task: writes the lease of this controller once the engine answers, renews it, and releases it at a clean
//! stop.
//!
//! It is the only writer of the lease of this controller. Every call also returns the leases of other controllers, which the task
//! publishes as [`ControllerLeases`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, ProcessIdentity};
use argus_core::observed::{Observed, Store};
use argus_core::outcome::ActionError;
use argus_core::plan::ControllerIdentity;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::lock::host_name;
use crate::overrides::DesiredState;
use crate::snapshot::Snapshot;

pub mod process;

/// Maximum time of the release at a stop.
const RELEASE_LIMIT: Duration = Duration::from_secs(3);
/// Delay after a failed call on an engine that answers.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Identity of the lease holder, and its lease.
#[derive(Debug, Clone)]
pub(crate) struct OwnLease {
    pub(crate) identity: ProcessIdentity,
    /// Lease without its claims.
    spec: LeaseSpec,
}

impl OwnLease {
    /// Lease of this process on this state directory.
    pub(crate) fn new(
        identity: &ControllerIdentity,
        state_dir_id: String,
        specs: Option<String>,
        ttl: Duration,
    ) -> Self {
        let spec = LeaseSpec {
            controller: identity.controller.clone(),
            run: identity.run.clone(),
            state_dir: state_dir_id.clone(),
            specs,
            host: host_name(),
            pid: std::process::id(),
            pid_namespace: process::pid_namespace(),
            ttl,
            since: None,
            claims: BTreeMap::new(),
        };
        let identity = ProcessIdentity {
            controller: identity.controller.clone(),
            run: identity.run.clone(),
            state_dir: state_dir_id,
            holds_lease: true,
        };
        Self { identity, spec }
    }
}

/// Inputs that decide which environments the lease claims.
#[derive(Debug, Clone)]
pub(crate) struct LeaseInputs {
    pub(crate) desired: watch::Receiver<Arc<DesiredState>>,
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    /// Closed when the last action has completed.
    pub(crate) snapshots: watch::Receiver<Arc<Snapshot>>,
}

struct LeaseTask<B> {
    backend: Arc<B>,
    own_lease: OwnLease,
    inputs: LeaseInputs,
    leases: watch::Sender<ControllerLeases>,
    clock: Clock,
    /// Time and claims of the last written lease.
    last_renewal: Option<(Timestamp, BTreeSet<EnvName>)>,
}

/// Maintains the lease until the stop, and then until the actions in flight have completed.
pub(crate) async fn run<B: Backend>(
    backend: Arc<B>,
    own_lease: OwnLease,
    inputs: LeaseInputs,
    leases: watch::Sender<ControllerLeases>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut task = LeaseTask {
        backend,
        own_lease,
        inputs,
        leases,
        clock,
        last_renewal: None,
    };
    let mut snapshots = task.inputs.snapshots.clone();
    let actions_ended = async {
        stop.cancelled().await;
        while snapshots.changed().await.is_ok() {}
    };
    tokio::select! {
        () = actions_ended => {}
        () = task.maintain() => {}
    }
    task.release().await;
}

impl<B: Backend> LeaseTask<B> {
    async fn maintain(&mut self) {
        loop {
            let next = if self.inputs.stores.borrow_and_update().is_reachable() {
                self.read_or_renew().await
            } else {
                self.leases.send_if_modified(ControllerLeases::on_unreachable);
                None
            };
            self.wait(next).await;
        }
    }

    /// Waits until the next renewal, a new environment to claim, or a change of the engine's reachability.
    async fn wait(&mut self, until: Option<Timestamp>) {
        let reachable = self.inputs.stores.borrow().is_reachable();
        loop {
            let inputs = &mut self.inputs;
            tokio::select! {
                Ok(()) = inputs.desired.changed() => {}
                Ok(()) = inputs.stores.changed() => {}
                () = self.clock.sleep_until(until) => return,
            }
            if self.inputs.stores.borrow().is_reachable() != reachable
                || (reachable && self.has_unclaimed_environments())
            {
                return;
            }
        }
    }

    async fn read_or_renew(&mut self) -> Option<Timestamp> {
        let (now, ttl) = (self.clock.now(), self.own_lease.spec.ttl);
        let again = Some(now + RETRY_DELAY.min(ttl / 9));
        let adds = self.has_unclaimed_environments() && self.has_valid_lease();
        // After a pause, other leases are read first: another controller may have claimed the environments.
        if !adds && self.last_renewal.is_some() && !self.read().await {
            return again;
        }
        // A renewal may come half an interval early, rather than late.
        let due = |at: Timestamp| at + ttl / 3 <= now + ttl / 18;
        let due = self.last_renewal.as_ref().is_none_or(|(at, _)| due(*at));
        if (adds || due || !self.has_valid_lease()) && !self.renew().await {
            return again;
        }
        let next_read = Some(now + ttl / 9);
        let claim_check = self.leases.borrow().next_claim_check();
        next_read.into_iter().chain(claim_check).min()
    }

    fn has_valid_lease(&self) -> bool {
        self.leases.borrow().is_valid(self.clock.now())
    }

    async fn read(&self) -> bool {
        let requested_at = self.clock.now();
        let found = self.backend.leases().await;
        self.on_leases(found, requested_at)
    }

    async fn renew(&mut self) -> bool {
        let now = self.clock.now();
        let wanted = self.wanted();
        let spec = LeaseSpec {
            since: self.leases.borrow().own_since(),
            claims: self.leases.borrow().claims(&wanted, now),
            ..self.own_lease.spec.clone()
        };
        let found = match self.backend.renew_lease(&spec).await {
            Err(ActionError::DiskFull(why)) => self.claim_on_full_disk(spec, why).await,
            other => other,
        };
        let succeeded = self.on_leases(found, now);
        if succeeded {
            self.last_renewal = Some((now, wanted));
        }
        succeeded
    }

    /// A full disk prevents every new lease. A controller continues without a written lease if no other controller
    /// has one.
    async fn claim_on_full_disk(
        &self,
        mut spec: LeaseSpec,
        why: String,
    ) -> Result<Vec<ControllerLease>, ActionError> {
        let mut all = self.backend.leases().await?;
        if all.iter().any(|lease| lease.spec.controller != spec.controller) {
            return Err(ActionError::DiskFull(why));
        }
        let now = self.clock.now();
        let made_at = self.leases.borrow().engine_time(now);
        tracing::warn!(
            why,
            "cannot write the lease on a full disk, and no other controller has one"
        );
        // No other controller can write a claim either, so the claims need no second list.
        spec.since = Some(Timestamp::default());
        all.retain(|lease| lease.spec.run != spec.run);
        all.push(ControllerLease {
            name: String::new(),
            spec,
            created_at: made_at,
            renewed_at: now,
        });
        Ok(all)
    }

    fn on_leases(&self, found: Result<Vec<ControllerLease>, ActionError>, requested_at: Timestamp) -> bool {
        match found {
            Ok(found) => {
                let (found, exited) = process::split_exited(found);
                let running = process::visible_runs(&found);
                let received_at = self.clock.now();
                self.leases.send_if_modified(|leases| {
                    leases.on_exited(&exited)
                        | leases.on_listed_at(found, requested_at, received_at)
                        | leases.on_running(running)
                });
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read or write leases");
                if matches!(error, ActionError::TimedOut(_)) {
                    // A list finds out whether the engine still answers, earlier than the next periodic one.
                    self.backend.request_relist();
                }
                false
            }
        }
    }

    /// Environments to claim: those that are desired, and those that still have objects of this controller.
    fn wanted(&self) -> BTreeSet<EnvName> {
        let (desired, store) = (self.inputs.desired.borrow(), self.inputs.stores.borrow());
        self.wanted_of(&desired, &store).cloned().collect()
    }

    fn wanted_of<'a>(
        &'a self,
        desired: &'a DesiredState,
        store: &'a Store,
    ) -> impl Iterator<Item = &'a EnvName> {
        let observed = store.environments().iter();
        let owned = observed.filter(|(_, seen)| self.has_objects_in(seen));
        desired.keys().chain(owned.map(|(env, _)| env))
    }

    fn has_unclaimed_environments(&self) -> bool {
        let Some((_, claimed)) = &self.last_renewal else {
            return true;
        };
        let (desired, store) = (self.inputs.desired.borrow(), self.inputs.stores.borrow());
        self.wanted_of(&desired, &store).any(|env| !claimed.contains(env))
    }

    /// Volumes do not count: they remain after their environment.
    fn has_objects_in(&self, seen: &Observed) -> bool {
        seen.has_containers_or_networks_of(&self.own_lease.identity.controller)
    }

    async fn release(&self) {
        if self.last_renewal.is_none() {
            return;
        }
        let released = tokio::time::timeout(
            RELEASE_LIMIT,
            self.backend.release_lease(&self.own_lease.identity.run),
        )
        .await;
        match released {
            Ok(Ok(())) => tracing::info!("lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the lease, it expires"),
            Err(_) => tracing::warn!("lease not released in time, it expires"),
        }
    }
}
