//! The verifier: looks who reaches whom once everybody is up, and again when something changed or does not work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::{Backend, NO_PROGRESS};
use argus_core::connectivity::{CheckKey, CheckResults, ConnectivityCheck, LinkResult, Topology};
use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::mode::Mode;
use argus_core::observed::{Observed, Outage};
use argus_core::outcome::ActionError;
use argus_core::plan::Plan;
use argus_core::probe::HealthStates;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::snapshot::Snapshot;
use crate::supervise::task_set::{TaskFailure, TaskSet};

mod link_state;

pub(crate) use link_state::{LinkState, link_state};

/// What does not work is looked at again after these, the last one for ever. It counts from the second look on: what
/// has just started may not listen yet.
const AGAIN: [Duration; 6] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
];
/// A look that is under way when the controller stops may end, so that nothing of it stays.
const LAST: Duration = Duration::from_secs(3);

/// All that a signature is made of, to see at a glance that it is the same as before.
#[derive(Debug, Clone, PartialEq)]
struct TopologyInputs {
    accepted: Shared<Accepted>,
    observed: Shared<Observed>,
    plan: Shared<Plan>,
    health: Shared<HealthStates>,
    outages: Vec<Outage>,
}

impl TopologyInputs {
    fn scene(&self, epoch: Option<Timestamp>) -> Topology<'_> {
        Topology {
            desired: &self.accepted.0.desired,
            observed: &self.observed.0,
            hashes: Some(&self.plan.0.hashes),
            health: &self.health.0,
            outages: &self.outages,
            epoch,
        }
    }
}

/// Equal when it is the same one.
#[derive(Debug, Clone)]
struct Shared<T>(Arc<T>);

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One environment, as far as looks at it are concerned.
#[derive(Debug, Default)]
struct Watched {
    seen: Option<TopologyInputs>,
    /// What a look would be taken of; `None`: somebody is not up.
    signature: Option<CheckKey>,
    /// When the next look is due; `None`: when something changes.
    due: Option<Timestamp>,
    /// Looks in a row that did not show all links working.
    in_vain: usize,
}

struct ConnectivityTask<B> {
    backend: Arc<B>,
    clock: Clock,
    watched: BTreeMap<EnvName, Watched>,
    tasks: TaskSet<EnvName, ConnectivityCheck>,
    results: CheckResults,
    epoch: Option<Timestamp>,
}

/// Verifies until it is stopped.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    books: watch::Sender<Arc<CheckResults>>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut verifier = ConnectivityTask {
        backend,
        clock,
        watched: BTreeMap::new(),
        tasks: TaskSet::default(),
        results: CheckResults::clone(&books.borrow()),
        epoch: None,
    };
    if !verifier.results.helpers {
        return stop.cancelled().await;
    }
    loop {
        let may_look = {
            let snapshot = snapshots.borrow_and_update().clone();
            verifier.update_targets(&snapshot);
            may_look(&snapshot)
        };
        if may_look {
            verifier.fire();
        }
        verifier.publish(&books);
        let wake = verifier
            .next_due()
            .filter(|_| may_look && verifier.tasks.is_empty());
        let ended = tokio::select! {
            () = stop.cancelled() => {
                if !verifier.tasks.is_empty() {
                    drop(tokio::time::timeout(LAST, verifier.tasks.next_ended()).await);
                }
                return;
            }
            changed = snapshots.changed() => if changed.is_err() { return } else { None },
            ended = verifier.tasks.next_ended() => Some(ended),
            () = clock.sleep_until(wake) => None,
        };
        if let Some((env, look)) = ended {
            verifier.take(&env, look);
        }
    }
}

/// A helper is a container that is made: not while nothing may be made, and not while nobody would start it.
fn may_look(snapshot: &Snapshot) -> bool {
    let at_work = match snapshot.mode {
        Mode::Full | Mode::Limited | Mode::Reduced => true,
        Mode::Minimal | Mode::Safe | Mode::Recovery => false,
    };
    let memory = &snapshot.state;
    at_work && snapshot.store.synced() && memory.breakers.engine().is_closed() && memory.disk_full.is_none()
}

