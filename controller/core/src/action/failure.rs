//! Failures of actions and their retry delays.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ActionKind;
use crate::backoff::{self, Growth};
use crate::outcome::{ActionError, one_line};
use crate::retry::RetrySettings;
use crate::time::Timestamp;

/// Number of retries of an interrupted build with increasing delays.
const BUILD_RETRIES: u32 = 3;
/// Delay of the first retries of an action that needs a change.
const CHANGE_DELAY: Duration = Duration::from_secs(10);
/// Time from which on failures in a row are persistent.
const PERSISTENT_AFTER: Duration = Duration::from_secs(30);
/// Maximum number of stored attempts.
const MAX_ATTEMPTS: usize = 6;

/// Last failure of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionFailure {
    /// Kind of the action.
    pub verb: ActionKind,
    /// Error of the call.
    pub error: ActionError,
    /// Time of the last failure.
    pub at: Timestamp,
    /// Number of failures in a row.
    pub attempts: u32,
    /// Earlier failures in a row: the first one and the last ones, at most six.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<FailedAttempt>,
    /// Arguments of the call.
    #[serde(default)]
    pub call: Box<CallArgs>,
}

/// A failed attempt of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// Time of the failure.
    pub at: Timestamp,
    /// First line of its error.
    pub error: String,
}

/// Identifier, arguments and limits of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallArgs {
    /// Identifier of the action, as in the journal; empty in the state of an earlier version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Arguments without values of variables.
    pub arguments: Map<String, Value>,
    /// Deadline of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Limits of its retries.
    #[serde(skip)]
    pub retries: RetrySettings,
    /// Time from which on a retry may run early, because the cause of the failure may have ended.
    #[serde(skip)]
    pub early_retry: Option<Timestamp>,
}

impl ActionFailure {
    /// Failed attempts in a row, oldest first: the first one and the last ones, at most six.
    pub fn failed_attempts(&self) -> Vec<FailedAttempt> {
        let mut attempts = self.earlier.clone();
        attempts.push(FailedAttempt {
            at: self.at,
            error: one_line(&self.error.to_string()),
        });
        if attempts.len() > MAX_ATTEMPTS {
            attempts.remove(1);
        }
        attempts
    }

    /// Time of the first failure in a row.
    pub fn since(&self) -> Timestamp {
        self.earlier.first().map_or(self.at, |first| first.at)
    }

    /// True if the action failed as often in a row as it may be retried quickly.
    fn is_spent(&self) -> bool {
        self.attempts >= self.call.retries.action_attempts
    }

    /// True if the failure lasts for 30 s or has spent its budget of attempts. The breaker of the engine decides about failures of
    /// the engine.
    pub fn is_persistent(&self) -> bool {
        let is_of_engine = matches!(
            self.error,
            ActionError::Unreachable(_)
                | ActionError::Engine(_)
                | ActionError::ConnectionLost(_)
                | ActionError::CircuitOpen
        );
        !is_of_engine && (self.is_spent() || self.has_lasted())
    }

    /// True if the call has failed for 30 s.
    pub fn has_lasted(&self) -> bool {
        self.at.since(self.since()) >= PERSISTENT_AFTER
    }

    /// True if only a change outside Argus ends the failure. Argus then checks slowly for that change, or waits for a command.
    pub fn needs_change(&self) -> bool {
        self.error.signs().needs_change
    }

    /// Permits an early retry because an address range became free; false if that changes nothing. It keeps the failed attempts.
    pub(crate) fn retry_from(&mut self, at: Timestamp) -> bool {
        let is_earlier = matches!(self.error, ActionError::PoolExhausted(_))
            && self.call.early_retry.is_none_or(|early| at < early);
        if is_earlier {
            self.call.early_retry = Some(at);
        }
        is_earlier
    }

    /// Earliest time of the next attempt; `None` if repeating cannot succeed. Different jitter keys spread the attempts.
    pub fn retry_at(&self, jitter_key: &str) -> Option<Timestamp> {
        let regular = self.regular_retry_at(jitter_key)?;
        Some(self.call.early_retry.map_or(regular, |early| early.min(regular)))
    }

