//! Connectivity task: checks the declared links of an environment once all its services are up, or some stay down. No check
//! begins while the environment starts. The task repeats the check after a change, and with a backoff while links fail.
//!
//! The task reads [`Snapshot`]s and publishes [`CheckResults`]. It runs one check at a time, and only while helper
//! containers are enabled and the mode permits new containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::{Backend, PROGRESS_TIMEOUT};
use argus_core::connectivity::{
    CheckRequest, CheckResults, ConnectivityCheck, LinkResult, LinkSource, Target, TargetResult,
};
use argus_core::ident::EnvName;
use argus_core::mode::Mode;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::snapshot::Snapshot;
use crate::supervise::task_set::{TaskFailure, TaskSet};

mod topology_inputs;

use topology_inputs::TopologyInputs;
pub(crate) use topology_inputs::{LinkState, link_state};

/// Delays before failed links are checked again; the last one repeats. They count from the second check on, because
/// a service that has just started may not listen yet.
const RETRY_DELAYS: [Duration; 6] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
];
/// Delay before a check with services that are down, after the start.
const DOWN_DELAY: Duration = Duration::from_secs(5);
/// Maximum time for which a start without progress holds back a check.
const MAX_HOLD: Duration = Duration::from_secs(60);
/// Grace period for a running check at a stop, so that no helper container remains.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Check schedule of one environment.
#[derive(Debug, Default)]
struct CheckSchedule {
    inputs: Option<TopologyInputs>,
    /// Next check; `None` if none is possible.
    request: Option<CheckRequest>,
    /// Time of the next check; `None` until something changes.
    due: Option<Timestamp>,
    /// Time until which the start of the environment holds back the check; `None` after the start.
    held_until: Option<Timestamp>,
    /// Number of consecutive checks with at least one failed link.
    failed_checks: usize,
}

impl CheckSchedule {
    /// Holds back the check while the environment starts, and again after each progress of the start.
    fn update_hold(&mut self, inputs: Option<&TopologyInputs>, is_starting: bool, now: Timestamp) {
        let held = self.held_until.take();
        if is_starting {
            let has_progress = self.inputs.as_ref().map(TopologyInputs::start_progress)
                != inputs.map(TopologyInputs::start_progress);
            self.held_until = held.filter(|_| !has_progress).or(Some(now + MAX_HOLD));
        } else if held.is_some() && self.has_down() {
            self.due = self.due.map(|due| due.max(now + DOWN_DELAY));
        }
    }

    fn has_down(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| !request.unverifiable.is_empty())
    }

    /// Time of the next check; `None` if none is possible or due.
    fn due_at(&self) -> Option<Timestamp> {
        let due = self.due.filter(|_| self.request.is_some())?;
        Some(self.held_until.map_or(due, |until| due.max(until)))
    }
}

struct ConnectivityTask<B> {
    backend: Arc<B>,
    clock: Clock,
    schedules: BTreeMap<EnvName, CheckSchedule>,
    tasks: TaskSet<EnvName, ConnectivityCheck>,
    results: CheckResults,
    engine_returned_at: Option<Timestamp>,
}

/// Checks links until `stop` is cancelled.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    results: watch::Sender<Arc<CheckResults>>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut task = ConnectivityTask {
        backend,
        clock,
        schedules: BTreeMap::new(),
        tasks: TaskSet::default(),
        results: CheckResults::clone(&results.borrow()),
        engine_returned_at: None,
    };
    if !task.results.helpers_allowed {
        return stop.cancelled().await;
    }
    loop {
        let can_check = {
            let snapshot = snapshots.borrow_and_update().clone();
            task.update_targets(&snapshot);
            can_check(&snapshot)
        };
        if can_check {
            task.start_next();
        }
        task.publish(&results);
        let wake = task.next_due().filter(|_| can_check && task.tasks.is_empty());
        let ended = tokio::select! {
            () = stop.cancelled() => {
                if !task.tasks.is_empty() {
                    drop(tokio::time::timeout(STOP_GRACE, task.tasks.next_ended()).await);
                }
                return;
            }
            changed = snapshots.changed() => if changed.is_err() { return } else { None },
            ended = task.tasks.next_ended() => Some(ended),
            () = clock.sleep_until(wake) => None,
        };
        if let Some((env, check)) = ended {
            task.on_checked(&env, check);
        }
    }
}

/// Reports whether helper containers may run. A helper is a container: it needs a mode that creates containers, and
/// an engine with a closed breaker and free disk space.
fn can_check(snapshot: &Snapshot) -> bool {
    let has_permission = match snapshot.mode {
        Mode::Full | Mode::Limited | Mode::Reduced => true,
        Mode::Minimal | Mode::Safe | Mode::Recovery => false,
    };
    let state = &snapshot.state;
    has_permission
        && snapshot.store.is_synced()
        && state.breakers.engine().is_closed()
        && state.disk_full.is_none()
}

