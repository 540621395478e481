//! Suggestions for unknown keys and invalid words.

use serde_json::{Map, Value};

use super::{Check, types};
use crate::Diagnostic;
use crate::key_schema::{self, ANY};
use crate::suggestion::{nearest, normalize};
use crate::yaml::entry_map::Entry;
use crate::yaml::tree::Kind;

/// Maximum number of known keys in a hint.
const MAX_LISTED: usize = 8;

/// Adds a fix to the diagnostic of an unknown key: a similar key, or a place where the key is valid.
pub(super) fn key(
    diagnostic: Diagnostic,
    check: &Check<'_>,
    known: &Map<String, Value>,
    entry: &Entry,
) -> Diagnostic {
    let key = entry.key.as_str();
    let did_you_mean = |diagnostic: Diagnostic, name: &str| {
        diagnostic
            .hint(format!("did you mean `{name}`?"))
            .replace(key, name)
    };
    let same = |name: &&String| normalize(name) == normalize(key);
    if let Some(name) = known.keys().find(same) {
        return did_you_mean(diagnostic, name);
    }
    if let Some(place) =
        valid_place(check, known, entry).or_else(|| other_place(check, entry, &diagnostic.path))
    {
        return diagnostic.hint(place);
    }
    if let Some(name) = part_of(key, known).or_else(|| nearest(key, known.keys().map(String::as_str))) {
        return did_you_mean(diagnostic, name);
    }
    if known.len() > MAX_LISTED {
        return diagnostic;
    }
    let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    diagnostic.hint(format!("use one of {}", names.join(", ")))
}

/// Describes the move of a key to a place nearby where it is valid.
fn valid_place(check: &Check<'_>, known: &Map<String, Value>, entry: &Entry) -> Option<String> {
    let key = entry.key.as_str();
    let move_out = |sibling: &str, schema: &Value| {
        let form = other_form(check, schema, entry).map_or_else(String::new, |form| format!(", as {form}"));
        Some(format!("move it further out, next to `{sibling}`{form}"))
    };
    let nearest = check.parents.last();
    if let Some((sibling, schema)) = nearest.and_then(|(keys, sibling)| Some((sibling, keys.get(key)?))) {
        return move_out(sibling, schema);
    }
    for (child, schema) in known {
        let properties = check.resolve_child(schema);
        if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
            return Some(match other_form(check, schema, entry) {
                Some(form) => format!("write it under `{child}` as {form}"),
                None => format!("move it under `{child}`"),
            });
        }
    }
    let mut parents = check.parents.iter().rev();
    let (sibling, schema) = parents.find_map(|(keys, sibling)| Some((sibling, keys.get(key)?)))?;
    move_out(sibling, schema)
}

/// Describes the only place of a key in the whole file. The entry `*` of that path is the one of the path of the key.
fn other_place(check: &Check<'_>, entry: &Entry, path: &str) -> Option<String> {
    let mut places = key_schema::places(&entry.key).into_iter();
    let (place, schema) = places.next().filter(|_| places.next().is_none())?;
    let here: Vec<&str> = path.split('.').collect();
    // The keys of a mock or a suite have other meanings in a service.
    let is_related = |part: &str| ["argus", "resilience"].contains(&part) || here.first() == Some(&part);
    if !place.split('.').next().is_some_and(is_related) {
        return None;
    }
    let parts = place
        .split('.')
        .enumerate()
        .map(|(index, part)| match here.get(index) {
            Some(name)
                if part == ANY && place.split('.').take(index).eq(here.iter().take(index).copied()) =>
            {
                name
            }
            Some(_) | None => part,
        });
    let place = parts.collect::<Vec<_>>().join(".");
    Some(match other_form(check, schema, entry) {
        Some(form) => format!("write it as {form} at `{place}`"),
        None => format!("move it to `{place}`"),
    })
}

/// Form of the value that a schema requires, if the value of an entry has another one.
fn other_form(check: &Check<'_>, schema: &Value, entry: &Entry) -> Option<&'static str> {
    let kinds = check.kinds(schema);
    let is = |kind: &str| kinds.iter().any(|known| known == kind);
    let fits = match &entry.value.kind {
        _ if kinds.is_empty() || entry.value.is_null() => true,
        Kind::Map(_) => is("object"),
        Kind::List(_) => is("array"),
        Kind::Scalar { .. } => !kinds
            .iter()
            .all(|kind| ["object", "array", "null"].contains(&kind.as_str())),
    };
    match (fits, is("object"), is("array")) {
        (true, _, _) => None,
        (false, true, _) => Some("a map"),
        (false, false, true) => Some("a list"),
        (false, false, false) => Some("a single value"),
    }
}

/// Returns true for a known key, and for a word that is probably meant to be one.
pub(super) fn is_similar(key: &str, known: &Map<String, Value>) -> bool {
    known.contains_key(key) || nearest(key, known.keys().map(String::as_str)).is_some()
}

/// Returns the only known key that contains this one.
fn part_of<'n>(key: &str, known: &'n Map<String, Value>) -> Option<&'n str> {
    let part = normalize(key);
    let mut containing = known
        .keys()
        .filter(|name| part.len() >= 4 && normalize(name).contains(&part));
    containing
        .next()
        .filter(|_| containing.next().is_none())
        .map(String::as_str)
}

impl<'a> Check<'a> {
    /// Returns the JSON types of all alternatives of a schema; empty if it permits all.
    fn kinds(&self, schema: &Value) -> Vec<String> {
        let reference = schema.get("$ref").and_then(Value::as_str);
        if let Some(schema) = reference.and_then(|path| self.root.pointer(path.trim_start_matches('#'))) {
            return self.kinds(schema);
        }
        match schema.get("anyOf").and_then(Value::as_array) {
            Some(branches) => branches.iter().flat_map(|branch| self.kinds(branch)).collect(),
            None => types(schema).into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns the known keys of the map that a schema permits, through references and alternatives.
    fn resolve_child(&self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        let schema = self.resolve(schema);
        let branches = schema
            .get("anyOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        std::iter::once(schema)
            .chain(branches.map(|branch| self.resolve(branch)))
            .find_map(|schema| schema.get("properties").and_then(Value::as_object))
    }
}

/// Suggests a valid word for an invalid one.
pub(super) fn choice(word: &str, words: &[&str]) -> String {
    let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match nearest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? valid values are {}", listed.join(", ")),
        None => format!("use one of {}", listed.join(", ")),
    }
}

/// Suggests `true` or `false` for a word in place of a boolean.
pub(super) fn truth(word: &str) -> Option<String> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" | "1" | "true" => Some("write `true`".to_owned()),
        "no" | "off" | "n" | "0" | "false" => Some("write `false`".to_owned()),
        _ => None,
    }
}