    fn regular_retry_at(&self, jitter_key: &str) -> Option<Timestamp> {
        let grow = |base: u64, cap: u64| {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let delay = backoff::delay(Growth::Exponential, base, cap, self.attempts);
            Some(self.at + backoff::jittered(delay, jitter_key, self.attempts))
        };
        let recheck =
            Some(self.at + backoff::jittered(self.call.retries.slow_action, jitter_key, self.attempts));
        match &self.error {
            ActionError::Unknown(_)
            | ActionError::TimedOut(_)
            | ActionError::StartFailed(_)
            | ActionError::PullFailed(_)
            | ActionError::Gone
            | ActionError::NetworkGone(_)
            | ActionError::Busy(_)
            | ActionError::NameTaken { .. }
            | ActionError::PoolExhausted(_)
            | ActionError::DiskFull(_)
                if self.is_spent() && !self.verb.is_removal() =>
            {
                recheck
            }
            // The breaker of the engine limits these.
            ActionError::Unknown(_)
            | ActionError::TimedOut(_)
            | ActionError::ConnectionLost(_)
            | ActionError::Unreachable(_)
            | ActionError::Engine(_) => grow(500, 60_000),
            ActionError::Gone
            | ActionError::NetworkGone(_)
            | ActionError::NetworkInUse(_)
            | ActionError::Busy(_) => grow(500, 30_000),
            ActionError::StartFailed(_) | ActionError::PullFailed(_) => grow(2_000, 60_000),
            ActionError::BuildInterrupted { .. } if self.attempts <= BUILD_RETRIES => grow(5_000, 60_000),
            ActionError::BuildInterrupted { .. }
            | ActionError::ImageNotFound(_)
            | ActionError::AuthRequired(_)
            | ActionError::MountRefused(_)
            | ActionError::BadMount(_)
            | ActionError::VolumeNotFound(_)
            | ActionError::NetworkNotFound(_) => recheck,
            ActionError::RateLimited { retry_after, .. } => {
                let requested = retry_after.map(|span| self.at + span);
                grow(10_000, 300_000).max(requested)
            }
            ActionError::NameTaken { .. } | ActionError::PoolExhausted(_) | ActionError::DiskFull(_) => {
                Some(self.at + CHANGE_DELAY)
            }
            // The port assignment decides about ports, and the image's own subject about images.
            ActionError::PortTaken(_)
            | ActionError::ImageMissing
            | ActionError::CircuitOpen
            | ActionError::Cancelled
            | ActionError::JournalUnwritable(_) => Some(self.at),
            ActionError::BuildFailed { .. }
            | ActionError::EntrypointNotFound(_)
            | ActionError::NotOwned(_)
            | ActionError::Rejected(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_action_is_retried_slowly_after_its_budget() {
        let delay = |verb: ActionKind, error: &ActionError, attempts, retries| {
            let failure = ActionFailure {
                verb,
                error: error.clone(),
                at: Timestamp(0),
                attempts,
                earlier: Vec::new(),
                call: Box::new(CallArgs {
                    retries,
                    ..CallArgs::default()
                }),
            };
            let at = failure.retry_at("a").unwrap();
            (at.0 + 9_000) / 18_000 * 18
        };
        let text = String::new;
        let create = ActionKind::CreateContainer;
        let all = [
            (create, ActionError::NameTaken { holder: text() }),
            (ActionKind::CreateNetwork, ActionError::PoolExhausted(text())),
            (ActionKind::StartContainer, ActionError::DiskFull(text())),
            (create, ActionError::NetworkGone(text())),
            (create, ActionError::Busy(text())),
            (ActionKind::PullImage, ActionError::PullFailed(text())),
        ];
        let few = RetrySettings {
            action_attempts: 2,
            slow_action: Duration::from_secs(600),
            ..RetrySettings::default()
        };
        for (verb, error) in &all {
            let with = |attempts, retries| delay(*verb, error, attempts, retries);
            assert!(with(4, RetrySettings::default()) < 36, "{error}");
            assert!((54..=72).contains(&with(5, RetrySettings::default())), "{error}");
            assert!((54..=72).contains(&with(50, RetrySettings::default())), "{error}");
            assert!(with(1, few) < 36 && with(2, few) >= 504, "{error}");
        }
        // A removal continues with growing delays.
        let busy = ActionError::Busy(text());
        let removal = delay(ActionKind::RemoveContainer, &busy, 9, RetrySettings::default());
        assert!(removal <= 36, "{removal}");
    }

    #[test]
    fn interrupted_build_is_retried_three_times_then_each_minute() {
        let delay = |attempts| {
            let failure = ActionFailure {
                verb: ActionKind::BuildImage,
                error: ActionError::BuildInterrupted {
                    message: "connection refused".to_owned(),
                    log: "Step 1/1 : FROM x".to_owned(),
                },
                at: Timestamp(0),
                attempts,
                earlier: Vec::new(),
                call: Box::default(),
            };
            assert!(!failure.needs_change());
            let seconds = failure.retry_at("image").unwrap().0 / 1_000;
            [5, 10, 20, 60]
                .into_iter()
                .find(|base| (base * 85..=base * 115).contains(&(seconds * 100 + 50)))
        };
        assert_eq!(
            [1, 2, 3, 4, 9].map(delay),
            [Some(5), Some(10), Some(20), Some(60), Some(60)]
        );
    }
}
