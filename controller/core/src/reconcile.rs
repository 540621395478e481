//! One turn of the loop as a function of what is wanted, what is seen and what is remembered.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::connectivity::CheckResults;
use crate::desired::Accepted;
use crate::ident::{EnvName, HostPort, ServiceName};
use crate::lease::{Leases, Ownership};
use crate::observed::{Observed, Store};
use crate::outcome::{ActionError, Done};
use crate::plan::port::{Assignment, Claims};
use crate::plan::render::Rendered;
use crate::plan::{self, Deadlines, Plan, PlanInput, PortMap, Step, port, render};
use crate::preflight::PreflightSnapshot;
use crate::probe::HealthStates;
use crate::state::{PlannerState, observe};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

mod breakers;
mod expectations;
mod invalidation;
mod peers;

use peers::PeerLeases;

/// Who this controller is and how it publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerIdentity {
    /// Identity from the state directory; goes into `argusai.controller`.
    pub controller: String,
    /// This run; goes into `argusai.run-id`.
    pub run: String,
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
}

/// Everything a turn looks at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Accepted environments; rejected edits are not in here, their last good revision is.
    pub specs: &'a BTreeMap<EnvName, Arc<Accepted>>,
    /// The first scan of the spec folder is complete.
    pub scanned: bool,
    /// The engine as last seen.
    pub store: &'a Store,
    /// Verdicts of the probes.
    pub health: &'a HealthStates,
    /// Who else is at work on the engine.
    pub leases: &'a Leases,
    /// What people and agents asked for.
    pub requests: &'a UserRequests,
    /// The last look at engine and disk; `None`: nobody looks, and nothing waits for it.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// The time.
    pub now: Timestamp,
}

/// What a turn decided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReconcileResult {
    /// Acts to hand out now; they count as in flight from here on.
    pub actions: Vec<Step>,
    /// The plan of every environment that is desired or seen, as of its last change.
    pub plans: BTreeMap<EnvName, Arc<Plan>>,
    /// When to turn again even if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// The outcome of some act is unknown: ask the eyes for a full list.
    pub relist: bool,
    /// Something waits for a look at engine and disk.
    pub needs_preflight: bool,
}

/// The brain with its memory.
#[derive(Debug, Clone)]
pub struct Planner {
    identity: ControllerIdentity,
    deadlines: Deadlines,
    state: PlannerState,
    cache: BTreeMap<EnvName, Cached>,
    health: HealthStates,
    /// A spec came, changed or went: images may be wanted by nobody any more.
    specs_changed: bool,
    requests: UserRequests,
    /// What held others back is over: they are planned again at once.
    replan: bool,
    breakers_version: u64,
    peers: PeerLeases,
    /// The look at engine and disk that the plans were made with.
    preflight_at: Option<Timestamp>,
    /// The engine has said that its disk is full: a look will tell how full.
    disk_full: bool,
    /// Who was seen to reach whom.
    links: Arc<CheckResults>,
}

/// What an environment was planned from last; an environment whose inputs are unchanged is not planned again.
#[derive(Debug, Clone, Default)]
struct Cached {
    accepted: Option<Arc<Accepted>>,
    version: Option<u64>,
    ports: Assignment,
    rendered: Rendered,
    plan: Arc<Plan>,
    stale: bool,
}

impl Planner {
    /// A brain that remembers.
    pub fn new(identity: ControllerIdentity, memory: PlannerState) -> Self {
        Self {
            identity,
            deadlines: Deadlines::default(),
            state: memory,
            cache: BTreeMap::new(),
            health: HealthStates::new(),
            specs_changed: false,
            requests: UserRequests::default(),
            replan: false,
            breakers_version: 0,
            peers: PeerLeases::default(),
            preflight_at: None,
            disk_full: false,
            links: Arc::default(),
        }
    }

