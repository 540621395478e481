//! Makes a value that fits a schema: examples first, then what the schema allows, tried until it validates.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::json_pointer::target;
use seeded::SeededRng;

mod array;
mod compose;
mod number;
mod object;
mod pattern;
mod seeded;
mod text;

/// How often a value is made anew before it is given up.
const ATTEMPTS: usize = 16;
/// Beyond this many values only what must be there is made: with two branches at each of 32 levels there would be no end.
const PLENTY: usize = 5_000;
/// The most values of one answer.
const MOST: usize = 20_000;
/// After as many in all, no further attempt is made.
const ENOUGH: usize = 40_000;
/// What is required may nest as much deeper than what is asked for.
const DEEPER: usize = 24;

/// What a value is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRequest<'a> {
    /// The document, its schemas in JSON Schema.
    pub(super) root: &'a Value,
    /// Where the schema stands.
    pub(super) pointer: &'a str,
    /// How deep what is not required may nest.
    pub(super) max_depth: usize,
    /// The same seed makes the same value.
    pub(super) seed: u64,
}

/// A value that validates, or why none was found.
pub(super) fn value(wish: &ValueRequest<'_>, validator: &Validator) -> Result<Value, String> {
    let mut maker = Maker {
        root: wish.root,
        max_depth: wish.max_depth,
        chance: SeededRng(wish.seed),
        attempt: 0,
        made: 0,
        avoided: BTreeSet::new(),
        turns: BTreeMap::new(),
        spin: 0,
        at: String::new(),
        refs: Vec::new(),
        leaning: 0,
    };
    let start = json!({ "$ref": format!("#{}", wish.pointer) });
    let mut why = "no value was found that the schema allows".to_owned();
    let mut total = 0;
    for attempt in 0..ATTEMPTS {
        total += maker.made;
        if total > ENOUGH {
            break;
        }
        maker.attempt = attempt;
        maker.made = 0;
        let Some(value) = maker.any(&start, 0) else {
            maker.turn("");
            continue;
        };
        let errors: Vec<_> = validator.iter_errors(&value).take(16).collect();
        let Some(first) = errors.first() else {
            return Ok(value);
        };
        why = format!("`{}`: {first}", first.instance_path());
        for error in &errors {
            maker.turn(error.instance_path().as_str());
        }
    }
    Err(why)
}

/// One value in the making.
struct Maker<'a> {
    root: &'a Value,
    max_depth: usize,
    chance: SeededRng,
    attempt: usize,
    /// How many values were made in this attempt.
    made: usize,
    /// Places whose examples break the schema.
    avoided: BTreeSet<String>,
    /// How often another branch is to be taken at a place.
    turns: BTreeMap<String, usize>,
    /// How often an item was there before already, in a list that takes none twice.
    spin: usize,
    /// Where the value stands that is being made, as a JSON pointer.
    at: String,
    /// The references that led here, without a value between them and this one.
    refs: Vec<String>,
    /// How many schemas that lean on others are being made at the moment, each inside of the one before.
    leaning: usize,
}

