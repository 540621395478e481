//! What the services of one file may know about each other before any of them is admitted.

use std::collections::BTreeMap;

use crate::desired::Port;

/// One service or mock, as the others see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Peer {
    /// What it publishes.
    pub(super) ports: Vec<Port>,
    /// It runs to its end and is not run again.
    pub(super) one_shot: bool,
}

/// All that will run, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers {
    running: BTreeMap<String, Peer>,
}

impl Peers {
    /// Adds one; the first of two with the same name stays. Says whether the name was free.
    pub(super) fn add(&mut self, name: &str, peer: Peer) -> bool {
        let free = !self.running.contains_key(name);
        if free {
            self.running.insert(name.to_owned(), peer);
        }
        free
    }

    /// The one of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Peer> {
        self.running.get(name)
    }

    /// All names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.running.keys().map(String::as_str)
    }
}
