//! In-memory folders of a service: `tmpfs`, volumes of the type `tmpfs`, and `shm_size`.

use serde_json::{Map, Value, json};

use super::{Service, parts};

/// Shared memory of a container.
const SHARED_MEMORY: &str = "/dev/shm";

impl Service<'_> {
    /// Returns all in-memory folders as entries of `tmpfs`.
    pub(super) fn translate_memory(&mut self, keys: &Map<String, Value>) -> Vec<Value> {
        let written = keys.get("tmpfs").and_then(Value::as_array);
        let mut all = written.cloned().unwrap_or_default();
        let volumes = keys.get("volumes").and_then(Value::as_array);
        for (index, volume) in volumes.into_iter().flatten().enumerate() {
            let Some(target) = volume["target"].as_str().filter(|_| is_memory(volume)) else {
                continue;
            };
            let size = &volume["tmpfs"]["size"];
            let key = format!("volumes[{index}].tmpfs.size");
            all.push(self.sized(target, &key, size));
        }
        if let Some(size) = keys.get("shm_size").filter(|size| !size.is_null()) {
            all.push(self.sized(SHARED_MEMORY, "shm_size", size));
        }
        all
    }

    fn sized(&mut self, target: &str, key: &str, size: &Value) -> Value {
        match self.translate_part(key, size, translate_size) {
            Some(size) => json!(format!("{target}:size={}", size.as_str().unwrap_or_default())),
            None => json!(target),
        }
    }
}

/// Returns whether a volume is in memory.
pub(super) fn is_memory(volume: &Value) -> bool {
    volume["type"] == "tmpfs" && volume["target"].is_string()
}

/// Translates a size to that of a tmpfs: a whole number with a unit of one letter.
fn translate_size(value: &Value) -> Option<Value> {
    match parts::translate_size(value)? {
        Value::Number(bytes) => Some(json!(bytes.to_string())),
        Value::String(text) => {
            let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
            let unit = unit.chars().next().filter(char::is_ascii_alphabetic)?;
            Some(json!(format!("{number}{}", unit.to_ascii_lowercase())))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
