//! Prober task: probes running containers and publishes their [`HealthStates`].
//!
//! It reads the desired state for the probes and the store for the containers. It publishes when the health of a
//! container changes, and pauses while the engine is unreachable.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::desired::ProbeHandler;
use argus_core::ident::{ContainerId, EnvName};
use argus_core::observed::Store;
use argus_core::probe::HealthStates;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Stopwatch};
use crate::metrics::TaskMetrics;
use crate::overrides::DesiredState;
use crate::supervise::task_set::{TaskFailure, TaskSet};

mod environments;
mod http;
mod late;
mod log;
mod pressure;
pub mod probe_history;
mod request;
mod target;
mod tcp;
mod tls;

pub use argus_core::published::Addresses;
use environments::ProbedEnvironment;
pub use log::ReadyRun;
use log::{Follower, LogState};
pub use pressure::Pressure;
use probe_history::{LATE_FACTOR, ProbeHistory, ProbeResult};
use request::{kind_label, probe_once};
use target::Target;

/// Maximum number of parallel probes. Each holds a socket until its timeout at most.
const MAX_PARALLEL: usize = 32;

/// Maximum age of the pressure before a probe. Reading it costs as much as a probe.
const PRESSURE_AGE: Duration = Duration::from_secs(1);

/// Outputs of the prober.
#[derive(Debug, Clone)]
pub struct ProberIo {
    /// Health of each probed container.
    pub healths: watch::Sender<Arc<HealthStates>>,
    /// Runs that were healthy before the start of the controller. Their log probes need no search.
    pub healthy_runs: BTreeMap<ContainerId, ReadyRun>,
    /// Reads the pressure of the host. `None` where the kernel does not measure it.
    pub pressure: fn(Timestamp) -> Option<Pressure>,
    /// Metrics of the probes.
    pub metrics: TaskMetrics,
}

/// Result of one task of the prober.
enum ProbeReply {
    /// A probe ended. After its timeout, its answer may still come.
    Probed(ProbeResult, Option<late::Request>),
    /// An inspect shows that the container still runs, so this result of its probe counts.
    Inspected(ProbeResult),
    /// An inspect shows that the probed run has ended.
    Ended,
}

struct ProbedContainer {
    target: Target,
    history: ProbeHistory,
    generation: u64,
    /// Search of a log probe.
    log: LogState,
}

struct Prober<B> {
    backend: Arc<B>,
    clock: Clock,
    addresses: Addresses,
    environments: BTreeMap<EnvName, ProbedEnvironment>,
    containers: BTreeMap<ContainerId, ProbedContainer>,
    /// True if a health differs from the published one.
    changed: bool,
    /// Newest pressure of the host, shared by all probes that start soon after it was read.
    pressure: Option<Pressure>,
    read_pressure: fn(Timestamp) -> Option<Pressure>,
    heap: DueProbes,
    tasks: TaskSet<(ContainerId, u64), ProbeReply>,
    /// Probes after their timeout, which need no slot.
    late_tasks: TaskSet<(ContainerId, u64), Option<Duration>>,
    /// Searches of log probes, each of a run.
    followers: TaskSet<Follower, Result<(), String>>,
    /// Containers whose log probe needs no search, because their run was ready before.
    ready_runs: BTreeMap<ContainerId, ReadyRun>,
    metrics: TaskMetrics,
    generations: u64,
    /// True if the engine runs on this host, whose pressure then affects the services.
    is_local: bool,
    /// True while the engine is reachable. Without it, a failed probe does not prove that a service failed.
    reachable: bool,
}

