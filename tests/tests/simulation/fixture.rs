//! Fixture of the planner, the simulated engine and virtual time: one controller's life, with every invariant checked
//! at every reconcile pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::{CallId, Engine, FaultProfile, Model, SimEvent};
use argus_core::action::{Action, Step, Subject};
use argus_core::desired::networks::EnvNetwork;
use argus_core::desired::{Accepted, Desired, Service};
use argus_core::ident::{ContainerId, EnvName, ProtocolPort, ServiceName};
use argus_core::labels::{DEPENDS_ON, ENVIRONMENT, SERVICE};
use argus_core::lease::ControllerLeases;
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::outcome::ActionError;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::{EnvHistory, PlannerState};
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitReason;

use crate::specs::{accept, furnish, site};

pub(crate) const START: Timestamp = Timestamp(1_000_000_000);
const PROBED_AFTER: Duration = Duration::from_millis(300);
const SHORTEST: Duration = Duration::from_millis(10);

/// A kill of the controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crash {
    /// Number of calls until the kill.
    pub(crate) at: usize,
    /// The call at the kill is in progress: the engine executes it, but its result is lost.
    pub(crate) sent: bool,
    pub(crate) keeps_state: bool,
    /// Time until the next controller starts.
    pub(crate) away: Duration,
}

pub(crate) struct SimFixture {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    pub(crate) specs: BTreeMap<EnvName, Arc<Accepted>>,
    pub(crate) store: Store,
    pub(crate) planner: Planner,
    pub(crate) last: ReconcileResult,
    /// Everything that was started.
    pub(crate) started: Vec<(Timestamp, Step)>,
    /// Violations, each with its rule.
    pub(crate) broken: Vec<(&'static str, String)>,
    pub(crate) scanned: bool,
    /// Every action is executed twice.
    pub(crate) twice: bool,
    /// Services with an unhealthy probe, as `env/service`.
    pub(crate) sick: BTreeSet<String>,
    /// Healthy services whose last probe failed, as `env/service`.
    pub(crate) failing: BTreeSet<String>,
    pub(crate) requests: UserRequests,
    /// Facts about the host; `None` without a preflight task.
    pub(crate) preflight: Option<PreflightSnapshot>,
    /// The journal accepts no record: actions are refused before the engine receives them.
    pub(crate) journal_down: bool,
    /// Number of actions refused because of the journal.
    pub(crate) refused: usize,
    /// Host ports that the engine refused.
    pub(crate) refused_ports: usize,
    /// The next crash; `None` after it.
    pub(crate) crash: Option<Crash>,
    /// Number of crashes so far.
    pub(crate) crashes: usize,
    pub(crate) turns: u64,
    health: HealthStates,
    waiting: BTreeMap<CallId, Step>,
    probes: BTreeMap<ContainerId, (Option<Timestamp>, Timestamp)>,
    /// State on disk, if it is older than the state in memory.
    saved: Option<BTreeMap<EnvName, Arc<EnvHistory>>>,
    away_until: Option<Timestamp>,
}

impl SimFixture {
    pub(crate) fn new(seed: u64, faults: FaultProfile) -> Self {
        let mut engine = Engine::new(seed, faults);
        furnish(&mut engine.model);
        engine.start_watch(START);
        Self {
            engine,
            now: START,
            specs: BTreeMap::new(),
            store: Store::default(),
            planner: Planner::new(site(), PlannerState::default()),
            last: ReconcileResult::default(),
            started: Vec::new(),
            broken: Vec::new(),
            scanned: true,
            twice: false,
            sick: BTreeSet::new(),
            failing: BTreeSet::new(),
            requests: UserRequests::default(),
            preflight: None,
            journal_down: false,
            refused: 0,
            refused_ports: 0,
            crash: None,
            crashes: 0,
            turns: 0,
            health: HealthStates::new(),
            waiting: BTreeMap::new(),
            probes: BTreeMap::new(),
            saved: None,
            away_until: None,
        }
    }

    pub(crate) fn wants(&mut self, desired: Desired) {
        self.specs.insert(desired.env.clone(), accept(desired, self.now));
    }

    /// Kills the controller between two calls and starts it again, with its saved state or without.
    pub(crate) fn kill_controller(&mut self, away: Duration, keeps_state: bool) {
        let kept = self.saved.clone();
        let kept = kept.unwrap_or_else(|| self.planner.state().environments.clone());
        let environments = if keeps_state { kept } else { BTreeMap::new() };
        self.saved = self.journal_down.then(|| environments.clone());
        let memory = PlannerState {
            environments,
            ..PlannerState::default()
        };
        self.planner = Planner::new(site(), memory);
        self.store = Store::default();
        self.health.clear();
        self.probes.clear();
        self.waiting.clear();
        self.last = ReconcileResult::default();
        // A new controller starts without safe mode; a disk that is still full brings it back at the first action.
        self.requests.restrictions.safe_mode_reason = None;
        self.away_until = Some(self.now + away);
    }

