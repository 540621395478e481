//! Limits that the engine enforces. An engine drops a limit that it cannot enforce without an error.

use std::sync::atomic::{AtomicBool, Ordering};

use argus_core::observed::Container;
use bollard::models::SystemInfo;

/// Enforced limits, taken from the engine info that other queries fetch anyway.
#[derive(Debug, Default)]
pub(crate) struct EffectiveLimits {
    pids: AtomicBool,
}

impl EffectiveLimits {
    /// Stores the limits that the engine reports.
    pub(crate) fn update(&self, info: &SystemInfo) {
        self.pids.store(info.pids_limit == Some(true), Ordering::Relaxed);
    }

    /// Sets a missing PID limit to 0 (unlimited) when the engine enforces PID limits. Otherwise the limit stays unknown.
    pub(crate) fn complete(&self, container: &mut Container) {
        if let Some(info) = &mut container.inspect
            && self.pids.load(Ordering::Relaxed)
        {
            info.config.pids_limit.get_or_insert(0);
        }
    }
}
