//! Pure reconcile pass: desired state, observed state and planner state in, actions and waits out.
//!
//! # Phases of one pass
//!
//! [`Planner::reconcile`] runs these phases in this order:
//!
//! 1. **Expire expectations.** Drop every expectation that the store proves. An expectation past its deadline requests a relist.
//! 2. **Update the breakers.** Read the engine's connection state and tick the cooldowns. A change invalidates all plans.
//! 3. **Wait for the first sync.** Without a complete list of the engine and a complete scan of the specs folder, the pass
//!    ends here. Every service then waits for [`WaitReason::Engine`](crate::wait::WaitReason::Engine) or
//!    [`WaitReason::Specs`](crate::wait::WaitReason::Specs).
//! 4. **Forget and invalidate.** Drop the state of absent environments. Mark the environments stale whose health, leases,
//!    requests or preflight snapshot changed.
//! 5. **Observe.** Fold the observed runs of every environment whose inputs changed into [`PlannerState`], except environments
//!    of another controller: their failures and ports are not ours.
//! 6. **Plan.** Plan every stale environment with [`plan::plan`], the most urgent restart first. Its steps count as in flight
//!    immediately, so that the next environment of the same pass already sees them.
//! 7. **Compute the next wake-up.** Take the earliest of all waits, expectations, breakers and leases.
//!
//! Invariant 1: the pass performs no I/O and reads no clock: the same [`Inputs`] and state give the same [`ReconcileResult`].
//! Invariant 2: planning settles in bounded rounds, and a settled plan is empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::{Deadlines, Step};
use crate::connectivity::CheckResults;
use crate::desired::Accepted;
use crate::ident::{EnvName, ProtocolPort, ResourceName};
use crate::lease::{ControllerLeases, Liveness};
use crate::observed::{Observed, Outage, Store};
use crate::outcome::{ActionError, Done};
use crate::plan::obstacle::Obstacles;
use crate::plan::port::{Assignment, PortReservations};
use crate::plan::render::Rendered;
use crate::plan::{self, ControllerIdentity, Plan, PlanInput, held_port, render};
use crate::preflight::PreflightSnapshot;
use crate::probe::HealthStates;
use crate::state::PlannerState;
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

mod breakers;
pub mod forecast;
mod invalidation;
mod observation;
mod obstacles;
mod peers;
mod requests;
mod reservations;
mod restart_queue;

use peers::LastLeaseInputs;
use reservations::Reserved;

/// Inputs of one pass.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Desired environments by name: the accepted specs after all overrides. An environment with a rejected edit has its last
    /// accepted revision here.
    pub specs: &'a BTreeMap<EnvName, Arc<Accepted>>,
    /// True after the first complete scan of the specs folder.
    pub scanned: bool,
    /// Last observed state of the engine.
    pub store: &'a Store,
    /// Probe results by container.
    pub health: &'a HealthStates,
    /// Controller leases of the last list, including the own lease.
    pub leases: &'a ControllerLeases,
    /// Requests of people and agents.
    pub requests: &'a UserRequests,
    /// Last preflight snapshot; `None` without a preflight task, and then nothing waits for one.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// Current time.
    pub now: Timestamp,
}

/// Result of one pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReconcileResult {
    /// Actions to submit now; they count as in flight from here on.
    pub steps: Vec<Step>,
    /// Plan of every desired or observed environment, as of its last change.
    ///
    /// The map is that of the last pass if no plan changed.
    pub plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// Time of the next pass if no event comes earlier.
    pub wake_at: Option<Timestamp>,
    /// True if the outcome of an action is unknown and a full list is needed.
    pub relist: bool,
    /// True if something waits for a preflight snapshot, or the last one is old.
    pub needs_preflight: bool,
}

/// Planner with its state.
#[derive(Debug, Clone)]
pub struct Planner {
    identity: ControllerIdentity,
    deadlines: Deadlines,
    state: PlannerState,
    cache: BTreeMap<EnvName, Cached>,
    /// Plans of the cache, as last returned.
    plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    health: HealthStates,
    /// A spec was added, changed or removed, so some images may be unused.
    specs_changed: bool,
    requests: UserRequests,
    /// A restriction on other environments ended in this pass: the next pass follows immediately.
    replan: bool,
    breakers_version: u64,
    peers: LastLeaseInputs,
    /// Obstacles of the last pass.
    obstacles: Obstacles,
    /// Number of released names in the last pass.
    released_seen: u64,
    /// Time of the preflight snapshot that the plans were made with.
    preflight_at: Option<Timestamp>,
    /// An action failed because the disk is full: the next pass requests a preflight snapshot.
    disk_full: bool,
    /// Last connectivity check of every environment.
    connectivity: Arc<CheckResults>,
    /// Outages of the engine in the last pass.
    outages: Vec<Outage>,
    /// Reserved host ports; `None` after a change of the assignments.
    reservations: Option<PortReservations>,
}