    /// Fills the disk of the state directory: no record is written, and the saved state remains.
    pub(crate) fn fill_disk(&mut self) {
        self.journal_down = true;
        self.saved = Some(self.planner.state().environments.clone());
    }

    /// The journal is writable again, and a person resumes.
    pub(crate) fn resume(&mut self) {
        self.journal_down = false;
        self.saved = None;
        self.requests.restrictions.safe_mode_reason = None;
    }

    /// Suspends the host: all events of this time arrive together afterwards.
    pub(crate) fn sleep(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Runs until `end`.
    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while self.now < end {
            self.step(end);
        }
    }

    /// Runs until this many actions have started.
    pub(crate) fn run_until_started(&mut self, number: usize) {
        let end = self.now + Duration::from_secs(600);
        while self.started.len() < number && self.now < end {
            self.step(end);
        }
    }

    /// Runs until `seen` is true, with a limit.
    pub(crate) fn run_until_seen(&mut self, seen: impl Fn(&Self) -> bool) {
        let end = self.now + Duration::from_secs(600);
        while !seen(self) && self.now < end {
            self.step(end);
        }
    }

    /// Runs until it is idle or crashes, at most for `limit`. True if it is idle.
    pub(crate) fn run_to_rest_or_crash(&mut self, limit: Duration) -> bool {
        let crashes = self.crashes;
        let end = self.now + limit;
        while self.now < end && self.crashes == crashes {
            self.step(end);
            if self.rests() && self.shortfalls().is_empty() {
                return true;
            }
        }
        false
    }

    /// Runs until it is idle, at most for `limit`. True if it is.
    pub(crate) fn run_to_rest(&mut self, limit: Duration) -> bool {
        let end = self.now + limit;
        while self.now < end {
            self.step(end);
            if self.rests() && self.shortfalls().is_empty() {
                return true;
            }
        }
        false
    }

    /// Advances to the next event.
    fn step(&mut self, end: Timestamp) {
        let wake = self.last.wake_at.map(|at| at.max(self.now + SHORTEST));
        let probe = self
            .probes
            .values()
            .map(|(_, due)| *due)
            .filter(|due| *due > self.now)
            .min();
        let next = [self.engine.next_at(), wake, probe, self.away_until, Some(end)];
        let next = next.into_iter().flatten().min().unwrap_or(end);
        self.now = self.now.max(next);
        if self.away_until.is_some_and(|until| until <= self.now) {
            self.away_until = None;
            self.engine.start_watch(self.now);
        }
        let happened = self.engine.advance_until(self.now);
        if self.away_until.is_some() {
            return;
        }
        for happening in happened {
            match happening {
                SimEvent::Observed(seen) => self.store.apply(seen),
                SimEvent::Returned(ticket, outcome) => {
                    self.refused_ports += usize::from(matches!(outcome, Err(ActionError::PortTaken(_))));
                    if let Some(step) = self.waiting.remove(&ticket) {
                        self.planner.finished(&step, &outcome, &self.store, self.now);
                    }
                }
            }
        }
        self.turn();
    }

    pub(crate) fn turn(&mut self) {
        self.probe();
        let inputs = Inputs {
            leases: &ControllerLeases::default(),
            requests: &self.requests,
            specs: &self.specs,
            preflight: self.preflight.as_ref(),
            scanned: self.scanned,
            store: &self.store,
            health: &self.health,
            now: self.now,
        };
        self.turns += 1;
        let sampled = self.turns.is_multiple_of(64);
        let twin = sampled.then(|| self.planner.clone().reconcile(&inputs));
        let turn = self.planner.reconcile(&inputs);
        let mut broken = Vec::new();
        if twin.is_some_and(|twin| twin != turn) {
            broken.push(("pure", format!("{turn:?}")));
        }
        if sampled && turn.wake_at.is_none_or(|at| at > self.now) {
            // The pass skipped environments that seem unchanged. A planner that skips none must find nothing more to
            // do, except what the pass schedules immediately.
            let again = Planner::new(site(), self.planner.state().clone()).reconcile(&inputs);
            if !again.steps.is_empty() {
                broken.push((
                    "skipped",
                    format!("{:?}\ninstead of {:#?}", again.steps, turn.plans),
                ));
            }
        }
        self.broken.extend(broken);
        self.check(&turn);
        let mut turn = turn;
        let down = self.journal_down;
        let (refused, begin): (Vec<_>, Vec<_>) = turn
            .steps
            .iter()
            .cloned()
            .partition(|step| down && !matches!(step.action, Action::CollectEvidence { .. }));
        for step in &refused {
            let outcome = Err(ActionError::JournalUnwritable("no space left".to_owned()));
            self.planner.finished(step, &outcome, &self.store, self.now);
            self.refused += 1;
            self.requests.restrictions.safe_mode_reason = Some("no space left".to_owned());
            turn.wake_at = Some(self.now);
        }
        for step in &begin {
            if let Some(crash) = self.crash_now() {
                if crash.sent {
                    self.engine.begin(&step.action, self.now);
                }
                self.kill_controller(crash.away, crash.keeps_state);
                return;
            }
            let ticket = self.engine.begin(&step.action, self.now);
            if self.twice {
                self.engine.begin(&step.action, self.now);
            }
            self.waiting.insert(ticket, step.clone());
            self.started.push((self.now, step.clone()));
        }
        if turn.relist {
            self.engine.request_relist(self.now);
        }
        self.last = turn;
    }

