//! The `build` section of a service.

use serde_json::{Map, Value, json};

use super::{Service, parts};

/// Keys that [`Service::translate_build`] reads.
const KEYS: [&str; 9] = [
    "context",
    "dockerfile",
    "dockerfile_inline",
    "target",
    "args",
    "labels",
    "network",
    "platforms",
    "cache_from",
];

impl Service<'_> {
    pub(super) fn translate_build(&mut self, value: &Value) -> Option<Value> {
        let context = value
            .as_str()
            .or_else(|| value["context"].as_str())
            .unwrap_or(".");
        if context.contains("://") {
            self.add_note("build", "`build`: its context is not a folder");
            return None;
        }
        let folder = parts::join_paths(&self.project.back, context);
        let mut build = json!({ "context": folder });
        if let Some(file) = value["dockerfile"].as_str() {
            build["dockerfile"] = json!(parts::join_paths(&folder, file));
        }
        if let Some(text) = value["dockerfile_inline"].as_str() {
            build["dockerfileInline"] = json!(text);
        }
        let labels = parts::translate_labels(&value["labels"]);
        let args = self.translate_environment("build.args", &value["args"]);
        for (key, map) in [("args", args), ("labels", labels)] {
            if map.as_object().is_some_and(|map| !map.is_empty()) {
                build[key] = map;
            }
        }
        if let Some(target) = parts::scalar_to_text(&value["target"]) {
            build["target"] = json!(target);
        }
        match value["network"].as_str() {
            None => {}
            Some(network @ ("default" | "none")) => build["network"] = json!(network),
            Some(network) => self.add_note("build.network", &format!("`build.network: {network}`")),
        }
        match value["platforms"].as_array().map(Vec::as_slice) {
            None | Some([]) => {}
            Some([platform]) => build["platform"] = platform.clone(),
            Some(_) => self.add_note(
                "build.platforms",
                "`build.platforms`, which lists several platforms",
            ),
        }
        self.translate_build_cache(&value["cache_from"], &mut build);
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !KEYS.contains(&key.as_str()) && !key.starts_with("x-") {
                self.add_note(&format!("build.{key}"), &format!("`build.{key}`"));
            }
        }
        Some(build)
    }

    /// Translates the images of `cache_from`. The engine reads no other kind of cache, such as `type=gha`.
    fn translate_build_cache(&mut self, list: &Value, build: &mut Value) {
        let mut images = Vec::new();
        for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            match text.strip_prefix("type=registry,ref=").unwrap_or(text) {
                other if other.contains('=') => {
                    self.add_note("build.cache_from", &format!("`build.cache_from: {other}`"));
                }
                image => images.push(image),
            }
        }
        if !images.is_empty() {
            build["cacheFrom"] = json!(images);
        }
    }
}