/// Probes until `stop` is cancelled.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    mut desired: watch::Receiver<Arc<DesiredState>>,
    mut stores: watch::Receiver<Arc<Store>>,
    io: ProberIo,
    addresses: Addresses,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut prober = Prober::new(backend, addresses, clock, (io.metrics, io.pressure));
    prober.ready_runs = io.healthy_runs;
    let mut has_new_inputs = true;
    loop {
        if has_new_inputs {
            let (desired, store) = (
                desired.borrow_and_update().clone(),
                stores.borrow_and_update().clone(),
            );
            prober.on_reachable(store.is_reachable());
            let updated = prober.update_environments(&desired, &store);
            tracing::trace!(updated, "environments to probe");
        }
        prober.start_due();
        prober.publish(&io.healths);
        // With all probe slots in use, the next result wakes the task, not the timer.
        let can_start = prober.reachable && prober.tasks.len() < MAX_PARALLEL;
        let wake = prober.heap.next_at().filter(|_| can_start);
        has_new_inputs = tokio::select! {
            () = stop.cancelled() => return,
            changed = desired.changed() => if changed.is_err() { return } else { true },
            changed = stores.changed() => if changed.is_err() { return } else { true },
            (key, reply) = prober.tasks.next_ended() => {
                prober.on_reply(key, reply);
                false
            }
            (key, took) = prober.late_tasks.next_ended() => {
                prober.on_late_answer(&key, took.ok().flatten());
                false
            }
            (follower, end) = prober.followers.next_ended() => {
                prober.on_log_end(&follower, end);
                false
            }
            () = clock.sleep_until(wake) => false,
        };
    }
}

impl<B: Backend> Prober<B> {
    fn new(
        backend: Arc<B>,
        addresses: Addresses,
        clock: Clock,
        (metrics, read_pressure): (TaskMetrics, fn(Timestamp) -> Option<Pressure>),
    ) -> Self {
        Self {
            backend,
            clock,
            addresses,
            environments: BTreeMap::new(),
            containers: BTreeMap::new(),
            changed: true,
            pressure: None,
            read_pressure,
            heap: DueProbes::default(),
            tasks: TaskSet::default(),
            late_tasks: TaskSet::default(),
            followers: TaskSet::default(),
            ready_runs: BTreeMap::new(),
            metrics,
            generations: 0,
            is_local: addresses.engine_host.is_none(),
            reachable: false,
        }
    }

    /// Restarts all probes after the engine is reachable again. Earlier results no longer count.
    fn on_reachable(&mut self, reachable: bool) {
        let now = self.clock.now();
        if reachable && !self.reachable {
            for (id, container) in &mut self.containers {
                self.generations += 1;
                container.generation = self.generations;
                container.history.reset_failures();
                container.log.stop();
                self.heap.push(now, id.clone(), container.generation);
                self.changed = true;
            }
        }
        self.reachable = reachable;
    }

    /// Starts the probes that are due while the engine is reachable.
    fn start_due(&mut self) {
        let now = self.clock.now();
        while self.reachable
            && self.tasks.len() < MAX_PARALLEL
            && let Some((id, generation)) = self.heap.pop_due(now)
        {
            let Some(container) = self
                .containers
                .get(&id)
                .filter(|container| container.generation == generation)
            else {
                continue;
            };
            if let ProbeHandler::Log { .. } = container.target.probe.kind {
                self.on_log_due(id, generation);
                continue;
            }
            let (backend, target, metrics) = (
                self.backend.clone(),
                container.target.clone(),
                self.metrics.clone(),
            );
            let (clock, before, read) = (self.clock, self.recent_pressure(now), self.read_pressure);
            self.tasks.start((id.clone(), generation), async move {
                let stopwatch = Stopwatch::start();
                let (mut reply, request) = probe_once(&*backend, &id, &target).await;
                if !reply.success {
                    reply.pressure = before.and_then(|before| Some((before, read(clock.now())?)));
                }
                let kind = kind_label(&target.probe.kind);
                let took = metrics.probe_seconds.with_label_values(&[kind]);
                took.observe(stopwatch.seconds());
                metrics.probes.with_label_values(&[kind, reply.label()]).inc();
                ProbeReply::Probed(reply, request)
            });
        }
    }

    /// Pressure of the host at most [`PRESSURE_AGE`] before `now`. `None` if the engine runs on another host.
    fn recent_pressure(&mut self, now: Timestamp) -> Option<Pressure> {
        let is_recent = |pressure: &Pressure| now.since(pressure.at()) < PRESSURE_AGE;
        if self.is_local && !self.pressure.as_ref().is_some_and(is_recent) {
            self.pressure = (self.read_pressure)(now);
        }
        self.pressure
    }