    /// Returns the crash if the controller is killed at this call.
    fn crash_now(&mut self) -> Option<Crash> {
        match &mut self.crash {
            Some(crash) if crash.at > 0 => {
                crash.at -= 1;
                None
            }
            Some(_) => {
                self.crashes += 1;
                self.crash.take()
            }
            None => None,
        }
    }

    /// Probes of observed running containers report healthy after a while.
    fn probe(&mut self) {
        let now = self.now;
        if !self.store.is_reachable() {
            // No probe runs without an engine. Unhealthy services are probed again after it.
            self.health
                .retain(|_, health| health.status == ProbeStatus::Healthy);
            return;
        }
        for container in self.store.containers() {
            let started_at = container.inspect.as_ref().and_then(|facts| facts.started_at);
            if container.state != ContainerState::Running || started_at.is_none() {
                continue;
            }
            let due = self
                .probes
                .entry(container.id.clone())
                .or_insert((started_at, now + PROBED_AFTER));
            if due.0 != started_at {
                *due = (started_at, now + PROBED_AFTER);
            }
            let is_one_of = |names: &BTreeSet<String>| {
                !names.is_empty()
                    && container.owner().is_some_and(|owner| {
                        let service = owner.service.map(|name| name.to_string()).unwrap_or_default();
                        names.contains(&format!("{}/{service}", owner.environment))
                    })
            };
            let (sick, failing) = (is_one_of(&self.sick), is_one_of(&self.failing));
            let verdict = if sick {
                ProbeStatus::Unhealthy
            } else {
                ProbeStatus::Healthy
            };
            // A dead container answers no probe, also before its end is observed.
            let answers = || {
                let mut running = self
                    .engine
                    .model
                    .containers()
                    .filter(|it| it.state == ContainerState::Running);
                running.any(|it| it.id == container.id)
            };
            if due.1 <= now
                && self.health.get(&container.id).is_none_or(|seen| {
                    seen.started_at != started_at || seen.status != verdict || seen.failing != failing
                })
                && answers()
            {
                let seen = ProbedHealth {
                    status: verdict,
                    failing,
                    since: now,
                    started_at,
                    ..ProbedHealth::default()
                };
                self.health.insert(container.id.clone(), seen);
            }
        }
        let store = &self.store;
        self.probes.retain(|id, _| store.container(id).is_some());
        self.health.retain(|id, _| store.container(id).is_some());
    }

    fn check(&mut self, turn: &ReconcileResult) {
        let mut broken = Vec::new();
        let may_act = self.scanned && self.store.is_synced();
        if !turn.steps.is_empty() && self.requests.restrictions.safe_mode_reason.is_some() {
            broken.push(("safe", format!("{:?}", turn.steps)));
        }
        if !turn.steps.is_empty() && !may_act {
            broken.push(("blind", format!("{:?}", turn.steps)));
        }
        let mut subjects: BTreeSet<&Subject> = self.waiting.values().map(|step| &step.subject).collect();
        for step in &turn.steps {
            if !subjects.insert(&step.subject) {
                broken.push(("one action", format!("{:?}", step.subject)));
            }
            if let Some(lost) = self.lost_evidence(step) {
                broken.push(("evidence", lost));
            }
            if let Some(early) = self.early_stop(step) {
                broken.push(("order", early));
            }
        }
        for (env, accepted) in &self.specs {
            let plan = turn.plans.get(env);
            for service in accepted.desired.services.values() {
                let subject = Subject::Service {
                    environment: env.clone(),
                    service: service.name.clone(),
                };
                let output = plan.is_some_and(|plan| {
                    plan.steps.iter().any(|step| step.subject == subject)
                        || plan.waits.iter().any(|wait| wait.subject == subject)
                });
                if !output && !self.is_seen_up(env, service) {
                    broken.push(("reason", subject.to_string()));
                }
            }
        }
        self.broken.extend(
            broken
                .into_iter()
                .map(|(rule, what)| (rule, format!("{}: {what}", self.now.0 - START.0))),
        );
    }

