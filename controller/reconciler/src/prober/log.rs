//! Log probe: successful once enough lines of a run match a pattern, and then until the run ends.
//!
//! One follower per run reads each line once, when the engine reports it. The prober counts a failure per interval while the follower
//! runs, so that `startPeriod`, `interval` and `retries` limit the time without a match as they do for other probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use argus_backend::{Backend, LogQuery, run_log};
use argus_core::desired::{LogSearch, ProbeHandler};
use argus_core::ident::{ContainerId, Hash};
use argus_core::time::Timestamp;
use futures::StreamExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::probe_history::ProbeResult;
use super::request::{describe_request, kind_label};
use super::{ProbeReply, ProbedContainer, Prober};
use crate::metrics::TaskMetrics;
use crate::supervise::task_set::TaskFailure;

/// A container with the number of its follower.
pub(super) type Follower = (ContainerId, u64);

/// Start of a run that was ready by its log, and the hash of the kind of that probe; `None` in older records.
pub type ReadyRun = (Option<Timestamp>, Option<Hash>);

/// Search of a log probe.
#[derive(Debug, Default)]
pub(super) enum LogState {
    /// No follower runs.
    #[default]
    Idle,
    /// A follower reads the lines.
    Running {
        number: u64,
        found: Arc<AtomicU32>,
        /// Ends the follower.
        _stop: DropGuard,
    },
    /// The follower ended without enough lines.
    Ended(String),
    /// Enough lines matched.
    Ready,
}

impl LogState {
    /// Ends a search without a result. The next probe starts it again.
    pub(super) fn stop(&mut self) {
        if !matches!(self, Self::Ready) {
            *self = Self::Idle;
        }
    }
}

impl<B: Backend> Prober<B> {
    /// Starts the search of a log probe that has none, and counts a failure while it has no result.
    pub(super) fn on_log_due(&mut self, id: ContainerId, generation: u64) {
        let now = self.clock.now();
        let Some(container) = self.containers.get_mut(&id) else {
            return;
        };
        let probe = &container.target.probe;
        let ProbeHandler::Log { pattern, times } = &probe.kind else {
            return;
        };
        let (mut result, is_first) = match &container.log {
            LogState::Ready => return,
            LogState::Idle => (missing(0, *times), true),
            LogState::Running { found, .. } => (missing(found.load(Ordering::Relaxed), *times), false),
            LogState::Ended(why) => (ProbeResult::unsent(why.clone()), false),
        };
        result.output = format!("{}: {}", describe_request(&probe.kind), result.output);
        if !matches!(container.log, LogState::Running { .. }) {
            match LogSearch::new(pattern, *times) {
                Ok(search) => {
                    self.generations += 1;
                    let (number, found, stop) = (
                        self.generations,
                        Arc::new(AtomicU32::new(0)),
                        CancellationToken::new(),
                    );
                    let (backend, since) = (self.backend.clone(), container.target.first_line_at);
                    let (follower, progress, stopped) = (id.clone(), found.clone(), stop.clone());
                    self.followers.start((id.clone(), number), async move {
                        tokio::select! {
                            () = stopped.cancelled() => Err("the search was stopped".to_owned()),
                            end = follow(&*backend, &follower, since, search, &progress) => end,
                        }
                    });
                    container.log = LogState::Running {
                        number,
                        found,
                        _stop: stop.drop_guard(),
                    };
                }
                Err(why) => container.log = LogState::Ended(format!("the pattern {why}")),
            }
        }
        // A run that is older than its limits still has its lines to be read.
        if is_first
            && container
                .history
                .becomes_unhealthy(&container.target.probe, &result, now)
        {
            let next = now + container.target.probe.interval;
            self.heap.push(next, id, generation);
            return;
        }
        count(&self.metrics, &container.target.probe.kind, &result);
        self.on_reply((id, generation), Ok(ProbeReply::Probed(result, None)));
    }

    /// Adds the end of a search. It is a success if enough lines matched.
    pub(super) fn on_log_end(
        &mut self,
        (id, number): &Follower,
        end: Result<Result<(), String>, TaskFailure>,
    ) {
        let now = self.clock.now();
        let is_current = |container: &&mut ProbedContainer| matches!(&container.log, LogState::Running { number: own, .. } if own == number);
        let Some(container) = self.containers.get_mut(id).filter(is_current) else {
            return;
        };
        let probe = &container.target.probe;
        container.log = match end {
            Ok(Ok(())) => LogState::Ready,
            Ok(Err(why)) => LogState::Ended(why),
            Err(failure) => LogState::Ended(format!("the probe itself failed: {failure:?}")),
        };
        if matches!(container.log, LogState::Ready) {
            let result = ProbeResult::success(format!("{}: matched", describe_request(&probe.kind)));
            count(&self.metrics, &probe.kind, &result);
            self.changed |= container.history.add(probe, result, now);
        }
    }
}

fn count(metrics: &TaskMetrics, kind: &ProbeHandler, result: &ProbeResult) {
    let labels = [kind_label(kind), result.label()];
    metrics.probes.with_label_values(&labels).inc();
}

fn missing(found: u32, times: u32) -> ProbeResult {
    let lines = if times == 1 { "line matches" } else { "lines match" };
    ProbeResult::failure(format!("{found} of {times} {lines}"))
}

/// Reads the lines of a run until enough of them match.
///
/// # Errors
/// The log ended before, or cannot be read.
async fn follow<B: Backend>(
    backend: &B,
    id: &ContainerId,
    since: Option<Timestamp>,
    mut search: LogSearch,
    found: &AtomicU32,
) -> Result<(), String> {
    let query = LogQuery {
        follow: true,
        timestamps: true,
        since,
        ..LogQuery::default()
    };
    let mut lines = backend.logs(id, query);
    while let Some(line) = lines.next().await {
        let line = line.map_err(|error| error.to_string())?;
        let is_complete = run_log::text_of_run(&line.text, since).is_some_and(|text| search.add(text));
        found.store(search.found(), Ordering::Relaxed);
        if is_complete {
            return Ok(());
        }
    }
    Err("the engine ended the log".to_owned())
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
