//! Leases of the last list, with the rules for ownership and liveness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ident::EnvName;
use crate::time::Timestamp;

use super::{
    CLAIM_SECOND, ControllerLease, Liveness, Ownership, end_of_second, is_still_valid, seniority,
    validity_period,
};

/// Grace period for the objects of a holder whose lease disappeared.
///
/// A `docker volume prune` can delete the lease of a living controller, which writes it again within this time.
const GONE_GRACE: Duration = Duration::from_secs(60);
/// Maximum time between two lists. After a longer gap (sleep, clock jump) missed renewals prove nothing.
const MAX_LIST_GAP: Duration = Duration::from_secs(45);

/// Identity of the process that evaluates the leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Identity of the controller.
    pub controller: String,
    /// Run id of the process.
    pub run: String,
    /// State directory. The lease of another run with the same directory is dead, because this process holds the lock.
    pub state_dir: String,
    /// True if the process holds a lease and acts only while that is valid. A short-lived command holds none.
    pub holds_lease: bool,
}

/// All leases on one engine.
///
/// The default value has no [`ProcessIdentity`]: every environment is then owned, and the liveness of others is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerLeases {
    process_identity: Option<ProcessIdentity>,
    /// True if the leases were listed at least once.
    is_listed: bool,
    /// Shared by clones until a list differs.
    by_run: Arc<BTreeMap<String, ControllerLease>>,
    /// Time at which the last lease of a controller disappeared, by controller.
    gone: BTreeMap<String, Timestamp>,
    /// Controllers with a lease of a process that no longer exists.
    exited: BTreeSet<String>,
    /// Runs with an observed renewal or process.
    renewing: BTreeSet<String>,
    listed_at: Timestamp,
    /// True if the engine is unreachable, so that no controller can renew its lease.
    is_unreachable: bool,
    /// End of the last period in which renewals were impossible or not observed.
    unobserved_until: Option<Timestamp>,
    /// Increases with every change that can change a result of the methods at the same time.
    version: u64,
    /// Time at which all leases are evaluated, in place of `now`.
    frozen: Option<Timestamp>,
}

impl ControllerLeases {
    /// Creates an empty registry for one process; the leases are not listed yet.
    pub fn new(identity: ProcessIdentity) -> Self {
        Self {
            process_identity: Some(identity),
            ..Self::default()
        }
    }

    /// Stores a complete list of leases, requested at `now`; returns whether anything changed.
    pub fn on_listed(&mut self, found: Vec<ControllerLease>, now: Timestamp) -> bool {
        self.on_listed_at(found, now, now)
    }

    /// Stores a complete list of leases, requested at `now` and received at `received_at`; returns whether anything changed.
    ///
    /// A lease of the earlier list can expire during a slow request. Readers then decided with the expired lease.
    pub fn on_listed_at(
        &mut self,
        found: Vec<ControllerLease>,
        now: Timestamp,
        received_at: Timestamp,
    ) -> bool {
        let before = self.clone();
        let first = !self.is_listed;
        let has_gap = now.since(self.listed_at) > MAX_LIST_GAP || now < self.listed_at;
        if !first && (self.is_unreachable || has_gap) {
            self.unobserved_until = Some(now);
        }
        self.is_unreachable = false;
        self.listed_at = now;
        self.is_listed = true;
        let mut leases: BTreeMap<String, ControllerLease> = BTreeMap::new();
        for lease in found {
            let run = lease.spec.run.clone();
            // During a renewal both objects exist, and the newer one counts.
            let newer =
                |other: &ControllerLease| (other.created_at, &other.name) < (lease.created_at, &lease.name);
            if leases.get(&run).is_none_or(newer) {
                leases.insert(run, lease);
            }
        }
        for (run, lease) in &mut leases {
            match self.by_run.get(run) {
                // The estimate of the first list stays, even if a clock was changed since.
                Some(old) if old.name == lease.name => lease.renewed_at = old.renewed_at,
                Some(_) => drop(self.renewing.insert(run.clone())),
                None => {}
            }
        }
        for (run, lease) in self.by_run.iter() {
            if !leases.contains_key(run) && self.is_fresh(lease, now) {
                self.gone.insert(lease.spec.controller.clone(), now);
            }
        }
        self.gone.retain(|_, at| now < *at + GONE_GRACE);
        self.renewing.retain(|run| leases.contains_key(run));
        if *self.by_run != leases {
            self.by_run = Arc::new(leases);
        }
        let differs = Self {
            listed_at: before.listed_at,
            ..self.clone()
        } != before
            || self.next_claim_check() != before.next_claim_check();
        let decides_as_before = self.decides_as(&before, now) && self.decides_as(&before, received_at);
        self.version += u64::from(differs && !decides_as_before);
        differs
    }