    /// A violation if the container of a failed run is changed before its evidence is stored.
    fn lost_evidence(&self, step: &Step) -> Option<String> {
        let (
            Subject::Service { environment, service },
            Action::StartContainer { id }
            | Action::StopContainer { id, .. }
            | Action::RemoveContainer { id, .. },
        ) = (&step.subject, &step.action)
        else {
            return None;
        };
        let kept = self.planner.state().environments.get(environment)?;
        let last = kept.services.get(service)?.failures.last()?;
        (last.container == *id && last.evidence.is_none()).then(|| format!("{step:?}"))
    }

    /// A violation if a container of no file is ended while one that depends on it runs and is to be removed too. A dependent
    /// whose own stop failed is no violation.
    fn early_stop(&self, step: &Step) -> Option<String> {
        let id = step
            .action
            .container()
            .filter(|_| step.action.kind().ends_run())?;
        let ended = self.store.container(id).filter(|it| it.state.is_up())?;
        let owner = ended.owner().filter(|owner| owner.controller == "me")?;
        let service = owner.service.clone()?;
        let state = self.planner.state();
        let recorded = state
            .environments
            .get(&owner.environment)
            .map(|it| &it.depends_on);
        let accepted = self.specs.get(&owner.environment);
        let is_extra = |name: &ServiceName| {
            accepted.is_none_or(|accepted| !accepted.desired.services.contains_key(name))
        };
        let depends = |one: &Container, name: &ServiceName, other: &ServiceName| {
            let label = || {
                one.labels
                    .get(DEPENDS_ON)
                    .is_some_and(|all| all.split(',').any(|it| it == other.as_str()))
            };
            recorded
                .and_then(|all| all.get(name))
                .map_or_else(label, |all| all.contains(other))
        };
        let others = self.store.of(&owner.environment)?.containers.values();
        let mut dependents = others.filter(|other| other.state.is_up()).filter(|other| {
            let of_other = other
                .owner()
                .filter(|it| it.controller == "me")
                .and_then(|it| it.service);
            let subject = Subject::ExtraContainer { id: other.id.clone() };
            let of_other = of_other.filter(|_| !state.not_owned.contains(&other.id));
            of_other.is_some_and(|name| {
                is_extra(&name)
                    && depends(other, &name, &service)
                    && !depends(ended, &service, &name)
                    && !state.action_failures.contains_key(&subject)
            })
        });
        let first = dependents.next().filter(|_| is_extra(&service))?;
        Some(format!("{} before {}", ended.name, first.name))
    }

    fn is_seen_up(&self, env: &EnvName, service: &Service) -> bool {
        let done = service.one_shot
            && self
                .planner
                .state()
                .environments
                .get(env)
                .and_then(|kept| kept.services.get(&service.name))
                .is_some_and(|kept| kept.completed.is_some());
        let seen = self.store.of(env).into_iter();
        let mut mine = seen.flat_map(|seen| seen.containers.of(&service.name));
        // A successful job is complete, even if the state does not record it.
        let ended_well = |c: &Container| {
            let well = c.inspect.as_ref().is_some_and(|facts| facts.exit_code == 0);
            service.one_shot && c.state == ContainerState::Exited && well
        };
        done || mine.any(|c| c.state == ContainerState::Running || ended_well(c))
    }

    /// True if nothing is in flight, expected or planned, and no wait ends automatically or by time.
    pub(crate) fn rests(&self) -> bool {
        let idle = self.waiting.is_empty() && self.last.steps.is_empty() && self.away_until.is_none();
        idle && self.planner.state().expectations.is_empty()
            && self.store.is_synced()
            && self.last.plans.values().all(|plan| plan.is_settled())
    }

    /// Waits that only a person can end.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waits = self.last.plans.values().flat_map(|plan| &plan.waits);
        waits
            .map(|wait| format!("{}: {:?}", wait.subject, wait.on))
            .collect()
    }

    pub(crate) fn gave_up(&self) -> bool {
        let mut waits = self.last.plans.values().flat_map(|plan| &plan.waits);
        waits.any(|wait| matches!(wait.on, WaitReason::GaveUp { .. }))
    }