    fn on_reply(&mut self, (id, generation): (ContainerId, u64), mut reply: Result<ProbeReply, TaskFailure>) {
        let now = self.clock.now();
        let Some(container) = self
            .containers
            .get_mut(&id)
            .filter(|container| container.generation == generation)
        else {
            return;
        };
        if !self.reachable {
            return;
        }
        if let Ok(ProbeReply::Probed(_, request)) = &mut reply
            && let Some(request) = request.take()
            && self.late_tasks.len() < MAX_PARALLEL
            && container.history.awaits_late()
        {
            let limit = container.target.probe.timeout * LATE_FACTOR;
            self.late_tasks
                .start((id.clone(), generation), request.finish(limit));
        }
        let reply = match reply {
            Ok(ProbeReply::Ended) => {
                // The end is not observed yet, and the failed probe says nothing about the service.
                self.backend.request_relist();
                let next = now + container.target.probe.interval;
                self.heap.push(next, id, generation);
                return;
            }
            // The lines matched during the inspect.
            Ok(ProbeReply::Inspected(_)) if matches!(container.log, LogState::Ready) => return,
            Ok(ProbeReply::Probed(reply, _))
                if container
                    .history
                    .becomes_unhealthy(&container.target.probe, &reply, now) =>
            {
                self.start_inspect(id, generation, reply);
                return;
            }
            Ok(ProbeReply::Probed(reply, _) | ProbeReply::Inspected(reply)) => reply,
            Err(failure) => ProbeResult::failure(format!("the probe itself failed: {failure:?}")),
        };
        if container.history.add(&container.target.probe, reply, now)
            && let Some(health) = container.history.health()
        {
            // The output is omitted, because it may contain a secret. The status shows it redacted.
            tracing::info!(container = %id, verdict = ?health.status, "probe");
            self.changed = true;
        }
        let next: Timestamp = now + container.history.pause(&container.target.probe);
        self.heap.push(next, id, generation);
    }

    /// Adds the time of an answer that came after the timeout of its probe.
    fn on_late_answer(&mut self, (id, generation): &(ContainerId, u64), took: Option<Duration>) {
        let container = self.containers.get_mut(id);
        let container = container.filter(|container| container.generation == *generation);
        if let (Some(container), Some(took)) = (container, took) {
            self.changed |= container.history.add_late_answer(&container.target.probe, took);
        }
    }

    /// Inspects a container before a failed probe makes it unhealthy: the event of its end may be late.
    fn start_inspect(&mut self, id: ContainerId, generation: u64, reply: ProbeResult) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let (backend, started_at) = (self.backend.clone(), container.target.started_at);
        self.tasks.start((id.clone(), generation), async move {
            match backend.is_run_intact(&id, started_at).await {
                Ok(false) => ProbeReply::Ended,
                // Without an answer the probe decides.
                Ok(true) | Err(_) => ProbeReply::Inspected(reply),
            }
        });
    }

    fn publish(&mut self, healths: &watch::Sender<Arc<HealthStates>>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let states = self
            .containers
            .iter()
            .filter_map(|(id, container)| Some((id, container.history.health()?)));
        healths.send_if_modified(|published| {
            let same = published.len() == states.clone().count()
                && states
                    .clone()
                    .all(|(id, health)| published.get(id) == Some(health));
            if !same {
                *published = Arc::new(states.map(|(id, health)| (id.clone(), health.clone())).collect());
            }
            !same
        });
    }
}

/// Future probes, earliest first. An entry with an outdated generation is ignored.
#[derive(Debug, Default)]
struct DueProbes {
    due: BinaryHeap<Reverse<(Timestamp, ContainerId, u64)>>,
}

impl DueProbes {
    fn push(&mut self, at: Timestamp, id: ContainerId, generation: u64) {
        self.due.push(Reverse((at, id, generation)));
    }

    fn next_at(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<(ContainerId, u64)> {
        if self.next_at()? > now {
            return None;
        }
        self.due
            .pop()
            .map(|Reverse((_, id, generation))| (id, generation))
    }
}

#[cfg(test)]
mod tests;
