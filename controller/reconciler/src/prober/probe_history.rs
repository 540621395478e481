//! Probe history: a pure fold of probe replies into a health status.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::{Probe, ProbeHandler};
use argus_core::probe::{ProbeStatus, ProbedHealth};
use argus_core::quoting::start_of;
use argus_core::time::Timestamp;

use super::pressure::Pressure;

/// First pause between two probes of a container that was not healthy yet.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum of these growing pauses.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Time after the start from which a failed probe is reported, although it may not count yet. Most services start faster.
const REPORTED_AFTER: Duration = Duration::from_secs(5);
/// Maximum length of a stored output, in bytes.
const MAX_OUTPUT: usize = 4 * 1024;

/// Minimum number of consecutive unsent probes that count as a failure, even with fewer retries. A single one
/// says nothing about the container.
const MIN_UNSENT: u32 = 3;
/// Share of time in which tasks wait for a resource of the host, in percent, above which a failed probe may be the host's fault.
const STARVED_ABOVE: u8 = 60;
/// Failures on such a host before a container is unhealthy, in addition to its retries.
const STARVED_FAILURES: u32 = 2;
/// Maximum time of a late answer, as a multiple of the timeout.
pub(super) const LATE_FACTOR: u32 = 5;
/// Number of outputs that are stored for the evidence.
const MAX_OUTPUTS: usize = 5;
/// Number of results that decide whether a container is flapping.
const RESULT_WINDOW: usize = 20;
/// Minimum number of changes among them; fewer are a single outage.
const MIN_CHANGES: usize = 4;

/// Result of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// True if the probe succeeded.
    pub success: bool,
    /// True if the service replied, with success or not.
    pub answered: bool,
    /// True if the probe was sent. An unsent probe says nothing about the service.
    pub sent: bool,
    /// Output of the probe.
    pub output: String,
    /// Pressure of the host before and after a failed probe; `None` where it is unknown.
    pub(super) pressure: Option<(Pressure, Pressure)>,
}

impl ProbeResult {
    /// Successful reply.
    pub fn success(output: impl Into<String>) -> Self {
        Self {
            success: true,
            ..Self::failure(output)
        }
    }

    /// Reply that reports a failure.
    pub fn failure(output: impl Into<String>) -> Self {
        Self {
            success: false,
            answered: true,
            sent: true,
            output: output.into(),
            pressure: None,
        }
    }

    /// No reply.
    pub fn no_reply(output: impl Into<String>) -> Self {
        Self {
            answered: false,
            ..Self::failure(output)
        }
    }

    /// The probe could not be sent.
    pub fn unsent(output: impl Into<String>) -> Self {
        Self {
            sent: false,
            ..Self::no_reply(output)
        }
    }

    /// Value of the metric label `result`.
    pub(super) fn label(&self) -> &'static str {
        match (self.success, self.answered, self.sent) {
            (true, ..) => "success",
            (false, true, _) => "failure",
            (false, false, true) => "silent",
            (false, false, false) => "missed",
        }
    }
}

/// Probe results of one run of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeHistory {
    health: Option<ProbedHealth>,
    started_at: Option<Timestamp>,
    successes: u32,
    failures: u32,
    /// Number of consecutive unsent probes.
    unsent_count: u32,
    /// The next failure counts no earlier than one interval after this time.
    counted_at: Timestamp,
    /// Failures from this time on are reported during the start.
    reported_at: Timestamp,
    /// Time of the first counted failure without a later success.
    failing_since: Option<Timestamp>,
    /// Pressure of the host before that failure.
    failing_from: Option<Pressure>,
    /// True if a late answer was awaited since the last success.
    awaited_late: bool,
    /// Time of a late answer since the last success.
    late_answer: Option<Duration>,
    pause: Duration,
    /// Outputs of the last probes, oldest first.
    outputs: VecDeque<String>,
    /// Successes of the last probes, from the first success on.
    results: VecDeque<bool>,
    /// True if there was no reply at all since the last success.
    no_reply_since_success: bool,
}

