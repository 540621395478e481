//! Properties that services of one file can reference in each other, collected before admission.

use std::collections::BTreeMap;

use crate::desired::Port;

/// Service or mock, as others can reference it.
#[derive(Debug, Clone, Default)]
pub(super) struct ReferencedService {
    /// Published ports.
    pub(super) ports: Vec<Port>,
    /// True if it is a one-shot service.
    pub(super) one_shot: bool,
}

/// All services and mocks by name.
#[derive(Debug, Clone, Default)]
pub(super) struct ReferencedServices {
    by_name: BTreeMap<String, ReferencedService>,
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

    /// Returns the service or mock of a name.
    pub(super) fn get(&self, name: &str) -> Option<&ReferencedService> {
        self.by_name.get(name)
    }

    /// Iterates over all names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.by_name.keys().map(String::as_str)
    }
}
