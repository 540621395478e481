//! Steps and bytes of evaluations, counted before they run: validations, regular expressions and copies of schemas.
//!
//! The validator visits each pair of a schema and a value again for every path that leads to it. The number of visits doubles with each
//! schema that refers twice to the next one. Here, each pair is counted once, and its number of visits is reused.

use std::collections::HashMap;

use argus_core::budget::{Budget, Exceeded};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

use super::json_pointer::target;

/// Maximum number of schemas that refer to each other in a row. Each one needs stack space in a validation.
pub(super) const MAX_CHAIN: usize = 200;
/// Maximum number of visits in a validation with descriptions of its errors. Each visit can hold one of a few hundred bytes until the end.
pub(super) const MAX_DESCRIBED: u64 = 200_000;
/// Bytes of a pair of a schema and a value, with its number of visits.
const PAIR_BYTES: u64 = 64;
/// Maximum number of attempts of a regular expression with lookaround or back references.
pub(super) const MAX_BACKTRACKS: usize = 10_000;
/// Steps of a match of such an expression.
const BACKTRACKING_STEPS: u64 = 1_000;
/// Value of the count for a schema alone.
pub(super) static NULL: Value = Value::Null;
/// Bytes of a value in memory, besides its text.
pub(super) const VALUE_BYTES: u64 = 128;

/// Uses the steps and bytes of a copy of a value. `prefix` is the length of its JSON pointer. Returns the bytes.
pub(super) fn copy(value: &Value, prefix: usize, budget: &mut Budget) -> Result<u64, Exceeded> {
    let text = value.as_str().map_or(0, str::len);
    let mut bytes = VALUE_BYTES + (text + prefix) as u64;
    budget.steps(1)?;
    budget.bytes(bytes)?;
    for item in value.as_array().into_iter().flatten() {
        bytes = bytes.saturating_add(copy(item, prefix + 2, budget)?);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        bytes = bytes.saturating_add(copy(value, prefix + key.len() + 1, budget)?);
    }
    Ok(bytes)
}

/// Uses the steps of the compilation of a regular expression.
pub(super) fn pattern(written: &str, budget: &mut Budget) -> Result<(), Exceeded> {
    let length = written.len() as u64;
    // A class such as `\p{L}` takes more memory than its text.
    budget.steps(1 + length.saturating_mul(length) / 1_024)?;
    // JavaScript has no Unicode in classes such as `\w`.
    let ascii = ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(written);
    let parsed = ascii.ok().or_else(|| regex_syntax::parse(written).ok());
    let size = parsed.map_or(length, |hir| size(&hir));
    budget.steps(size / 16)
}

/// Number of parts of an expression with its repetitions expanded.
fn size(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            size(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(size).fold(0, u64::saturating_add)
        }
    }
}

/// Reason why the visits of a validation have no number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Uncounted {
    /// They exceed the budget.
    Exceeded(Exceeded),
    /// This schema refers back to itself for the same value, or is the first after [`MAX_CHAIN`] others in a row.
    Endless { schema: *const Value, is_circle: bool },
}

impl From<Exceeded> for Uncounted {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

/// Addresses of a schema and a value.
type Pair = (*const Value, *const Value);

/// Counter of the visits of a validation.
pub(super) struct Visits<'a> {
    root: &'a Value,
    /// Visits from each pair that leads to others, and the length of its longest chain.
    known: HashMap<Pair, (u64, usize)>,
    /// Pairs in progress.
    path: Vec<Pair>,
}

