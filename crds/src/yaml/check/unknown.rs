//! What the author may have meant by a key or a word that is not known.

use serde_json::{Map, Value};

use super::Check;

/// How many known keys a hint lists at most.
const LISTED: usize = 8;

/// What may be meant by a key that is not known here.
pub(super) fn key(check: &Check<'_>, known: &Map<String, Value>, key: &str) -> Option<String> {
    let same = |name: &&String| plain(name) == plain(key);
    if let Some(name) = known.keys().find(same) {
        return Some(format!("did you mean `{name}`?"));
    }
    let further_out = |beside: &str| Some(format!("it belongs further out, beside `{beside}`"));
    if let Some((_, beside)) = check.parents.last().filter(|(keys, _)| keys.contains_key(key)) {
        return further_out(beside);
    }
    for (child, schema) in known {
        let properties = check.resolve_child(schema);
        if properties.is_some_and(|properties| properties.contains_key(key)) {
            return Some(format!("it belongs under `{child}`"));
        }
    }
    if let Some((_, beside)) = check
        .parents
        .iter()
        .rev()
        .find(|(keys, _)| keys.contains_key(key))
    {
        return further_out(beside);
    }
    if let Some(name) = part_of(key, known).or_else(|| nearest(key, known.keys().map(String::as_str))) {
        return Some(format!("did you mean `{name}`?"));
    }
    if known.len() > LISTED {
        return None;
    }
    let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    Some(format!("known here: {}", names.join(", ")))
}

/// The one known key that holds this one.
fn part_of<'n>(key: &str, known: &'n Map<String, Value>) -> Option<&'n str> {
    let part = plain(key);
    let mut holding = known
        .keys()
        .filter(|name| part.len() >= 4 && plain(name).contains(&part));
    holding
        .next()
        .filter(|_| holding.next().is_none())
        .map(String::as_str)
}

impl<'a> Check<'a> {
    /// The known keys of the map that a shape admits, through references and alternatives.
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

/// What may be meant by a word that is none of those allowed.
pub(super) fn choice(word: &str, words: &[&str]) -> String {
    let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let same = words.iter().find(|known| plain(known) == plain(word)).copied();
    match same.or_else(|| nearest(word, words.iter().copied())) {
        Some(near) => format!("did you mean `{near}`? allowed: {}", listed.join(", ")),
        None => format!("allowed: {}", listed.join(", ")),
    }
}

/// What may be meant by a word that stands where a bool belongs.
pub(super) fn truth(word: &str) -> Option<String> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" | "1" | "true" => Some("write `true`".to_owned()),
        "no" | "off" | "n" | "0" | "false" => Some("write `false`".to_owned()),
        _ => None,
    }
}

fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if word.len() > 64 {
        return None;
    }
    let most = (word.chars().count() / 3).max(1);
    names
        .map(|name| (strsim::damerau_levenshtein(&plain(word), &plain(name)), name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A key without what people spell differently.
fn plain(key: &str) -> String {
    key.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}
