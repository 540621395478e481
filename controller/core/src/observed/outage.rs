//! Outages of the engine.

use std::time::Duration;

use crate::time::Timestamp;

/// Failures up to this long before an outage count as caused by it: the engine still reports them before its stream ends.
const BEFORE_OUTAGE: Duration = Duration::from_secs(15);

/// Period in which the engine was unreachable. Failed runs around it do not count against the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Time of its detection.
    pub from: Timestamp,
    /// Time at which the engine became reachable again; `None` while the outage lasts.
    pub until: Option<Timestamp>,
    /// True if the engine ran throughout: only the connection to it was lost.
    pub engine_ran: bool,
    /// Last time of a failure that counts as caused by it; `None` while the outage lasts.
    near_until: Option<Timestamp>,
}

impl Outage {
    /// Creates an outage that begins.
    pub fn starting_at(from: Timestamp) -> Self {
        Self {
            from,
            until: None,
            engine_ran: false,
            near_until: None,
        }
    }

    /// Ends the outage, unless it has ended. Failures up to `margin` later count as caused by it.
    #[must_use]
    pub fn ended(self, at: Timestamp, margin: Duration) -> Self {
        Self {
            until: self.until.or(Some(at)),
            near_until: self.near_until.or(Some(at + margin)),
            ..self
        }
    }

    /// Records the start time of the engine that is reachable again. A restarted engine is younger than the outage.
    pub(super) fn on_engine_started(&mut self, at: Timestamp) {
        self.engine_ran = at < self.from - BEFORE_OUTAGE;
    }

    /// Returns true if the engine possibly stopped containers at this time. An engine that ran throughout stopped none.
    pub fn may_stop_containers(&self, at: Timestamp) -> bool {
        !self.engine_ran && self.is_near(at)
    }

    /// Returns true if the engine ran from this time on, as far as this outage shows.
    pub fn ran_since(&self, at: Timestamp) -> bool {
        self.engine_ran || self.near_until.is_some_and(|last| at > last)
    }

    /// Returns true for a time during the outage or close to it.
    pub fn is_near(&self, at: Timestamp) -> bool {
        at >= self.from - BEFORE_OUTAGE && self.near_until.is_none_or(|last| at <= last)
    }

    /// Returns true for a time during the outage, or shortly before it while the engine was possibly hanging already.
    pub fn covers(&self, at: Timestamp) -> bool {
        at >= self.from - BEFORE_OUTAGE && self.until.is_none_or(|until| at < until)
    }
}
