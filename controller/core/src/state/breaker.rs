//! A circuit breaker: when something that fails is left alone, and how it is tried again. A state and its transitions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::{self, Growth};
use crate::plan::Subject;
use crate::time::Timestamp;

/// However often it opens in a row, it is tried again after this long.
pub const LONGEST: Duration = Duration::from_secs(300);
/// Transitions that are kept, the newest last.
const HISTORY: usize = 16;

/// What a breaker goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerSettings {
    /// So many failures in a row open it.
    pub threshold: u32,
    /// How long it stays open the first time; doubles while it opens again without having closed.
    pub cooldown: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            threshold: 5,
            cooldown: Duration::from_secs(30),
        }
    }
}

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CircuitState {
    /// Calls are made.
    Closed {
        /// Failures in a row.
        failures: u32,
    },
    /// No call is made.
    Open {
        /// Until then.
        until: Timestamp,
    },
    /// Exactly one call is made, and it decides.
    HalfOpen {
        /// A list that is complete comes before that call; this was the newest that had begun.
        after_list: u64,
        /// The call that is on its way.
        probe: Option<Subject>,
    },
}

/// What a call says about whoever was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome<'a> {
    /// There is somebody who answers, whatever the answer is.
    Success,
    /// This is a failure of whoever was called.
    Failure(&'a str),
    /// Nothing can be said.
    Ignored,
}

/// A change of state, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Timestamp,
    /// `closed`, `open` or `halfOpen`.
    pub to: &'static str,
    /// Why.
    pub why: String,
}

/// One breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    state: CircuitState,
    /// Openings since it was closed last.
    consecutive_failures: u32,
    times_opened: u64,
    last_failure: Option<String>,
    history: Vec<Transition>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: CircuitState::Closed { failures: 0 },
            consecutive_failures: 0,
            times_opened: 0,
            last_failure: None,
            history: Vec::new(),
        }
    }
}

impl Breaker {
    /// How it stands.
    pub fn state(&self) -> &CircuitState {
        &self.state
    }

    /// How often it opened: a call that was decided on before the last time is not made any more.
    pub fn times_opened(&self) -> u64 {
        self.times_opened
    }

    /// What was counted last.
    pub fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// Its last transitions, oldest first.
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    /// Calls are made.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, CircuitState::Closed { .. })
    }

    /// Nothing was ever counted.
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a call may be made now, when the newest complete list has this number.
    pub fn allows_call(&self, complete_list: u64) -> bool {
        match &self.state {
            CircuitState::Closed { .. } => true,
            CircuitState::Open { .. } | CircuitState::HalfOpen { probe: Some(_), .. } => false,
            CircuitState::HalfOpen {
                after_list,
                probe: None,
            } => complete_list > *after_list,
        }
    }

    /// A call is on its way. In the half-open state it is the one that decides.
    pub fn on_call(&mut self, subject: &Subject) {
        if let CircuitState::HalfOpen { probe, .. } = &mut self.state
            && probe.is_none()
        {
            *probe = Some(subject.clone());
        }
    }

    /// A call came back.
    pub fn on_result(
        &mut self,
        subject: &Subject,
        answer: CallOutcome<'_>,
        settings: BreakerSettings,
        key: &str,
        now: Timestamp,
    ) {
        if let CallOutcome::Failure(why) = answer {
            self.last_failure = Some(why.to_owned());
        }
        match (&mut self.state, answer) {
            (CircuitState::Closed { failures }, CallOutcome::Success) => *failures = 0,
            (CircuitState::Closed { failures }, CallOutcome::Failure(why)) => {
                *failures += 1;
                if *failures >= settings.threshold {
                    let why = format!("{failures} failures in a row, the last: {why}");
                    self.open(settings, key, now, why);
                }
            }
            (CircuitState::HalfOpen { probe, .. }, answer) if probe.as_ref() == Some(subject) => match answer
            {
                CallOutcome::Success => self.close(now, "the one call that was let through was answered"),
                CallOutcome::Failure(why) => {
                    let why = format!("the one call that was let through failed: {why}");
                    self.open(settings, key, now, why);
                }
                CallOutcome::Ignored => *probe = None,
            },
            // Of a call that was made before it opened: neither does it end the cooldown, nor is it the one that decides.
            (CircuitState::Open { .. } | CircuitState::HalfOpen { .. }, _)
            | (CircuitState::Closed { .. }, CallOutcome::Ignored) => {}
        }
    }

    /// It opens whatever was counted, because whoever is called was seen to be away; it stays open until then at least.
    pub fn force_open(&mut self, until: Timestamp, now: Timestamp, why: &str) {
        self.last_failure = Some(why.to_owned());
        if !matches!(self.state, CircuitState::Open { .. }) {
            self.consecutive_failures += 1;
            self.times_opened += 1;
            self.record(now, "open", why.to_owned());
        }
        self.state = CircuitState::Open { until };
    }

    /// The cooldown is over. `begun_list`: the newest list that has begun. Tells whether it was that.
    pub fn tick(&mut self, begun_list: u64, now: Timestamp) -> bool {
        match self.state {
            // A clock that was set back must not keep it open for as long as it was set back.
            CircuitState::Open { until } if until <= now || until.since(now) > LONGEST * 2 => {
                self.half_open(begun_list, now, "its cooldown is over");
                true
            }
            CircuitState::Open { .. } | CircuitState::Closed { .. } | CircuitState::HalfOpen { .. } => false,
        }
    }

    /// It is tried at once. Tells whether that changes anything.
    pub fn reset(&mut self, begun_list: u64, now: Timestamp, why: &str) -> bool {
        match &mut self.state {
            CircuitState::Open { .. } => {
                self.half_open(begun_list, now, why);
                true
            }
            CircuitState::Closed { failures } => {
                let counted = *failures > 0;
                *failures = 0;
                counted
            }
            CircuitState::HalfOpen { .. } => false,
        }
    }

    /// There is no call to try it with: that the list was answered is all there is to know.
    pub fn close_if_idle(&mut self, complete_list: u64, now: Timestamp) -> bool {
        let idle = matches!(self.state, CircuitState::HalfOpen { .. }) && self.allows_call(complete_list);
        if idle {
            self.close(now, "a full list was answered, and nothing is to be done");
        }
        idle
    }

    fn open(&mut self, settings: BreakerSettings, key: &str, now: Timestamp, why: String) {
        self.consecutive_failures += 1;
        self.times_opened += 1;
        let cooldown = backoff::delay(
            Growth::Exponential,
            settings.cooldown,
            LONGEST,
            self.consecutive_failures,
        );
        let until = now + backoff::jittered(cooldown, key, self.consecutive_failures);
        self.record(now, "open", why);
        self.state = CircuitState::Open { until };
    }

    fn half_open(&mut self, after_list: u64, now: Timestamp, why: &str) {
        self.record(now, "halfOpen", why.to_owned());
        self.state = CircuitState::HalfOpen {
            after_list,
            probe: None,
        };
    }

    fn close(&mut self, now: Timestamp, why: &str) {
        self.consecutive_failures = 0;
        self.record(now, "closed", why.to_owned());
        self.state = CircuitState::Closed { failures: 0 };
    }

    fn record(&mut self, at: Timestamp, to: &'static str, why: String) {
        self.history.push(Transition { at, to, why });
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
