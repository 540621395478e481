//! Networks of a compose file. An environment has one network, so only their aliases and their isolation are kept.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Service;

/// Network of services without the key `networks`.
const DEFAULT: &str = "default";

impl Service<'_> {
    /// Returns the aliases of a service on all its networks. Notes all other settings.
    pub(super) fn translate_networks(&mut self, value: &Value) -> Option<Value> {
        let mut aliases: Vec<&str> = Vec::new();
        for (network, settings) in value.as_object().into_iter().flatten() {
            for (key, inner) in settings.as_object().into_iter().flatten() {
                if key == "aliases" {
                    aliases.extend(inner.as_array().into_iter().flatten().filter_map(Value::as_str));
                } else {
                    let path = format!("networks.{network}.{key}");
                    self.add_note(&path, &format!("`{path}`"));
                }
            }
        }
        (!aliases.is_empty()).then(|| json!(aliases))
    }
}

/// Returns true if all networks of all services are internal, so that no service can reach other networks.
pub(super) fn are_internal(top: &Value, omitted: &BTreeSet<&str>) -> bool {
    let is_internal = |name: &str| top["networks"][name]["internal"] == true;
    let nothing = Map::new();
    let services = top["services"].as_object().unwrap_or(&nothing);
    let mut kept = services
        .iter()
        .filter(|(name, _)| !omitted.contains(name.as_str()))
        .peekable();
    kept.peek().is_some()
        && kept.all(|(_, service)| match service["networks"].as_object() {
            Some(all) => all.keys().all(|name| is_internal(name)),
            None => is_internal(DEFAULT),
        })
}
