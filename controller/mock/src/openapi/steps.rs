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
use super::recursion_check::MAX_CHAIN;

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
    let text = match value {
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 0,
    };
    let own = VALUE_BYTES + (text + prefix) as u64;
    budget.steps(1)?;
    budget.bytes(own)?;
    let inner = match value {
        Value::Array(items) => items
            .iter()
            .try_fold(0, |sum: u64, item| -> Result<u64, Exceeded> {
                Ok(sum.saturating_add(copy(item, prefix + 2, budget)?))
            }),
        Value::Object(map) => copy_map(map, prefix, budget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(0),
    };
    Ok(inner?.saturating_add(own))
}

/// Uses the steps and bytes of a copy of a map, as [`copy`].
fn copy_map(map: &Map<String, Value>, prefix: usize, budget: &mut Budget) -> Result<u64, Exceeded> {
    map.iter()
        .try_fold(0, |sum: u64, (key, value)| -> Result<u64, Exceeded> {
            let inner = copy(value, prefix + key.len() + 1, budget)?;
            Ok(sum.saturating_add(inner))
        })
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

/// Counter of the visits of a validation.
pub(super) struct Visits<'a> {
    root: &'a Value,
    /// Visits from each pair of a schema and a value that leads to others, by their addresses.
    known: HashMap<(*const Value, *const Value), u64>,
    /// Number of schemas in progress.
    level: usize,
}

impl<'a> Visits<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            known: HashMap::new(),
            level: 0,
        }
    }

    /// Uses the steps of the validation of a value. Returns the number of its visits.
    pub(super) fn charge(
        &mut self,
        schema: &'a Value,
        value: &'a Value,
        budget: &mut Budget,
    ) -> Result<u64, Exceeded> {
        let visits = self.of(schema, value, budget)?;
        budget.steps(visits)?;
        Ok(visits)
    }

    /// Gives the bytes of the counter back.
    pub(super) fn release(self, budget: &mut Budget) {
        budget.release(PAIR_BYTES.saturating_mul(self.known.len() as u64));
    }

    fn of(&mut self, schema: &'a Value, value: &'a Value, budget: &mut Budget) -> Result<u64, Exceeded> {
        let Value::Object(map) = schema else { return Ok(1) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&pair) {
            return Ok(*known);
        }
        // Keywords that change the meaning of references are not counted, so they count as endless.
        let foreign = ["$id", "$schema", "$dynamicRef", "$recursiveRef"];
        let is_foreign = foreign
            .iter()
            .any(|key| map.get(*key).is_some_and(Value::is_string));
        if is_foreign || self.level == MAX_CHAIN {
            budget.steps(u64::MAX)?;
        }
        let own = own(map, value);
        budget.steps(own)?;
        let (mut inner, mut is_leaf) = (0_u64, true);
        self.level += 1;
        let is_complete = visit_pairs(self.root, map, value, &mut |schema, value| {
            is_leaf = false;
            inner = inner.saturating_add(self.of(schema, value, budget)?);
            Ok(())
        });
        self.level -= 1;
        if !is_complete? {
            budget.steps(u64::MAX)?;
        }
        // These keywords visit the schemas next to them again.
        let again = ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .any(|key| map.contains_key(*key));
        let inner = inner.saturating_mul(if again { 3 } else { 1 });
        let visits = inner.saturating_add(own);
        if !is_leaf {
            budget.bytes(PAIR_BYTES)?;
            self.known.insert(pair, visits);
        }
        Ok(visits)
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
    visit: &mut dyn FnMut(&'a Value, &'a Value) -> Result<(), Exceeded>,
) -> Result<bool, Exceeded> {
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
