//! Networks of a compose file, and the networks of its services.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Note, Service, volumes};

/// Network of services without the key `networks`.
const DEFAULT: &str = "default";

impl Service<'_> {
    /// Returns the networks of a service with its aliases. Notes all other settings.
    pub(super) fn translate_networks(&mut self, value: &Value) -> Option<Value> {
        let mut networks = Map::new();
        for (network, settings) in value.as_object().into_iter().flatten() {
            if network != DEFAULT && self.top["networks"].get(network).is_none() {
                let what = format!("`{}`: the file declares no network `{network}`", self.name);
                let place = self.document.place(self.name, "networks");
                self.notes.push(Note::error(what, place));
            }
            let mut kept = Map::new();
            for (key, inner) in settings.as_object().into_iter().flatten() {
                if key == "aliases" {
                    kept.insert(key.clone(), inner.clone());
                } else {
                    let path = format!("networks.{network}.{key}");
                    self.add_note(&path, &format!("`{path}`"));
                }
            }
            networks.insert(network.clone(), Value::Object(kept));
        }
        (!networks.is_empty()).then_some(Value::Object(networks))
    }

    /// Leaves out the ports of a service that has only internal networks. The engine does not publish them.
    pub(super) fn omit_unpublished_ports(&mut self, container: &mut Map<String, Value>) {
        let top = &self.top["networks"];
        let is_internal = |name: &str| translate(&top[name]).contains_key("internal");
        let is_isolated = match container.get("networks").and_then(Value::as_object) {
            Some(networks) => networks.keys().all(|name| is_internal(name)),
            None => is_internal(DEFAULT),
        };
        if is_isolated && container.shift_remove("ports").is_some() {
            self.add_note("ports", "`ports`, because all its networks are internal");
        }
    }
}

/// Returns the settings of the default network, and those of the further networks of these services by name.
pub(super) fn find_settings(top: &Value, services: &[Value]) -> (Map<String, Value>, Map<String, Value>) {
    let listed = services
        .iter()
        .filter_map(|service| service["container"]["networks"].as_object());
    let names: BTreeSet<&String> = listed.flat_map(Map::keys).collect();
    let settings = |name: &str| translate(&top["networks"][name]);
    let further = names.into_iter().filter(|name| *name != DEFAULT);
    let further = further.map(|name| (name.clone(), Value::Object(settings(name))));
    (settings(DEFAULT), further.collect())
}

fn translate(network: &Value) -> Map<String, Value> {
    let mut settings = Map::new();
    if volumes::is_external(network) {
        settings.insert("external".to_owned(), json!(true));
    } else if network["internal"] == true {
        settings.insert("internal".to_owned(), json!(true));
    }
    if let Some(name) = volumes::name_of(network) {
        settings.insert("name".to_owned(), json!(name));
    }
    settings
}
