//! Signs of life: a task that is asked and does not answer is stuck, whatever it waits for.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Questions in a row without an answer after which a task is called stuck.
pub const MISSES: u32 = 3;

/// The pulse of one task.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: Notify,
    beats: AtomicU64,
}

impl Heartbeat {
    /// Says that its task goes on.
    pub fn beat(&self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until somebody asks for a beat. May be dropped and called again.
    pub async fn requested(&self) {
        self.0.asked.notified().await;
    }

    /// The task with its pulse: it answers for as long as it lets others have the thread.
    pub async fn keep<T>(&self, task: impl Future<Output = T>) -> T {
        let answers = async {
            loop {
                self.requested().await;
                self.beat();
            }
        };
        tokio::select! {
            biased;
            ended = task => ended,
            never = answers => never,
        }
    }
}

/// All pulses of a process, by the name of the task.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats(Arc<Mutex<BTreeMap<&'static str, Heartbeat>>>);

impl Heartbeats {
    /// The pulse of a task; one that is restarted keeps its pulse.
    pub fn of(&self, task: &'static str) -> Heartbeat {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(task).or_default().clone()
    }

    /// A task that has ended is asked no more.
    pub fn forget(&self, task: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    fn all(&self) -> Vec<(&'static str, Heartbeat)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, pulse)| (*name, pulse.clone())).collect()
    }
}

/// Feels all pulses, again and again. It counts questions and not time: a machine that slept for an hour has missed one.
#[derive(Debug)]
pub struct StallCheck {
    pulses: Heartbeats,
    known: BTreeMap<&'static str, Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    beats: u64,
    misses: u32,
}

impl StallCheck {
    /// A doctor who has asked nobody yet.
    pub fn new(pulses: Heartbeats) -> Self {
        Self {
            pulses,
            known: BTreeMap::new(),
        }
    }

    /// Counts the answers to the last question and asks the next one.
    pub fn ask(&mut self) {
        let all = self.pulses.all();
        self.known
            .retain(|name, _| all.iter().any(|(there, _)| there == name));
        for (name, pulse) in all {
            let beats = pulse.0.beats.load(Ordering::Relaxed);
            let known = self.known.entry(name).or_default();
            // The first question has no answer to wait for yet.
            known.misses = if beats == known.beats { known.misses + 1 } else { 0 };
            known.beats = beats;
            pulse.0.asked.notify_one();
        }
    }

    /// How many questions in a row a task has left without an answer.
    pub fn misses(&self, task: &str) -> u32 {
        self.known.get(task).map_or(0, |known| known.misses)
    }

    /// Whether a task is known and answers.
    pub fn is_fresh(&self, task: &str) -> bool {
        self.known.get(task).is_some_and(|known| known.misses < MISSES)
    }

    /// The tasks that became stuck with the last question.
    pub fn newly_stuck(&self) -> impl Iterator<Item = &'static str> + '_ {
        let stuck = |(_, known): &(&&'static str, &Known)| known.misses == MISSES;
        self.known.iter().filter(stuck).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn everybody_runs() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_task_that_waits_answers_and_one_that_is_stuck_does_not() {
        let pulses = Heartbeats::default();
        let mut doctor = StallCheck::new(pulses.clone());
        let patient = pulses.of("patient");
        let waits = patient.keep(std::future::pending::<()>());
        // Its pulse is kept by nobody, as if it never came back from a call that blocks.
        let _stuck = pulses.of("stuck");
        let story = async {
            let mut became_stuck = Vec::new();
            for _ in 0..MISSES + 2 {
                doctor.ask();
                became_stuck.extend(doctor.newly_stuck());
                everybody_runs().await;
            }
            assert!(doctor.is_fresh("patient") && !doctor.is_fresh("stuck"));
            assert_eq!(became_stuck, ["stuck"], "it is said once");
            assert!(!doctor.is_fresh("unknown"), "who was never asked is not fresh");
            pulses.of("stuck").beat();
            doctor.ask();
            assert!(doctor.is_fresh("stuck"), "a sign of life is enough");
            pulses.forget("stuck");
            doctor.ask();
            assert_eq!(doctor.misses("stuck"), 0);
        };
        tokio::select! {
            () = waits => unreachable!("it waits for ever"),
            () = story => {}
        }
    }
}
