//! Heartbeats: a task that does not reply to a request is stuck, whatever it waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Number of consecutive missed requests after which a task counts as stuck.
pub const STUCK_AFTER_MISSES: u32 = 3;

/// Heartbeat of one task.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requests: Notify,
    beats: AtomicU64,
    /// Consecutive requests that the task missed.
    misses: AtomicU32,
}

impl Heartbeat {
    /// Records a sign of life of the task.
    pub fn beat(&self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// True if the task has not replied to the last request in time.
    pub fn is_late(&self) -> bool {
        self.0.misses.load(Ordering::Relaxed) > 1
    }

    /// True if the task has missed [`STUCK_AFTER_MISSES`] requests in a row.
    pub fn is_stuck(&self) -> bool {
        self.0.misses.load(Ordering::Relaxed) >= STUCK_AFTER_MISSES
    }

    /// Waits for a request. The future is cancel-safe.
    pub async fn requested(&self) {
        self.0.requests.notified().await;
    }

    /// Runs the task, and replies to requests whenever the task yields its thread.
    pub async fn reply_during<T>(&self, task: impl Future<Output = T>) -> T {
        let replies = async {
            loop {
                self.requested().await;
                self.beat();
            }
        };
        tokio::select! {
            biased;
            ended = task => ended,
            never = replies => never,
        }
    }
}

/// Heartbeats of all tasks, by task name.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats(Arc<Mutex<BTreeMap<&'static str, Heartbeat>>>);

impl Heartbeats {
    /// Returns the heartbeat of a task; a restarted task keeps its heartbeat.
    pub fn of(&self, task: &'static str) -> Heartbeat {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(task).or_default().clone()
    }

    /// Drops the heartbeat of an ended task.
    pub fn forget(&self, task: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    fn all(&self) -> Vec<(&'static str, Heartbeat)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(name, heartbeat)| (*name, heartbeat.clone()))
            .collect()
    }
}

/// Detector of stuck tasks. It counts requests and not time, so a machine that slept for an hour has missed only
/// one.
#[derive(Debug)]
pub struct StuckTaskDetector {
    heartbeats: Heartbeats,
    tasks: BTreeMap<&'static str, TaskState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct TaskState {
    beats: u64,
    misses: u32,
}

impl StuckTaskDetector {
    /// Creates a detector that has sent no requests.
    pub fn new(heartbeats: Heartbeats) -> Self {
        Self {
            heartbeats,
            tasks: BTreeMap::new(),
        }
    }

    /// Counts the replies to the last requests and sends the next ones.
    pub fn send_requests(&mut self) {
        let all = self.heartbeats.all();
        self.tasks
            .retain(|name, _| all.iter().any(|(current, _)| current == name));
        for (name, heartbeat) in all {
            let beats = heartbeat.0.beats.load(Ordering::Relaxed);
            let task = self.tasks.entry(name).or_default();
            // The first request has no earlier one to miss.
            task.misses = if beats == task.beats { task.misses + 1 } else { 0 };
            task.beats = beats;
            heartbeat.0.misses.store(task.misses, Ordering::Relaxed);
            heartbeat.0.requests.notify_one();
        }
    }

    /// Number of consecutive requests that a task missed.
    pub fn misses(&self, task: &str) -> u32 {
        self.tasks.get(task).map_or(0, |task| task.misses)
    }

    /// Reports whether a task is known and replies.
    pub fn is_fresh(&self, task: &str) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|task| task.misses < STUCK_AFTER_MISSES)
    }

    /// Tasks that became stuck at the last request.
    pub fn newly_stuck(&self) -> impl Iterator<Item = &'static str> + '_ {
        let stuck = |(_, task): &(&&'static str, &TaskState)| task.misses == STUCK_AFTER_MISSES;
        self.tasks.iter().filter(stuck).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run_all_tasks() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn waiting_task_replies_and_a_stuck_one_does_not() {
        let heartbeats = Heartbeats::default();
        let mut detector = StuckTaskDetector::new(heartbeats.clone());
        let waiting_task = heartbeats.of("patient");
        let waiting = waiting_task.reply_during(std::future::pending::<()>());
        // The heartbeat is never answered, as if the task blocked its thread.
        let _stuck = heartbeats.of("stuck");
        let script = async {
            let mut became_stuck = Vec::new();
            for _ in 0..STUCK_AFTER_MISSES + 2 {
                detector.send_requests();
                became_stuck.extend(detector.newly_stuck());
                run_all_tasks().await;
            }
            assert!(detector.is_fresh("patient") && !detector.is_fresh("stuck"));
            let (patient, stuck) = (heartbeats.of("patient"), heartbeats.of("stuck"));
            assert_eq!((patient.is_late(), patient.is_stuck()), (false, false));
            assert_eq!((stuck.is_late(), stuck.is_stuck()), (true, true));
            assert_eq!(became_stuck, ["stuck"], "it is reported once");
            assert!(!detector.is_fresh("unknown"), "an unknown task is not fresh");
            heartbeats.of("stuck").beat();
            detector.send_requests();
            assert!(detector.is_fresh("stuck"), "one beat is enough");
            heartbeats.forget("stuck");
            detector.send_requests();
            assert_eq!(detector.misses("stuck"), 0);
        };
        tokio::select! {
            () = waiting => unreachable!("it waits forever"),
            () = script => {}
        }
    }
}
