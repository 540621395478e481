//! Keys that the Compose specification does not have. Compose rejects a file with such a key; a translation without it would be
//! another service.

use std::collections::BTreeSet;

use argus_crds::suggestion::nearest;
use serde_json::Value;

/// All keys of the specification. The file defines its form.
pub(super) const KEYS: &str = include_str!("keys.txt");

/// Unknown key.
pub(super) struct UnknownKey {
    /// Path of the key, such as `services.web.ports[0].publishd`.
    pub(super) path: String,
    /// The most similar key of the same map.
    pub(super) nearest: Option<&'static str>,
}

/// Removes the unknown keys from a value. `pattern` is its path in [`KEYS`], and `path` its path in the file.
pub(super) fn remove(value: &mut Value, pattern: &str, path: &str, found: &mut Vec<UnknownKey>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                remove(item, &format!("{pattern}.[]"), &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => {
            let known = keys_below(pattern);
            // Any name is valid here, or only a list has known keys.
            if known.is_empty() || known == BTreeSet::from(["[]"]) {
                return;
            }
            fields.retain(|key, inner| {
                let path = join(path, key);
                let name = if known.contains("*") { "*" } else { key.as_str() };
                if known.contains(name) {
                    remove(inner, &join(pattern, name), &path, found);
                } else if !key.starts_with("x-") {
                    let nearest = nearest(key, known.iter().copied());
                    found.push(UnknownKey { path, nearest });
                    return false;
                }
                true
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Keys directly below a path, with `*` for any name and `[]` for the items of a list.
fn keys_below(pattern: &str) -> BTreeSet<&'static str> {
    let keys = KEYS.lines().filter(|line| !line.starts_with('#'));
    let rests = keys.filter_map(|line| {
        let key = line.split(' ').next()?;
        if pattern.is_empty() {
            return Some(key);
        }
        key.strip_prefix(pattern)?.strip_prefix('.')
    });
    rests.filter_map(|rest| rest.split('.').next()).collect()
}
