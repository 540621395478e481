//! Generator of objects.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::{ATTEMPTS, Maker, OPTIONAL_VALUES, pattern, steps};

/// Maximum number of generated entries without a named property.
const MAX_EXTRA: usize = 64;
/// Steps of the compilation of a regular expression, besides those of its size.
const COMPILE_STEPS: u64 = 1_000;
/// Maximum number of choices and references of a schema that are searched for null.
const MAX_CHOICES: usize = 64;

impl Maker<'_> {
    pub(super) fn object(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let bound = |key: &str| {
            map.get(key)
                .and_then(Value::as_u64)
                .and_then(|bound| usize::try_from(bound).ok())
        };
        let (least, most) = (
            bound("minProperties").unwrap_or(0),
            bound("maxProperties").unwrap_or(usize::MAX),
        );
        let none = Map::new();
        let properties = map.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // The last attempts generate only required properties, because a missing property cannot be invalid.
        let only_required = self.attempt * 3 > ATTEMPTS * 2;
        let mut made = Map::new();
        for (name, schema) in properties {
            let is_required = required.contains(&name.as_str());
            if !is_required
                && (only_required
                    || required.len() + made.len() >= most
                    || !self.includes_optional(schema, depth))
            {
                continue;
            }
            match self.inside(name, schema, depth + 1) {
                Some(value) => drop(made.insert(name.clone(), value)),
                None if is_required => return None,
                None => {}
            }
        }
        for name in required {
            if !made.contains_key(name) && !properties.contains_key(name) {
                let schema = self.extra_schema(map, name)?;
                made.insert(name.to_owned(), self.inside(name, &schema, depth + 1)?);
            }
        }
        let is_map = properties.is_empty() && map.get("additionalProperties").is_some_and(Value::is_object);
        let wanted = least
            .max(usize::from(
                is_map
                    && map
                        .get("additionalProperties")
                        .is_some_and(|each| self.includes_optional(each, depth)),
            ))
            .min(most)
            .min(MAX_EXTRA);
        for number in 1..=MAX_EXTRA {
            if made.len() >= wanted {
                break;
            }
            let Some(name) = self.name(map, number) else { break };
            let schema = self.extra_schema(map, &name)?;
            if let Some(value) = self.inside(&name, &schema, depth + 1) {
                made.insert(name, value);
            }
        }
        (made.len() >= least).then_some(Value::Object(made))
    }

    /// Returns true if an optional property is generated.
    ///
    /// `writeOnly` and deprecated properties are not. Below the maximum depth, only properties without nesting are.
    pub(super) fn includes_optional(&self, schema: &Value, depth: usize) -> bool {
        let target = self.resolve(schema).map(|(_, target)| target);
        let schema = target.unwrap_or(schema);
        if schema.get("writeOnly") == Some(&Value::Bool(true))
            || schema.get("deprecated") == Some(&Value::Bool(true))
        {
            return false;
        }
        !nests(schema) || (depth + 1 < self.max_depth && self.made < OPTIONAL_VALUES)
    }

    /// Returns true if null is a value of a schema whose other values nest.
    pub(super) fn ends_with_null(&self, schema: &Value) -> bool {
        let mut pending = VecDeque::from([schema]);
        let (mut is_nullable, mut has_nested) = (false, false);
        for _ in 0..MAX_CHOICES {
            let Some(schema) = pending.pop_front() else { break };
            has_nested |= nests(schema);
            is_nullable |= match schema.get("type") {
                Some(Value::String(name)) => name == "null",
                Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
                _ => false,
            };
            let branches = ["anyOf", "oneOf"]
                .iter()
                .filter_map(|key| schema.get(*key)?.as_array());
            pending.extend(branches.flatten());
            pending.extend(self.resolve(schema).map(|(_, target)| target));
        }
        is_nullable && has_nested
    }

    /// Returns a name for an entry without a named property.
    fn name(&mut self, map: &Map<String, Value>, number: usize) -> Option<String> {
        let drawn = self.rng.of(&self.at, self.retries() + number);
        if let Some(names) = map.get("propertyNames") {
            return match self.inside(&format!("name {number}"), names, 0)? {
                Value::String(name) => Some(name),
                _ => None,
            };
        }
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        if let Some((written, _)) = patterns.and_then(|patterns| patterns.iter().next())
            && let Some(name) = pattern::matching_text(written, drawn, (1, 64), self.budget)
        {
            return Some(name);
        }
        (map.get("additionalProperties") != Some(&Value::Bool(false))).then(|| format!("key{number}"))
    }

    /// Returns the schema of an entry without a named property.
    fn extra_schema<'m>(&mut self, map: &'m Map<String, Value>, name: &str) -> Option<Cow<'m, Value>> {
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        for (written, schema) in patterns.into_iter().flatten() {
            self.budget.steps(COMPILE_STEPS).ok()?;
            steps::pattern(written, self.budget).ok()?;
            let matcher = jsonschema::validator_for(&json!({ "pattern": written }));
            if matcher.is_ok_and(|matcher| matcher.is_valid(&Value::from(name))) {
                return Some(Cow::Borrowed(schema));
            }
        }
        match map.get("additionalProperties") {
            Some(schema @ Value::Object(inner)) if !inner.is_empty() => Some(Cow::Borrowed(schema)),
            _ => Some(Cow::Owned(json!({ "type": "string" }))),
        }
    }
}

/// Returns true if the values of a schema can be lists or maps.
fn nests(schema: &Value) -> bool {
    ["object", "array"].iter().any(|kind| match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => [
            "properties",
            "items",
            "allOf",
            "anyOf",
            "oneOf",
            "additionalProperties",
        ]
        .iter()
        .any(|key| schema.get(*key).is_some()),
    })
}