/// Last plan of an environment with its inputs. Unchanged inputs skip the planning.
#[derive(Debug, Clone, Default)]
struct Cached {
    accepted: Option<Arc<Accepted>>,
    version: Option<u64>,
    ports: Assignment,
    rendered: Rendered,
    /// Volumes of the rendered services.
    volumes: Vec<ResourceName>,
    plan: Arc<Plan>,
    stale: bool,
    /// The last observation or plan changed the state, so the next pass observes the environment again.
    observe_again: bool,
}

impl Planner {
    /// Creates a planner with the state of an earlier run.
    pub fn new(identity: ControllerIdentity, state: PlannerState) -> Self {
        Self {
            identity,
            deadlines: Deadlines::default(),
            state,
            cache: BTreeMap::new(),
            plans: Arc::default(),
            health: HealthStates::new(),
            specs_changed: false,
            requests: UserRequests::default(),
            replan: false,
            breakers_version: 0,
            peers: LastLeaseInputs::default(),
            obstacles: Obstacles::default(),
            released_seen: 0,
            preflight_at: None,
            disk_full: false,
            connectivity: Arc::default(),
            outages: Vec::new(),
            reservations: None,
        }
    }

    /// Replaces the deadlines of the engine calls.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// State of the planner.
    pub fn state(&self) -> &PlannerState {
        &self.state
    }

    /// Identity of this controller.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Runs one pass and counts the returned steps as in flight.
    pub fn reconcile(&mut self, inputs: &Inputs<'_>) -> ReconcileResult {
        let mut result = ReconcileResult {
            relist: self.expire_expectations(inputs),
            needs_preflight: std::mem::take(&mut self.disk_full),
            ..ReconcileResult::default()
        };
        result.relist |= self.update_breakers(inputs);
        if !inputs.scanned || !inputs.store.is_synced() {
            return self.plan_before_sync(inputs, result);
        }
        self.forget_absent(inputs);
        self.on_health_changed(inputs);
        self.observe_leases(inputs);
        self.on_preflight_changed(inputs);
        self.on_released(inputs);
        if self.requests != *inputs.requests {
            self.requests.clone_from(inputs.requests);
            self.invalidate_all();
        }
        let specs = inputs.specs;
        let observed_only = inputs.store.environments().keys();
        let observed_only = observed_only.filter(|env| !specs.contains_key(*env));
        let mut envs: Vec<&EnvName> = specs.keys().chain(observed_only).collect();
        envs.sort_unstable();
        self.observe(&envs, inputs);
        self.observe_obstacles(inputs);
        let nothing = Arc::new(Observed::default());
        let mut reserved = self.reservations();
        self.sort_by_urgency(&mut envs, inputs);
        for env in envs {
            let observed = inputs.store.of(env).unwrap_or(&nothing);
            let accepted = inputs.specs.get(env);
            if self.is_stale(env, accepted, observed, inputs.now) {
                let steps = self.plan(env, accepted, observed, inputs, &mut reserved);
                result.steps.extend(steps);
            }
            if let Some(cached) = self.cache.get(env) {
                let wake = cached.plan.wake_at();
                result.wake_at = [result.wake_at, wake].into_iter().flatten().min();
                result.needs_preflight |= cached.plan.waits.iter().any(|wait| wait.on.needs_preflight());
            }
        }
        self.recheck_disk(inputs, &mut result);
        result.plans = self.cached_plans();
        self.reservations = reserved.unchanged();
        let breakers = self.wake_for_breakers(result.steps.is_empty(), inputs.now);
        let expected = self
            .state
            .expectations
            .values()
            .map(|expected| expected.until)
            .min();
        let leases = inputs.leases.next_change(inputs.now);
        let histories = self.state.environments.values();
        let services = histories.flat_map(|history| history.services.values());
        let budgets = services.filter_map(|service| service.budget_resets_at);
        // The services of an environment without a file, or of another controller, keep their last time.
        let budgets = budgets.filter(|at| *at > inputs.now).min();
        result.wake_at = [result.wake_at, expected, breakers, leases, budgets]
            .into_iter()
            .flatten()
            .min();
        result
    }

    /// Folds the outcome of a step into the state.
    pub fn finished(
        &mut self,
        step: &Step,
        outcome: &Result<Done, ActionError>,
        store: &Store,
        now: Timestamp,
    ) {
        self.disk_full |= matches!(outcome, Err(ActionError::DiskFull(_)));
        self.state.on_finished(step, outcome, &self.deadlines, store, now);
        self.invalidate(&step.subject);
    }

    fn forget_absent(&mut self, inputs: &Inputs<'_>) {
        let gone = self.state.forget_absent(inputs.specs, inputs.store, inputs.now);
        if gone {
            self.reservations = None;
        }
        if std::mem::take(&mut self.specs_changed) || gone {
            self.state.forget_unused_images(inputs.specs);
        }
        let known = |env: &EnvName| inputs.specs.contains_key(env) || inputs.store.of(env).is_some();
        self.state.breakers.retain(known);
        self.cache.retain(|env, _| known(env));
    }

