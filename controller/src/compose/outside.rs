//! Notes about the top-level keys of a compose file that have no counterpart.

use serde_json::Value;

use super::{Document, Note, volumes};

/// Returns a note for each key without a counterpart, with its line.
pub(super) fn notes(value: &Value, document: &Document) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |what: String, path: &str| {
        let place = document.place_of(path);
        notes.push(Note::omission(format!("left out: {what}"), place));
    };
    if value.get("models").is_some() {
        note("`models`".to_owned(), "models");
    }
    // The environment's own volumes have only a name.
    for (section, driver) in [
        ("networks", "bridge"),
        ("volumes", "local"),
        ("secrets", ""),
        ("configs", ""),
    ] {
        for (name, entry) in value[section].as_object().into_iter().flatten() {
            for (key, inner) in entry.as_object().into_iter().flatten() {
                let is_kept = match section {
                    "networks" => matches!(key.as_str(), "external" | "internal" | "name"),
                    "secrets" | "configs" => matches!(key.as_str(), "file" | "content" | "environment"),
                    _ => matches!(key.as_str(), "external" | "name") && volumes::is_external(entry),
                };
                let is_default = *inner == false || (key == "driver" && *inner == driver);
                if !is_default && !is_kept && !key.starts_with("x-") {
                    let path = format!("{section}.{name}.{key}");
                    note(format!("`{path}`"), &path);
                }
            }
        }
    }
    notes
}
