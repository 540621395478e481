//! Detection of schemas that refer to themselves without a step into the value. Their validation would never end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json_pointer::target;
use super::subschemas::inner;

/// Maximum number of schemas for one value that refer to each other in a row. Each one needs stack space in a validation.
pub(super) const MAX_CHAIN: usize = 200;

/// Depth-first search over the schemas of a document.
pub(super) struct Search<'a> {
    root: &'a Value,
    /// Length of the longest chain from each schema.
    done: BTreeMap<String, usize>,
    path: Vec<String>,
}

/// Chain of schemas for one value that a validation cannot follow.
pub(super) struct Endless {
    /// JSON pointer to the schema at which it was noticed.
    pub(super) pointer: String,
    /// True if the schema refers back to itself.
    pub(super) is_circle: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            done: BTreeMap::new(),
            path: Vec::new(),
        }
    }

    /// Returns the place at which a schema, or a nested one, refers back to itself or to too many others in a row.
    pub(super) fn endless(&mut self, pointer: &str) -> Option<Endless> {
        // Nested schemas apply to another value, so each one starts with an empty path.
        let mut pending = vec![pointer.to_owned()];
        while let Some(next) = pending.pop() {
            if self.done.contains_key(&next) {
                continue;
            }
            if let Err(endless) = self.chain(&next, &mut pending) {
                self.done.extend(self.path.drain(..).map(|pointer| (pointer, 0)));
                return Some(endless);
            }
        }
        None
    }

    /// Returns the length of the longest chain from a schema, and adds its nested schemas to `pending`.
    fn chain(&mut self, pointer: &str, pending: &mut Vec<String>) -> Result<usize, Endless> {
        let is_circle = self.path.iter().any(|before| before == pointer);
        let known = self.done.get(pointer).copied();
        if is_circle || self.path.len() + known.unwrap_or(0) >= MAX_CHAIN {
            let pointer = pointer.to_owned();
            return Err(Endless { pointer, is_circle });
        }
        if let Some(known) = known {
            return Ok(known);
        }
        self.path.push(pointer.to_owned());
        let mut longest = 0;
        for next in self.same_value(pointer, pending) {
            longest = longest.max(self.chain(&next, pending)?);
        }
        self.path.pop();
        self.done.insert(pointer.to_owned(), longest + 1);
        Ok(longest + 1)
    }

    /// Returns the schemas for the same value, and adds the other ones to `pending`.
    fn same_value(&self, pointer: &str, pending: &mut Vec<String>) -> Vec<String> {
        let Some(schema) = self.root.pointer(pointer) else {
            return Vec::new();
        };
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(target);
        let mut same: Vec<String> = reference.into_iter().collect();
        for inner in inner(schema) {
            let to = if inner.is_same_value {
                &mut same
            } else {
                &mut *pending
            };
            to.push(format!("{pointer}{}", inner.pointer));
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recursion_through_a_property_or_item_is_allowed() {
        let is_endless = |root: Value| {
            let found = Search::new(&root).endless("");
            found.is_some_and(|found| found.is_circle)
        };
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

    #[test]
    fn long_chain_is_found_from_each_of_its_schemas() {
        let link = |number: usize| json!({ "anyOf": [{ "$ref": format!("#/$defs/{}", number + 1) }] });
        let chain = |length: usize| {
            let mut links: serde_json::Map<_, _> = (0..length)
                .map(|number| (number.to_string(), link(number)))
                .collect();
            links.insert(length.to_string(), json!({ "type": "string" }));
            json!({ "$defs": links })
        };
        // Each link is two schemas. The search begins in the middle, so it meets chains of known length.
        let ends = |length: usize, from: &[usize]| {
            let root = chain(length);
            let mut search = Search::new(&root);
            from.iter().any(|number| {
                search
                    .endless(&format!("/$defs/{number}"))
                    .is_some_and(|it| !it.is_circle)
            })
        };
        assert!(!ends(90, &[45, 0]));
        assert!(ends(110, &[0]));
        assert!(ends(110, &[55, 0]));
        assert!(ends(40_000, &[0]), "the stack is not used up");
    }
}
