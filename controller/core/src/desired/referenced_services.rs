//! Properties that services of one file can reference in each other, collected before admission.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::desired::Port;

/// Service or mock, as others can reference it.
#[derive(Debug, Clone, Default)]
pub(super) struct ReferencedService {
    /// Published ports.
    pub(super) ports: Vec<Port>,
    /// True if it is a one-shot service.
    pub(super) one_shot: bool,
    /// True if others use it while it runs: it publishes a port or has a health check.
    pub(super) is_server: bool,
}

/// Maximum size of all texts of a file after the resolution of their templates, in bytes.
const MAX_RESOLVED: usize = 16 * 1024 * 1024;
/// Start of each message about a file with longer texts.
pub(super) const TOO_LONG: &str = "the file exceeds 16 MiB";

/// All services and mocks by name.
#[derive(Debug, Clone, Default)]
pub(super) struct ReferencedServices {
    by_name: BTreeMap<String, ReferencedService>,
    /// Size of the texts whose templates are resolved, and of the further replicas, in bytes. A short file can refer to a long variable
    /// often.
    resolved: Cell<usize>,
}

impl ReferencedServices {
    /// Adds a service or mock, unless the name exists already; returns whether the name was free.
    pub(super) fn add(&mut self, name: &str, referenced: ReferencedService) -> bool {
        let is_free = !self.by_name.contains_key(name);
        if is_free {
            self.by_name.insert(name.to_owned(), referenced);
        }
        is_free
    }

    /// Counts a resolved text; returns whether the texts of the file are still short enough.
    pub(super) fn add_resolved(&self, bytes: usize) -> bool {
        self.resolved.set(self.resolved.get().saturating_add(bytes));
        !self.is_too_long()
    }

    /// Returns whether the resolved texts of the file are too long.
    pub(super) fn is_too_long(&self) -> bool {
        self.resolved.get() > MAX_RESOLVED
    }

    /// Returns the service or mock of a name.
    pub(super) fn get(&self, name: &str) -> Option<&ReferencedService> {
        self.by_name.get(name)
    }

    /// Iterates over all names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.by_name.keys().map(String::as_str)
    }
}
