//! Variables of a suite, and the resolution of `{{…}}` in its texts.

use std::collections::BTreeMap;
use std::fmt;

use argus_core::desired::template::{Segment, has_placeholders, segments};
use argus_core::hex::random_uuid;
use argus_core::time::Timestamp;
use serde_json::{Map, Value};

/// Maximum size of all variables of a suite together, and of the texts of a step, in bytes.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of a value that the caller provides, such as `{{uuid}}`.
const MOMENT_BYTES: usize = 36;

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
    /// Size of the values in `runtime`.
    runtime_bytes: usize,
    /// First variable that was refused, because the variables would have become too large.
    refused: Option<String>,
}

impl Scope {
    /// Creates a scope from the environment variables and from the `vars` of the services.
    pub fn new(env: BTreeMap<String, String>, config: BTreeMap<String, String>) -> Self {
        Self {
            env,
            config,
            runtime: BTreeMap::new(),
            runtime_bytes: 0,
            refused: None,
        }
    }

    /// Adds the variables of a suite in their order. A later one can use an earlier one.
    pub fn declare(&mut self, variables: &[(String, String)], moment: &mut Moment<'_>) {
        for (name, text) in variables {
            if self.text_size(text) > MAX_BYTES {
                self.refused.get_or_insert_with(|| name.clone());
                continue;
            }
            let value = self.resolve_text(text, moment);
            self.save([(name.clone(), value)]);
        }
    }

    /// Saves values, which replace variables of the same name. A value that makes the variables too large fails all further steps.
    pub fn save(&mut self, values: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in values {
            let others = self.runtime_bytes - self.runtime.get(&name).map_or(0, String::len);
            if others + value.len() > MAX_BYTES {
                self.refused.get_or_insert(name);
            } else {
                self.runtime_bytes = others + value.len();
                self.runtime.insert(name, value);
            }
        }
    }

    /// Describes what is too large to resolve the texts of a step.
    pub(crate) fn find_excess(&self, step: &Value) -> Option<String> {
        let limit = "4 MiB";
        if let Some(name) = &self.refused {
            return Some(format!(
                "with `{name}`, the variables of the suite are larger than {limit}"
            ));
        }
        (self.size(step) > MAX_BYTES).then(|| format!("the texts of the step are larger than {limit}"))
    }

    /// Size of the resolved texts of a value.
    fn size(&self, value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => self.text_size(text),
            Value::Array(items) => items
                .iter()
                .map(|item| self.size(item))
                .fold(0, usize::saturating_add),
            Value::Object(map) => map
                .values()
                .map(|item| self.size(item))
                .fold(0, usize::saturating_add),
        }
    }

    fn text_size(&self, text: &str) -> usize {
        let sizes = segments(text).into_iter().map(|segment| match segment {
            Segment::Text(text) => text.len(),
            Segment::Template(name, _) => self.lookup(name).map_or(name.len() + MOMENT_BYTES, String::len),
        });
        sizes.fold(0, usize::saturating_add)
    }

    /// Replaces the templates in a text in one pass. An unknown template stays, without the blanks in its braces. So do all templates of a
    /// text that they would make too large.
    pub fn resolve_text(&self, text: &str, moment: &mut Moment<'_>) -> String {
        if self.text_size(text) > MAX_BYTES {
            return text.to_owned();
        }
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
            "uuid" => return Some(random_uuid((moment.random)())),
            _ => {}
        }
        self.lookup(name).cloned()
    }

    fn lookup(&self, name: &str) -> Option<&String> {
        let (group, rest) = name.split_once('.').unwrap_or_default();
        match group {
            "env" => self.env.get(rest),
            "config" => self.config.get(rest),
            "runtime" => self.runtime.get(rest),
            _ => self.runtime.get(name),
        }
    }
}
