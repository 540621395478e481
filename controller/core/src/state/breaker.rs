//! Circuit breaker: stops the calls to a failing engine, and tests it with a single call before it allows them again.
//!
//! # States
//!
//! ```text
//!             threshold failures in a row, or no answer to pings
//!   closed ───────────────────────────────────────────────────▶ open ◀───────────┐
//!     ▲                                                          │               │ the test call
//!     │                            cooldown over, reset,         │               │ failed
//!     │                            or the engine is reachable    ▼               │
//!     └───────────────────────────────────────────────────── half-open ──────────┘
//!        the test call succeeded, or nothing is to be done
//! ```
//!
//! # Trip conditions
//!
//! A closed breaker counts failures in a row. At [`BreakerSettings::threshold`] failures it opens; each success resets the
//! count. Only failures of the engine count, see [`CallOutcome`]. [`Breaker::force_open`] opens it in any state when the
//! engine does not answer pings.
//!
//! # Recovery
//!
//! An open breaker allows no call until its cooldown is over. The cooldown begins at [`BreakerSettings::cooldown`], doubles
//! with every opening in a row up to [`MAX_COOLDOWN`], and has a jitter of 15 %. Closing resets it. A reset by a person, or an
//! engine that is reachable again, ends the cooldown early.
//!
//! # Half-open
//!
//! A half-open breaker first requires a complete list that started after the transition, so that the planner acts on
//! fresh state. Invariant 19: it then allows exactly one test call. Success closes the breaker, a failure opens it again, and an ignored
//! outcome allows another test call. Results of calls from before the opening change nothing. Without anything to do, the
//! complete list alone closes the breaker.

use crate::action::Subject;
use crate::backoff::{self, Growth};
use crate::desired::{BreakerSettings, MAX_COOLDOWN};
use crate::time::Timestamp;

/// Number of stored transitions.
const HISTORY_LIMIT: usize = 16;
/// Number of stored failures.
const FAILURES_LIMIT: usize = 20;

/// State of a breaker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CircuitState {
    /// All calls are allowed.
    #[default]
    Closed,
    /// No call is allowed.
    Open {
        /// End of the cooldown.
        until: Timestamp,
    },
    /// One test call is allowed, and its outcome decides.
    HalfOpen {
        /// Newest list that had started at the transition. The test call waits until a later list is complete.
        after_list: u64,
        /// Subject of the test call in flight.
        test_call: Option<Subject>,
    },
}

/// Meaning of a call's result for the engine's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome<'a> {
    /// The engine answered; the answer may be an error about one resource.
    Success,
    /// The engine failed.
    Failure {
        /// Verb of the call's action.
        operation: &'a str,
        /// Reason of the failure.
        why: &'a str,
    },
    /// The result shows nothing about the engine.
    Ignored,
}

/// A change of state, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Time of the change.
    pub at: Timestamp,
    /// New state: `closed`, `open` or `halfOpen`.
    pub to: &'static str,
    /// Reason of the change.
    pub why: String,
}

/// A counted failure, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedFailure {
    /// Time of the failure.
    pub at: Timestamp,
    /// Verb of the action, or `ping`.
    pub operation: String,
    /// Reason of the failure.
    pub error: String,
}

/// A circuit breaker with its recent transitions and failures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    state: CircuitState,
    /// Openings since the breaker was last closed.
    consecutive_openings: u32,
    openings: u64,
    /// Number of failures in a row.
    failure_count: u32,
    /// The newest failures in a row, oldest first. They are kept until the next failure after a success.
    failures: Vec<CountedFailure>,
    history: Vec<Transition>,
}

impl Breaker {
    /// Current state.
    pub fn state(&self) -> &CircuitState {
        &self.state
    }

    /// Number of openings. A call that was planned before the last opening is not executed.
    pub fn openings(&self) -> u64 {
        self.openings
    }

    /// Reason of the last counted failure.
    pub fn last_failure(&self) -> Option<&str> {
        self.failures.last().map(|failure| failure.error.as_str())
    }

    /// Number of failures in a row.
    pub fn failure_count(&self) -> u32 {
        self.failure_count
    }

    /// The last failures in a row, oldest first, at most 20.
    pub fn failures(&self) -> &[CountedFailure] {
        &self.failures
    }

