//! Generator for composed schemas: `$ref`, `allOf`, `oneOf`, `anyOf`, `if`, and their discriminators.

use serde_json::{Map, Value};

use super::{Maker, target};
use crate::openapi::json_pointer::unescape;

/// Maximum number of nested composed schemas, with or without values between them. Each one needs stack space.
const MAX_COMPOSED_DEPTH: usize = 200;

/// Maximum number of values in a merged schema. Where the items of two recursive parts are merged, the schema doubles at each level
/// of nesting.
const MAX_MERGED_VALUES: usize = 20_000;

/// Returns true if a schema refers to other schemas.
pub(super) fn is_composed(map: &Map<String, Value>) -> bool {
    ["$ref", "allOf", "oneOf", "anyOf", "if"]
        .iter()
        .any(|key| map.contains_key(*key))
}

impl Maker<'_> {
    /// Generates a value of a composed schema.
    pub(super) fn composed(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        if self.composed_depth == MAX_COMPOSED_DEPTH {
            return None;
        }
        let length = self.refs.len();
        self.composed_depth += 1;
        let made = self.compose(map, depth);
        self.composed_depth -= 1;
        self.refs.truncate(length);
        made
    }

    fn compose(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut whole = map.clone();
        // A circular reference without a value in between never ends.
        if let Some(reference) = whole.shift_remove("$ref") {
            let pointer = target(reference.as_str()?)?;
            if self.refs.contains(&pointer) {
                return None;
            }
            self.refs.push(pointer.clone());
            let found = self.root.pointer(&pointer)?.clone();
            if let Some(child) = self.concrete(&pointer, &found) {
                let reference = Value::from(format!("#{child}"));
                return self.composed(&Map::from_iter([("$ref".to_owned(), reference)]), depth);
            }
            if whole.is_empty() {
                let made = self.any(&found, depth)?;
                return Some(self.with_base_discriminator(made, &pointer, &found));
            }
            let Value::Object(found) = found else {
                return self.any(&found, depth);
            };
            merge_within_bound(&mut whole, &found)?;
            return self.any(&Value::Object(whole), depth);
        }
        // Choices come first. A second choice among the parts follows when the first one is resolved.
        for key in ["oneOf", "anyOf"] {
            let Some(Value::Array(branches)) = whole.shift_remove(key) else {
                continue;
            };
            let discriminator = whole.shift_remove("discriminator");
            let mut order: Vec<&Value> = branches.iter().collect();
            order.sort_by_key(|branch| branch.get("type") == Some(&Value::from("null")));
            for step in 0..order.len() {
                let branch = order[(self.retries() + step) % order.len()];
                let Some(flat) = self.flat(branch, 0) else {
                    continue;
                };
                let mut merged = whole.clone();
                let reference = branch.get("$ref").and_then(Value::as_str).and_then(target);
                if merge_within_bound(&mut merged, &flat).is_none() {
                    continue;
                }
                let length = self.refs.len();
                if let Some(pointer) = &reference {
                    if self.refs.contains(pointer) {
                        continue;
                    }
                    self.refs.push(pointer.clone());
                }
                let made = self.any(&Value::Object(merged), depth);
                self.refs.truncate(length);
                if let Some(made) = made {
                    let made = match reference.as_ref().and_then(|pointer| self.root.pointer(pointer)) {
                        Some(found) => self.with_base_discriminator(
                            made,
                            reference.as_deref().unwrap_or_default(),
                            found,
                        ),
                        None => made,
                    };
                    return Some(match (reference, &discriminator) {
                        (Some(pointer), Some(discriminator)) => {
                            set_discriminator(made, discriminator, &pointer)
                        }
                        _ => made,
                    });
                }
            }
            return None;
        }
        if let Some(Value::Array(parts)) = whole.shift_remove("allOf") {
            for part in &parts {
                let flat = self.flat(part, 0)?;
                merge_within_bound(&mut whole, &flat)?;
            }
            return self.any(&Value::Object(whole), depth);
        }
        let condition = whole.shift_remove("if");
        let (then, other) = (whole.shift_remove("then"), whole.shift_remove("else"));
        let parts = if self.retries().is_multiple_of(2) {
            vec![condition, then]
        } else {
            vec![other]
        };
        for part in parts.into_iter().flatten() {
            let flat = self.flat(&part, 0)?;
            merge_within_bound(&mut whole, &flat)?;
        }
        self.any(&Value::Object(whole), depth)
    }

    /// Returns a schema merged with its reference and the parts of its `allOf`.
    fn flat(&self, schema: &Value, level: usize) -> Option<Map<String, Value>> {
        if level > 16 {
            return None;
        }
        let Value::Object(map) = schema else {
            return (schema == &Value::Bool(true)).then(Map::new);
        };
        let mut whole = map.clone();
        if whole.shift_remove("$ref").is_some() {
            let (_, found) = self.resolve(schema)?;
            let found = self.flat(&found, level + 1)?;
            merge_within_bound(&mut whole, &found)?;
        }
        if let Some(Value::Array(parts)) = whole.shift_remove("allOf") {
            for part in &parts {
                let flat = self.flat(part, level + 1)?;
                merge_within_bound(&mut whole, &flat)?;
            }
        }
        Some(whole)
    }

    /// Returns the pointer of a derived schema, if the schema is an abstract base with a discriminator.
    fn concrete(&self, pointer: &str, schema: &Value) -> Option<String> {
        schema
            .get("discriminator")
            .filter(|_| schema.get("oneOf").is_none() && schema.get("anyOf").is_none())?;
        let schemas = self.root.pointer("/components/schemas")?.as_object()?;
        let mut derived = schemas
            .iter()
            .filter(|(_, candidate)| is_derived_from(candidate, pointer));
        derived.next().map(|(name, _)| {
            format!(
                "/components/schemas/{}",
                crate::openapi::json_pointer::escape(name)
            )
        })
    }

    /// Sets the discriminator of a value whose schema is derived from a base with a discriminator.
    fn with_base_discriminator(&self, made: Value, pointer: &str, schema: &Value) -> Value {
        let parts = schema.get("allOf").and_then(Value::as_array);
        let bases = parts.into_iter().flatten().filter_map(|part| self.resolve(part));
        let discriminator = bases
            .into_iter()
            .find_map(|(_, base)| base.get("discriminator").cloned());
        match discriminator {
            Some(discriminator) => set_discriminator(made, &discriminator, pointer),
            None => made,
        }
    }
}

