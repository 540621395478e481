//! The prober: asks running containers how they are, and publishes when a verdict flips.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::Backend;
use argus_core::desired::ProbeKind;
use argus_core::ident::ContainerId;
use argus_core::observed::Store;
use argus_core::probe::HealthStates;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Stopwatch};
use crate::metrics::Tally;
use crate::overrides::DesiredState;
use crate::supervise::task_set::{TaskFailure, TaskSet};

mod exec;
mod heap;
mod http;
pub mod probe_history;
mod target;
mod tcp;

use heap::Heap;
use probe_history::{ProbeHistory, ProbeReply};
pub use target::Addresses;
use target::Target;

/// Probes under way at once; each holds a socket, and none lasts longer than its timeout.
const AT_ONCE: usize = 32;

/// What it tells.
#[derive(Debug, Clone)]
pub struct ProberIo {
    /// The verdicts.
    pub healths: watch::Sender<Arc<HealthStates>>,
    /// How often it asks, and what it hears.
    pub tally: Tally,
}

struct Run {
    target: Target,
    row: ProbeHistory,
    generation: u64,
}

struct Prober<B> {
    backend: Arc<B>,
    clock: Clock,
    runs: BTreeMap<ContainerId, Run>,
    heap: Heap,
    tasks: TaskSet<(ContainerId, u64), ProbeReply>,
    tally: Tally,
    generations: u64,
    /// The engine answers: without it a bad answer says nothing of a service.
    here: bool,
}

/// Probes until it is stopped.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    mut desires: watch::Receiver<Arc<DesiredState>>,
    mut stores: watch::Receiver<Arc<Store>>,
    voice: ProberIo,
    places: Addresses,
    clock: Clock,
    stop: CancellationToken,
) {
    let tasks = TaskSet::default();
    let mut prober = Prober {
        backend,
        clock,
        runs: BTreeMap::new(),
        heap: Heap::default(),
        tasks,
        tally: voice.tally,
        generations: 0,
        here: false,
    };
    loop {
        {
            let (desires, store) = (
                desires.borrow_and_update().clone(),
                stores.borrow_and_update().clone(),
            );
            prober.meet(store.reachable());
            prober.update_targets(target::wanted(&desires, &store, places));
        }
        prober.fire();
        prober.publish(&voice.healths);
        // With all probes under way the next end wakes us, not the heap.
        let may_ask = prober.here && prober.tasks.len() < AT_ONCE;
        let wake = prober.heap.next_at().filter(|_| may_ask);
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            changed = desires.changed() => if changed.is_err() { return } else { None },
            changed = stores.changed() => if changed.is_err() { return } else { None },
            ended = prober.tasks.next_ended() => Some(ended),
            () = clock.sleep_until(wake) => None,
        };
        if let Some((label, answer)) = ended {
            prober.take(label, answer);
        }
    }
}

impl<B: Backend> Prober<B> {
    /// Takes up new runs, lets go of those that ended.
    fn update_targets(&mut self, wanted: BTreeMap<ContainerId, Target>) {
        let now = self.clock.now();
        self.runs.retain(|id, _| wanted.contains_key(id));
        for (id, target) in wanted {
            match self.runs.get_mut(&id) {
                Some(run)
                    if run.target.started_at == target.started_at && run.target.probe == target.probe =>
                {
                    if run.target.upstream != target.upstream {
                        // What it depends on runs anew: whether it got over that shows in its next answer.
                        self.generations += 1;
                        run.generation = self.generations;
                        self.heap.push(now, id, run.generation);
                    }
                    run.target = target;
                }
                Some(_) | None => {
                    self.generations += 1;
                    let generation = self.generations;
                    let row = ProbeHistory::new(&target.probe, target.started_at, now);
                    self.heap.push(now, id.clone(), generation);
                    self.runs.insert(
                        id,
                        Run {
                            target,
                            row,
                            generation,
                        },
                    );
                }
            }
        }
    }