    /// Returns whether both lists give the same ownership and liveness of everything at `now`.
    fn decides_as(&self, before: &Self, now: Timestamp) -> bool {
        let is_same_lease = |lease: &ControllerLease, old: &ControllerLease| {
            lease.is_renewal_of(old)
                && self.is_fresh(lease, now) == before.is_fresh(old, now)
                && is_still_valid(lease, now) == is_still_valid(old, now)
        };
        self.is_listed == before.is_listed
            && self.is_unreachable == before.is_unreachable
            && self.unobserved_until == before.unobserved_until
            && self.gone == before.gone
            && self.renewing == before.renewing
            && self.next_claim_check() == before.next_claim_check()
            && self.by_run.len() == before.by_run.len()
            && self.by_run.iter().all(|(run, lease)| {
                let old = before.by_run.get(run);
                old.is_some_and(|old| is_same_lease(lease, old))
            })
    }

    /// Stores the leases of the same list whose processes no longer exist; returns whether anything changed.
    pub fn on_exited(&mut self, exited: &[ControllerLease]) -> bool {
        let controllers = exited.iter().map(|lease| lease.spec.controller.clone()).collect();
        let runs = self.by_run.len();
        for lease in exited {
            if self.by_run.contains_key(&lease.spec.run) {
                Arc::make_mut(&mut self.by_run).remove(&lease.spec.run);
            }
        }
        let differs = self.exited != controllers || self.by_run.len() != runs;
        self.exited = controllers;
        self.version += u64::from(differs);
        differs
    }

    /// Stores which runs of the same list are processes that exist, which proves more than a renewal; returns whether anything changed.
    pub fn on_running(&mut self, runs: impl IntoIterator<Item = String>) -> bool {
        let before = self.renewing.len();
        let known = &self.by_run;
        self.renewing
            .extend(runs.into_iter().filter(|run| known.contains_key(run)));
        let differs = self.renewing.len() != before;
        self.version += u64::from(differs);
        differs
    }

    /// Returns a copy that is always evaluated at `now`, for forecasts that advance the time.
    #[must_use]
    pub fn frozen(&self, now: Timestamp) -> Self {
        Self {
            frozen: Some(now),
            ..self.clone()
        }
    }

    /// Returns a number that differs after every change of the ownership or of the liveness, but not after the renewal of a valid lease.
    ///
    /// Results that change with time alone have [`Self::next_change`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Records that the engine is unreachable; returns whether that is new.
    ///
    /// No lease expires until the engine has been reachable for the `ttl` of the lease.
    pub fn on_unreachable(&mut self) -> bool {
        let is_new = self.is_listed && !self.is_unreachable;
        self.is_unreachable |= is_new;
        self.version += u64::from(is_new);
        is_new
    }

