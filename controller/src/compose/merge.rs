//! Merges of services, and paths of files in other folders.

use std::path::Path;

use serde_json::{Value, json};

use super::parts;

/// Keys of a service that an own value replaces, although both values are lists.
const REPLACED: [&str; 3] = ["command", "entrypoint", "test"];

/// Converts the keys of a service with two forms to maps, so that they can be merged.
pub(super) fn normalize(service: &Value) -> Value {
    let mut service = service.clone();
    for key in ["environment", "labels"] {
        if let Some(Value::Array(lines)) = service.get(key) {
            let pair = |line: &str| match line.split_once('=') {
                Some((name, value)) => (name.to_owned(), json!(value)),
                None => (line.to_owned(), Value::Null),
            };
            service[key] = lines.iter().filter_map(Value::as_str).map(pair).collect();
        }
    }
    if let Some(file @ Value::String(_)) = service.get("env_file") {
        service["env_file"] = json!([file]);
    }
    if let Some(Value::Array(names)) = service.get("depends_on") {
        let started = |name: &str| (name.to_owned(), json!({ "condition": "service_started" }));
        service["depends_on"] = names.iter().filter_map(Value::as_str).map(started).collect();
    }
    service
}

/// Merges two services: maps by key, lists one after the other; other values of `own` win.
pub(super) fn merge(base: Value, own: Value) -> Value {
    match (base, own) {
        (Value::Object(mut base), Value::Object(own)) => {
            for (key, value) in own {
                let merged = match base.shift_remove(&key) {
                    Some(old) if !REPLACED.contains(&key.as_str()) => merge(old, value),
                    Some(_) | None => value,
                };
                base.insert(key, merged);
            }
            Value::Object(base)
        }
        (Value::Array(mut base), Value::Array(own)) => {
            base.extend(own);
            Value::Array(base)
        }
        (_, own) => own,
    }
}

/// Converts the paths of a file in another folder.
pub(super) fn rebase(document: &mut Value, folder: &Path) {
    let join = |path: &str| {
        let joined = parts::join_paths(folder, path).display().to_string();
        if joined.starts_with("..") {
            joined
        } else {
            format!("./{joined}")
        }
    };
    let relative = |value: &mut Value| {
        if let Value::String(path) = value
            && !path.starts_with(['/', '~', '$'])
            && !path.contains("://")
        {
            *path = join(path);
        }
    };
    for section in ["secrets", "configs"] {
        for (_, entry) in document[section].as_object_mut().into_iter().flatten() {
            entry.get_mut("file").into_iter().for_each(relative);
        }
    }
    for (_, service) in document["services"].as_object_mut().into_iter().flatten() {
        let Some(service) = service.as_object_mut() else {
            continue;
        };
        match service.get_mut("build") {
            Some(Value::Object(build)) => build.get_mut("context").into_iter().for_each(relative),
            Some(build) => relative(build),
            None => {}
        }
        match service.get_mut("env_file") {
            Some(Value::Array(files)) => {
                for file in files {
                    match file {
                        Value::Object(file) => file.get_mut("path").into_iter().for_each(relative),
                        file => relative(file),
                    }
                }
            }
            Some(file) => relative(file),
            None => {}
        }
        if let Some(extends) = service.get_mut("extends").and_then(Value::as_object_mut) {
            extends.get_mut("file").into_iter().for_each(relative);
        }
        for volume in service
            .get_mut("volumes")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            match volume {
                Value::String(text) if text.starts_with('.') => {
                    let (source, rest) = text.split_once(':').unwrap_or((text, ""));
                    *text = format!("{}:{rest}", join(source));
                }
                Value::Object(volume) if volume.get("type").is_some_and(|kind| kind == "bind") => {
                    volume.get_mut("source").into_iter().for_each(relative);
                }
                _ => {}
            }
        }
    }
}
