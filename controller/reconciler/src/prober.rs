//! Prober task: probes running containers and publishes their [`HealthStates`].
//!
//! It reads the desired state for the probes and the store for the containers. It publishes when the health of a
//! container changes, and pauses while the engine is unreachable.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::Backend;
use argus_core::desired::ProbeHandler;
use argus_core::ident::ContainerId;
use argus_core::observed::Store;
use argus_core::probe::HealthStates;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Stopwatch};
use crate::metrics::TaskMetrics;
use crate::overrides::DesiredState;
use crate::supervise::task_set::{TaskFailure, TaskSet};

mod exec;
mod heap;
mod http;
mod pressure;
pub mod probe_history;
mod target;
mod tcp;

use heap::DueProbes;
use pressure::Pressure;
use probe_history::{ProbeHistory, ProbeResult};
pub use target::Addresses;
use target::Target;

/// Maximum number of parallel probes. Each holds a socket until its timeout at most.
const MAX_PARALLEL: usize = 32;

/// Outputs of the prober.
#[derive(Debug, Clone)]
pub struct ProberIo {
    /// Health of each probed container.
    pub healths: watch::Sender<Arc<HealthStates>>,
    /// Metrics of the probes.
    pub metrics: TaskMetrics,
}

/// Result of one task of the prober.
enum ProbeReply {
    /// A probe ended.
    Probed(ProbeResult),
    /// An inspect shows that the container still runs, so this result of its probe counts.
    Inspected(ProbeResult),
    /// An inspect shows that the probed run has ended.
    Ended,
}

struct ProbedContainer {
    target: Target,
    history: ProbeHistory,
    generation: u64,
}

struct Prober<B> {
    backend: Arc<B>,
    clock: Clock,
    containers: BTreeMap<ContainerId, ProbedContainer>,
    heap: DueProbes,
    tasks: TaskSet<(ContainerId, u64), ProbeReply>,
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
    let tasks = TaskSet::default();
    let mut prober = Prober {
        backend,
        clock,
        containers: BTreeMap::new(),
        heap: DueProbes::default(),
        tasks,
        metrics: io.metrics,
        generations: 0,
        is_local: addresses.engine_host.is_none(),
        reachable: false,
    };
    loop {
        {
            let (desired, store) = (
                desired.borrow_and_update().clone(),
                stores.borrow_and_update().clone(),
            );
            prober.on_reachable(store.is_reachable());
            prober.update_targets(target::wanted(&desired, &store, addresses));
        }
        prober.start_due();
        prober.publish(&io.healths);
        // With all probe slots in use, the next result wakes the task, not the timer.
        let can_start = prober.reachable && prober.tasks.len() < MAX_PARALLEL;
        let wake = prober.heap.next_at().filter(|_| can_start);
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            changed = desired.changed() => if changed.is_err() { return } else { None },
            changed = stores.changed() => if changed.is_err() { return } else { None },
            ended = prober.tasks.next_ended() => Some(ended),
            () = clock.sleep_until(wake) => None,
        };
        if let Some((key, reply)) = ended {
            prober.on_reply(key, reply);
        }
    }
}

impl<B: Backend> Prober<B> {
    /// Adds new containers and drops those that ended.
    fn update_targets(&mut self, wanted: BTreeMap<ContainerId, Target>) {
        let now = self.clock.now();
        self.containers.retain(|id, _| wanted.contains_key(id));
        for (id, target) in wanted {
            match self.containers.get_mut(&id) {
                Some(container)
                    if container.target.started_at == target.started_at
                        && container.target.probe == target.probe =>
                {
                    if container.target.dependencies_started_at != target.dependencies_started_at {
                        // A dependency was restarted: the next probe shows whether the service recovered.
                        self.generations += 1;
                        container.generation = self.generations;
                        self.heap.push(now, id, container.generation);
                    }
                    container.target = target;
                }
                Some(_) | None => {
                    self.generations += 1;
                    let generation = self.generations;
                    let history = ProbeHistory::new(&target.probe, target.started_at, now);
                    self.heap.push(now, id.clone(), generation);
                    self.containers.insert(
                        id,
                        ProbedContainer {
                            target,
                            history,
                            generation,
                        },
                    );
                }
            }
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
                self.heap.push(now, id.clone(), container.generation);
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
            let (backend, target, metrics) = (
                self.backend.clone(),
                container.target.clone(),
                self.metrics.clone(),
            );
            let (clock, is_local) = (self.clock, self.is_local);
            let read_pressure = move || is_local.then(|| Pressure::read(clock.now())).flatten();
            self.tasks.start((id.clone(), generation), async move {
                let (stopwatch, before) = (Stopwatch::start(), read_pressure());
                let mut reply = probe_once(&*backend, &id, &target).await;
                if !reply.success {
                    reply.pressure = before.zip(read_pressure());
                }
                let kind = kind_label(&target.probe.kind);
                let took = metrics.probe_seconds.with_label_values(&[kind]);
                took.observe(stopwatch.seconds());
                metrics.probes.with_label_values(&[kind, reply.label()]).inc();
                ProbeReply::Probed(reply)
            });
        }
    }

