//! Repair of a draft: parts that admission rejects become notes, so that the written file is always accepted.

use std::path::Path;

use argus_crds::compose::compose_key;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::compose::spec_draft::note::{Note, Place};
use crate::compose::spec_draft::{Draft, format_file};
use crate::process::exit::Failure;
use crate::settings::Settings;
use crate::spec_files;

/// Maximum number of removed parts.
const MAX_REPAIRS: usize = 200;

/// Removes the rejected parts of a draft until admission accepts it. Returns the text of the file.
pub(super) fn repair(
    name: &str,
    draft: &mut Draft,
    settings: &Settings,
    target: &Path,
    locate: impl Fn(&str, &str) -> Option<Place>,
) -> Result<String, Failure> {
    for _ in 0..MAX_REPAIRS {
        let text = format_file(name, draft)?;
        let checked = spec_files::parse_text(settings, target, text.as_bytes(), &CancellationToken::new());
        let mut errors = checked
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error());
        // Other errors stay: external volumes need a permission, which `argus init` gives to the project afterwards.
        let removed = errors.find_map(|error| Some((error, remove(draft, &error.path)?)));
        let Some((error, service)) = removed else {
            return Ok(text);
        };
        let key = error.path.split_once("].").map_or("", |(_, key)| key);
        let at = locate(&service, &compose_key(key));
        let hint = error.hint.as_deref().unwrap_or_default();
        let hint = hint.strip_prefix("POLICY_VIOLATION: ").unwrap_or(hint);
        let hint = if hint.is_empty() {
            String::new()
        } else {
            format!("; {hint}")
        };
        let message = &error.message;
        let note = Note::omission(format!("left out of `{service}`: {message}"), at);
        draft.notes.push(note.then(hint));
    }
    format_file(name, draft)
}

/// Removes the value at a path such as `services[0].container.ports[1]`, or the whole service if it cannot exist without the value.
/// Returns the name of the service.
fn remove(draft: &mut Draft, path: &str) -> Option<String> {
    let path = path.strip_prefix("services[")?;
    let (index, path) = path.split_once(']')?;
    let index: usize = index.parse().ok()?;
    let service = draft.services.get_mut(index)?;
    let name = service["name"].as_str().unwrap_or_default().to_owned();
    let path = path.trim_start_matches('.');
    let is_required = matches!(
        path,
        "" | "name" | "container" | "container.name" | "image" | "build"
    ) || path.starts_with("build.context");
    if is_required || !remove_at(service, path) {
        draft.services.remove(index);
    }
    Some(name)
}

/// Removes the value at a path below a value. Returns false if nothing is there.
fn remove_at(value: &mut Value, path: &str) -> bool {
    match value {
        Value::Object(map) => {
            // Keys may contain dots.
            let keys = map.keys().filter(|key| {
                let rest = path.strip_prefix(key.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            });
            let Some(key) = keys.max_by_key(|key| key.len()).cloned() else {
                return false;
            };
            let rest = path[key.len()..].trim_start_matches('.');
            if rest.is_empty() || !map.get_mut(&key).is_some_and(|inner| remove_at(inner, rest)) {
                map.shift_remove(&key);
            }
            true
        }
        Value::Array(items) => {
            let parts = path.strip_prefix('[').and_then(|path| path.split_once(']'));
            let Some((Ok(index), _)) = parts.map(|(index, rest)| (index.parse::<usize>(), rest)) else {
                return false;
            };
            if index < items.len() {
                items.remove(index);
            }
            true
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejected_part_is_removed_or_the_whole_service() {
        let service = json!({
            "name": "web",
            "image": "web:1",
            "container": { "name": "a-web", "ports": ["1:1", "2:2"], "environment": { "A.B": "1", "A": "2" } },
        });
        let mut draft = Draft {
            services: vec![service],
            ..Draft::default()
        };
        for path in [
            "services[0].container.ports[0]",
            "services[0].container.environment.A.B",
        ] {
            assert_eq!(remove(&mut draft, path).as_deref(), Some("web"));
        }
        let container = json!({ "name": "a-web", "ports": ["2:2"], "environment": { "A": "2" } });
        assert_eq!(draft.services[0]["container"], container);
        assert_eq!(remove(&mut draft, "project.name"), None);
        assert_eq!(remove(&mut draft, "services[0].image").as_deref(), Some("web"));
        assert!(draft.services.is_empty());
    }
}
