//! Detection of schemas that refer to themselves without a step into the value. Their validation would never end.

use std::collections::BTreeSet;

use serde_json::Value;

use super::json_pointer::{escape, target};

/// Keys with schemas for the same value: single schemas (`ONE`), and lists or maps of schemas (`MANY`).
const ONE: [&str; 4] = ["not", "if", "then", "else"];
const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "dependentSchemas"];

/// Depth-first search over the schemas of a document.
pub(super) struct Search<'a> {
    root: &'a Value,
    done: BTreeSet<String>,
    path: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            done: BTreeSet::new(),
            path: Vec::new(),
        }
    }

    /// Returns the pointer at which a schema, or a nested one, refers back to itself.
    pub(super) fn circle(&mut self, pointer: &str) -> Option<String> {
        if self.path.iter().any(|before| before == pointer) {
            return Some(pointer.to_owned());
        }
        if !self.done.insert(pointer.to_owned()) {
            return None;
        }
        let Some(Value::Object(map)) = self.root.pointer(pointer) else {
            return None;
        };
        let mut same: Vec<String> = map
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(target)
            .into_iter()
            .collect();
        let mut inner = Vec::new();
        for (key, value) in map {
            let here = format!("{pointer}/{}", escape(key));
            let to = if ONE.contains(&key.as_str()) || MANY.contains(&key.as_str()) {
                &mut same
            } else {
                &mut inner
            };
            match value {
                Value::Object(_) if ONE.contains(&key.as_str()) => to.push(here),
                Value::Object(map)
                    if ["properties", "patternProperties", "dependentSchemas", "$defs"]
                        .contains(&key.as_str()) =>
                {
                    to.extend(map.keys().map(|name| format!("{here}/{}", escape(name))));
                }
                Value::Object(_) if !["example", "default", "const"].contains(&key.as_str()) => to.push(here),
                Value::Array(items) if !["examples", "enum"].contains(&key.as_str()) => {
                    to.extend((0..items.len()).map(|index| format!("{here}/{index}")));
                }
                _ => {}
            }
        }
        self.path.push(pointer.to_owned());
        let mut found = same.iter().find_map(|next| self.circle(next));
        self.path.pop();
        // Nested schemas apply to another value, so they start with an empty path.
        let path = std::mem::take(&mut self.path);
        if found.is_none() {
            found = inner.iter().find_map(|next| self.circle(next));
        }
        self.path = path;
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recursion_through_a_property_or_item_is_allowed() {
        let is_endless = |root: Value| Search::new(&root).circle("").is_some();
        assert!(is_endless(json!({ "$ref": "#" })));
        assert!(is_endless(
            json!({ "allOf": [{ "type": "object" }, { "$ref": "#" }] })
        ));
        assert!(is_endless(json!({ "not": { "anyOf": [{ "$ref": "#" }] } })));
        assert!(is_endless(
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "oneOf": [{ "$ref": "#/$defs/a" }] } } })
        ));
        assert!(is_endless(
            json!({ "properties": { "a": { "if": { "$ref": "#/properties/a" } } } })
        ));
        assert!(!is_endless(
            json!({ "properties": { "a": { "$ref": "#" } }, "items": { "allOf": [{ "$ref": "#" }] } })
        ));
        assert!(!is_endless(
            json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }], "$defs": { "a": {} } })
        ));
    }
}