impl<B: Backend> ConnectivityTask<B> {
    /// Updates the key of each environment, and schedules a check for each one that changed.
    fn update_targets(&mut self, snapshot: &Snapshot) {
        let back = snapshot
            .store
            .outages()
            .iter()
            .filter_map(|outage| outage.until)
            .max();
        self.engine_returned_at = self.engine_returned_at.max(back);
        let is_wanted = |env: &EnvName| {
            let accepted = snapshot.desired.get(env);
            accepted.is_some_and(|accepted| accepted.desired.verify_connectivity)
        };
        self.schedules.retain(|env, _| is_wanted(env));
        self.results.checks.retain(|env, _| is_wanted(env));
        for env in snapshot.desired.keys().filter(|env| is_wanted(env)) {
            let inputs = TopologyInputs::of(snapshot, env);
            let schedule = self.schedules.entry(env.clone()).or_default();
            if inputs.is_some() && schedule.inputs == inputs {
                // The health of all containers is shared with the other environments, and the old one is dropped.
                schedule.inputs = inputs;
                continue;
            }
            let request = inputs
                .as_ref()
                .and_then(|inputs| inputs.topology(self.engine_returned_at).request());
            let history = snapshot.state.history(env);
            let is_starting = inputs.as_ref().is_some_and(|inputs| inputs.is_starting(history));
            schedule.update_hold(inputs.as_ref(), is_starting, self.clock.now());
            schedule.inputs = inputs;
            let key = |request: &Option<CheckRequest>| request.as_ref().map(|request| request.key.clone());
            let is_same = key(&schedule.request) == key(&request);
            schedule.request = request;
            if is_same {
                continue;
            }
            if let Some(check) = self.results.checks.get_mut(env) {
                check.is_current = false;
            }
            let delay = if schedule.has_down() {
                DOWN_DELAY
            } else {
                Duration::ZERO
            };
            schedule.due = schedule.request.is_some().then(|| self.clock.now() + delay);
            schedule.failed_checks = 0;
        }
    }

    /// Starts the check that has been due for the longest time, unless one is running.
    fn start_next(&mut self) {
        let now = self.clock.now();
        let due = |(env, schedule): (&EnvName, &CheckSchedule)| {
            let at = schedule.due_at().filter(|at| *at <= now)?;
            Some((at, env.clone(), schedule.request.clone()?))
        };
        let next = self.schedules.iter().filter_map(due).min_by_key(|(at, ..)| *at);
        if let Some((_, env, request)) = next.filter(|_| self.tasks.is_empty()) {
            let (backend, clock) = (self.backend.clone(), self.clock);
            self.tasks
                .start(env, async move { check(&*backend, request, clock).await });
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.schedules.values().filter_map(CheckSchedule::due_at).min()
    }

    fn on_checked(&mut self, env: &EnvName, check: Result<ConnectivityCheck, TaskFailure>) {
        let Some(schedule) = self.schedules.get_mut(env) else {
            return;
        };
        let mut check = match check {
            Ok(check)
                if schedule
                    .request
                    .as_ref()
                    .is_some_and(|next| next.key == check.key) =>
            {
                check
            }
            // The topology changed during the check. Its own check is already scheduled.
            Ok(_) => return,
            Err(failure) => {
                tracing::error!(%env, ?failure, "connectivity check failed to run");
                let retry_at = self.clock.now() + RETRY_DELAYS[RETRY_DELAYS.len() - 1];
                schedule.due = schedule.request.is_some().then_some(retry_at);
                return;
            }
        };
        if check.is_worth_repeating() {
            let pause = RETRY_DELAYS[schedule.failed_checks.min(RETRY_DELAYS.len() - 1)];
            schedule.failed_checks += 1;
            schedule.due = Some(self.clock.now() + pause);
            check.retry_after = Some(pause);
            if schedule.failed_checks == 1 {
                return;
            }
        } else {
            schedule.failed_checks = 0;
            schedule.due = None;
        }
        let is_equal = |last: &&mut ConnectivityCheck| {
            last.is_current && last.key == check.key && last.link_results == check.link_results
        };
        if let Some(last) = self.results.checks.get_mut(env).filter(is_equal) {
            last.retry_after = check.retry_after;
        } else {
            tracing::info!(%env, links = check.link_results.len(), good = check.is_good(), "links checked");
            self.results.checks.insert(env.clone(), check);
        }
    }

    fn publish(&self, results: &watch::Sender<Arc<CheckResults>>) {
        results.send_if_modified(|published| {
            let differs = **published != self.results;
            if differs {
                *published = Arc::new(self.results.clone());
            }
            differs
        });
    }
}

/// Checks all links of an environment, one source service after the other.
pub async fn check<B: Backend>(backend: &B, request: CheckRequest, clock: Clock) -> ConnectivityCheck {
    let CheckRequest {
        key,
        sources,
        unverifiable,
    } = request;
    let mut links = Vec::new();
    for (from, targets) in &key.targets {
        let (unchecked, checked): (Vec<_>, Vec<_>) = targets
            .iter()
            .cloned()
            .partition(|target| unverifiable.contains_key(&target.to));
        let link = |target, result| LinkResult {
            from: from.clone(),
            target,
            result,
        };
        for target in unchecked {
            let reason = unverifiable.get(&target.to).cloned().unwrap_or_default();
            links.push(link(target, Err(reason)));
        }
        if checked.is_empty() {
            continue;
        }
        let reply = match sources.get(from) {
            None => Err(format!("`{from}` is not running")),
            Some(source) => check_source(backend, source, &checked).await,
        };
        for (at, target) in checked.into_iter().enumerate() {
            let result = match &reply {
                Ok(results) => results
                    .get(at)
                    .cloned()
                    .ok_or_else(|| "the check returned no result".to_owned()),
                Err(why) => Err(why.clone()),
            };
            links.push(link(target, result));
        }
    }
    links.sort_by(|a, b| (&a.from, &a.target).cmp(&(&b.from, &b.target)));
    ConnectivityCheck {
        key,
        at: clock.now(),
        retry_after: None,
        link_results: links,
        is_current: true,
    }
}

async fn check_source<B: Backend>(
    backend: &B,
    source: &LinkSource,
    targets: &[Target],
) -> Result<Vec<TargetResult>, String> {
    // The first check on an engine builds the helper image.
    let checked = tokio::time::timeout(PROGRESS_TIMEOUT, backend.check_links(source, targets)).await;
    let late = || ActionError::TimedOut(format!("no answer within {} s", PROGRESS_TIMEOUT.as_secs()));
    checked
        .unwrap_or_else(|_| Err(late()))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
