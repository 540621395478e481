//! What a row of answers means: a pure fold into a verdict.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::desired::Probe;
use argus_core::probe::{Health, ProbeStatus};
use argus_core::time::Timestamp;

/// The first pause between two probes of a container that was not healthy yet.
const FIRST: Duration = Duration::from_millis(50);
/// Such pauses grow up to this.
const LONGEST: Duration = Duration::from_secs(1);
/// Longest output that is kept.
const OUTPUT: usize = 4 * 1024;

/// One question that cannot be put is an accident; so many in a row, and no fewer than its retries, are a failure.
const MISSES: u32 = 3;
/// Outputs that are kept for the evidence.
const RECENT: usize = 5;
/// Answers that are looked at to find out whether it is steady.
const WINDOW: usize = 20;
/// So many turns among them are not one outage.
const TURNS: usize = 4;

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReply {
    /// It was good.
    pub good: bool,
    /// Somebody answered, well or not.
    pub answered: bool,
    /// It was asked at all; a question that cannot be put says nothing of the service.
    pub asked: bool,
    /// What it said.
    pub output: String,
}

impl ProbeReply {
    /// A good answer.
    pub fn good(output: impl Into<String>) -> Self {
        Self {
            good: true,
            answered: true,
            asked: true,
            output: output.into(),
        }
    }

    /// A bad one.
    pub fn bad(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: true,
            asked: true,
            output: output.into(),
        }
    }

    /// None at all.
    pub fn none(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: false,
            asked: true,
            output: output.into(),
        }
    }

    /// The question could not be put.
    pub fn missed(output: impl Into<String>) -> Self {
        Self {
            good: false,
            answered: false,
            asked: false,
            output: output.into(),
        }
    }

    /// What it is, in a word.
    pub(super) fn word(&self) -> &'static str {
        match (self.good, self.answered, self.asked) {
            (true, ..) => "good",
            (false, true, _) => "bad",
            (false, false, true) => "silent",
            (false, false, false) => "missed",
        }
    }
}

/// The answers of one run of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeHistory {
    health: Option<Health>,
    started_at: Option<Timestamp>,
    successes: u32,
    failures: u32,
    /// Questions in a row that could not be put.
    misses: u32,
    /// The next bad answer counts not before one interval after this.
    counted_at: Timestamp,
    /// When the first bad answer came that counts, with no good one since.
    failing_since: Option<Timestamp>,
    pause: Duration,
    /// What the last probes said, oldest first.
    outputs: VecDeque<String>,
    /// Which of the last probes were good, since it was healthy first.
    results: VecDeque<bool>,
    /// Since the last good answer nobody answered at all.
    silent: bool,
}

impl ProbeHistory {
    /// No answers yet.
    pub fn new(probe: &Probe, started_at: Option<Timestamp>, now: Timestamp) -> Self {
        // The engine's clock may be ahead of ours.
        let counted_at = started_at.unwrap_or(now).min(now) + probe.start_period;
        Self {
            health: None,
            started_at,
            successes: 0,
            failures: 0,
            misses: 0,
            counted_at,
            failing_since: None,
            pause: FIRST,
            outputs: VecDeque::new(),
            results: VecDeque::new(),
            silent: true,
        }
    }

    /// The verdict, once there was an answer.
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// Takes an answer in; tells whether the verdict is another one now.
    pub fn take(&mut self, probe: &Probe, answer: ProbeReply, now: Timestamp) -> bool {
        self.remember(&answer);
        let before = self.health.as_ref().map(|health| health.status);
        let current = before.unwrap_or(ProbeStatus::Starting);
        // Probes are quick while it starts: a bad answer counts once an interval, as with the engine's own checks.
        let counts = current != ProbeStatus::Starting || now >= self.counted_at + probe.interval;
        if answer.asked {
            self.misses = 0;
        }
        if answer.good {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
            self.failing_since = None;
        } else if answer.asked {
            self.successes = 0;
            self.failures = self.failures.saturating_add(u32::from(counts));
        } else {
            self.misses = self.misses.saturating_add(u32::from(counts));
        }
        if counts && !answer.good {
            self.counted_at = now;
            self.failing_since.get_or_insert(now);
        }
        let verdict = if answer.good && self.successes >= probe.success_threshold.max(1) {
            ProbeStatus::Healthy
        } else if self.failures >= probe.retries.max(1) || self.misses >= probe.retries.max(MISSES) {
            ProbeStatus::Unhealthy
        } else {
            current
        };
        let unsteady = self.is_unsteady();
        let was = self.health.as_ref().map(|health| health.unsteady);
        if before == Some(verdict) && was == Some(unsteady) {
            return false;
        }
        let since = match &self.health {
            Some(health) if before == Some(verdict) => health.since,
            Some(_) | None => now,
        };
        self.health = Some(Health {
            status: verdict,
            since,
            failing_since: self.failing_since.filter(|_| verdict == ProbeStatus::Unhealthy),
            started_at: self.started_at,
            output: cut(answer.output),
            recent: self.outputs.iter().cloned().collect(),
            dead: verdict == ProbeStatus::Unhealthy && self.silent,
            unsteady,
        });
        true
    }

    /// The engine was away: what failed on the way into that says nothing, and is to be found anew.
    pub fn begin_anew(&mut self) {
        (self.failures, self.misses, self.pause) = (0, 0, FIRST);
        self.failing_since = None;
        self.health = self
            .health
            .take()
            .filter(|health| health.status != ProbeStatus::Unhealthy);
    }

    fn remember(&mut self, answer: &ProbeReply) {
        self.outputs.push_back(cut(answer.output.clone()));
        if self.outputs.len() > RECENT {
            self.outputs.pop_front();
        }
        self.silent = answer.good || (self.silent && !answer.answered);
        if answer.good || !self.results.is_empty() {
            self.results.push_back(answer.good);
        }
        if self.results.len() > WINDOW {
            self.results.pop_front();
        }
    }

    /// It is neither up nor down: good answers come in between, and more than half are bad.
    fn is_unsteady(&self) -> bool {
        let bads = self.results.iter().filter(|good| !**good).count();
        let turns = self
            .results
            .iter()
            .zip(self.results.iter().skip(1))
            .filter(|(one, next)| one != next)
            .count();
        self.results.len() == WINDOW && bads * 2 > WINDOW && turns >= TURNS
    }

    /// The pause before the next probe.
    pub fn pause(&mut self, probe: &Probe) -> Duration {
        match self.health.as_ref().map(|health| health.status) {
            Some(ProbeStatus::Healthy | ProbeStatus::Unhealthy) => probe.interval.max(FIRST),
            Some(ProbeStatus::Starting) | None => {
                let pause = self.pause.min(probe.interval.max(FIRST));
                self.pause = (self.pause * 3 / 2).min(LONGEST);
                pause
            }
        }
    }
}

fn cut(mut output: String) -> String {
    let end = (0..=OUTPUT.min(output.len()))
        .rev()
        .find(|at| output.is_char_boundary(*at));
    output.truncate(end.unwrap_or(0));
    output
}

#[cfg(test)]
#[path = "probe_history_tests.rs"]
mod tests;
