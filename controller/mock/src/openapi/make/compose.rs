//! Composed schemas as one schema: `$ref`, `allOf`, `oneOf`, `anyOf`, `if`, and their discriminators.

use argus_core::budget::{Budget, Exceeded};
use serde_json::{Map, Value};

use super::steps::MAX_CHAIN;
use super::{Maker, steps, target, types};
use crate::openapi::json_pointer::{escape, unescape};

/// Keywords that combine schemas for the same value.
const COMPOSING: [&str; 8] = [
    "$ref",
    "allOf",
    "oneOf",
    "anyOf",
    "if",
    "then",
    "else",
    "discriminator",
];
/// Maximum number of derived schemas between a base with a discriminator and the schema of its value.
const MAX_DERIVED: usize = 16;

/// Returns true if a schema refers to other schemas for the same value.
pub(super) fn is_composed(map: &Map<String, Value>) -> bool {
    ["$ref", "allOf", "oneOf", "anyOf", "if"]
        .iter()
        .any(|key| map.contains_key(*key))
}

/// Role of a schema in a composed schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The schema itself, or the target of its reference.
    Whole,
    /// The selected branch of a choice.
    Branch,
    /// One of several schemas that all apply.
    Part,
}

/// Composed schema as one schema: with all of its parts, and one branch of each choice.
#[derive(Default)]
pub(super) struct Flat {
    pub(super) map: Map<String, Value>,
    /// Number of the selected combination of branches.
    combination: usize,
    /// Number of all combinations of branches, as far as this one reached their choices.
    pub(super) combinations: usize,
    /// True if null is a branch of a choice.
    pub(super) is_nullable: bool,
    /// Property of a discriminator, and its value.
    pub(super) discriminator: Option<(String, String)>,
    /// JSON pointers of the merged references.
    refs: Vec<String>,
    level: usize,
    /// Bytes of the copies.
    pub(super) bytes: u64,
}

impl Flat {
    pub(super) fn new(combination: usize) -> Self {
        Self {
            combination,
            combinations: 1,
            ..Self::default()
        }
    }

    /// Selects one of several branches. All choices together go through all of their combinations.
    fn select(&mut self, branches: usize) -> usize {
        let branches = branches.max(1);
        let selected = self.combination % branches;
        self.combination /= branches;
        self.combinations = self.combinations.saturating_mul(branches);
        selected
    }
}

impl Maker<'_> {
    /// Merges a schema with all schemas that it refers to. `None` if it has no value.
    pub(super) fn flatten(&mut self, schema: &Value, role: Role, flat: &mut Flat) -> Option<()> {
        let map = match schema {
            Value::Bool(true) => return Some(()),
            Value::Object(map) => map,
            Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return None;
            }
        };
        if flat.level == MAX_CHAIN {
            return None;
        }
        flat.level += 1;
        self.budget.steps(1).ok()?;
        for (key, value) in map {
            if !COMPOSING.contains(&key.as_str()) {
                flat.bytes += steps::copy(value, 0, self.budget).ok()?;
                merge(&mut flat.map, key, value, self.budget).ok()?;
            }
        }
        if let Some(reference) = map.get("$ref") {
            self.follow(target(reference.as_str()?)?, role, flat)?;
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(Value::Array(branches)) = map.get(key) {
                self.choose(branches, map.get("discriminator"), flat)?;
            }
        }
        for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.flatten(part, Role::Part, flat)?;
        }
        if map.contains_key("if") {
            let branches: [&[&str]; 2] = [&["if", "then"], &["else"]];
            let selected = branches[flat.select(branches.len())].iter();
            for part in selected.filter_map(|key| map.get(*key)) {
                self.flatten(part, Role::Part, flat)?;
            }
        }
        flat.level -= 1;
        Some(())
    }

    /// Merges the target of a reference. Each one is merged once, so a cycle of references ends.
    fn follow(&mut self, mut pointer: String, role: Role, flat: &mut Flat) -> Option<()> {
        let levels = if role == Role::Whole { MAX_DERIVED } else { 0 };
        for _ in 0..levels {
            let Some(derived) = self.derived(&pointer) else {
                break;
            };
            pointer = derived;
        }
        if flat.refs.contains(&pointer) {
            return Some(());
        }
        flat.refs.push(pointer.clone());
        let found = self.root.pointer(&pointer)?;
        self.flatten(found, role, flat)?;
        let bases = found.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let mut bases = bases.filter_map(|base| self.resolve(base)?.1.get("discriminator"));
        if role != Role::Part
            && let Some(discriminator) = bases.next()
        {
            flat.discriminator = discriminated(discriminator, &pointer);
        }
        Some(())
    }

    /// Merges one branch of a choice. Null is the last one.
    fn choose(&mut self, branches: &[Value], discriminator: Option<&Value>, flat: &mut Flat) -> Option<()> {
        let is_null = |branch: &&Value| branch.get("type") == Some(&Value::from("null"));
        let mut order: Vec<&Value> = branches.iter().collect();
        order.sort_by_key(is_null);
        flat.is_nullable |= order.last().is_some_and(is_null);
        let branch = *order.get(flat.select(order.len()))?;
        self.flatten(branch, Role::Branch, flat)?;
        let pointer = branch.get("$ref").and_then(Value::as_str).and_then(target);
        if let (Some(pointer), Some(discriminator)) = (pointer, discriminator) {
            flat.discriminator = discriminated(discriminator, &pointer);
        }
        Some(())
    }

    /// Returns the pointer of a schema derived from another one, if that is an abstract base with a discriminator.
    fn derived(&mut self, base: &str) -> Option<String> {
        let schema = self.root.pointer(base)?;
        let has = |key: &str| schema.get(key).is_some();
        if !has("discriminator") || has("oneOf") || has("anyOf") {
            return None;
        }
        let schemas = self.root.pointer("/components/schemas")?.as_object()?;
        self.budget.steps(schemas.len() as u64 / 16).ok()?;
        let is_base = |part: &Value| {
            let reference = part.get("$ref").and_then(Value::as_str);
            reference.and_then(target).as_deref() == Some(base)
        };
        let is_derived = |schema: &Value| {
            let parts = schema.get("allOf").and_then(Value::as_array);
            parts.is_some_and(|parts| parts.iter().any(is_base))
        };
        let (name, _) = schemas.iter().find(|(_, schema)| is_derived(schema))?;
        Some(format!("/components/schemas/{}", escape(name)))
    }
}

