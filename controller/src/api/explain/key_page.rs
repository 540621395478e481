//! Pages of keys of spec files as text.

use std::fmt::Write as _;

use argus_crds::keys::{KeyPage, SubKey};
use serde_json::Value;

use super::code_page::wrap;

/// Page of a key as text.
pub(crate) fn format_key(page: &KeyPage) -> String {
    let mut text = format!("{}: {}\n", page.key, page.kind);
    if let Some(note) = &page.note {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "\n{}", wrap(&page.description));
    if let Some(default) = &page.default {
        let _ = writeln!(text, "\ndefault: {}", format_value(default));
    }
    if !page.keys.is_empty() {
        text.push_str("\nkeys:\n");
        text.extend(page.keys.iter().map(format_sub_key));
    }
    let _ = write!(text, "\nexample:\n{}", page.example);
    text
}

fn format_sub_key(key: &SubKey) -> String {
    let state = match (&key.default, key.required) {
        (_, true) => "; required".to_owned(),
        (Some(default), false) => format!("; default {}", format_value(default)),
        (None, false) => String::new(),
    };
    format!("- {} ({}{state}): {}\n", key.name, key.kind, key.description)
}

fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use argus_crds::keys::explain;

    use super::*;

    #[test]
    fn page_has_the_keys_with_their_defaults_and_an_example() {
        let text = format_key(&explain("services.*.healthcheck").unwrap());
        for part in [
            "services.*.container.healthcheck: a map\nnote: `services.*.healthcheck` is not a key",
            "- timeout (a time, such as `10s`; default 5s): ",
            "- path (a string): ",
            "\nexample:\nservices:\n  web:\n    container:\n      healthcheck:\n",
        ] {
            assert!(text.contains(part), "no `{part}`:\n{text}");
        }
        assert!(format_key(&explain("argus.policy.init").unwrap()).contains("\ndefault: true\n"));
    }
}
