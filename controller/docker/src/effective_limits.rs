//! Which limits the engine keeps, as far as it has said: one that it cannot keep is dropped without an error.

use std::sync::atomic::{AtomicBool, Ordering};

use argus_core::observed::Container;
use bollard::models::SystemInfo;

/// Read off what is asked of the engine anyway.
#[derive(Debug, Default)]
pub(crate) struct EffectiveLimits {
    pids: AtomicBool,
}

impl EffectiveLimits {
    /// The engine told of itself.
    pub(crate) fn note(&self, info: &SystemInfo) {
        self.pids.store(info.pids_limit == Some(true), Ordering::Relaxed);
    }

    /// Where the engine keeps a limit, a container that was seen without one has none.
    pub(crate) fn complete(&self, container: &mut Container) {
        if let Some(facts) = &mut container.inspect
            && self.pids.load(Ordering::Relaxed)
        {
            facts.config.pids_limit.get_or_insert(0);
        }
    }
}
