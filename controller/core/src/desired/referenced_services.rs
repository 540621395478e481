//! Properties that services of one file can reference in each other, collected before admission.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use argus_crds::Diagnostic;

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
/// Cause and hint of the error about a file whose templates have longer values.
pub(super) const TEMPLATES: [&str; 2] = ["after the resolution of its templates", "shorten the variables"];

/// All services and mocks by name.
#[derive(Debug, Clone, Default)]
pub(super) struct ReferencedServices {
    by_name: BTreeMap<String, ReferencedService>,
    /// Size of the texts whose templates are resolved, and of the further replicas, in bytes. A short file can refer to a long variable
    /// often.
    resolved: Cell<usize>,
    /// Error about texts that are too long, at the place of the first excess.
    excess: OnceCell<Diagnostic>,
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

    /// Counts a resolved text at a path; returns whether the texts of the file are still short enough.
    pub(super) fn add_resolved(&self, bytes: usize, path: &str, [cause, hint]: [&str; 2]) -> bool {
        self.resolved.set(self.resolved.get().saturating_add(bytes));
        if self.resolved.get() > MAX_RESOLVED {
            let message = || format!("the file exceeds 16 MiB {cause}");
            self.excess
                .get_or_init(|| Diagnostic::error(path, message()).hint(hint));
        }
        self.excess().is_none()
    }

    /// Returns the error about resolved texts that are too long.
    pub(super) fn excess(&self) -> Option<&Diagnostic> {
        self.excess.get()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_excess_is_the_error() {
        let services = ReferencedServices::default();
        assert!(services.add_resolved(MAX_RESOLVED, "services.a", TEMPLATES));
        assert_eq!(services.excess(), None);
        for path in ["services.b", "services.c"] {
            assert!(!services.add_resolved(1, path, TEMPLATES));
        }
        let error = services.excess().unwrap();
        assert!(error.is_error());
        assert_eq!(error.path, "services.b");
    }
}
