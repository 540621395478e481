//! Generator for composed schemas: `$ref`, `allOf`, `oneOf`, `anyOf`, `if`, and their discriminators.

use argus_core::budget::{Budget, Exceeded};
use serde_json::{Map, Value};

use super::{Maker, steps, target};
use crate::openapi::json_pointer::unescape;

/// Maximum number of nested composed schemas, with or without values between them. Each one needs stack space.
const MAX_COMPOSED_DEPTH: usize = 200;

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
        let outer = std::mem::take(&mut self.copied);
        self.composed_depth += 1;
        let made = self.compose(map, depth);
        self.composed_depth -= 1;
        self.budget.release(std::mem::replace(&mut self.copied, outer));
        self.refs.truncate(length);
        made
    }

    /// Copies a schema, or the rest of it, until the value of the composed schema is complete.
    fn copy(&mut self, map: &Map<String, Value>) -> Option<Map<String, Value>> {
        self.copied += steps::copy_map(map, 0, self.budget).ok()?;
        Some(map.clone())
    }

    /// Merges a schema into a copy.
    fn merge(&mut self, into: &mut Map<String, Value>, from: &Map<String, Value>) -> Option<()> {
        self.copied += steps::copy_map(from, 0, self.budget).ok()?;
        merge(into, from, self.budget).ok()
    }

    /// Merges a schema, with its reference and the parts of its `allOf`, into a copy.
    fn merge_part(&mut self, into: &mut Map<String, Value>, part: &Value, level: usize) -> Option<()> {
        let before = self.copied;
        let flat = self.flat(part, level)?;
        let bytes = self.copied - before;
        self.merge(into, &flat)?;
        self.copied -= bytes;
        self.budget.release(bytes);
        Some(())
    }

    fn compose(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        // A circular reference without a value in between never ends.
        if let Some(reference) = map.get("$ref") {
            let pointer = target(reference.as_str()?)?;
            if self.refs.contains(&pointer) {
                return None;
            }
            self.refs.push(pointer.clone());
            let found = self.root.pointer(&pointer)?;
            if let Some(child) = self.concrete(&pointer, found) {
                let reference = Value::from(format!("#{child}"));
                return self.composed(&Map::from_iter([("$ref".to_owned(), reference)]), depth);
            }
            if map.len() == 1 {
                let made = self.any(found, depth)?;
                return Some(self.with_base_discriminator(made, &pointer, found));
            }
            let Value::Object(found) = found else {
                return self.any(found, depth);
            };
            let mut whole = self.copy(map)?;
            whole.shift_remove("$ref");
            self.merge(&mut whole, found)?;
            return self.any(&Value::Object(whole), depth);
        }
        let mut whole = self.copy(map)?;
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
                let mut merged = self.copy(&whole)?;
                let reference = branch.get("$ref").and_then(Value::as_str).and_then(target);
                self.merge(&mut merged, &flat)?;
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
                self.merge_part(&mut whole, part, 0)?;
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
            self.merge_part(&mut whole, &part, 0)?;
        }
        self.any(&Value::Object(whole), depth)
    }

    /// Returns a schema merged with its reference and the parts of its `allOf`.
    fn flat(&mut self, schema: &Value, level: usize) -> Option<Map<String, Value>> {
        if level > 16 {
            return None;
        }
        let Value::Object(map) = schema else {
            return (schema == &Value::Bool(true)).then(Map::new);
        };
        let mut whole = self.copy(map)?;
        if whole.shift_remove("$ref").is_some() {
            let (_, found) = self.resolve(schema)?;
            self.merge_part(&mut whole, found, level + 1)?;
        }
        if let Some(Value::Array(parts)) = whole.shift_remove("allOf") {
            for part in &parts {
                self.merge_part(&mut whole, part, level + 1)?;
            }
        }
        Some(whole)
    }

    /// Returns the pointer of a derived schema, if the schema is an abstract base with a discriminator.
    fn concrete(&mut self, pointer: &str, schema: &Value) -> Option<String> {
        schema
            .get("discriminator")
            .filter(|_| schema.get("oneOf").is_none() && schema.get("anyOf").is_none())?;
        let schemas = self.root.pointer("/components/schemas")?.as_object()?;
        self.budget.steps(schemas.len() as u64 / 16).ok()?;
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

/// Merges one schema into another. Constraints of both on one keyword are combined, as far as one schema can express them.
fn merge(
    into: &mut Map<String, Value>,
    from: &Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), Exceeded> {
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
                            merge(one, other, budget)?;
                        }
                        (Some(one), other) => add_part(one, other),
                    }
                }
            }
            ("required" | "allOf", Value::Array(held), Value::Array(more)) => {
                budget.steps((held.len() * more.len()) as u64)?;
                let new: Vec<Value> = more.iter().filter(|item| !held.contains(item)).cloned().collect();
                held.extend(new);
            }
            ("enum", Value::Array(held), Value::Array(more)) => {
                budget.steps((held.len() * more.len()) as u64)?;
                held.retain(|item| more.contains(item));
            }
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
            ("items", held, more) if held != more => add_part(held, more),
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
    Ok(())
}

/// Adds a schema to the parts of an `allOf`, which holds the former schema as its first part. The nesting does not grow with each part.
fn add_part(held: &mut Value, more: &Value) {
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
