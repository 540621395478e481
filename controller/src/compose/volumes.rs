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
            // The old form of the name is below `external`.
            if let Some(name) = volume["name"].as_str().or(volume["external"]["name"].as_str()) {
                settings["name"] = json!(name);
            }
            (name.clone(), settings)
        })
        .collect()
}

/// Returns whether a volume exists outside of the project.
pub(super) fn is_external(volume: &Value) -> bool {
    volume["external"] == true || volume["external"].is_object()
}
