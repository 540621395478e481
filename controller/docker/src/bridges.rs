//! Bridges of networks on the engine's host.
//!
//! The engine does not notice that a bridge was deleted: an inspect still shows its network. Containers of the network
//! then reach nothing, and none of them can start again. Two facts show it: the engine's message about a start, and
//! the list of interfaces, if this process shares the engine's network namespace.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use argus_core::ident::NetworkId;
use argus_core::observed::Network;

/// Interfaces of the network namespace of this process.
const INTERFACES: &str = "/proc/thread-self/net/dev";
/// Number of characters of a network's id in the name of its bridge.
const SHORT_ID: usize = 12;

/// Bridges that this process saw, and bridges that the engine reported as missing.
#[derive(Debug, Default)]
pub(crate) struct Bridges {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    seen: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl Bridges {
    /// Records the bridge that a message of the engine reports as missing. Returns false for other messages.
    pub(crate) fn on_refusal(&self, message: &str) -> bool {
        let Some(bridge) = missing_bridge(message) else {
            return false;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.missing.insert(bridge.to_owned());
        true
    }

    /// Returns whether a bridge of these networks no longer exists. A bridge that was never seen may be on another host.
    pub(crate) fn is_any_missing<'a>(&self, networks: impl IntoIterator<Item = &'a NetworkId>) -> bool {
        let interfaces = read_interfaces();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // No short circuit: each bridge that exists is recorded.
        networks
            .into_iter()
            .filter(|id| known.is_missing(id, &interfaces))
            .count()
            > 0
    }

    /// Sets [`Network::is_broken`], and forgets the bridges of all other networks.
    pub(crate) fn on_listed(&self, networks: &mut [Network]) {
        let interfaces = read_interfaces();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for network in &mut *networks {
            network.is_broken = known.is_missing(&network.id, &interfaces);
        }
        let names: BTreeSet<String> = networks.iter().map(|network| bridge_name(&network.id)).collect();
        known.seen.retain(|bridge| names.contains(bridge));
        known.missing.retain(|bridge| names.contains(bridge));
    }
}

impl Known {
    fn is_missing(&mut self, network: &NetworkId, interfaces: &str) -> bool {
        let bridge = bridge_name(network);
        let is_there = |line: &str| {
            line.trim_start()
                .strip_prefix(&bridge)
                .is_some_and(|rest| rest.starts_with(':'))
        };
        if interfaces.lines().any(is_there) {
            self.missing.remove(&bridge);
            self.seen.insert(bridge);
            return false;
        }
        self.seen.contains(&bridge) || self.missing.contains(&bridge)
    }
}

/// Interfaces of this process. A read of this file does not wait for a disk.
fn read_interfaces() -> String {
    std::fs::read_to_string(INTERFACES).unwrap_or_default()
}

fn bridge_name(network: &NetworkId) -> String {
    let short: String = network.as_str().chars().take(SHORT_ID).collect();
    format!("br-{short}")
}

/// Name of the bridge that a message of the engine reports as missing. The message differs between versions:
/// `could not find bridge br-0123456789ab` and `adding interface veth0 to bridge br-0123456789ab failed: Device does not exist`.
pub(crate) fn missing_bridge(message: &str) -> Option<&str> {
    let text = message.to_ascii_lowercase();
    let is_missing = [
        "could not find bridge",
        "device does not exist",
        "no such network interface",
        "no such device",
    ];
    if !is_missing.iter().any(|words| text.contains(words)) {
        return None;
    }
    let (at, _) = text.match_indices("br-").find(|(at, _)| {
        let name = message.get(at + 3..at + 3 + SHORT_ID);
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })?;
    message.get(at..at + 3 + SHORT_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_both_engines_name_the_bridge() {
        let old = "failed to create endpoint web on network shop: adding interface vethe1c to bridge br-0123456789ab failed: could not find bridge br-0123456789ab: route ip+net: no such network interface";
        let new = "failed to create endpoint web on network shop: adding interface vethe1c to bridge br-0123456789ab failed: Device does not exist";
        for message in [old, new] {
            assert_eq!(missing_bridge(message), Some("br-0123456789ab"));
        }
        for other in ["could not find bridge br-0", "no bridge br-0123456789ab", ""] {
            assert_eq!(missing_bridge(other), None, "{other}");
        }
    }

    #[test]
    fn bridge_is_missing_only_after_it_was_seen_or_reported() {
        let id = NetworkId::new("0123456789abcdef").unwrap();
        let with = "  lo: 0 0\nbr-0123456789ab: 12 0\n";
        let without = "  lo: 0 0\nbr-0123456789abc: 12 0\n";
        let mut known = Known::default();
        assert!(!known.is_missing(&id, without), "it may be on another host");
        assert!(!known.is_missing(&id, with));
        assert!(known.is_missing(&id, without));
        assert!(!known.is_missing(&id, with));
        let bridges = Bridges::default();
        assert!(bridges.on_refusal("could not find bridge br-0123456789ab"));
        assert!(bridges.is_any_missing([&id]));
    }
}
