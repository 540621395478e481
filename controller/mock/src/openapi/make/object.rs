//! Generator of objects.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{ATTEMPTS, Maker, OPTIONAL_VALUES, bounds, has_type, pattern, steps};

/// Maximum number of generated entries without a named property.
const MAX_EXTRA: usize = 64;
/// Steps of the compilation of a regular expression, besides those of its size.
const COMPILE_STEPS: u64 = 1_000;

impl Maker<'_> {
    pub(super) fn object(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let (least, most) = bounds(map, "minProperties", "maxProperties");
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
        let each = map.get("additionalProperties").filter(|each| each.is_object());
        let is_map = properties.is_empty() && each.is_some_and(|each| self.includes_optional(each, depth));
        let wanted = least.max(usize::from(is_map)).min(most).min(MAX_EXTRA);
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
        let target = self.resolve(schema).map_or(schema, |(_, target)| target);
        let is_marked = |schema: &Value| {
            ["writeOnly", "deprecated"]
                .iter()
                .any(|mark| schema.get(mark) == Some(&Value::Bool(true)))
        };
        if is_marked(schema) || is_marked(target) {
            return false;
        }
        !target.as_object().is_some_and(nests) || (depth + 1 < self.max_depth && self.made < OPTIONAL_VALUES)
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
pub(super) fn nests(map: &Map<String, Value>) -> bool {
    const NESTING: [&str; 6] = [
        "properties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "additionalProperties",
    ];
    if map.contains_key("type") {
        return has_type(map, "object") || has_type(map, "array");
    }
    NESTING.iter().any(|key| map.contains_key(*key))
}
