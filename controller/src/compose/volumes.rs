//! External volumes of a compose file. All other volumes need no settings.

use serde_json::{Map, Value, json};

/// Returns the settings of the external volumes that these services mount.
pub(super) fn find_external(top: &Value, services: &[Value]) -> Map<String, Value> {
    let is_mounted = |name: &str| {
        let mounts = services
            .iter()
            .filter_map(|service| service["container"]["volumes"].as_array());
        let mut sources = mounts
            .flatten()
            .filter_map(|mount| mount.as_str()?.split(':').next());
        sources.any(|source| source == name)
    };
    let declared = top["volumes"].as_object().into_iter().flatten();
    let external = declared.filter(|(name, volume)| is_external(volume) && is_mounted(name));
    external
        .map(|(name, volume)| {
            let mut settings = json!({ "external": true });
            if let Some(name) = name_of(volume) {
                settings["name"] = json!(name);
            }
            (name.clone(), settings)
        })
        .collect()
}

/// Returns whether a volume or network exists outside of the project.
pub(super) fn is_external(entry: &Value) -> bool {
    entry["external"] == true || entry["external"].is_object()
}

/// Returns the name of a volume or network on the engine. Its old form is below `external`.
pub(super) fn name_of(entry: &Value) -> Option<&str> {
    entry["name"].as_str().or(entry["external"]["name"].as_str())
}
