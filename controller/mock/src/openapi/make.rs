//! Generator of values that match a schema: examples first, then generated values.
//!
//! The generator tries up to 16 times. After each invalid value it tries other branches and examples at the locations of the
//! errors. A value is returned only if it validates.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::budget::Budget;
use serde_json::{Map, Value, json};

use super::json_pointer::target;
use super::schemas::BoundedValidator;
use super::steps::{self, VALUE_BYTES};
use compose::{Flat, Role};
use object::nests;

mod array;
mod compose;
mod number;
mod object;
mod pattern;
mod text;

/// Maximum number of attempts per value.
const ATTEMPTS: usize = 16;
/// Number of values per attempt after which only required parts are generated.
///
/// Two branches at each of 32 levels would otherwise never end.
const OPTIONAL_VALUES: usize = 5_000;
/// Steps of one value. All attempts together make at most 40,000 values.
const VALUE_STEPS: u64 = 100;
/// Additional nesting depth for required parts.
const REQUIRED_DEPTH: usize = 24;
/// Maximum number of combinations of branches per value and attempt.
const MAX_COMBINATIONS: usize = 64;
/// Types with the keywords that imply them.
const IMPLIED: [(&str, &[&str]); 4] = [
    (
        "object",
        &[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
        ],
    ),
    ("array", &["items", "prefixItems", "minItems", "contains"]),
    ("string", &["pattern", "format", "minLength", "maxLength"]),
    (
        "number",
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ],
    ),
];

/// Generates a valid value of the validator's schema, or returns the reason why none was found.
///
/// `max_depth` is the maximum nesting depth of optional parts. Equal seeds generate equal values.
pub(super) fn value(
    validator: &BoundedValidator<'_>,
    max_depth: usize,
    seed: u64,
    budget: &mut Budget,
) -> Result<Value, String> {
    let mut maker = Maker {
        root: validator.root,
        max_depth,
        rng: SeededRng(seed),
        attempt: 0,
        made: 0,
        avoided: BTreeSet::new(),
        retries: BTreeMap::new(),
        item_retries: 0,
        at: String::new(),
        budget,
        endless: None,
    };
    let start = json!({ "$ref": format!("#{}", validator.pointer) });
    let mut cause = "no generated value matches the schema".to_owned();
    let (_, held) = maker.budget.used();
    for attempt in 0..ATTEMPTS {
        if let Some(exceeded) = maker.budget.exceeded() {
            return Err(format!("it needs {exceeded}"));
        }
        // The value of the last attempt is gone.
        let (_, bytes) = maker.budget.used();
        maker.budget.release(bytes.saturating_sub(held));
        maker.attempt = attempt;
        maker.made = 0;
        let Some(value) = maker.any(&start, 0) else {
            if let Some(pointer) = maker.endless.take() {
                cause = endless(&pointer);
            }
            maker.retry_at("");
            continue;
        };
        let Ok(errors) = validator.errors(maker.budget, &value, 16) else {
            continue;
        };
        let Some((pointer, first)) = errors.first() else {
            return Ok(value);
        };
        cause = format!("`{pointer}`: {first}");
        for (pointer, _) in &errors {
            maker.retry_at(pointer);
        }
    }
    Err(cause)
}

/// State of the generator.
struct Maker<'a> {
    root: &'a Value,
    max_depth: usize,
    rng: SeededRng,
    attempt: usize,
    /// Number of values in this attempt.
    made: usize,
    /// JSON pointers to values whose examples are invalid.
    avoided: BTreeSet<String>,
    /// Number of failed attempts per JSON pointer. It selects the next branch or value there.
    retries: BTreeMap<String, usize>,
    /// Number of duplicates of the current item in a list with unique items.
    item_retries: usize,
    /// JSON pointer to the current value.
    at: String,
    budget: &'a mut Budget,
    /// JSON pointer to the first value that nests deeper than all bounds permit.
    endless: Option<String>,
}

impl<'a> Maker<'a> {
    /// Selects other branches and values at a JSON pointer and its parents for the next attempt.
    fn retry_at(&mut self, pointer: &str) {
        self.avoided.insert(pointer.to_owned());
        let mut pointer = pointer;
        loop {
            *self.retries.entry(pointer.to_owned()).or_default() += 1;
            match pointer.rfind('/') {
                Some(end) => pointer = &pointer[..end],
                None => break,
            }
        }
    }

    /// Returns true if an example can be used here: no error occurred at this value or inside of it.
    fn can_use_example(&self) -> bool {
        let inside = format!("{}/", self.at);
        !self.avoided.contains(&self.at) && !self.avoided.iter().any(|avoided| avoided.starts_with(&inside))
    }

    fn retries(&self) -> usize {
        self.retries.get(&self.at).copied().unwrap_or(0) + self.item_retries
    }

