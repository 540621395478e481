//! The `build` section of a service.

use serde_json::{Map, Value, json};

use super::{Service, parts};

/// Keys that [`Service::translate_build`] reads.
const KEYS: [&str; 13] = [
    "context",
    "dockerfile",
    "dockerfile_inline",
    "target",
    "args",
    "labels",
    "network",
    "platforms",
    "cache_from",
    "cache_to",
    "secrets",
    "additional_contexts",
    "ssh",
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
        self.translate_cache_targets(&value["cache_to"], &mut build);
        self.translate_build_secrets(&value["secrets"], &mut build);
        self.translate_build_contexts(&value["additional_contexts"], &mut build);
        self.translate_build_agents(&value["ssh"], &mut build);
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
    /// Translates the images of `cache_to`. Argus writes the cache to registries only.
    fn translate_cache_targets(&mut self, list: &Value, build: &mut Value) {
        let mut images = Vec::new();
        for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let mut parts = text.split(',').map(str::trim);
            let is_known =
                |part: &str| part == "type=registry" || part.starts_with("ref=") || part.starts_with("mode=");
            if !text.contains('=') || (text.contains("type=registry") && parts.all(is_known)) {
                images.push(text);
            } else {
                self.add_note("build.cache_to", &format!("`build.cache_to: {text}`"));
            }
        }
        if !images.is_empty() {
            build["cacheTo"] = json!(images);
        }
    }

    /// Translates the secrets of a build, whose sources are under `secrets` of the file.
    fn translate_build_secrets(&mut self, list: &Value, build: &mut Value) {
        const KEY: &str = "build.secrets";
        let mut secrets = Map::new();
        for one in list.as_array().into_iter().flatten() {
            let source = one.as_str().or_else(|| one["source"].as_str());
            let source = source.unwrap_or_default();
            for key in ["uid", "gid", "mode"] {
                if one.get(key).is_some() {
                    self.add_note(KEY, &format!("`{KEY}`: `{key}` of `{source}`"));
                }
            }
            let found = &self.top["secrets"][source];
            let secret = if let Some(file) = found["file"].as_str() {
                json!({ "file": parts::join_paths(&self.project.back, file) })
            } else if let Some(name) = found["environment"].as_str() {
                json!({ "environment": name })
            } else {
                self.add_note(
                    KEY,
                    &format!("`{KEY}`: `{source}` is neither a file nor a variable"),
                );
                continue;
            };
            let id = one["target"].as_str().unwrap_or(source);
            secrets.insert(id.to_owned(), secret);
        }
        if !secrets.is_empty() {
            build["secrets"] = Value::Object(secrets);
        }
    }

    /// Translates the further contexts of a build: folders and images.
    fn translate_build_contexts(&mut self, value: &Value, build: &mut Value) {
        const KEY: &str = "build.additional_contexts";
        let mut contexts = Map::new();
        for pair in parts::join_pairs(value, '=').as_array().into_iter().flatten() {
            let Some((name, from)) = pair.as_str().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            if from.starts_with("service:") || (from.contains("://") && !from.starts_with("docker-image://"))
            {
                self.add_note(
                    KEY,
                    &format!("`{KEY}.{name}`: `{from}` is neither a folder nor an image"),
                );
                continue;
            }
            let from = if from.contains("://") {
                json!(from)
            } else {
                json!(parts::join_paths(&self.project.back, from))
            };
            contexts.insert(name.to_owned(), from);
        }
        if !contexts.is_empty() {
            build["additionalContexts"] = Value::Object(contexts);
        }
    }

    /// Translates the SSH agent of a build. Argus forwards only that of the controller.
    fn translate_build_agents(&mut self, value: &Value, build: &mut Value) {
        let agents = match value {
            Value::Null => return,
            Value::Object(agents) => agents
                .iter()
                .map(|(id, from)| {
                    parts::scalar_to_text(from).map_or_else(|| id.clone(), |from| format!("{id}={from}"))
                })
                .collect(),
            other => {
                let agents = parts::to_list(other);
                let agents = agents.as_array().into_iter().flatten();
                agents.filter_map(parts::scalar_to_text).collect::<Vec<_>>()
            }
        };
        for agent in &agents {
            if agent == "default" {
                build["ssh"] = json!([agent]);
            } else {
                self.add_note(
                    "build.ssh",
                    &format!("`build.ssh: {agent}`; Argus reads no private keys"),
                );
            }
        }
    }
}
