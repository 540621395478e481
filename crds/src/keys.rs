//! Explanations of the keys of a spec file, from its schema: meaning, type, default, inner keys and an example.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::key_schema::{self, ANY, Keys, join};
use crate::suggestion::nearest;
use crate::yaml::to_yaml;

/// Maximum number of places that an error names.
const MAX_PLACES: usize = 4;

/// Explanation of one key of a spec file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyPage {
    /// Path of the key. `*` stands for any name.
    pub key: String,
    /// Meaning of the key.
    pub description: String,
    /// Values that the key permits, in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Value without the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Inner keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<SubKey>,
    /// Part of a spec file with the key.
    pub example: String,
    /// Correction of the requested path; absent if it was right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A key inside another one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubKey {
    /// Name of the key.
    pub name: String,
    /// Values that the key permits, in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// True if the key is required.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Value without the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Meaning of the key.
    pub description: String,
}

/// Path without a key of a spec file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a key of {parent}")]
pub struct UnknownKey {
    name: String,
    parent: String,
    /// Next step of the reader.
    pub hint: String,
}

/// Explains the key of a path such as `services.*.container.healthcheck`. A name stands for itself in a map with free names, such as the name
/// of a service. A key with exactly one other place has the explanation of that place.
///
/// # Errors
/// The path is no key.
pub fn explain(path: &str) -> Result<KeyPage, UnknownKey> {
    let mut schema = key_schema::root();
    let mut found = String::new();
    for part in split(path) {
        if let Some((_, inner)) = key_schema::keys(schema).and_then(|known| known.get_key_value(&part)) {
            (found, schema) = (join(&found, &part), inner);
        } else if let Some(each) = key_schema::items(schema) {
            (found, schema) = (join(&found, ANY), each);
        } else {
            return elsewhere(&found, key_schema::keys(schema), &part);
        }
    }
    Ok(page(&found, schema))
}