    /// Returns the claims for the next lease of this process: the earlier ones with their times, and the new ones.
    ///
    /// An expired own claim loses its time if another living controller has claimed the environment since.
    pub fn claims(&self, wanted: &BTreeSet<EnvName>, now: Timestamp) -> BTreeMap<EnvName, Option<Timestamp>> {
        let earlier_claim = |env: &EnvName| {
            let own = self.own()?;
            let lost = !is_still_valid(own, now) && self.other_claims(env, now);
            own.claimed_at(env).filter(|_| !lost)
        };
        wanted
            .iter()
            .map(|env| (env.clone(), earlier_claim(env)))
            .collect()
    }

    fn other_claims(&self, env: &EnvName, now: Timestamp) -> bool {
        let mut others = self
            .by_run
            .values()
            .filter(|lease| self.is_other_alive(lease, now));
        others.any(|lease| lease.claimed_at(env).is_some())
    }

    /// Returns the time of the engine, estimated from the most recently renewed lease.
    pub fn engine_time(&self, now: Timestamp) -> Timestamp {
        let newest = self.by_run.values().max_by_key(|lease| lease.renewed_at);
        let ahead = newest.map_or(0, |lease| lease.created_at.0.saturating_sub(lease.renewed_at.0));
        Timestamp(now.0.saturating_add(ahead))
    }

    /// Returns whether the last list contains every lease that existed at this time of the engine. The engine reports the
    /// times of leases in whole seconds.
    pub fn is_listed_since(&self, at: Timestamp) -> bool {
        self.is_listed && self.engine_time(self.listed_at) >= at + CLAIM_SECOND
    }