/// Returns the property of a discriminator, and its value for the schema at a pointer.
fn discriminated(discriminator: &Value, pointer: &str) -> Option<(String, String)> {
    let property = discriminator.get("propertyName")?.as_str()?.to_owned();
    let name = unescape(pointer.rsplit('/').next().unwrap_or_default());
    let mapping = discriminator.get("mapping").and_then(Value::as_object);
    let is_mapped = |mapped: &str| mapped == name || target(mapped).as_deref() == Some(pointer);
    let mut mapped = mapping.into_iter().flatten();
    let mapped = mapped.find(|(_, mapped)| mapped.as_str().is_some_and(is_mapped));
    Some((
        property,
        mapped.map_or_else(|| name.clone(), |(key, _)| key.clone()),
    ))
}

/// Merges a keyword into a schema. Constraints of both on one keyword are combined, as far as one schema can express them.
fn merge(
    into: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    budget: &mut Budget,
) -> Result<(), Exceeded> {
    let Some(held) = into.get_mut(key) else {
        into.insert(key.to_owned(), value.clone());
        return Ok(());
    };
    match (key, held, value) {
        ("properties" | "patternProperties", Value::Object(held), Value::Object(more)) => {
            for (name, schema) in more {
                match (held.get_mut(name), schema) {
                    (None, _) => drop(held.insert(name.clone(), schema.clone())),
                    (Some(Value::Object(one)), Value::Object(other))
                        if !is_composed(one) && !is_composed(other) =>
                    {
                        for (key, value) in other {
                            merge(one, key, value, budget)?;
                        }
                    }
                    (Some(one), other) => add_part(one, other),
                }
            }
        }
        ("required", Value::Array(held), Value::Array(more)) => {
            budget.steps((held.len() * more.len()) as u64)?;
            let new: Vec<Value> = more.iter().filter(|item| !held.contains(item)).cloned().collect();
            held.extend(new);
        }
        ("enum", Value::Array(held), Value::Array(more)) => {
            budget.steps((held.len() * more.len()) as u64)?;
            held.retain(|item| more.contains(item));
        }
        ("type", held, more) => {
            let (one, other) = (types(held), types(more));
            // A number can be an integer.
            let includes = |kinds: &[&str], kind: &str| {
                kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"))
            };
            let both = one.iter().filter(|kind| includes(&other, kind));
            let narrower = other
                .iter()
                .filter(|kind| !one.contains(kind) && includes(&one, kind));
            *held = both.chain(narrower).copied().collect();
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", held, more)
            if more.as_f64() > held.as_f64() =>
        {
            *held = more.clone();
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", held, more)
            if more.as_f64() < held.as_f64() =>
        {
            *held = more.clone();
        }
        ("items", held, more) => add_part(held, more),
        _ => {}
    }
    Ok(())
}

/// Adds a schema to the parts of an `allOf`, which holds the former schema as its first part. The nesting does not grow with each part.
fn add_part(held: &mut Value, more: &Value) {
    if held == more {
        return;
    }
    if let Value::Object(map) = &mut *held
        && map.len() == 1
        && let Some(Value::Array(parts)) = map.get_mut("allOf")
    {
        parts.push(more.clone());
        return;
    }
    let both = Value::Array(vec![held.take(), more.clone()]);
    *held = Value::Object(Map::from_iter([("allOf".to_owned(), both)]));
}