    /// The same, where calls are given other deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Self {
        Self { deadlines, ..self }
    }

    /// What it remembers.
    pub fn state(&self) -> &PlannerState {
        &self.state
    }

    /// Who it is.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Looks at everything, decides, and counts the steps to begin as in flight.
    pub fn reconcile(&mut self, inputs: &Inputs<'_>) -> ReconcileResult {
        let mut turn = ReconcileResult {
            relist: self.expire_expectations(inputs),
            needs_preflight: std::mem::take(&mut self.disk_full),
            ..ReconcileResult::default()
        };
        turn.relist |= self.update_breakers(inputs);
        if !inputs.scanned || !inputs.store.synced() {
            return self.plan_before_sync(inputs, turn);
        }
        self.prune(inputs);
        self.on_health_changed(inputs);
        self.observe_leases(inputs);
        self.on_preflight_changed(inputs);
        if self.requests != *inputs.requests {
            self.requests.clone_from(inputs.requests);
            self.invalidate_all();
        }
        let nothing = Arc::new(Observed::default());
        let envs: BTreeSet<EnvName> = inputs
            .specs
            .keys()
            .chain(inputs.store.environments().keys())
            .cloned()
            .collect();
        for env in &envs {
            if matches!(
                inputs.leases.ownership(env, true, inputs.now),
                Ownership::Theirs(_)
            ) {
                // What another controller does there is no failure, and none of our ports.
                continue;
            }
            let observed = inputs.store.of(env).unwrap_or(&nothing);
            self.state.observe(
                env,
                inputs.specs.get(env).map(AsRef::as_ref),
                observed,
                &observe::Context {
                    health: inputs.health,
                    outages: inputs.store.outages(),
                    requests: inputs.requests,
                    controller: &self.identity.controller,
                    now: inputs.now,
                },
            );
        }
        let mut claims = self.claims();
        for env in envs {
            let observed = inputs.store.of(&env).unwrap_or(&nothing);
            let accepted = inputs.specs.get(&env);
            if self.is_stale(&env, accepted, observed, inputs.now) {
                let steps = self.plan(&env, accepted, observed, inputs, &mut claims);
                turn.actions.extend(steps);
            }
            if let Some(cached) = self.cache.get(&env) {
                let wake = cached.plan.wake_at();
                turn.wake_at = [turn.wake_at, wake].into_iter().flatten().min();
                turn.needs_preflight |= cached.plan.waits.iter().any(|wait| wait.on.needs_preflight());
                turn.plans.insert(env, cached.plan.clone());
            }
        }
        let breakers = self.wake_for_breakers(turn.actions.is_empty(), inputs.now);
        let expected = self
            .state
            .expectations
            .values()
            .map(|expected| expected.until)
            .min();
        let leases = inputs.leases.next_change(inputs.now);
        turn.wake_at = [turn.wake_at, expected, breakers, leases]
            .into_iter()
            .flatten()
            .min();
        turn
    }

    /// Takes the outcome of a step in.
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

    /// A person asks for a new try: failures and spent budgets of an environment are forgotten.
    pub fn retry(&mut self, env: &EnvName) {
        // Before the first turn with an engine nothing is planned, and failures are remembered all the same.
        let accepted = self.cache.get(env).and_then(|cached| cached.accepted.clone());
        self.state
            .prune_failures(env, accepted.as_ref().map(|accepted| &accepted.desired));
        self.invalidate_all();
    }

    fn prune(&mut self, inputs: &Inputs<'_>) {
        let gone = self.state.prune(inputs.specs, inputs.store, inputs.now);
        if std::mem::take(&mut self.specs_changed) || gone {
            self.state.prune_images(inputs.specs);
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
        accepted: Option<&Arc<Accepted>>,
        observed: &Observed,
        inputs: &Inputs<'_>,
        claims: &mut Claims,
    ) -> Vec<Step> {
        let mut cached = self.cache.remove(env).unwrap_or_default();
        if let Some(mut plan) = self.plan_not_owned(env, accepted.map(AsRef::as_ref), inputs) {
            // What dead controllers left is there still, whoever is to act.
            let there = cached.plan.orphans.iter().filter(|orphan| orphan.is_in(observed));
            plan.orphans.extend(there.cloned());
            cached.version = Some(observed.version);
            cached.plan = Arc::new(plan);
            cached.accepted = accepted.cloned();
            cached.rendered = Rendered::default();
            cached.ports = Assignment::default();
            cached.stale = false;
            self.cache.insert(env.clone(), cached);
            return Vec::new();
        }
        if let Some(accepted) = accepted {
            let kept = self.state.environments.entry(env.clone()).or_default();
            let desired = &accepted.desired;
            let ports = port::assign(desired, kept, claims, &self.state.refused, inputs.now);
            let same = cached
                .accepted
                .as_ref()
                .is_some_and(|old| Arc::ptr_eq(old, accepted));
            self.specs_changed |= !same;
            if !same || cached.ports.ports != ports.ports || cached.rendered.is_empty() {
                cached.rendered = render::environment(desired, &ports.ports, &self.identity);
            }
            cached.ports = ports;
            claims.retain(|_, (by, _)| by != env);
            // Who insists on a port that another environment holds has no claim on it.
            let mut held = cached.ports.ports.clone();
            held.retain(|key, number| {
                let (number, protocol) = (*number, key.container.protocol);
                !claims.contains_key(&HostPort { number, protocol })
            });
            kept.remember_ports(desired, &held);
            claims.extend(claims_of(env, &held));
        }
        self.state.breakers.configure(env, accepted.map(AsRef::as_ref));
        let plan = plan::plan(&PlanInput {
            env,
            accepted: accepted.map(AsRef::as_ref),
            observed,
            state: &self.state,
            health: inputs.health,
            outages: inputs.store.outages(),
            ports: &cached.ports,
            rendered: &cached.rendered,
            identity: &self.identity,
            store: inputs.store,
            leases: inputs.leases,
            projects: &self.peers.projects,
            requests: inputs.requests,
            preflight: inputs.preflight,
            links: self.links.checks.get(env),
            now: inputs.now,
        });
        self.state.remember_reattached(self.links.checks.get(env), &plan);
        for step in &plan.steps {
            self.state.on_started(env, step, observed, inputs.now);
        }
        if let Some(accepted) = accepted
            && plan.unfinished(&accepted.desired.services).next().is_none()
            && let Some(kept) = self.state.environments.get_mut(env)
        {
            kept.last_good = Some(accepted.desired.revision.clone());
        }
        self.record_planned(env, &plan, inputs.now);
        let steps = plan.steps.clone();
        cached.accepted = accepted.cloned();
        cached.version = Some(observed.version);
        cached.plan = Arc::new(plan);
        cached.stale = false;
        self.cache.insert(env.clone(), cached);
        steps
    }

    fn claims(&self) -> Claims {
        self.state
            .environments
            .iter()
            .flat_map(|(env, kept)| claims_of(env, &kept.ports))
            .collect()
    }
}

fn claims_of(env: &EnvName, ports: &PortMap) -> Vec<(HostPort, (EnvName, ServiceName))> {
    ports
        .iter()
        .map(|(key, number)| {
            let host = HostPort {
                number: *number,
                protocol: key.container.protocol,
            };
            (host, (env.clone(), key.service.clone()))
        })
        .collect()
}