impl ProbeHistory {
    /// Creates an empty history.
    pub fn new(probe: &Probe, started_at: Option<Timestamp>, now: Timestamp) -> Self {
        // The engine's clock may be ahead of the controller's.
        let start = started_at.unwrap_or(now).min(now);
        Self {
            started_at,
            counted_at: start + probe.start_period,
            reported_at: start + REPORTED_AFTER,
            pause: FIRST_PAUSE,
            no_reply_since_success: true,
            ..Self::default()
        }
    }

    /// Health status; `None` before the first reply.
    pub fn health(&self) -> Option<&ProbedHealth> {
        self.health.as_ref()
    }

    /// Reports whether a reply would make the container unhealthy.
    pub fn becomes_unhealthy(&self, probe: &Probe, reply: &ProbeResult, now: Timestamp) -> bool {
        let is_unhealthy = |history: &Self| {
            history.health.as_ref().map(|health| health.status) == Some(ProbeStatus::Unhealthy)
        };
        if reply.success || is_unhealthy(self) {
            return false;
        }
        let mut next = self.clone();
        next.add(probe, reply.clone(), now);
        is_unhealthy(&next)
    }

    /// Adds a reply. Returns true if the health status changed.
    pub fn add(&mut self, probe: &Probe, reply: ProbeResult, now: Timestamp) -> bool {
        self.store(&reply);
        let before = self.health.as_ref().map(|health| health.status);
        let current = before.unwrap_or(ProbeStatus::Starting);
        // Probes are frequent during the start. A failure counts once per interval, as with the engine's own health
        // checks.
        let counts = current != ProbeStatus::Starting || now >= self.counted_at + probe.interval;
        if reply.sent {
            self.unsent_count = 0;
        }
        if reply.success {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
            (self.failing_since, self.failing_from) = (None, None);
            (self.awaited_late, self.late_answer) = (false, None);
        } else if reply.sent {
            self.successes = 0;
            self.failures = self.failures.saturating_add(u32::from(counts));
        } else {
            self.unsent_count = self.unsent_count.saturating_add(u32::from(counts));
        }
        if counts && !reply.success {
            self.counted_at = now;
            self.failing_since.get_or_insert(now);
            self.failing_from = self.failing_from.or(reply.pressure.map(|(before, _)| before));
        }
        let window = self.failing_from.zip(reply.pressure);
        let pressure = window.and_then(|(from, (_, to))| to.percent_since(&from));
        let is_starved = pressure.is_some_and(|percent| percent > STARVED_ABOVE);
        let retries = probe.retries.max(1);
        let limit = retries.saturating_add(if is_starved { STARVED_FAILURES } else { 0 });
        let status = if reply.success && self.successes >= probe.success_threshold.max(1) {
            ProbeStatus::Healthy
        } else if self.failures >= limit || self.unsent_count >= probe.retries.max(MIN_UNSENT) {
            ProbeStatus::Unhealthy
        } else {
            current
        };
        let flapping = self.is_flapping();
        // An unsent probe changes nothing.
        let was_failing = self.health.as_ref().is_some_and(|health| health.failing);
        let has_failed = if reply.sent { !reply.success } else { was_failing };
        let failing = match status {
            ProbeStatus::Starting => !reply.success && now >= self.reported_at,
            ProbeStatus::Healthy => has_failed,
            ProbeStatus::Unhealthy => false,
        };
        let mut output = reply.output;
        output.truncate(start_of(&output, MAX_OUTPUT).len());
        let is_held_back = status != ProbeStatus::Unhealthy && self.failures >= retries;
        let host_pressure = pressure.filter(|_| is_held_back || status == ProbeStatus::Unhealthy);
        let is_same = self.health.as_ref().is_some_and(|health| {
            let is_settled = status == ProbeStatus::Unhealthy || health.host_pressure == host_pressure;
            let is_reported = status != ProbeStatus::Starting || !failing || health.output == output;
            health.status == status
                && health.flapping == flapping
                && health.failing == failing
                && is_settled
                && is_reported
        });
        if is_same {
            return false;
        }
        let since = match &self.health {
            Some(health) if before == Some(status) => health.since,
            Some(_) | None => now,
        };
        self.health = Some(ProbedHealth {
            status,
            since,
            host_pressure,
            failing_since: self.failing_since.filter(|_| status == ProbeStatus::Unhealthy),
            late_answer: self.late_answer.filter(|_| status == ProbeStatus::Unhealthy),
            started_at: self.started_at,
            output,
            recent: self.outputs.iter().cloned().collect(),
            unresponsive: status == ProbeStatus::Unhealthy && self.no_reply_since_success,
            failing,
            flapping,
            probe: Some(Arc::new(probe.clone())),
        });
        true
    }

