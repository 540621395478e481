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
pub struct Settings {
    /// So many failures in a row open it.
    pub threshold: u32,
    /// How long it stays open the first time; doubles while it opens again without having closed.
    pub cooldown: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threshold: 5,
            cooldown: Duration::from_secs(30),
        }
    }
}

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
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
pub enum Answer<'a> {
    /// There is somebody who answers, whatever the answer is.
    Good,
    /// This is a failure of whoever was called.
    Bad(&'a str),
    /// Nothing can be said.
    Silent,
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
    state: State,
    /// Openings since it was closed last.
    in_a_row: u32,
    openings: u64,
    last_failure: Option<String>,
    history: Vec<Transition>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed { failures: 0 },
            in_a_row: 0,
            openings: 0,
            last_failure: None,
            history: Vec::new(),
        }
    }
}

impl Breaker {
    /// How it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How often it opened: a call that was decided on before the last time is not made any more.
    pub fn openings(&self) -> u64 {
        self.openings
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
        matches!(self.state, State::Closed { .. })
    }

    /// Nothing was ever counted.
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a call may be made now, when the newest complete list has this number.
    pub fn lets_one_through(&self, complete_list: u64) -> bool {
        match &self.state {
            State::Closed { .. } => true,
            State::Open { .. } | State::HalfOpen { probe: Some(_), .. } => false,
            State::HalfOpen {
                after_list,
                probe: None,
            } => complete_list > *after_list,
        }
    }

    /// A call is on its way. In the half-open state it is the one that decides.
    pub fn called(&mut self, subject: &Subject) {
        if let State::HalfOpen { probe, .. } = &mut self.state
            && probe.is_none()
        {
            *probe = Some(subject.clone());
        }
    }

    /// A call came back.
    pub fn heard(
        &mut self,
        subject: &Subject,
        answer: Answer<'_>,
        settings: Settings,
        key: &str,
        now: Timestamp,
    ) {
        if let Answer::Bad(why) = answer {
            self.last_failure = Some(why.to_owned());
        }
        match (&mut self.state, answer) {
            (State::Closed { failures }, Answer::Good) => *failures = 0,
            (State::Closed { failures }, Answer::Bad(why)) => {
                *failures += 1;
                if *failures >= settings.threshold {
                    let why = format!("{failures} failures in a row, the last: {why}");
                    self.open(settings, key, now, why);
                }
            }
            (State::HalfOpen { probe, .. }, answer) if probe.as_ref() == Some(subject) => match answer {
                Answer::Good => self.close(now, "the one call that was let through was answered"),
                Answer::Bad(why) => {
                    let why = format!("the one call that was let through failed: {why}");
                    self.open(settings, key, now, why);
                }
                Answer::Silent => *probe = None,
            },
            // Of a call that was made before it opened: neither does it end the cooldown, nor is it the one that decides.
            (State::Open { .. } | State::HalfOpen { .. }, _) | (State::Closed { .. }, Answer::Silent) => {}
        }
    }

    /// It opens whatever was counted, because whoever is called was seen to be away; it stays open until then at least.
    pub fn hold_open(&mut self, until: Timestamp, now: Timestamp, why: &str) {
        self.last_failure = Some(why.to_owned());
        if !matches!(self.state, State::Open { .. }) {
            self.in_a_row += 1;
            self.openings += 1;
            self.note(now, "open", why.to_owned());
        }
        self.state = State::Open { until };
    }

    /// The cooldown is over. `begun_list`: the newest list that has begun. Tells whether it was that.
    pub fn tick(&mut self, begun_list: u64, now: Timestamp) -> bool {
        match self.state {
            // A clock that was set back must not keep it open for as long as it was set back.
            State::Open { until } if until <= now || until.since(now) > LONGEST * 2 => {
                self.half_open(begun_list, now, "its cooldown is over");
                true
            }
            State::Open { .. } | State::Closed { .. } | State::HalfOpen { .. } => false,
        }
    }

    /// It is tried at once. Tells whether that changes anything.
    pub fn reset(&mut self, begun_list: u64, now: Timestamp, why: &str) -> bool {
        match &mut self.state {
            State::Open { .. } => {
                self.half_open(begun_list, now, why);
                true
            }
            State::Closed { failures } => {
                let counted = *failures > 0;
                *failures = 0;
                counted
            }
            State::HalfOpen { .. } => false,
        }
    }

    /// There is no call to try it with: that the list was answered is all there is to know.
    pub fn rest(&mut self, complete_list: u64, now: Timestamp) -> bool {
        let idle = matches!(self.state, State::HalfOpen { .. }) && self.lets_one_through(complete_list);
        if idle {
            self.close(now, "a full list was answered, and nothing is to be done");
        }
        idle
    }

    fn open(&mut self, settings: Settings, key: &str, now: Timestamp, why: String) {
        self.in_a_row += 1;
        self.openings += 1;
        let cooldown = backoff::delay(Growth::Exponential, settings.cooldown, LONGEST, self.in_a_row);
        let until = now + backoff::jittered(cooldown, key, self.in_a_row);
        self.note(now, "open", why);
        self.state = State::Open { until };
    }

    fn half_open(&mut self, after_list: u64, now: Timestamp, why: &str) {
        self.note(now, "halfOpen", why.to_owned());
        self.state = State::HalfOpen {
            after_list,
            probe: None,
        };
    }

    fn close(&mut self, now: Timestamp, why: &str) {
        self.in_a_row = 0;
        self.note(now, "closed", why.to_owned());
        self.state = State::Closed { failures: 0 };
    }

    fn note(&mut self, at: Timestamp, to: &'static str, why: String) {
        self.history.push(Transition { at, to, why });
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
