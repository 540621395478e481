//! `docs/keys.md` is every key that the schema of `e2e.yaml` has, in the schema's own words.
#![allow(clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use argus_crds::schema;
use serde_json::{Map, Value};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/keys.md");
/// Everything before it is written by hand.
const BEGIN: &str = "<!-- generated: UPDATE=1 cargo test -p argus-crds keys -->\n";

/// How a type is called in a cell, where it is no map with keys of its own.
const KINDS: [(&str, &str); 7] = [
    ("HumanDuration", "duration"),
    ("ByteSize", "size"),
    ("CpuCount", "number"),
    ("Command", "command: text, or list"),
    ("TextMap", "map of texts"),
    ("Port", "port"),
    ("PortRange", "`[low, high]`"),
];
/// Where a type is told that is found somewhere else before.
const HOMES: [(&str, &str); 1] = [("Service", "services.NAME")];

/// The schema, and the maps that are still to be told, each with where it was found first.
struct Walk<'a> {
    types: &'a Map<String, Value>,
    places: BTreeMap<&'a str, String>,
    /// Found in the map that is told now.
    found: Vec<(String, &'a Value)>,
}

impl<'a> Walk<'a> {
    /// The name of the type behind a key, and the type; a key that may be `null` may be left out, which is all the same.
    fn behind(&self, of: &'a Value) -> (Option<&'a str>, &'a Value) {
        let is_something = |one: &&Value| one["type"] != "null";
        let among = |key: &str| of[key].as_array()?.iter().find(is_something);
        let referring = among("allOf").or_else(|| among("anyOf")).unwrap_or(of);
        let Some(name) = referring["$ref"].as_str() else {
            return (None, of);
        };
        let name = name.trim_start_matches("#/definitions/");
        (Some(name), &self.types[name])
    }

    /// What may be written, for a cell; a map with keys of its own is told later, and linked.
    fn kind(&mut self, path: &str, of: &'a Value) -> String {
        let (name, of) = self.behind(of);
        let called = KINDS.iter().find(|(known, _)| Some(*known) == name);
        if let Some((_, kind)) = called {
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
        if let Some(ways) = of["anyOf"].as_array() {
            let ways: Vec<_> = ways.iter().map(|way| self.kind(path, way)).collect();
            return ways.join(", or ");
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
            Some("string") => "text".to_owned(),
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

/// As GitHub makes one of a heading.
fn anchor(heading: &str) -> String {
    let kept = |letter: char| letter.is_alphanumeric() || letter == '-';
    heading
        .to_lowercase()
        .chars()
        .filter(|letter| kept(*letter))
        .collect()
}

/// A default in a cell; that of a map is told at its keys.
fn default(of: &Value) -> String {
    match of.get("default") {
        None | Some(Value::Null | Value::Object(_)) => String::new(),
        Some(value) => format!("`{}`", text(value)),
    }
}

fn in_a_cell(words: &str) -> String {
    words.replace('\n', " ").replace('|', "\\|")
}

fn page(schema: &Value) -> String {
    let mut walk = Walk {
        types: schema["definitions"].as_object().expect("types"),
        places: BTreeMap::new(),
        found: Vec::new(),
    };
    let mut page = String::new();
    // What is found in a map is told right after it.
    let mut ahead = vec![(String::new(), schema)];
    while let Some((path, of)) = ahead.pop() {
        let required = of["required"].as_array().cloned().unwrap_or_default();
        // A String takes whatever is written.
        if path.is_empty() {
            let _ = writeln!(page, "\n## The file\n");
        } else {
            let about = of["description"].as_str().unwrap_or_default();
            let _ = writeln!(page, "\n## {path}\n\n{about}\n");
        }
        let _ = writeln!(
            page,
            "| key | what it takes | default | what it says |\n|---|---|---|---|"
        );
        for (key, value) in of["properties"].as_object().expect("keys") {
            let below = format!("{path}{}{key}", if path.is_empty() { "" } else { "." });
            let kind = walk.kind(&below, value);
            let needed = if required.contains(&Value::from(key.as_str())) {
                "required".to_owned()
            } else {
                default(value)
            };
            let about = value["description"].as_str().expect("every key says what it is");
            let about = in_a_cell(about);
            let _ = writeln!(page, "| `{key}` | {kind} | {needed} | {about} |");
        }
        ahead.extend(walk.found.drain(..).rev());
    }
    page
}

#[test]
fn the_page_of_keys_has_all_that_the_schema_has() {
    let schema: Value = serde_json::to_value(schema::e2e_schema()).expect("JSON");
    let there = std::fs::read_to_string(Path::new(PAGE)).expect("the page");
    let (by_hand, _) = there.split_once(BEGIN).expect("a generated part");
    let current = format!("{by_hand}{BEGIN}{}", page(&schema));
    if there != current && std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &current).expect("it is written");
        return;
    }
    assert!(
        there == current,
        "docs/keys.md is not what the schema says; hint: UPDATE=1 cargo test -p argus-crds keys"
    );
}
