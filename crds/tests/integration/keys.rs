//! Generator and check of `docs/reference/keys.md`: every key of `e2e.yaml` with the description of the schema.
#![allow(clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use argus_crds::schema;
use serde_json::{Map, Value};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/keys.md");
/// Marker of the generated part. The text before it is manual.
const BEGIN: &str = "<!-- generated: UPDATE=1 cargo test -p argus-crds keys -->\n";

/// Names of types in a cell, except for maps with their own table.
const KINDS: [(&str, &str); 9] = [
    ("HumanDuration", "duration"),
    ("ByteSize", "size"),
    ("CpuCount", "number"),
    ("Command", "command: string or list"),
    ("StatusCodes", "status codes: number, range or list"),
    ("TextMap", "map of strings"),
    ("Port", "port"),
    ("PortRange", "`[low, high]`"),
    ("HaltAfterSame", "1 to 16, or `off`"),
];
/// Headings of types that should not appear under their first use.
const HOMES: [(&str, &str); 1] = [("Service", "services.NAME")];

/// Traversal of the schema. It records the path of the first use of each map.
struct Walk<'a> {
    types: &'a Map<String, Value>,
    places: BTreeMap<&'a str, String>,
    /// Maps found in the current map.
    found: Vec<(String, &'a Value)>,
}

impl<'a> Walk<'a> {
    /// Returns the name and schema of a key's type. `null` alternatives of optional keys are ignored.
    fn resolve(&self, of: &'a Value) -> (Option<&'a str>, &'a Value) {
        let is_not_null = |one: &&Value| one["type"] != "null";
        let among = |key: &str| of[key].as_array()?.iter().find(is_not_null);
        let reference = among("allOf").or_else(|| among("anyOf")).unwrap_or(of);
        let Some(name) = reference["$ref"].as_str() else {
            return (None, of);
        };
        let name = name.trim_start_matches("#/definitions/");
        (Some(name), &self.types[name])
    }

    /// Describes the type of a key for a cell. A map with its own keys becomes a link to its table.
    fn kind(&mut self, path: &str, of: &'a Value) -> String {
        let (name, of) = self.resolve(of);
        let known_kind = KINDS.iter().find(|(known, _)| Some(*known) == name);
        if let Some((_, kind)) = known_kind {
            return (*kind).to_owned();
        }
        if let Some(words) = of["enum"].as_array() {
            let words: Vec<_> = words.iter().map(|word| format!("`{}`", text(word))).collect();
            return words.join(" ");
        }
        if let (Some(name), Some(_)) = (name, of["properties"].as_object()) {
            if !self.places.contains_key(name) {
                let home = HOMES.iter().find(|(known, _)| *known == name);
                let path = home.map_or(path, |(_, home)| *home).to_owned();
                self.places.insert(name, path.clone());
                self.found.push((path, of));
            }
            let place = &self.places[name];
            return format!("[map](#{})", anchor(place));
        }
        if let Some(alternatives) = of["anyOf"].as_array() {
            let kinds: Vec<_> = alternatives
                .iter()
                .map(|alternative| self.kind(path, alternative))
                .collect();
            return kinds.join(", or ");
        }
        if let Some(items) = of.get("items") {
            let kind = self.kind(&format!("{path}[]"), items);
            return if kind.contains(", or ") {
                format!("list of ({kind})")
            } else {
                format!("list of {kind}")
            };
        }
        if let Some(values) = of.get("additionalProperties").filter(|values| values.is_object()) {
            return format!("by name: {}", self.kind(&format!("{path}.NAME"), values));
        }
        let types = match &of["type"] {
            Value::Array(all) => all.iter().map(text).collect(),
            Value::String(one) => vec![one.clone()],
            _ => Vec::new(),
        };
        match types.iter().find(|one| *one != "null").map(String::as_str) {
            Some("string") => "string".to_owned(),
            Some("boolean") => "`true` `false`".to_owned(),
            Some("integer" | "number") => range(of),
            Some("object") => "map".to_owned(),
            _ => "anything".to_owned(),
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn range(of: &Value) -> String {
    match (of.get("minimum"), of.get("maximum")) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        _ => "number".to_owned(),
    }
}

/// Converts a heading to its anchor, as GitHub does.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: char| letter.is_alphanumeric() || letter == '-';
    heading
        .to_lowercase()
        .chars()
        .filter(|letter| is_kept(*letter))
        .collect()
}

/// Returns the default for a cell. Defaults of maps appear at their keys.
fn default(of: &Value) -> String {
    match of.get("default") {
        None | Some(Value::Null | Value::Object(_)) => String::new(),
        Some(value) => format!("`{}`", text(value)),
    }
}

fn escape_cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn page(schema: &Value) -> String {
    let mut walk = Walk {
        types: schema["definitions"].as_object().expect("types"),
        places: BTreeMap::new(),
        found: Vec::new(),
    };
    let mut page = String::new();
    // The maps found in a map follow it immediately.
    let mut pending = vec![(String::new(), schema)];
    while let Some((path, of)) = pending.pop() {
        let required = of["required"].as_array().cloned().unwrap_or_default();
        // Writing to a String cannot fail.
        if path.is_empty() {
            let _ = writeln!(page, "\n## Top level\n");
        } else {
            let description = of["description"].as_str().unwrap_or_default();
            let _ = writeln!(page, "\n## {path}\n\n{description}\n");
        }
        let _ = writeln!(page, "| key | type | default | description |\n|---|---|---|---|");
        for (key, value) in of["properties"].as_object().expect("keys") {
            let below = format!("{path}{}{key}", if path.is_empty() { "" } else { "." });
            let kind = walk.kind(&below, value);
            let needed = if required.contains(&Value::from(key.as_str())) {
                "required".to_owned()
            } else {
                default(value)
            };
            let description = value["description"].as_str().expect("a description of every key");
            let description = escape_cell(description);
            let _ = writeln!(page, "| `{key}` | {kind} | {needed} | {description} |");
        }
        pending.extend(walk.found.drain(..).rev());
    }
    page
}

#[test]
fn keys_page_matches_the_schema() {
    let schema: Value = serde_json::to_value(schema::e2e_schema()).expect("JSON");
    let existing = std::fs::read_to_string(Path::new(PAGE)).expect("the page");
    let (manual, _) = existing.split_once(BEGIN).expect("a generated part");
    let current = format!("{manual}{BEGIN}{}", page(&schema));
    if existing != current && std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &current).expect("a writable page");
        return;
    }
    assert!(
        existing == current,
        "docs/reference/keys.md does not match the schema; run `UPDATE=1 cargo test -p argus-crds keys`"
    );
}