/// Parts of a path. The index of a list is a part.
fn split(path: &str) -> Vec<String> {
    let path = path.trim().trim_matches('.').replace('[', ".").replace(']', "");
    let parts = path.split('.').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn elsewhere(parent: &str, known: Option<&'static Keys>, name: &str) -> Result<KeyPage, UnknownKey> {
    let mut places = key_schema::places(name);
    // A key below the parent is meant before one elsewhere.
    if let Some(below) = places.iter().position(|(path, _)| {
        path.strip_prefix(parent)
            .is_some_and(|rest| rest.starts_with('.'))
            && !parent.is_empty()
    }) {
        places = vec![places.swap_remove(below)];
    }
    if let [(path, schema)] = &places[..] {
        let note = format!("`{}` is not a key; the key is `{path}`", join(parent, name));
        return Ok(KeyPage {
            note: Some(note),
            ..page(path, schema)
        });
    }
    let names = || {
        known
            .into_iter()
            .flat_map(|known| known.keys().map(String::as_str))
    };
    let hint = if let Some(near) = nearest(name, names()) {
        format!("did you mean `{}`?", join(parent, near))
    } else if !places.is_empty() {
        let listed = places
            .iter()
            .take(MAX_PLACES)
            .map(|(path, _)| format!("`{path}`"));
        format!("use one of {}", listed.collect::<Vec<_>>().join(", "))
    } else if names().next().is_some() {
        let listed: Vec<String> = names().map(|known| format!("`{known}`")).collect();
        format!("use one of {}", listed.join(", "))
    } else {
        format!("explain `{parent}` itself")
    };
    Err(UnknownKey {
        name: name.to_owned(),
        parent: match parent {
            "" => "a spec file".to_owned(),
            parent => format!("`{parent}`"),
        },
        hint,
    })
}

fn page(path: &str, schema: &'static Value) -> KeyPage {
    let keys = key_schema::keys(schema).map_or_else(Vec::new, |known| sub_keys(schema, known));
    KeyPage {
        key: path.to_owned(),
        description: description(schema),
        kind: kind(schema),
        default: default(schema),
        keys,
        example: example(path, schema),
        note: None,
    }
}

fn sub_keys(schema: &'static Value, known: &'static Keys) -> Vec<SubKey> {
    let required = required(schema);
    let of = |(name, schema): (&'static String, &'static Value)| SubKey {
        name: name.clone(),
        kind: kind(schema),
        required: required.contains(&name.as_str()),
        default: default(schema),
        description: description(schema),
    };
    known.iter().map(of).collect()
}

fn required(schema: &'static Value) -> Vec<&'static str> {
    key_schema::branches(schema)
        .into_iter()
        .filter(|branch| branch.get("properties").is_some())
        .filter_map(|branch| branch.get("required").and_then(Value::as_array))
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Description of a key, or of its type.
fn description(schema: &'static Value) -> String {
    let of = |schema: &Value| {
        schema
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    of(schema)
        .or_else(|| of(key_schema::resolve(schema)))
        .unwrap_or_default()
}

/// Default of a key. An empty one is the same as none.
fn default(schema: &'static Value) -> Option<Value> {
    let default = schema.get("default")?;
    let is_empty = match default {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(keys) => !keys
            .values()
            .any(|value| value.is_string() || value.is_number() || value.is_boolean()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    // The defaults of a map are those of its keys.
    let is_map = key_schema::keys(schema).is_some();
    (!is_empty && !is_map).then(|| default.clone())
}

/// Permitted values in words.
fn kind(schema: &'static Value) -> String {
    let mut words: Vec<String> = Vec::new();
    for branch in key_schema::branches(schema) {
        for word in kinds_of(branch) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    if words.is_empty() {
        return "any value".to_owned();
    }
    words.join(" or ")
}

fn kinds_of(branch: &'static Value) -> Vec<String> {
    if let Some(choices) = branch.get("enum").and_then(Value::as_array) {
        let quoted = choices
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"));
        return vec![format!("one of {}", quoted.collect::<Vec<_>>().join(", "))];
    }
    match branch.get("format").and_then(Value::as_str) {
        Some("argus-duration") => return vec!["a time, such as `10s`".to_owned()],
        Some("argus-size") => return vec!["a size, such as `512Mi`".to_owned()],
        Some("argus-cpus") => return vec!["a number of CPUs, such as `1.5`".to_owned()],
        _ => {}
    }
    let kinds = match branch.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_text = kinds.contains(&"string");
    let word = |kind: &str| match kind {
        "object" if branch.get("properties").is_some() => Some("a map".to_owned()),
        "object" => Some("a map from name to value".to_owned()),
        "array" => Some(match branch.get("items").filter(|each| each.is_object()) {
            Some(each) => format!("a list, each item {}", kind_of_item(each)),
            None => "a list".to_owned(),
        }),
        "string" => Some("a string".to_owned()),
        "integer" | "number" | "boolean" if is_text => None,
        "integer" | "number" => Some(number(branch)),
        "boolean" => Some("`true` or `false`".to_owned()),
        _ => None,
    };
    kinds.into_iter().filter_map(word).collect()
}

fn kind_of_item(each: &'static Value) -> String {
    kind(each)
}

fn number(branch: &Value) -> String {
    let bound = |name: &str| branch.get(name).map(ToString::to_string);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("a number from {least} to {most}"),
        (Some(least), None) if least != "0" && least != "0.0" => format!("a number from {least}"),
        _ => "a number".to_owned(),
    }
}

/// Part of a spec file that sets the key.
fn example(path: &str, schema: &'static Value) -> String {
    let mut value = sample(path.rsplit('.').next().unwrap_or_default(), schema);
    let parts: Vec<&str> = path.split('.').collect();
    for index in (0..parts.len()).rev() {
        value = match parts[index] {
            ANY if is_list(&parts[..index]) => json!([value]),
            ANY => json!({ name_of(&parts[..index]): value }),
            "" => value,
            part => json!({ part: value }),
        };
    }
    to_yaml(&value).unwrap_or_default()
}

/// Returns whether the value of a path is a list, and no map with free names.
fn is_list(parts: &[&str]) -> bool {
    let mut schema = key_schema::root();
    for part in parts {
        let inner = key_schema::keys(schema).and_then(|known| known.get(*part));
        match inner.or_else(|| key_schema::items(schema)) {
            Some(inner) => schema = inner,
            None => return false,
        }
    }
    let mut all = key_schema::branches(schema).into_iter();
    !all.any(|branch| branch.get("additionalProperties").is_some_and(Value::is_object))
}

/// Name of an entry in a map with free names.
fn name_of(parts: &[&str]) -> &'static str {
    match parts.last() {
        Some(&"services") => "web",
        Some(&"mocks") => "api",
        _ => "NAME",
    }
}

/// Value of a key: its default, or one that its schema permits.
fn sample(name: &str, schema: &'static Value) -> Value {
    if let Some(default) = default(schema) {
        return default;
    }
    if let Some(known) = key_schema::keys(schema) {
        let required = required(schema);
        let choices: Vec<Value> = known.values().filter_map(default).collect();
        let is_needed = |text: &str| {
            let needed = text
                .split_once("Required for `")
                .and_then(|(_, rest)| rest.split('`').next());
            needed.is_some_and(|kind| choices.contains(&json!(kind)))
        };
        let mut keys = Map::new();
        for (name, schema) in known {
            let is_shown = required.contains(&name.as_str())
                || default(schema).is_some_and(|default| default != json!(false))
                || is_needed(&description(schema));
            if is_shown {
                keys.insert(name.clone(), sample(name, schema));
            }
        }
        if keys.is_empty()
            && let Some((name, schema)) = known.iter().next()
        {
            keys.insert(name.clone(), sample(name, schema));
        }
        return Value::Object(keys);
    }
    let all = key_schema::branches(schema);
    let of_kind = |kind: &str| all.iter().any(|branch| has_kind(branch, kind));
    if let Some(choice) = all.iter().find_map(|branch| branch.get("enum")?.get(0)) {
        return choice.clone();
    }
    if of_kind("string") {
        let words = kind(schema) + &description(schema);
        return json!(quoted_example(&words).unwrap_or(match name {
            "path" => "/path",
            _ => "text",
        }));
    }
    if let Some(each) = key_schema::items(schema) {
        let value = sample(name, each);
        let is_map = |branch: &&Value| branch.get("additionalProperties").is_some_and(Value::is_object);
        return if of_kind("array") && !all.iter().any(is_map) {
            json!([value])
        } else {
            json!({ "NAME": value })
        };
    }
    if of_kind("boolean") {
        return json!(true);
    }
    if of_kind("integer") || of_kind("number") {
        let least = all.iter().find_map(|branch| branch.get("minimum")).cloned();
        return least
            .filter(|least| least.as_f64() > Some(0.0))
            .unwrap_or(json!(1));
    }
    json!({})
}

fn has_kind(branch: &Value, kind: &str) -> bool {
    match branch.get("type") {
        Some(Value::String(own)) => own == kind,
        Some(Value::Array(all)) => all.iter().any(|own| own == kind),
        _ => false,
    }
}

/// The value after `such as` in a description.
fn quoted_example(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("such as `")?;
    rest.split('`').next().filter(|value| !value.is_empty())
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