impl Maker<'_> {
    /// Next time something else is tried at a place, and around it.
    fn turn(&mut self, place: &str) {
        self.avoided.insert(place.to_owned());
        let mut place = place;
        loop {
            *self.turns.entry(place.to_owned()).or_default() += 1;
            match place.rfind('/') {
                Some(end) => place = &place[..end],
                None => break,
            }
        }
    }

    /// Whether an example for this place may be used: nothing at it or inside of it was wrong.
    fn trusted(&self) -> bool {
        let inside = format!("{}/", self.at);
        !self.avoided.contains(&self.at) && !self.avoided.iter().any(|avoided| avoided.starts_with(&inside))
    }

    fn turns(&self) -> usize {
        self.turns.get(&self.at).copied().unwrap_or(0) + self.spin
    }

    /// A value of one schema; nothing where there is none within the depth.
    fn any(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let map = match schema {
            Value::Bool(true) => return Some(json!({})),
            Value::Object(map) => map,
            Value::Null | Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return None;
            }
        };
        self.made += 1;
        if depth > self.max_depth + DEEPER || self.made > MOST {
            return None;
        }
        if self.trusted()
            && let Some(example) = example(map)
        {
            return Some(example.clone());
        }
        if let Some(constant) = map.get("const") {
            return Some(constant.clone());
        }
        if compose::is_composed(map) {
            return self.composed(map, depth);
        }
        self.simple(map, depth)
    }

    /// A value of a schema that says all by itself.
    fn simple(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        if let Some(Value::Array(values)) = map.get("enum") {
            let mut values: Vec<&Value> = values.iter().collect();
            values.sort_by_key(|value| value.is_null());
            return values
                .get(self.turns() % values.len().max(1))
                .map(|value| (*value).clone());
        }
        match self.kind(map) {
            "null" => Some(Value::Null),
            "boolean" => Some(Value::Bool(
                self.chance.of(&self.at, self.turns()).is_multiple_of(2),
            )),
            "integer" => self.number(map, true),
            "number" => self.number(map, false),
            "string" => self.text(map).map(Value::String),
            "array" => self.array(map, depth),
            _ => self.object(map, depth),
        }
    }

    /// The type of the value: the one that is named, else the one that the other keys are about.
    fn kind(&self, map: &Map<String, Value>) -> &'static str {
        const KINDS: [&str; 7] = [
            "object", "array", "string", "integer", "number", "boolean", "null",
        ];
        let known = |name: &str| KINDS.into_iter().find(|kind| *kind == name);
        match map.get("type") {
            Some(Value::String(name)) => known(name).unwrap_or("object"),
            Some(Value::Array(names)) => {
                let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                names.sort_by_key(|name| *name == "null");
                let name = names
                    .get(self.turns() % names.len().max(1))
                    .copied()
                    .unwrap_or("object");
                known(name).unwrap_or("object")
            }
            _ => {
                let about: [(&[&str], &'static str); 4] = [
                    (
                        &[
                            "properties",
                            "required",
                            "additionalProperties",
                            "patternProperties",
                            "minProperties",
                        ],
                        "object",
                    ),
                    (&["items", "prefixItems", "minItems", "contains"], "array"),
                    (&["pattern", "format", "minLength", "maxLength"], "string"),
                    (
                        &[
                            "minimum",
                            "maximum",
                            "exclusiveMinimum",
                            "exclusiveMaximum",
                            "multipleOf",
                        ],
                        "number",
                    ),
                ];
                let found = about
                    .into_iter()
                    .find(|(keys, _)| keys.iter().any(|key| map.contains_key(*key)));
                found.map_or("object", |(_, kind)| kind)
            }
        }
    }

    /// Makes what stands at one step further down.
    fn inside(&mut self, key: &str, schema: &Value, depth: usize) -> Option<Value> {
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(&super::json_pointer::escape(key));
        let refs = std::mem::take(&mut self.refs);
        let made = self.any(schema, depth);
        self.refs = refs;
        self.at.truncate(length);
        made
    }

    /// The schema that a reference names, with the name by which it is known.
    fn named(&self, schema: &Value) -> Option<(String, Value)> {
        let pointer = target(schema.get("$ref")?.as_str()?)?;
        let found = self.root.pointer(&pointer)?;
        Some((pointer, found.clone()))
    }
}

/// What a schema itself gives as an example.
fn example(map: &Map<String, Value>) -> Option<&Value> {
    let many = map.get("examples").and_then(Value::as_array);
    let given = map.get("example").or_else(|| many.and_then(|many| many.first()));
    given.or_else(|| map.get("default").filter(|value| !value.is_null()))
}

#[cfg(test)]
#[path = "make_tests.rs"]
mod tests;