    /// Recent transitions, oldest first, at most 16.
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    /// True if all calls are allowed.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, CircuitState::Closed)
    }

    /// True if a call is allowed now; `complete_list` is the number of the newest complete list.
    pub fn allows_call(&self, complete_list: u64) -> bool {
        match &self.state {
            CircuitState::Closed => true,
            CircuitState::Open { .. }
            | CircuitState::HalfOpen {
                test_call: Some(_), ..
            } => false,
            CircuitState::HalfOpen {
                after_list,
                test_call: None,
            } => complete_list > *after_list,
        }
    }

    /// Records a submitted call. In the half-open state it becomes the test call.
    pub fn on_call(&mut self, subject: &Subject) {
        if let CircuitState::HalfOpen { test_call, .. } = &mut self.state
            && test_call.is_none()
        {
            *test_call = Some(subject.clone());
        }
    }

    /// Records the outcome of a call and changes the state.
    pub fn on_result(
        &mut self,
        subject: &Subject,
        outcome: CallOutcome<'_>,
        settings: BreakerSettings,
        key: &str,
        now: Timestamp,
    ) {
        if let CallOutcome::Failure { operation, why } = outcome {
            self.count_failure(operation, why, now);
        }
        match (&mut self.state, outcome) {
            (CircuitState::Closed, CallOutcome::Success) => self.failure_count = 0,
            (CircuitState::Closed, CallOutcome::Failure { why, .. }) => {
                if self.failure_count >= settings.threshold {
                    let why = format!("{} failures in a row, the last: {why}", self.failure_count);
                    self.open(settings, key, now, why);
                }
            }
            (CircuitState::HalfOpen { test_call, .. }, outcome) if test_call.as_ref() == Some(subject) => {
                match outcome {
                    CallOutcome::Success => self.close(now, "the test call succeeded"),
                    CallOutcome::Failure { why, .. } => {
                        let why = format!("the test call failed: {why}");
                        self.open(settings, key, now, why);
                    }
                    CallOutcome::Ignored => *test_call = None,
                }
            }
            // Calls from before the opening neither end the cooldown nor decide as the test call.
            (CircuitState::Open { .. } | CircuitState::HalfOpen { .. }, _)
            | (CircuitState::Closed, CallOutcome::Ignored) => {}
        }
    }

    /// Counts a failure. Its effect on the state is the decision of the caller.
    pub fn count_failure(&mut self, operation: &str, why: &str, now: Timestamp) {
        if self.failure_count == 0 {
            self.failures.clear();
        }
        self.failure_count = self.failure_count.saturating_add(1);
        self.failures.push(CountedFailure {
            at: now,
            operation: operation.to_owned(),
            error: why.to_owned(),
        });
        let surplus = self.failures.len().saturating_sub(FAILURES_LIMIT);
        self.failures.drain(..surplus);
    }

    /// Opens the breaker until `until` regardless of its counter, because the engine does not answer pings.
    pub fn force_open(&mut self, until: Timestamp, now: Timestamp, why: &str) {
        if !matches!(self.state, CircuitState::Open { .. }) {
            self.consecutive_openings += 1;
            self.openings += 1;
            self.record(now, "open", why.to_owned());
        }
        self.state = CircuitState::Open { until };
    }

    /// Makes an open breaker half-open once its cooldown is over. `list_started` is the number of the newest started list.
    /// Returns true if the state changed.
    pub fn tick(&mut self, list_started: u64, now: Timestamp) -> bool {
        match self.state {
            // A clock that was set back does not extend the cooldown by the same time.
            CircuitState::Open { until } if until <= now || until.since(now) > MAX_COOLDOWN * 2 => {
                self.half_open(list_started, now, "its cooldown is over");
                true
            }
            CircuitState::Open { .. } | CircuitState::Closed | CircuitState::HalfOpen { .. } => false,
        }
    }

    /// Ends the cooldown immediately and clears the counter. Returns true if anything changed.
    pub fn reset(&mut self, list_started: u64, now: Timestamp, why: &str) -> bool {
        match self.state {
            CircuitState::Open { .. } => {
                self.half_open(list_started, now, why);
                true
            }
            CircuitState::Closed => std::mem::take(&mut self.failure_count) > 0,
            CircuitState::HalfOpen { .. } => false,
        }
    }

    /// Closes a half-open breaker without a test call: the complete list proves that the engine answers.
    pub fn close_if_idle(&mut self, complete_list: u64, now: Timestamp) -> bool {
        let idle = matches!(self.state, CircuitState::HalfOpen { .. }) && self.allows_call(complete_list);
        if idle {
            self.close(now, "a full list succeeded, and no action is pending");
        }
        idle
    }

    fn open(&mut self, settings: BreakerSettings, key: &str, now: Timestamp, why: String) {
        self.consecutive_openings += 1;
        self.openings += 1;
        let cooldown = backoff::delay(
            Growth::Exponential,
            settings.cooldown,
            MAX_COOLDOWN,
            self.consecutive_openings,
        );
        let until = now + backoff::jittered(cooldown, key, self.consecutive_openings);
        self.record(now, "open", why);
        self.state = CircuitState::Open { until };
    }

    fn half_open(&mut self, after_list: u64, now: Timestamp, why: &str) {
        self.record(now, "halfOpen", why.to_owned());
        self.state = CircuitState::HalfOpen {
            after_list,
            test_call: None,
        };
    }

    fn close(&mut self, now: Timestamp, why: &str) {
        self.consecutive_openings = 0;
        self.failure_count = 0;
        self.record(now, "closed", why.to_owned());
        self.state = CircuitState::Closed;
    }

    fn record(&mut self, at: Timestamp, to: &'static str, why: String) {
        self.history.push(Transition { at, to, why });
        let surplus = self.history.len().saturating_sub(HISTORY_LIMIT);
        self.history.drain(..surplus);
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
