//! Settings of automatic retries, restarts and shedding, for all environments of a controller.

use std::time::Duration;

/// Limits of automatic retries and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Maximum number of restarts after repeated failures within one minute.
    pub restarts_per_minute: u32,
    /// Interval of the restarts under `slowRetry` after the budget is spent.
    pub slow_restart: Duration,
    /// Number of failures in a row from which on an action is retried slowly.
    pub action_attempts: u32,
    /// Interval of these retries.
    pub slow_action: Duration,
    /// True if optional services stop while the host is short of memory or disk space.
    pub shed_optional: bool,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            restarts_per_minute: 10,
            slow_restart: Duration::from_secs(60),
            action_attempts: 5,
            slow_action: Duration::from_secs(60),
            shed_optional: false,
        }
    }
}
