//! Keys under `deploy`, and the number of containers of a service.

use serde_json::{Map, Value, json};

use super::variables::Variables;
use super::{Service, parts};

impl Service<'_> {
    /// Returns the number of containers of a service; `None` for one.
    pub(super) fn translate_replicas(&mut self, key: &str, value: &Value) -> Option<Value> {
        let to_number = |value: &Value| Some(json!(parts::scalar_to_text(value)?.parse::<u32>().ok()?));
        self.translate_part(key, value, to_number)
            .filter(|number| *number != 1)
    }

    /// Notes the keys under `deploy` that have no counterpart.
    pub(super) fn note_deploy(&mut self, value: &Value) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            let is_default = match key.as_str() {
                "replicas" => true,
                // Argus restarts failed services with its own delays.
                "restart_policy" => {
                    let mut keys = inner.as_object().into_iter().flat_map(Map::keys);
                    inner["condition"] != "none" && keys.all(|key| key == "condition")
                }
                other => other.starts_with("x-"),
            };
            if is_default {
                continue;
            }
            if key != "resources" {
                self.add_note(&format!("deploy.{key}"), &format!("`deploy.{key}`"));
                continue;
            }
            for (key, inner) in inner.as_object().into_iter().flatten() {
                for name in inner.as_object().into_iter().flat_map(Map::keys) {
                    if key != "limits" || !matches!(name.as_str(), "cpus" | "memory") {
                        let path = format!("deploy.resources.{key}.{name}");
                        self.add_note(&path, &format!("`{path}`"));
                    }
                }
            }
        }
    }
}

/// Returns whether Compose starts no container of a service.
pub(super) fn has_no_replicas(service: &Value, variables: &mut Variables) -> bool {
    let written = [&service["scale"], &service["deploy"]["replicas"]];
    written.into_iter().any(|value| variables.is_number(value, 0))
}
