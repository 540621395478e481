//! Supervisor: named tasks whose ends are detected. Invariant 12: a critical task is restarted within a budget, or ends the controller
//! with its name and reason.

use std::any::Any;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use argus_core::journal::Event;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::journal::Journal;

pub mod heartbeat;
pub mod restart_budget;
pub mod task_set;
pub mod watchdog;

pub use heartbeat::{Heartbeat, Heartbeats};
pub use restart_budget::TaskRestartBudget;

/// Maximum number of restarts of one task within [`RESTART_SPAN`].
pub const MAX_TASK_RESTARTS: usize = 5;
/// Time span of the restart budget.
pub const RESTART_SPAN: Duration = Duration::from_secs(300);
/// Delay before the first restart; the n-th restart waits n times as long.
const FIRST_TASK_RESTART_DELAY: Duration = Duration::from_millis(100);

/// Effect of the permanent end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    /// The controller ends with it.
    Critical,
    /// The controller continues without it, and logs the end.
    Useful,
}

/// A critical task ended permanently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task `{task}` failed after {restarts} restarts: {reason}")]
pub struct TaskDied {
    /// Name of the task.
    pub task: &'static str,
    /// Number of restarts within the budget.
    pub restarts: usize,
    /// Reason of the last end.
    pub reason: String,
}

/// Owner of all tasks.
#[derive(Debug)]
pub struct Supervisor {
    clock: Clock,
    stop: CancellationToken,
    tracker: TaskTracker,
    failures: mpsc::Sender<TaskDied>,
    died: mpsc::Receiver<TaskDied>,
    heartbeats: Heartbeats,
    /// Journal of the ends of tasks. Its own writer is a task as well.
    journal: Arc<OnceLock<Journal>>,
}

impl Supervisor {
    /// Creates a supervisor whose tasks end when `stop` is cancelled.
    pub fn new(clock: Clock, stop: CancellationToken) -> Self {
        // Capacity one: the first failure ends the controller, and later ones are only logged.
        let (failures, died) = mpsc::channel(1);
        Self {
            clock,
            stop,
            tracker: TaskTracker::new(),
            failures,
            died,
            heartbeats: Heartbeats::default(),
            journal: Arc::default(),
        }
    }

    /// Records the ends of tasks in this journal from now on.
    pub fn record_in(&self, journal: Journal) {
        // There is one journal.
        let _already_set = self.journal.set(journal);
    }

    /// Heartbeats of the tasks.
    pub fn heartbeats(&self) -> &Heartbeats {
        &self.heartbeats
    }

    /// Runs a restartable task: an end before the stop restarts it, within the budget.
    pub fn spawn<F, T>(&self, name: &'static str, importance: Importance, mut factory: F)
    where
        F: FnMut() -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let mut budget = TaskRestartBudget::new(MAX_TASK_RESTARTS, RESTART_SPAN);
        let (clock, stop, tracker) = (self.clock, self.stop.clone(), self.tracker.clone());
        let report = self.reporter(name, importance);
        let (heartbeat, journal) = (self.heartbeats.of(name), self.journal.clone());
        self.monitor_task(async move {
            loop {
                let (heartbeat, task) = (heartbeat.clone(), factory());
                let reason = run_to_end(&tracker, async move { heartbeat.reply_during(task).await }).await;
                if stop.is_cancelled() {
                    return;
                }
                let Some(restarts) = budget.spend(clock.now()) else {
                    report(MAX_TASK_RESTARTS, reason);
                    return;
                };
                tracing::error!(task = name, restarts, reason, "task ended, restarting it");
                record_end(&journal, name, &reason, true, false);
                let pause = FIRST_TASK_RESTART_DELAY * u32::try_from(restarts).unwrap_or(1);
                let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        });
    }

    /// Runs a task that cannot be restarted, because it owns resources that exist once.
    pub fn spawn_once(
        &self,
        name: &'static str,
        importance: Importance,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, tracker) = (self.stop.clone(), self.tracker.clone());
        let report = self.reporter(name, importance);
        let (heartbeat, heartbeats) = (self.heartbeats.of(name), self.heartbeats.clone());
        self.monitor_task(async move {
            let reason = run_to_end(&tracker, async move { heartbeat.reply_during(task).await }).await;
            heartbeats.forget(name);
            if !stop.is_cancelled() {
                report(0, reason);
            }
        });
    }