    fn on_reply(&mut self, (id, generation): (ContainerId, u64), reply: Result<ProbeReply, TaskFailure>) {
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
        let reply = match reply {
            Ok(ProbeReply::Ended) => {
                // The end is not observed yet, and the failed probe says nothing about the service.
                self.backend.request_relist();
                let next = now + container.target.probe.interval;
                self.heap.push(next, id, generation);
                return;
            }
            Ok(ProbeReply::Probed(reply))
                if container
                    .history
                    .becomes_unhealthy(&container.target.probe, &reply, now) =>
            {
                self.start_inspect(id, generation, reply);
                return;
            }
            Ok(ProbeReply::Probed(reply) | ProbeReply::Inspected(reply)) => reply,
            Err(failure) => ProbeResult::failure(format!("the probe itself failed: {failure:?}")),
        };
        if container.history.add(&container.target.probe, reply, now)
            && let Some(health) = container.history.health()
        {
            // The output is omitted, because it may contain a secret. The status shows it redacted.
            tracing::info!(container = %id, verdict = ?health.status, "probe");
        }
        let next: Timestamp = now + container.history.pause(&container.target.probe);
        self.heap.push(next, id, generation);
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

    fn publish(&self, healths: &watch::Sender<Arc<HealthStates>>) {
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

/// Value of the metric label `kind`.
fn kind_label(kind: &ProbeHandler) -> &'static str {
    match kind {
        ProbeHandler::Http { .. } => "http",
        ProbeHandler::Tcp { .. } => "tcp",
        ProbeHandler::Exec { .. } => "exec",
        ProbeHandler::Docker => "docker",
    }
}

/// Request of a probe in words, such as `GET /healthz on :8080`. Queries and arguments are omitted, because they may
/// contain secrets.
fn describe_request(kind: &ProbeHandler) -> String {
    match kind {
        ProbeHandler::Http { path, port } => {
            let path = path.split('?').next().unwrap_or_default();
            format!("GET {path} on :{port}")
        }
        ProbeHandler::Tcp { port } => format!("connect to :{port}"),
        ProbeHandler::Exec { command } => {
            let program = command.first().and_then(|text| text.split_whitespace().next());
            format!("exec {}", program.unwrap_or_default())
        }
        ProbeHandler::Docker => "HEALTHCHECK of the image".to_owned(),
    }
}

/// Runs one probe within its timeout. Its output contains the request and the response.
async fn probe_once<B: Backend>(backend: &B, id: &ContainerId, target: &Target) -> ProbeResult {
    let reply = send_once(backend, id, target).await;
    let is_silent = reply.sent && !reply.answered;
    let response = match target.own_address.filter(|_| is_silent) {
        // The engine's port proxy accepts connections to ports without a listener.
        Some(own_address) if tcp::is_refused(own_address).await => tcp::REFUSED,
        Some(_) | None => &reply.output,
    };
    let output = format!("{}: {response}", describe_request(&target.probe.kind));
    ProbeResult { output, ..reply }
}

async fn send_once<B: Backend>(backend: &B, id: &ContainerId, target: &Target) -> ProbeResult {
    let attempt = async {
        match (&target.probe.kind, target.address) {
            (ProbeHandler::Http { path, .. }, Some(address)) => http::probe(address, path).await,
            (ProbeHandler::Tcp { .. }, Some(address)) => tcp::probe(address).await,
            (ProbeHandler::Http { port, .. } | ProbeHandler::Tcp { port }, None) => ProbeResult::no_reply(
                format!("port {port} is not published and the container has no address"),
            ),
            (ProbeHandler::Exec { command }, _) => exec::probe(backend, id, command).await,
            (ProbeHandler::Docker, _) => ProbeResult::failure("the engine runs this health check itself"),
        }
    };
    match tokio::time::timeout(target.probe.timeout, attempt).await {
        Ok(reply) => reply,
        Err(_) => ProbeResult::no_reply(format!(
            "no answer within {} s",
            target.probe.timeout.as_secs_f32()
        )),
    }
}

#[cfg(test)]
mod tests;