    fn is_stale(
        &self,
        env: &EnvName,
        accepted: Option<&Arc<Accepted>>,
        observed: &Observed,
        now: Timestamp,
    ) -> bool {
        let Some(cached) = self.cache.get(env) else {
            return true;
        };
        let same_spec = match (&cached.accepted, accepted) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let due = cached.plan.wake_at().is_some_and(|at| at <= now);
        cached.stale || !same_spec || due || cached.version != Some(observed.version)
    }

    fn plan(
        &mut self,
        env: &EnvName,
        file: Option<&Arc<Accepted>>,
        observed: &Observed,
        inputs: &Inputs<'_>,
        reserved: &mut Reserved,
    ) -> Vec<Step> {
        let mut cached = self.cache.remove(env).unwrap_or_default();
        if let Some(mut plan) = self.plan_not_owned(env, file.map(AsRef::as_ref), inputs) {
            // Orphans stay in the report, whichever controller acts here, until their controller returns.
            let is_dead = |controller: &str| inputs.leases.liveness(controller, inputs.now) == Liveness::Dead;
            let orphans = cached.plan.orphans.iter();
            let remaining = orphans.filter(|orphan| orphan.is_in(observed) && is_dead(&orphan.controller));
            plan.orphans.extend(remaining.cloned());
            cached.version = Some(observed.version);
            cached.plan = Arc::new(plan);
            cached.accepted = file.cloned();
            cached.rendered = Rendered::default();
            cached.ports = Assignment::default();
            cached.stale = false;
            self.cache.insert(env.clone(), cached);
            return Vec::new();
        }
        let exists = |name: &ResourceName| observed.volumes.contains_key(name.as_str());
        let of_compose = |key: &str| Some(inputs.store.compose_volume(env, key)?.0);
        let adopted = file.and_then(|file| file.with_present_volumes(exists, of_compose));
        let accepted = adopted.as_ref().or(file.map(AsRef::as_ref));
        if let Some(accepted) = accepted {
            let desired = &accepted.desired;
            let facts = (inputs.preflight, &self.identity);
            let before = self.state.history(env).map(|history| history.ports.clone());
            let state = &mut self.state;
            let mut ports = held_port::assign(desired, observed, state, &reserved.ports, facts, inputs.now);
            self.obstacles.block_ports(desired, &mut ports);
            let same = cached
                .accepted
                .as_ref()
                .zip(file)
                .is_some_and(|(old, file)| Arc::ptr_eq(old, file));
            self.specs_changed |= !same;
            let is_rendered = same && cached.volumes == desired.volumes && !cached.rendered.is_empty();
            if !is_rendered || cached.ports.ports != ports.ports {
                cached.rendered = render::render_all(desired, &ports.ports, &self.identity);
                cached.volumes.clone_from(&desired.volumes);
            }
            render::join_networks(&mut cached.rendered, desired, observed);
            cached.ports = ports;
            // A requested port that another environment has reserved is not recorded for this environment.
            let mut held = cached.ports.ports.clone();
            held.retain(|key, number| {
                let (number, protocol) = (*number, key.container.protocol);
                let holder = reserved.ports.get(&ProtocolPort::new(number, protocol));
                holder.is_none_or(|(by, _)| by == env)
            });
            let history = self.state.environments.entry(env.clone()).or_default();
            history.remember_ports(desired, &held);
            if before.as_ref() != Some(&held) {
                reserved.replace(env, &held);
            }
        }
        self.state.breakers.configure(env, accepted);
        let mut plan = plan::plan(&PlanInput {
            env,
            accepted,
            observed,
            state: &self.state,
            health: inputs.health,
            outages: inputs.store.outages(),
            ports: &cached.ports,
            rendered: &cached.rendered,
            identity: &self.identity,
            store: inputs.store,
            leases: inputs.leases,
            obstacles: &self.obstacles,
            projects: &self.peers.projects,
            requests: inputs.requests,
            preflight: inputs.preflight,
            connectivity_check: self.connectivity.checks.get(env),
            restart_claims: &self.restart_claims(env, inputs.now),
            now: inputs.now,
        });
        plan.is_left_to_others = accepted.is_none() && Self::is_left_to_others(observed, inputs);
        self.state
            .remember_reattached(self.connectivity.checks.get(env), &plan.steps);
        for step in &plan.steps {
            self.state.on_started(env, step, observed, inputs.now);
        }
        if let Some(accepted) = accepted
            && plan.unfinished(&accepted.desired.services).next().is_none()
            && let Some(history) = self.state.environments.get_mut(env)
            && history.last_ready.as_ref() != Some(&accepted.desired.revision)
        {
            Arc::make_mut(history).last_ready = Some(accepted.desired.revision.clone());
        }
        self.record_planned(env, &plan, inputs.now);
        let steps = plan.steps.clone();
        cached.observe_again |= !steps.is_empty();
        cached.accepted = file.cloned();
        cached.version = Some(observed.version);
        cached.plan = Arc::new(plan);
        cached.stale = false;
        self.cache.insert(env.clone(), cached);
        steps
    }
}