    /// Once the engine is back, everything is asked anew at once; what was asked before that is void.
    fn meet(&mut self, here: bool) {
        let now = self.clock.now();
        if here && !self.here {
            for (id, run) in &mut self.runs {
                self.generations += 1;
                run.generation = self.generations;
                run.row.begin_anew();
                self.heap.push(now, id.clone(), run.generation);
            }
        }
        self.here = here;
    }

    /// Starts the probes that are due, if there is an engine.
    fn fire(&mut self) {
        let now = self.clock.now();
        while self.here
            && self.tasks.len() < AT_ONCE
            && let Some((id, generation)) = self.heap.pop_due(now)
        {
            let Some(run) = self.runs.get(&id).filter(|run| run.generation == generation) else {
                continue;
            };
            let (backend, target, tally) = (self.backend.clone(), run.target.clone(), self.tally.clone());
            self.tasks.start((id.clone(), generation), async move {
                let watch = Stopwatch::start();
                let answer = ask(&*backend, &id, &target).await;
                let kind = word(&target.probe.kind);
                let took = tally.probe_seconds.with_label_values(&[kind]);
                took.observe(watch.seconds());
                tally.probes.with_label_values(&[kind, answer.word()]).inc();
                answer
            });
        }
    }

    fn take(&mut self, (id, generation): (ContainerId, u64), answer: Result<ProbeReply, TaskFailure>) {
        let now = self.clock.now();
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.generation == generation) else {
            return;
        };
        if !self.here {
            return;
        }
        let answer =
            answer.unwrap_or_else(|lost| ProbeReply::bad(format!("the probe itself failed: {lost:?}")));
        if run.row.take(&run.target.probe, answer, now)
            && let Some(health) = run.row.health()
        {
            // Not what it said: that may hold a secret, and the status tells it without.
            tracing::info!(container = %id, verdict = ?health.status, "probe");
        }
        let next: Timestamp = now + run.row.pause(&run.target.probe);
        self.heap.push(next, id, generation);
    }

    fn publish(&self, healths: &watch::Sender<Arc<HealthStates>>) {
        let verdicts = self
            .runs
            .iter()
            .filter_map(|(id, run)| Some((id, run.row.health()?)));
        healths.send_if_modified(|book| {
            let same = book.len() == verdicts.clone().count()
                && verdicts.clone().all(|(id, health)| book.get(id) == Some(health));
            if !same {
                *book = Arc::new(
                    verdicts
                        .map(|(id, health)| (id.clone(), health.clone()))
                        .collect(),
                );
            }
            !same
        });
    }
}

/// What it asks by.
fn word(kind: &ProbeKind) -> &'static str {
    match kind {
        ProbeKind::Http { .. } => "http",
        ProbeKind::Tcp { .. } => "tcp",
        ProbeKind::Exec { .. } => "exec",
        ProbeKind::Docker => "docker",
    }
}

/// One probe, within its timeout.
async fn ask<B: Backend>(backend: &B, id: &ContainerId, target: &Target) -> ProbeReply {
    let question = async {
        match (&target.probe.kind, target.address) {
            (ProbeKind::Http { path, .. }, Some(address)) => http::probe(address, path).await,
            (ProbeKind::Tcp { .. }, Some(address)) => tcp::probe(address).await,
            (ProbeKind::Http { port, .. } | ProbeKind::Tcp { port }, None) => ProbeReply::none(format!(
                "port {port} is not published and the container has no address"
            )),
            (ProbeKind::Exec { command }, _) => exec::probe(backend, id, command).await,
            (ProbeKind::Docker, _) => ProbeReply::bad("the engine's own check is not asked from outside"),
        }
    };
    match tokio::time::timeout(target.probe.timeout, question).await {
        Ok(answer) => answer,
        Err(_) => ProbeReply::none(format!(
            "no answer within {} s",
            target.probe.timeout.as_secs_f32()
        )),
    }
}

#[cfg(test)]
mod tests;