    /// Generates a value of a schema; `None` if the bounds permit none.
    fn any(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.made += 1;
        self.budget.steps(VALUE_STEPS).ok()?;
        let map = match schema {
            Value::Bool(true) => return self.copy_of(&json!({})),
            Value::Object(map) => map,
            Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return None;
            }
        };
        if depth > self.max_depth + REQUIRED_DEPTH {
            self.endless.get_or_insert_with(|| self.at.clone());
            return None;
        }
        if let Some(given) = self.given(map) {
            return self.copy_of(given);
        }
        if !compose::is_composed(map) {
            return self.simple(map, false, depth);
        }
        let (mut tried, mut combinations) = (0, 1);
        while tried < combinations.min(MAX_COMBINATIONS) {
            self.budget.steps(VALUE_STEPS).ok()?;
            let mut flat = Flat::new(self.retries() + tried);
            let merged = self.flatten(schema, Role::Whole, &mut flat);
            let made = merged.and_then(|()| self.flattened(&flat, depth));
            self.budget.release(flat.bytes);
            if made.is_some() {
                return made;
            }
            tried += 1;
            combinations = combinations.max(flat.combinations);
        }
        None
    }

    /// Generates a value of a composed schema.
    fn flattened(&mut self, flat: &Flat, depth: usize) -> Option<Value> {
        let mut made = match self.given(&flat.map) {
            Some(given) => self.copy_of(given),
            None => self.simple(&flat.map, flat.is_nullable, depth),
        }?;
        if let (Value::Object(made), Some((property, name))) = (&mut made, &flat.discriminator) {
            made.insert(property.clone(), Value::from(name.as_str()));
        }
        Some(made)
    }

    /// Returns the value that a schema contains: an example that can be used, or its constant.
    fn given<'m>(&self, map: &'m Map<String, Value>) -> Option<&'m Value> {
        let example = example(map).filter(|_| self.can_use_example());
        example.or_else(|| map.get("const"))
    }

    /// Returns a value of the document as a part of the response.
    fn copy_of(&mut self, value: &Value) -> Option<Value> {
        steps::copy(value, 0, self.budget).ok()?;
        Some(value.clone())
    }

    /// Generates a value of a schema without composition.
    fn simple(&mut self, map: &Map<String, Value>, is_nullable: bool, depth: usize) -> Option<Value> {
        let is_nullable = is_nullable || has_type(map, "null");
        // An even number of failures here: null is not known to be invalid.
        if depth >= self.max_depth && is_nullable && nests(map) && self.retries().is_multiple_of(2) {
            return Some(Value::Null);
        }
        self.budget.bytes(VALUE_BYTES).ok()?;
        if let Some(Value::Array(values)) = map.get("enum") {
            let mut values: Vec<&Value> = values.iter().collect();
            values.sort_by_key(|value| value.is_null());
            let chosen = values.get(self.retries() % values.len().max(1));
            return chosen.and_then(|value| self.copy_of(value));
        }
        match self.kind(map) {
            "null" => Some(Value::Null),
            "boolean" => Some(Value::Bool(
                self.rng.of(&self.at, self.retries()).is_multiple_of(2),
            )),
            "integer" => self.number(map, true),
            "number" => self.number(map, false),
            "string" => self.text(map).map(Value::String),
            "array" => self.array(map, depth),
            _ => self.object(map, depth),
        }
    }

    /// Returns the type of the value: a declared one, otherwise the one that its other keywords imply.
    fn kind<'m>(&self, map: &'m Map<String, Value>) -> &'m str {
        let mut declared = map.get("type").map(types).unwrap_or_default();
        declared.sort_by_key(|kind| *kind == "null");
        if let Some(kind) = declared.get(self.retries() % declared.len().max(1)).copied() {
            return kind;
        }
        let mut implied = IMPLIED.iter();
        let implied = implied.find(|(_, keys)| keys.iter().any(|key| map.contains_key(*key)));
        implied.map_or("object", |(kind, _)| *kind)
    }

    /// Generates the value under a key of the current value.
    fn inside(&mut self, key: &str, schema: &Value, depth: usize) -> Option<Value> {
        self.budget.bytes(key.len() as u64).ok()?;
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(&super::json_pointer::escape(key));
        let made = self.any(schema, depth);
        self.at.truncate(length);
        made
    }

    /// Returns the schema of a reference, with its JSON pointer.
    fn resolve(&self, schema: &Value) -> Option<(String, &'a Value)> {
        let pointer = target(schema.get("$ref")?.as_str()?)?;
        let found = self.root.pointer(&pointer)?;
        Some((pointer, found))
    }
}

/// Describes a value that never ends, by the shortest part of its pointer that repeats.
fn endless(pointer: &str) -> String {
    let keys: Vec<&str> = pointer.split('/').skip(1).collect();
    let is_period = |length: &usize| {
        keys.iter()
            .zip(keys.iter().skip(*length))
            .all(|(one, other)| one == other)
    };
    let length = (1..keys.len()).find(is_period).unwrap_or(keys.len());
    let path = keys[..length].join("/");
    format!(
        "the required member `/{path}` contains itself without end; make it optional or nullable, or add an example"
    )
}

/// Returns the example of a schema: `example`, the first of `examples`, or `default`.
fn example(map: &Map<String, Value>) -> Option<&Value> {
    let many = map.get("examples").and_then(Value::as_array);
    let given = map.get("example").or_else(|| many.and_then(|many| many.first()));
    given.or_else(|| map.get("default").filter(|value| !value.is_null()))
}

/// Returns the bounds under two keys, such as `minItems` and `maxItems`.
fn bounds(map: &Map<String, Value>, least: &str, most: &str) -> (usize, usize) {
    let bound = |key: &str| usize::try_from(map.get(key)?.as_u64()?).ok();
    (bound(least).unwrap_or(0), bound(most).unwrap_or(usize::MAX))
}

/// Returns the names in a value of `type`.
fn types(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => Vec::from_iter(kind.as_str()),
    }
}

/// Returns true if a type is among the declared ones.
fn has_type(map: &Map<String, Value>, kind: &str) -> bool {
    map.get("type").is_some_and(|value| types(value).contains(&kind))
}

/// Seed of the random numbers: equal seeds and pointers give equal numbers.
#[derive(Clone, Copy, Debug)]
struct SeededRng(u64);

impl SeededRng {
    /// Returns the number of a JSON pointer for a retry.
    fn of(self, pointer: &str, retry: usize) -> u64 {
        let start = self.0 ^ (retry as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // FNV-1a over the pointer. The mixing of splitmix64 makes the low bits as random as the high ones.
        let folded = pointer.bytes().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
#[path = "make_tests.rs"]
mod tests;
