//! The schema of a spec file as a tree of keys: the schema of a path, and the paths of a key.

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::environment::E2eSpec;

/// Stands for any name in a map, and for any item of a list.
pub(crate) const ANY: &str = "*";

/// Keys of a schema by name.
pub(crate) type Keys = Map<String, Value>;

/// Returns the schema of a spec file.
pub(crate) fn root() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| schemars::schema_for!(E2eSpec).to_value())
}

/// Follows the references of a schema.
pub(crate) fn resolve(schema: &'static Value) -> &'static Value {
    follow(root(), schema)
}

/// Follows the references of a schema into the document `root`.
pub(crate) fn follow<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        match root.pointer(reference.trim_start_matches('#')) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// Returns the alternatives of a schema, through references; the schema itself if it has none. `null` is no alternative.
pub(crate) fn branches(schema: &'static Value) -> Vec<&'static Value> {
    let schema = resolve(schema);
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(inner) => inner.iter().flat_map(branches).collect(),
        None if schema.get("type").and_then(Value::as_str) == Some("null") => Vec::new(),
        None => vec![schema],
    }
}

/// Returns the keys of the map that a schema permits.
pub(crate) fn keys(schema: &'static Value) -> Option<&'static Keys> {
    let mut all = branches(schema).into_iter();
    all.find_map(|branch| branch.get("properties").and_then(Value::as_object))
}

/// Returns the schema of each value of a map with free names, or of each item of a list.
pub(crate) fn items(schema: &'static Value) -> Option<&'static Value> {
    let of = |name: &'static str| {
        let mut all = branches(schema).into_iter();
        all.find_map(|branch| branch.get(name).filter(|each| each.is_object()))
    };
    of("additionalProperties").or_else(|| of("items"))
}

/// Returns all places of a key in the order of their depth, each once: the same keys in several places have the first path.
pub(crate) fn places(key: &str) -> Vec<(String, &'static Value)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([(String::new(), root())]);
    while let Some((path, schema)) = queue.pop_front() {
        // Equal schemas have equal addresses.
        if let Some(known) = keys(schema) {
            if !seen.insert(std::ptr::from_ref(known).addr()) {
                continue;
            }
            if let Some(schema) = known.get(key) {
                found.push((join(&path, key), schema));
            }
            // The short form `service` has the keys of `services`.
            let inner = known
                .iter()
                .filter(|(name, _)| !path.is_empty() || *name != "service");
            queue.extend(inner.map(|(name, schema)| (join(&path, name), schema)));
        }
        if let Some(each) = items(schema) {
            queue.push_back((join(&path, ANY), each));
        }
    }
    found
}

/// Adds a key to a path.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(key: &str) -> Vec<String> {
        places(key).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn key_has_each_place_once() {
        assert_eq!(paths("pidsLimit"), ["argus.policy.pidsLimit"]);
        assert_eq!(paths("healthcheck"), ["services.*.container.healthcheck"]);
        assert_eq!(paths("nothing"), [""; 0]);
        assert!(paths("retries").contains(&"services.*.container.healthcheck.retries".to_owned()));
    }
}