    /// Differences between the engine and the desired state.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let mut out = Vec::new();
        let model = &self.engine.model;
        for (env, accepted) in &self.specs {
            let desired = &accepted.desired;
            for network in desired.used_networks() {
                let networks = model.networks().filter(|n| n.name == network.name.as_str());
                match networks.collect::<Vec<_>>()[..] {
                    [found] if found.is_broken => out.push(format!("{env}: {} has no bridge", found.name)),
                    [_] => {}
                    _ => out.push(format!("{env}: not one network {}", network.name)),
                }
            }
            for service in desired.services.values() {
                let mine: Vec<&Container> = model
                    .containers()
                    .filter(|c| is_ours(c) && is_of(c, env, service))
                    .collect();
                let completed = self
                    .planner
                    .state()
                    .environments
                    .get(env)
                    .and_then(|kept| kept.services.get(&service.name));
                let done = service.one_shot && completed.is_some_and(|kept| kept.completed.is_some());
                let [one] = mine[..] else {
                    if !(mine.is_empty() && done) {
                        out.push(format!("{env}/{}: {} containers", service.name, mine.len()));
                    }
                    continue;
                };
                let attached = desired
                    .networks_of(service)
                    .all(|network| is_attached(model, one, service, &network));
                let facts = one.inspect.as_ref().unwrap();
                let up = if service.one_shot {
                    // A completed job stays complete, even if a late response to an earlier start ran it again.
                    one.state == ContainerState::Exited && (facts.exit_code == 0 || done)
                } else {
                    one.state == ContainerState::Running && attached
                };
                let version = service.env_vars.get("VERSION").map(|v| format!("VERSION={v}"));
                let current = version.is_none_or(|version| facts.config.environment.contains(&version));
                let ports = facts.config.bindings.len() == service.ports.len();
                if !up || !current || !ports || one.name != service.container_name.as_str() {
                    out.push(format!("{env}/{}: {one:?}", service.name));
                }
            }
        }
        for container in model.containers().filter(|c| is_ours(c)) {
            let owner = container.owner().unwrap();
            let desired = self
                .specs
                .get(&owner.environment)
                .map(|accepted| &accepted.desired);
            if !owner
                .service
                .is_some_and(|name| desired.is_some_and(|d| d.services.contains_key(&name)))
            {
                out.push(format!("orphaned container {}", container.name));
            }
        }
        for network in model
            .networks()
            .filter(|n| n.owner().is_some_and(|owner| owner.controller == "me"))
        {
            let mut used = self.specs.values().flat_map(|it| it.desired.used_networks());
            if !used.any(|used| used.name.as_str() == network.name) {
                out.push(format!("orphaned network {}", network.name));
            }
        }
        out
    }

    /// Number of calls without a result.
    pub(crate) fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Host ports of running containers.
    pub(crate) fn bound(&self) -> Vec<ProtocolPort> {
        let running = self
            .engine
            .model
            .containers()
            .filter(|c| c.state == ContainerState::Running);
        running
            .flat_map(|c| {
                c.inspect
                    .as_ref()
                    .unwrap()
                    .config
                    .bindings
                    .iter()
                    .map(|(_, host)| *host)
            })
            .collect()
    }

    /// Calls that changed something, by their verb.
    pub(crate) fn changes(&self) -> Vec<&'static str> {
        let calls = self.engine.model.calls().iter();
        calls
            .filter(|call| call.changed)
            .map(|call| call.action.verb())
            .collect()
    }
}

pub(crate) fn is_ours(container: &Container) -> bool {
    container.is_made_by("me") && container.owner().is_some()
}

/// True if the container belongs to this service of this environment.
/// True if a container is on the only network of this name, under the name and the aliases of its service.
fn is_attached(model: &Model, container: &Container, service: &Service, network: &EnvNetwork<'_>) -> bool {
    let Some(at) = container.networks.get(network.name.as_str()) else {
        return false;
    };
    let mut found = model.networks().filter(|n| n.name == network.name.as_str());
    let mut aliases = service.aliases_on(network);
    found.any(|found| at.network.as_ref() == Some(&found.id))
        && at.aliases.contains(&service.name.to_string())
        && aliases.all(|alias| at.aliases.contains(alias))
}

fn is_of(container: &Container, env: &EnvName, service: &Service) -> bool {
    let has = |label: &str, value: &str| container.labels.get(label).is_some_and(|found| found == value);
    has(ENVIRONMENT, env.as_str()) && has(SERVICE, service.name.as_str())
}
