//! Named tasks whose ends are noticed: a restart within a window, or an end of the whole with a name and a reason.

use std::any::Any;
use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;

pub mod heartbeat;
pub mod task_set;
pub mod watchdog;
pub mod window;

pub use heartbeat::{Heartbeat, Heartbeats};
pub use window::Window;

/// Restarts of one task within [`RESTART_SPAN`] before it is given up.
pub const RESTARTS: usize = 5;
/// The span in which restarts are counted.
pub const RESTART_SPAN: Duration = Duration::from_secs(300);
/// Pause before the first restart; the next ones wait a multiple of it.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// What the end of a task means when it cannot be restarted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    /// Nothing goes on without it.
    Critical,
    /// The rest goes on without it, and says so in the log.
    Useful,
}

/// A critical task is dead for good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task `{task}` is dead after {restarts} restarts: {reason}")]
pub struct TaskDied {
    /// Which task.
    pub task: &'static str,
    /// How often it was restarted within the window.
    pub restarts: usize,
    /// How it ended the last time.
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
    pulses: Heartbeats,
}

impl Supervisor {
    /// A supervisor whose tasks are told to stop by `stop`.
    pub fn new(clock: Clock, stop: CancellationToken) -> Self {
        // One: the first death ends everything, those after it are only logged.
        let (failures, died) = mpsc::channel(1);
        Self {
            clock,
            stop,
            tracker: TaskTracker::new(),
            failures,
            died,
            pulses: Heartbeats::default(),
        }
    }

    /// The signs of life of its tasks.
    pub fn pulses(&self) -> &Heartbeats {
        &self.pulses
    }

    /// Runs a task that can be made anew: an end before the stop makes another one, within the window.
    pub fn spawn<F, T>(&self, name: &'static str, importance: Importance, mut factory: F)
    where
        F: FnMut() -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let mut window = Window::new(RESTARTS, RESTART_SPAN);
        let (clock, stop, tracker) = (self.clock, self.stop.clone(), self.tracker.clone());
        let report = self.reporter(name, importance);
        let pulse = self.pulses.of(name);
        self.watch(async move {
            loop {
                let (pulse, task) = (pulse.clone(), factory());
                let reason = end_of(&tracker, async move { pulse.keep(task).await }).await;
                if stop.is_cancelled() {
                    return;
                }
                let Some(restarts) = window.take(clock.now()) else {
                    report(RESTARTS, reason);
                    return;
                };
                tracing::error!(task = name, restarts, reason, "task ended, it is started again");
                let pause = RESTART_PAUSE * u32::try_from(restarts).unwrap_or(1);
                let _stopped = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        });
    }

    /// Runs a task that cannot be made anew, because it owns what cannot be made twice.
    pub fn spawn_once(
        &self,
        name: &'static str,
        importance: Importance,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (stop, tracker) = (self.stop.clone(), self.tracker.clone());
        let report = self.reporter(name, importance);
        let (pulse, pulses) = (self.pulses.of(name), self.pulses.clone());
        self.watch(async move {
            let reason = end_of(&tracker, async move { pulse.keep(task).await }).await;
            pulses.forget(name);
            if !stop.is_cancelled() {
                report(0, reason);
            }
        });
    }

    /// Waits until a critical task dies, or until the stop and then for all tasks, but not longer than `grace`.
    pub async fn run(mut self, grace: Duration) -> Result<(), TaskDied> {
        let failed_run = tokio::select! {
            failed_run = self.died.recv() => failed_run,
            () = self.stop.cancelled() => None,
        };
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_err() {
            tracing::error!(tasks = self.tracker.len(), "tasks did not end within the grace");
        }
        // A task that died while the others were stopping counts, too.
        failed_run
            .or_else(|| self.died.try_recv().ok())
            .map_or(Ok(()), Err)
    }

    fn reporter(
        &self,
        task: &'static str,
        importance: Importance,
    ) -> impl Fn(usize, String) + Send + 'static + use<> {
        let (failures, pulses) = (self.failures.clone(), self.pulses.clone());
        move |restarts, reason| {
            pulses.forget(task);
            tracing::error!(task, restarts, reason, "task is dead");
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

    fn watch(&self, watcher: impl Future<Output = ()> + Send + 'static) {
        drop(self.tracker.spawn(watcher));
    }
}

async fn end_of(tracker: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) -> String {
    match tracker.spawn(task).await {
        Ok(()) => "it returned".to_owned(),
        Err(error) => match error.try_into_panic() {
            Ok(payload) => format!("it panicked: {}", panic_message(payload.as_ref())),
            Err(_) => "it was aborted".to_owned(),
        },
    }
}

/// What a panic said.
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

    fn supervisor() -> (Supervisor, CancellationToken) {
        let stop = CancellationToken::new();
        (
            Supervisor::new(Clock::virtual_from(Timestamp(0)), stop.clone()),
            stop,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_again_and_again_ends_the_whole_with_its_name() {
        let (supervisor, _stop) = supervisor();
        let starts = Arc::new(AtomicUsize::new(0));
        let counter = starts.clone();
        supervisor.spawn("informer", Importance::Critical, move || {
            let nth = counter.fetch_add(1, Ordering::SeqCst);
            async move { panic!("start {nth}") }
        });
        let died = supervisor.run(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((died.task, died.restarts), ("informer", RESTARTS));
        assert_eq!(died.reason, "it panicked: start 5");
        assert_eq!(starts.load(Ordering::SeqCst), RESTARTS + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_now_and_then_is_survived() {
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
    async fn a_useful_task_dies_alone_and_a_once_task_is_not_restarted() {
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
    async fn a_task_that_ignores_the_stop_is_not_waited_for_beyond_the_grace() {
        let (supervisor, stop) = supervisor();
        supervisor.spawn_once("deaf", Importance::Critical, std::future::pending());
        stop.cancel();
        assert_eq!(supervisor.run(Duration::from_secs(3)).await, Ok(()));
    }
}