fn is_derived_from(candidate: &Value, pointer: &str) -> bool {
    let parts = candidate.get("allOf").and_then(Value::as_array);
    let references = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get("$ref")?.as_str());
    references
        .into_iter()
        .any(|reference| target(reference).as_deref() == Some(pointer))
}

/// Sets the property of a discriminator to the name of the value's schema.
fn set_discriminator(mut made: Value, discriminator: &Value, pointer: &str) -> Value {
    let name = unescape(pointer.rsplit('/').next().unwrap_or_default());
    let mapping = discriminator.get("mapping").and_then(Value::as_object);
    let mapped = mapping.into_iter().flatten().find(|(_, value)| {
        value
            .as_str()
            .is_some_and(|value| value == name || target(value).as_deref() == Some(pointer))
    });
    let schema_name = mapped.map_or(name.clone(), |(key, _)| key.clone());
    if let (Some(property), Value::Object(map)) = (
        discriminator.get("propertyName").and_then(Value::as_str),
        &mut made,
    ) {
        map.insert(property.to_owned(), Value::from(schema_name));
    }
    made
}

/// Merges one schema into another; `None` if the result is larger than [`MAX_MERGED_VALUES`].
fn merge_within_bound(into: &mut Map<String, Value>, from: &Map<String, Value>) -> Option<()> {
    merge(into, from);
    let mut left = MAX_MERGED_VALUES;
    into.values()
        .all(|value| is_smaller(value, &mut left))
        .then_some(())
}

/// Subtracts the number of values in a schema; false if too few are left.
fn is_smaller(schema: &Value, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
        && match schema {
            Value::Array(items) => items.iter().all(|item| is_smaller(item, left)),
            Value::Object(map) => map.values().all(|value| is_smaller(value, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
}

/// Merges one schema into another. Constraints of both on one keyword are combined, as far as one schema can express them.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        let Some(held) = into.get_mut(key) else {
            into.insert(key.clone(), value.clone());
            continue;
        };
        match (key.as_str(), &mut *held, value) {
            ("properties" | "patternProperties", Value::Object(held), Value::Object(more)) => {
                for (name, schema) in more {
                    match (held.get_mut(name), schema) {
                        (None, _) => drop(held.insert(name.clone(), schema.clone())),
                        (Some(Value::Object(one)), Value::Object(other))
                            if !is_composed(one) && !is_composed(other) =>
                        {
                            merge(one, other);
                        }
                        (Some(one), other) => {
                            let both = vec![one.clone(), other.clone()];
                            *one = Value::Object(Map::from_iter([("allOf".to_owned(), Value::Array(both))]));
                        }
                    }
                }
            }
            ("required" | "allOf", Value::Array(held), Value::Array(more)) => {
                let new: Vec<Value> = more.iter().filter(|item| !held.contains(item)).cloned().collect();
                held.extend(new);
            }
            ("enum", Value::Array(held), Value::Array(more)) => held.retain(|item| more.contains(item)),
            ("type", held, more) => {
                let list = |kinds: &Value| match kinds {
                    Value::Array(kinds) => kinds.clone(),
                    kind => vec![kind.clone()],
                };
                let (one, other) = (list(held), list(more));
                let whole = |kind: &Value| kind == "integer" && other.iter().any(|kind| kind == "number");
                let mut both: Vec<Value> = one
                    .iter()
                    .filter(|kind| other.contains(kind) || whole(kind))
                    .cloned()
                    .collect();
                both.extend(
                    other
                        .iter()
                        .filter(|kind| *kind == "integer" && one.iter().any(|k| k == "number"))
                        .cloned(),
                );
                *held = Value::Array(both);
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", held, more) => {
                let tighter = more.as_f64() > held.as_f64();
                *held = if tighter { more.clone() } else { held.take() };
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", held, more) => {
                let tighter = more.as_f64() < held.as_f64();
                *held = if tighter { more.clone() } else { held.take() };
            }
            ("items", held, more) if held != more => {
                let both = vec![held.clone(), more.clone()];
                *held = Value::Object(Map::from_iter([("allOf".to_owned(), Value::Array(both))]));
            }
            ("oneOf" | "anyOf", held, more) if held != more => {
                // Of two choices, the second one applies to the result of the first one.
                let again = Value::Object(Map::from_iter([(key.clone(), more.clone())]));
                let all = into.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(all) = all {
                    all.push(again);
                }
            }
            _ => {}
        }
    }
}