    /// Returns true for the first probe since the last success whose answer may be awaited after its timeout.
    pub fn awaits_late(&mut self) -> bool {
        !std::mem::replace(&mut self.awaited_late, true)
    }

    /// Adds the time of a successful answer to a probe that had ended with its timeout. Returns true if the health changed.
    pub fn add_late_answer(&mut self, probe: &Probe, took: Duration) -> bool {
        // A success in the meantime shows that the timeout is long enough.
        if !self.awaited_late || took <= probe.timeout {
            return false;
        }
        let took = took.min(probe.timeout * LATE_FACTOR);
        self.late_answer = Some(took);
        let health = self.health.as_mut();
        let unhealthy = health.filter(|health| health.status == ProbeStatus::Unhealthy);
        unhealthy.is_some_and(|health| health.late_answer.replace(took) != Some(took))
    }

    /// Resets failures after an outage of the engine: those during the outage are not meaningful.
    pub fn reset_failures(&mut self) {
        (self.failures, self.unsent_count, self.pause) = (0, 0, FIRST_PAUSE);
        (self.awaited_late, self.late_answer) = (false, None);
        (self.failing_since, self.failing_from) = (None, None);
        self.health = self
            .health
            .take()
            .filter(|health| health.status != ProbeStatus::Unhealthy);
    }

    fn store(&mut self, reply: &ProbeResult) {
        let output = start_of(&reply.output, MAX_OUTPUT);
        self.outputs.push_back(output.to_owned());
        if self.outputs.len() > MAX_OUTPUTS {
            self.outputs.pop_front();
        }
        self.no_reply_since_success = reply.success || (self.no_reply_since_success && !reply.answered);
        if reply.success || !self.results.is_empty() {
            self.results.push_back(reply.success);
        }
        if self.results.len() > RESULT_WINDOW {
            self.results.pop_front();
        }
    }

    /// Reports whether the service is neither up nor down: successes occur, and more than half of the results are
    /// failures.
    fn is_flapping(&self) -> bool {
        let failure_count = self.results.iter().filter(|success| !**success).count();
        let changes = self
            .results
            .iter()
            .zip(self.results.iter().skip(1))
            .filter(|(one, next)| one != next)
            .count();
        self.results.len() == RESULT_WINDOW && failure_count * 2 > RESULT_WINDOW && changes >= MIN_CHANGES
    }

    /// Pause before the next probe.
    pub fn pause(&mut self, probe: &Probe) -> Duration {
        // A match in the log ends the pause.
        if matches!(probe.kind, ProbeHandler::Log { .. }) {
            return probe.interval.max(FIRST_PAUSE);
        }
        match self.health.as_ref().map(|health| health.status) {
            Some(ProbeStatus::Healthy | ProbeStatus::Unhealthy) => probe.interval.max(FIRST_PAUSE),
            Some(ProbeStatus::Starting) | None => {
                let pause = self.pause.min(probe.interval.max(FIRST_PAUSE));
                self.pause = (self.pause * 3 / 2).min(MAX_PAUSE);
                pause
            }
        }
    }
}

#[cfg(test)]
#[path = "probe_history_tests.rs"]
mod tests;
