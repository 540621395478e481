//! Variables of a suite, and the resolution of `{{…}}` in its texts.

use std::collections::BTreeMap;
use std::fmt;

use argus_core::desired::template::{Segment, has_placeholders, segments};
use argus_core::time::Timestamp;
use serde_json::{Map, Value};

/// Time and randomness of one resolution. The caller provides both, because this crate is pure.
pub struct Moment<'a> {
    /// Current time.
    pub now: Timestamp,
    /// Source of random bits. Each `{{uuid}}` takes its own.
    pub random: &'a mut dyn FnMut() -> u128,
}

impl fmt::Debug for Moment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Variables that a suite can use. Each suite has its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Values of `{{env.NAME}}`.
    env: BTreeMap<String, String>,
    /// Values of `{{config.NAME}}`.
    config: BTreeMap<String, String>,
    /// Values of `{{NAME}}` and `{{runtime.NAME}}`: variables of the suite, and saved values.
    runtime: BTreeMap<String, String>,
}

impl Scope {
    /// Creates a scope from the environment variables and from the `vars` of the services.
    pub fn new(env: BTreeMap<String, String>, config: BTreeMap<String, String>) -> Self {
        Self {
            env,
            config,
            runtime: BTreeMap::new(),
        }
    }

    /// Adds the variables of a suite in their order. A later one can use an earlier one.
    pub fn declare(&mut self, variables: &[(String, String)], moment: &mut Moment<'_>) {
        for (name, text) in variables {
            let value = self.resolve_text(text, moment);
            self.runtime.insert(name.clone(), value);
        }
    }

    /// Saves values, which replace variables of the same name.
    pub fn save(&mut self, values: impl IntoIterator<Item = (String, String)>) {
        self.runtime.extend(values);
    }

    /// Replaces the templates in a text in one pass. An unknown template stays, without the blanks in its braces.
    pub fn resolve_text(&self, text: &str, moment: &mut Moment<'_>) -> String {
        let mut resolved = String::with_capacity(text.len());
        for segment in segments(text) {
            match segment {
                Segment::Text(text) => resolved.push_str(text),
                Segment::Template(name, _) => match self.value(name, moment) {
                    Some(value) => resolved.push_str(&value),
                    None => resolved.extend(["{{", name, "}}"]),
                },
            }
        }
        resolved
    }

    /// Replaces the templates in all texts of a value, but not in the keys of maps.
    pub(crate) fn resolve(&self, value: &Value, moment: &mut Moment<'_>) -> Value {
        match value {
            Value::String(text) if has_placeholders(text) => Value::String(self.resolve_text(text, moment)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            Value::Array(items) => items.iter().map(|item| self.resolve(item, moment)).collect(),
            Value::Object(map) => {
                let resolved = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.resolve(value, moment)));
                Value::Object(resolved.collect::<Map<_, _>>())
            }
        }
    }

    fn value(&self, name: &str, moment: &mut Moment<'_>) -> Option<String> {
        match name {
            "timestamp" => return Some(moment.now.0.to_string()),
            "date" => return Some(moment.now.to_string().get(..10)?.to_owned()),
            "uuid" => return Some(uuid((moment.random)())),
            _ => {}
        }
        let (group, rest) = name.split_once('.').unwrap_or_default();
        match group {
            "env" => self.env.get(rest).cloned(),
            "config" => self.config.get(rest).cloned(),
            "runtime" => self.runtime.get(rest).cloned(),
            _ => self.runtime.get(name).cloned(),
        }
    }
}

/// Formats random bits as a UUID of version 4.
fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
