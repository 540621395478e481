//! Suggestions for unknown keys and invalid words.

use serde_json::{Map, Value};

use super::Check;
use crate::Diagnostic;
use crate::suggestion::{nearest, normalize};

/// Maximum number of known keys in a hint.
const MAX_LISTED: usize = 8;

/// Adds a fix to the diagnostic of an unknown key: a similar key, or a place where the key is valid.
pub(super) fn key(
    diagnostic: Diagnostic,
    check: &Check<'_>,
    known: &Map<String, Value>,
    key: &str,
) -> Diagnostic {
    let did_you_mean = |diagnostic: Diagnostic, name: &str| {
        diagnostic
            .hint(format!("did you mean `{name}`?"))
            .replace(key, name)
    };
    let same = |name: &&String| normalize(name) == normalize(key);
    if let Some(name) = known.keys().find(same) {
        return did_you_mean(diagnostic, name);
    }
    if let Some(place) = valid_place(check, known, key) {
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

/// Describes the move of a key to a place where it is valid.
fn valid_place(check: &Check<'_>, known: &Map<String, Value>, key: &str) -> Option<String> {
    let move_out = |sibling: &str| Some(format!("move it further out, next to `{sibling}`"));
    if let Some((_, sibling)) = check.parents.last().filter(|(keys, _)| keys.contains_key(key)) {
        return move_out(sibling);
    }
    for (child, schema) in known {
        let properties = check.resolve_child(schema);
        if properties.is_some_and(|properties| properties.contains_key(key)) {
            return Some(format!("move it under `{child}`"));
        }
    }
    let mut parents = check.parents.iter().rev();
    let (_, sibling) = parents.find(|(keys, _)| keys.contains_key(key))?;
    move_out(sibling)
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
    let same = words
        .iter()
        .find(|known| normalize(known) == normalize(word))
        .copied();
    match same.or_else(|| nearest(word, words.iter().copied())) {
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