    /// Waits until a critical task fails or the stop is requested, and then at most `grace` for all tasks.
    ///
    /// The stop token ends every task that only observes. Its own jobs, such as probes, end with it. The other futures have these owners:
    ///
    /// - The reconciler owns the actions in flight. It waits for them, publishes its last snapshot and drops its senders.
    /// - A writer owns its pending write, and the lease its release. Both end when the channel that they read is closed, so none misses that
    ///   snapshot, and no other controller takes over before the last action.
    /// - [`Running`](crate::run::Running) owns the marker of a clean stop, which follows all tasks, and the lock, which goes last.
    ///
    /// After `grace`, this function aborts nothing: the end of the process ends the rest, such as a write that hangs.
    pub async fn run(mut self, grace: Duration) -> Result<(), TaskDied> {
        let died = tokio::select! {
            died = self.died.recv() => died,
            () = self.stop.cancelled() => None,
        };
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::error!(
                tasks = self.tracker.len(),
                "tasks did not end within the grace period"
            );
        }
        // A failure during the stop counts, too.
        died.or_else(|| self.died.try_recv().ok()).map_or(Ok(()), Err)
    }

    fn reporter(
        &self,
        task: &'static str,
        importance: Importance,
    ) -> impl Fn(usize, String) + Send + 'static + use<> {
        let (failures, heartbeats) = (self.failures.clone(), self.heartbeats.clone());
        let journal = self.journal.clone();
        move |restarts, reason| {
            heartbeats.forget(task);
            record_end(&journal, task, &reason, false, importance == Importance::Critical);
            tracing::error!(task, restarts, reason, "task ended permanently");
            match importance {
                Importance::Critical => {
                    let _later_ones_are_logged_only = failures.try_send(TaskDied {
                        task,
                        restarts,
                        reason,
                    });
                }
                Importance::Useful => {}
            }
        }
    }

    fn monitor_task(&self, monitor: impl Future<Output = ()> + Send + 'static) {
        drop(self.tracker.spawn(monitor));
    }
}

fn record_end(journal: &OnceLock<Journal>, task: &str, reason: &str, restarts: bool, critical: bool) {
    if let Some(journal) = journal.get() {
        journal.record_event(Event::TaskEnded {
            task: task.to_owned(),
            reason: reason.to_owned(),
            restarts,
            critical,
        });
    }
}

async fn run_to_end(tracker: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) -> String {
    match tracker.spawn(task).await {
        Ok(()) => "it returned".to_owned(),
        Err(error) => match error.try_into_panic() {
            Ok(payload) => format!("it panicked: {}", panic_message(payload.as_ref())),
            Err(_) => "it was aborted".to_owned(),
        },
    }
}

/// Text of a panic.
fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use argus_core::time::Timestamp;

    use super::*;
    use crate::journal::handle;
    use crate::supervise::task_set::TaskSet;

    fn supervisor() -> (Supervisor, CancellationToken) {
        let stop = CancellationToken::new();
        (
            Supervisor::new(Clock::virtual_from(Timestamp(0)), stop.clone()),
            stop,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_panics_end_the_supervisor_with_the_task_name() {
        let (supervisor, _stop) = supervisor();
        let starts = Arc::new(AtomicUsize::new(0));
        let counter = starts.clone();
        supervisor.spawn("informer", Importance::Critical, move || {
            let nth = counter.fetch_add(1, Ordering::SeqCst);
            async move { panic!("start {nth}") }
        });
        let died = supervisor.run(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((died.task, died.restarts), ("informer", MAX_TASK_RESTARTS));
        assert_eq!(died.reason, "it panicked: start 5");
        assert_eq!(starts.load(Ordering::SeqCst), MAX_TASK_RESTARTS + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn occasional_end_is_restarted() {
        let (supervisor, stop) = supervisor();
        let starts = Arc::new(AtomicUsize::new(0));
        let counter = starts.clone();
        supervisor.spawn("prober", Importance::Critical, move || {
            let (nth, stop) = (counter.fetch_add(1, Ordering::SeqCst), stop.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(61)).await;
                if nth == 20 {
                    stop.cancel();
                }
            }
        });
        assert_eq!(supervisor.run(Duration::from_secs(1)).await, Ok(()));
        assert_eq!(starts.load(Ordering::SeqCst), 21);
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_a_task_is_an_event() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let clock = Clock::virtual_from(Timestamp(0));
        let (journal, writer, ..) = handle::open(&path, "RUN", clock, handle::DEFAULT_MAX_SIZE);
        let (supervisor, _stop) = supervisor();
        supervisor.record_in(journal.clone());
        supervisor.spawn("informer", Importance::Critical, || async { panic!("no way") });
        supervisor.run(Duration::from_secs(1)).await.unwrap_err();
        drop(journal);
        let mut tasks = TaskSet::default();
        tasks.start((), writer.run());
        let ends = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let ends = text.lines().filter(|line| line.contains("\"taskEnded\""));
            ends.map(|line| {
                (
                    line.contains("\"task\":\"informer\"") && line.contains("it panicked: no way"),
                    line.contains("\"restarts\":true"),
                )
            })
            .collect::<Vec<_>>()
        };
        while ends().len() < 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let restarted = [(true, true); 5];
        assert_eq!(ends(), [&restarted[..], &[(true, false)]].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn useful_task_ends_alone_and_a_once_task_is_not_restarted() {
        let (supervisor, _stop) = supervisor();
        supervisor.spawn_once("status", Importance::Useful, async { panic!("disk") });
        supervisor.spawn_once("reconciler", Importance::Critical, async {
            tokio::time::sleep(Duration::from_secs(9)).await;
        });
        let died = supervisor.run(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(
            died,
            TaskDied {
                task: "reconciler",
                restarts: 0,
                reason: "it returned".to_owned()
            }
        );
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_task_is_abandoned_after_the_grace_period() {
        let (supervisor, stop) = supervisor();
        supervisor.spawn_once("hanging", Importance::Critical, std::future::pending());
        stop.cancel();
        assert_eq!(supervisor.run(Duration::from_secs(3)).await, Ok(()));
    }
}