impl<'a> Visits<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            known: HashMap::new(),
            path: Vec::new(),
        }
    }

    /// Gives the bytes of the counter back.
    pub(super) fn release(self, budget: &mut Budget) {
        budget.release(PAIR_BYTES.saturating_mul(self.known.len() as u64));
    }

    /// Returns the number of visits of the validation of a value, and the length of its longest chain. Uses the steps of the count.
    pub(super) fn count(
        &mut self,
        schema: &'a Value,
        value: &'a Value,
        budget: &mut Budget,
    ) -> Result<(u64, usize), Uncounted> {
        let Value::Object(map) = schema else {
            return Ok((1, 1));
        };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        let known = self.known.get(&pair).copied();
        let is_circle = known.is_none() && self.path.contains(&pair);
        if is_circle || self.path.len() + known.map_or(0, |(_, chain)| chain) >= MAX_CHAIN {
            // One error is enough for all schemas on the way.
            self.known.extend(self.path.iter().map(|pair| (*pair, (0, 0))));
            let schema = pair.0;
            return Err(Uncounted::Endless { schema, is_circle });
        }
        if let Some(known) = known {
            return Ok(known);
        }
        // Keywords that change the meaning of references are not counted, so they count as endless.
        let foreign = ["$id", "$schema", "$dynamicRef", "$recursiveRef"];
        let is_foreign = foreign
            .iter()
            .any(|key| map.get(*key).is_some_and(Value::is_string));
        if is_foreign {
            budget.steps(u64::MAX)?;
        }
        let own = own(map, value);
        budget.steps(own)?;
        let (mut inner, mut chain) = (0_u64, 0);
        self.path.push(pair);
        let is_complete = visit_pairs(self.root, map, value, &mut |schema, value| {
            let (visits, longest) = self.count(schema, value, budget)?;
            inner = inner.saturating_add(visits);
            chain = chain.max(longest);
            Ok(())
        });
        self.path.pop();
        if !is_complete? {
            budget.steps(u64::MAX)?;
        }
        // These keywords visit the schemas next to them again.
        let again = ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .any(|key| map.contains_key(*key));
        let inner = inner.saturating_mul(if again { 3 } else { 1 });
        let counted = (inner.saturating_add(own), chain + 1);
        if chain > 0 {
            budget.bytes(PAIR_BYTES)?;
            self.known.insert(pair, counted);
        }
        Ok(counted)
    }
}

/// Visits that a schema itself needs for a value.
fn own(map: &Map<String, Value>, value: &Value) -> u64 {
    let length = |key: &str| match map.get(key) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    let lists = (length("properties") + length("required") + length("enum")) as u64;
    let matches = |pattern: &str| {
        if backtracks(pattern) {
            BACKTRACKING_STEPS
        } else {
            1
        }
    };
    let values = match value {
        Value::String(text) => {
            let pattern = map.get("pattern").and_then(Value::as_str);
            text.len() as u64 / 32 + pattern.map_or(0, matches)
        }
        Value::Object(entries) => {
            let patterns = map.get("patternProperties").and_then(Value::as_object);
            let sum = patterns
                .into_iter()
                .flatten()
                .map(|(pattern, _)| matches(pattern))
                .sum::<u64>();
            sum.saturating_mul(entries.len() as u64)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 0,
    };
    values.saturating_add(1 + lists / 16)
}

/// Returns true for an expression with lookaround, a named group or a back reference.
fn backtracks(pattern: &str) -> bool {
    let digits = pattern
        .split('\\')
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    digits
        || ["(?=", "(?!", "(?<", "\\k"]
            .iter()
            .any(|part| pattern.contains(part))
}

/// Calls `visit` with each schema that applies to a value or to a part of it, and that part; at least with those that the validator
/// visits. Returns false if a reference leads nowhere.
fn visit_pairs<'a>(
    root: &'a Value,
    map: &'a Map<String, Value>,
    value: &'a Value,
    visit: &mut dyn FnMut(&'a Value, &'a Value) -> Result<(), Uncounted>,
) -> Result<bool, Uncounted> {
    if let Some(reference) = map.get("$ref") {
        let Some(schema) = reference.as_str().and_then(|reference| find(root, reference)) else {
            return Ok(false);
        };
        visit(schema, value)?;
    }
    for (key, schema) in map {
        match (key.as_str(), schema, value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(all), _) => {
                all.iter().try_for_each(|schema| visit(schema, value))?;
            }
            ("not" | "if" | "then" | "else", schema, _) => visit(schema, value)?,
            ("dependentSchemas", Value::Object(all), _) => {
                all.values().try_for_each(|schema| visit(schema, value))?;
            }
            ("properties", Value::Object(all), Value::Object(entries)) => {
                let mut known = entries
                    .iter()
                    .filter_map(|(name, value)| Some((all.get(name)?, value)));
                known.try_for_each(|(schema, value)| visit(schema, value))?;
            }
            ("patternProperties", Value::Object(all), Value::Object(entries)) => {
                for schema in all.values() {
                    entries.values().try_for_each(|value| visit(schema, value))?;
                }
            }
            ("additionalProperties" | "unevaluatedProperties", schema, Value::Object(entries)) => {
                let properties = map.get("properties");
                let is_named = |name: &String| properties.is_some_and(|named| named.get(name).is_some());
                let mut others = entries.iter().filter(|(name, _)| !is_named(name));
                others.try_for_each(|(_, value)| visit(schema, value))?;
            }
            ("propertyNames", schema, Value::Object(entries)) => {
                entries.keys().try_for_each(|_| visit(schema, &NULL))?;
            }
            ("items" | "contains" | "unevaluatedItems", schema, Value::Array(items)) => {
                items.iter().try_for_each(|item| visit(schema, item))?;
            }
            ("prefixItems", Value::Array(schemas), Value::Array(items)) => {
                let mut pairs = schemas.iter().zip(items);
                pairs.try_for_each(|(schema, item)| visit(schema, item))?;
            }
            _ => {}
        }
    }
    Ok(true)
}