impl<B: Backend> ConnectivityTask<B> {
    /// What a look would be taken of now, environment by environment; another one is due at once.
    fn update_targets(&mut self, snapshot: &Snapshot) {
        let back = snapshot
            .store
            .outages()
            .iter()
            .filter_map(|outage| outage.until)
            .max();
        self.epoch = self.epoch.max(back);
        let wanted: BTreeSet<&EnvName> = snapshot
            .desired
            .iter()
            .filter(|(_, accepted)| accepted.desired.verify_links)
            .map(|(env, _)| env)
            .collect();
        self.watched.retain(|env, _| wanted.contains(env));
        self.results.checks.retain(|env, _| wanted.contains(env));
        for env in wanted {
            let seen = ingredients(snapshot, env);
            let watched = self.watched.entry(env.clone()).or_default();
            if seen.is_some() && watched.seen == seen {
                continue;
            }
            let signature = seen.as_ref().and_then(|seen| seen.scene(self.epoch).due());
            watched.seen = seen;
            if watched.signature == signature {
                continue;
            }
            if let Some(look) = self.results.checks.get_mut(env) {
                look.is_current = false;
            }
            watched.due = signature.as_ref().map(|_| self.clock.now());
            watched.signature = signature;
            watched.in_vain = 0;
        }
    }

    /// Takes the look that is due for the longest time, one at a time.
    fn fire(&mut self) {
        let now = self.clock.now();
        let due = |(env, watched): (&EnvName, &Watched)| {
            let at = watched.due.filter(|at| *at <= now)?;
            Some((at, env.clone(), watched.signature.clone()?))
        };
        let next = self.watched.iter().filter_map(due).min_by_key(|(at, ..)| *at);
        if let Some((_, env, signature)) = next.filter(|_| self.tasks.is_empty()) {
            let (backend, clock) = (self.backend.clone(), self.clock);
            self.tasks
                .start(env, async move { look(&*backend, signature, clock).await });
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.watched.values().filter_map(|watched| watched.due).min()
    }

    fn take(&mut self, env: &EnvName, look: Result<ConnectivityCheck, TaskFailure>) {
        let Some(watched) = self.watched.get_mut(env) else {
            return;
        };
        let mut look = match look {
            Ok(look) if watched.signature.as_ref() == Some(&look.key) => look,
            // It changed meanwhile, and the look that follows from that is due.
            Ok(_) => return,
            Err(lost) => {
                tracing::error!(%env, ?lost, "a look was lost");
                watched.due = Some(self.clock.now() + AGAIN[AGAIN.len() - 1]);
                return;
            }
        };
        if look.is_good() {
            watched.in_vain = 0;
            watched.due = None;
        } else {
            let pause = AGAIN[watched.in_vain.min(AGAIN.len() - 1)];
            watched.in_vain += 1;
            watched.due = Some(self.clock.now() + pause);
            look.again = Some(pause);
            if watched.in_vain == 1 {
                return;
            }
        }
        let says_the_same = |last: &&mut ConnectivityCheck| {
            last.is_current && last.key == look.key && last.links == look.links
        };
        if let Some(last) = self.results.checks.get_mut(env).filter(says_the_same) {
            last.again = look.again;
        } else {
            tracing::info!(%env, links = look.links.len(), good = look.is_good(), "links");
            self.results.checks.insert(env.clone(), look);
        }
    }

    fn publish(&self, books: &watch::Sender<Arc<CheckResults>>) {
        books.send_if_modified(|told| {
            let differs = **told != self.results;
            if differs {
                *told = Arc::new(self.results.clone());
            }
            differs
        });
    }
}

fn ingredients(snapshot: &Snapshot, env: &EnvName) -> Option<TopologyInputs> {
    Some(TopologyInputs {
        accepted: Shared(snapshot.desired.get(env)?.clone()),
        observed: Shared(snapshot.store.of(env)?.clone()),
        plan: Shared(snapshot.plans.get(env)?.clone()),
        health: Shared(snapshot.health.clone()),
        outages: snapshot.store.outages().to_vec(),
    })
}

/// One look at all links of an environment, from one service after the other.
pub async fn look<B: Backend>(backend: &B, signature: CheckKey, clock: Clock) -> ConnectivityCheck {
    let mut links = Vec::new();
    for (from, targets) in &signature.targets {
        let seen = match signature.runs.get(from) {
            None => Err(format!("`{from}` does not run")),
            Some((id, _)) => {
                // The first look on an engine builds the image to look with.
                let looked = tokio::time::timeout(NO_PROGRESS, backend.check_links(id, targets)).await;
                let late = || ActionError::TimedOut(format!("no answer within {} s", NO_PROGRESS.as_secs()));
                looked
                    .unwrap_or_else(|_| Err(late()))
                    .map_err(|error| error.to_string())
            }
        };
        for (at, aim) in targets.iter().enumerate() {
            let seen = match &seen {
                Ok(seen) => seen
                    .get(at)
                    .cloned()
                    .ok_or_else(|| "nothing was said of it".to_owned()),
                Err(why) => Err(why.clone()),
            };
            links.push(LinkResult {
                from: from.clone(),
                target: aim.clone(),
                result: seen,
            });
        }
    }
    ConnectivityCheck {
        key: signature,
        at: clock.now(),
        again: None,
        links,
        is_current: true,
    }
}

#[cfg(test)]
mod tests;