    /// Returns whether the lease of this process exists and is still valid for it.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.own().is_some_and(|own| is_still_valid(own, now))
    }

    /// Iterates over all leases of the last list.
    pub fn all(&self) -> impl Iterator<Item = &ControllerLease> {
        self.by_run.values()
    }

    /// Returns the lease of this process.
    pub fn own(&self) -> Option<&ControllerLease> {
        self.by_run.get(&self.process_identity.as_ref()?.run)
    }

    /// Returns the time of the first lease of this process, for its next lease.
    pub fn own_since(&self) -> Option<Timestamp> {
        self.own().map(ControllerLease::since)
    }

    /// Returns the earliest time for a list that settles a claim of this process; `None` if all claims are settled.
    pub fn next_claim_check(&self) -> Option<Timestamp> {
        let own = self.own()?;
        let claims = own.spec.claims.keys().filter_map(|env| own.claimed_at(env));
        claims
            .filter(|at| !self.is_settled(own, *at))
            .map(|at| end_of_second(own, at))
            .min()
    }

    /// Returns whether no earlier claim than `ours` can appear any more.
    ///
    /// Two controllers can claim an environment within one second of the engine. A list from after that second shows
    /// both claims. A controller whose lease is the oldest wins every tie, so it need not wait for that list.
    fn is_settled(&self, own: &ControllerLease, ours: Timestamp) -> bool {
        let is_older = |other: &ControllerLease| seniority(other) < seniority(own);
        self.listed_at >= end_of_second(own, ours)
            || (own.since() < ours && !self.by_run.values().any(is_older))
    }

    /// Returns whether a renewal of the lease or its process was observed. Without either, its holder may be dead already.
    pub fn renews(&self, lease: &ControllerLease) -> bool {
        self.renewing.contains(&lease.spec.run)
    }

    /// Returns the permission to act on an environment.
    ///
    /// `wanted` is true for an environment with a spec file, and false for one that has only remaining objects.
    pub fn ownership(&self, env: &EnvName, wanted: bool, now: Timestamp) -> Ownership<'_> {
        let now = self.frozen.unwrap_or(now);
        let Some(identity) = &self.process_identity else {
            return Ownership::Own;
        };
        let own = self.own().filter(|own| is_still_valid(own, now));
        let claim = own.and_then(|own| Some((own.claimed_at(env)?, seniority(own))));
        let others = self
            .by_run
            .values()
            .filter(|lease| self.is_other_alive(lease, now));
        let first = others
            .filter_map(|lease| Some(((lease.claimed_at(env)?, seniority(lease)), lease)))
            .min_by(|(one, _), (other, _)| one.cmp(other));
        match first {
            Some((theirs, lease)) if claim.is_none_or(|ours| theirs < ours) => Ownership::HeldByOther(lease),
            _ if !identity.holds_lease && self.is_listed => Ownership::Own,
            _ if own.is_none() || (wanted && claim.is_none()) => Ownership::Unclaimed,
            _ if own
                .zip(claim)
                .is_some_and(|(own, (at, _))| !self.is_settled(own, at)) =>
            {
                Ownership::Unclaimed
            }
            _ => Ownership::Own,
        }
    }

    /// Returns the liveness of a controller, by the identity on the labels of its objects.
    pub fn liveness(&self, controller: &str, now: Timestamp) -> Liveness<'_> {
        let now = self.frozen.unwrap_or(now);
        match &self.process_identity {
            // Objects of the Node tool have no controller, and neither has a command without a state directory.
            Some(identity) if identity.controller == controller && !controller.is_empty() => {
                return Liveness::Own;
            }
            Some(_) if self.is_listed => {}
            Some(_) | None => return Liveness::Unknown,
        }
        let mut of_controller = self
            .by_run
            .values()
            .filter(|lease| lease.spec.controller == controller);
        if let Some(lease) = of_controller.find(|lease| self.is_other_alive(lease, now)) {
            return Liveness::Alive(lease);
        }
        match self.gone.get(controller) {
            Some(at) if now < *at + GONE_GRACE => Liveness::LeaseLostRecently,
            Some(_) | None => Liveness::Dead,
        }
    }

    /// Returns whether a lease proves that a controller is dead: it expired, or its process no longer exists.
    ///
    /// A missing lease proves less: its holder may write it again.
    pub fn is_proven_dead(&self, controller: &str, now: Timestamp) -> bool {
        let has_lease = || {
            self.by_run
                .values()
                .any(|lease| lease.spec.controller == controller)
        };
        self.liveness(controller, now) == Liveness::Dead && (self.exited.contains(controller) || has_lease())
    }

    /// Returns whether this controller may take over an object of another controller in an environment of this controller.
    ///
    /// It may if the other controller is dead, or claims the environment as well and came later.
    pub fn can_take_over(&self, env: &EnvName, controller: &str, now: Timestamp) -> bool {
        match self.liveness(controller, now) {
            Liveness::Own | Liveness::LeaseLostRecently | Liveness::Dead => true,
            Liveness::Alive(lease) => lease.claimed_at(env).is_some(),
            Liveness::Unknown => false,
        }
    }

    /// Returns the next time at which a result of these methods changes without a new list.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        if self.frozen.is_some() {
            return None;
        }
        let ends = self.by_run.values().flat_map(|lease| {
            let end = lease.renewed_at + lease.spec.ttl;
            let unobserved = self.unobserved_until.map(|until| until + lease.spec.ttl);
            [
                Some(end),
                unobserved,
                Some(lease.renewed_at + validity_period(lease)),
            ]
        });
        let grace_ends = self.gone.values().map(|at| Some(*at + GONE_GRACE));
        ends.chain(grace_ends).flatten().filter(|at| *at > now).min()
    }

    /// Returns whether the lease belongs to another process and is alive.
    fn is_other_alive(&self, lease: &ControllerLease, now: Timestamp) -> bool {
        let ours = self.process_identity.as_ref().is_some_and(|identity| {
            identity.run == lease.spec.run || identity.state_dir == lease.spec.state_dir
        });
        !ours && self.is_fresh(lease, now)
    }

    fn is_fresh(&self, lease: &ControllerLease, now: Timestamp) -> bool {
        let ttl = lease.spec.ttl;
        let is_renewed = now.since(lease.renewed_at) < ttl;
        is_renewed || self.is_unreachable || self.unobserved_until.is_some_and(|until| now < until + ttl)
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