/// Returns the target of a reference. `None` also if an embedded document is on the way, where the validator finds another target.
fn find<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = target(reference)?;
    let ends = pointer.match_indices('/').map(|(end, _)| end).skip(1);
    let mut outer = ends.filter_map(|end| root.pointer(&pointer[..end]));
    let is_document = |value: &Value| {
        ["$id", "$schema"]
            .iter()
            .any(|key| value.get(key).is_some_and(Value::is_string))
    };
    (!outer.any(is_document)).then(|| root.pointer(&pointer))?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::openapi::subschemas;

    /// Errors of the schemas at these pointers: true for a schema that refers back to itself.
    fn endless<'a>(root: &Value, pointers: impl IntoIterator<Item = &'a str>) -> Vec<bool> {
        let (mut visits, mut budget) = (Visits::new(root), Budget::new(u64::MAX, u64::MAX));
        let counted = pointers.into_iter().map(|pointer| {
            let schema = root.pointer(pointer).unwrap();
            visits.count(schema, &NULL, &mut budget)
        });
        let errors = counted.filter_map(Result::err);
        errors
            .map(|error| match error {
                Uncounted::Endless { is_circle, .. } => is_circle,
                Uncounted::Exceeded(exceeded) => panic!("{exceeded}"),
            })
            .collect()
    }

    #[test]
    fn recursion_through_a_property_or_item_is_allowed() {
        let is_endless = |root: Value| {
            let all = subschemas::all(&root, "");
            let found = endless(&root, all.iter().map(|(pointer, _)| pointer.as_str()));
            assert!(found.len() < 2, "{root}: an error is reported once");
            found == [true]
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
        // Each link is two schemas. The count begins in the middle, so it meets chains of known length.
        let ends = |length: usize, from: &[&str]| {
            let links = (0..length).map(|number| (number.to_string(), link(number)));
            let mut links: Map<_, _> = links.collect();
            links.insert(length.to_string(), json!({ "type": "string" }));
            endless(&json!({ "$defs": links }), from.iter().copied())
        };
        assert_eq!(ends(90, &["/$defs/45", "/$defs/0"]), [false; 0]);
        assert_eq!(ends(110, &["/$defs/0"]), [false]);
        assert_eq!(ends(110, &["/$defs/55", "/$defs/0"]), [false]);
        assert_eq!(ends(40_000, &["/$defs/0"]), [false], "the stack is not used up");
    }
}
