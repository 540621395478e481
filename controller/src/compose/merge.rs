//! Merges of services, and paths of files in other folders.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::parts;
use super::tags::{self, Keys};

/// Keys of a service that an own value replaces, although both values are lists.
const REPLACED: [&str; 3] = ["command", "entrypoint", "test"];

/// Keys of maps with names that people choose.
const NAMES: [&str; 3] = ["environment", "labels", "args"];

/// Converts the keys of a service with two forms to maps, so that they can be merged.
pub(super) fn normalize(service: &Value) -> Value {
    let mut service = service.clone();
    for key in ["environment", "labels"] {
        if let Some(value) = service.get_mut(key) {
            list_to_map(value);
        }
    }
    for key in ["env_file", "tmpfs"] {
        if let Some(one @ Value::String(_)) = service.get(key) {
            service[key] = json!([one]);
        }
    }
    if let Some(context @ Value::String(_)) = service.get("build") {
        service["build"] = json!({ "context": context });
    }
    for key in ["args", "labels"] {
        if let Some(value) = service.pointer_mut(&format!("/build/{key}")) {
            list_to_map(value);
        }
    }
    if let Some(Value::Array(names)) = service.get("networks") {
        let names = names.iter().filter_map(Value::as_str);
        service["networks"] = names.map(|name| (name.to_owned(), Value::Null)).collect();
    }
    if let Some(Value::Array(names)) = service.get("depends_on") {
        let started = |name: &str| (name.to_owned(), json!({ "condition": "service_started" }));
        service["depends_on"] = names.iter().filter_map(Value::as_str).map(started).collect();
    }
    service
}

/// Converts a list of `NAME=value` to a map. A name without a value has null.
fn list_to_map(value: &mut Value) {
    let Some(lines) = value.as_array() else {
        return;
    };
    let pair = |line: &str| match line.split_once('=') {
        Some((name, value)) => (name.to_owned(), json!(value)),
        None => (line.to_owned(), Value::Null),
    };
    let map = lines.iter().filter_map(Value::as_str).map(pair).collect();
    *value = map;
}

/// Merges two services: maps by key, lists one after the other without repetitions; other values of `own` win.
pub(super) fn merge(base: Value, own: Value) -> Value {
    merge_values(base, own, false)
}

/// `has_values` is true for a map in which a name without a value has a meaning, such as `environment`.
fn merge_values(base: Value, own: Value, has_values: bool) -> Value {
    match (base, own) {
        (Value::Object(base), Value::Object(own)) => {
            // The keys of `own` follow the others.
            let (mut changed, mut all): (Map<_, _>, Map<_, _>) =
                base.into_iter().partition(|(key, _)| own.contains_key(key));
            for (key, value) in own {
                let merged = match changed.remove(&key) {
                    Some(_) if REPLACED.contains(&key.as_str()) => value,
                    // A key without a value changes nothing.
                    Some(old) if value.is_null() && !has_values => old,
                    Some(old) => merge_values(old, value, NAMES.contains(&key.as_str())),
                    None => value,
                };
                all.insert(key, merged);
            }
            Value::Object(all)
        }
        (Value::Array(mut base), Value::Array(own)) => {
            // An equal item, a mount at the same path, and the same port are replaced.
            let items: HashSet<String> = own.iter().map(Value::to_string).collect();
            let targets: HashSet<String> = own.iter().filter_map(target).collect();
            let is_replaced = |item: &Value| {
                items.contains(&item.to_string()) || target(item).is_some_and(|path| targets.contains(&path))
            };
            base.retain(|item| !is_replaced(item));
            base.extend(own);
            Value::Array(base)
        }
        // A section without entries adds nothing.
        (base @ (Value::Object(_) | Value::Array(_)), Value::Null) => base,
        (_, own) => own,
    }
}

/// Path of a mount in the container, else the port or the name of a file, in the short and in the long form.
fn target(item: &Value) -> Option<String> {
    let short = item.as_str().map(|text| text.split(':').nth(1).unwrap_or(text));
    let target = short.or_else(|| item["target"].as_str());
    let path = target.filter(|target| target.starts_with('/')).map(str::to_owned);
    path.or_else(|| Some(parts::translate_port(item)?.trim_end_matches("/tcp").to_owned()))
}

/// Merges two documents. Services are merged by name. The other document clears values of the base at its tags.
pub(super) fn merge_documents(mut base: Value, own: &Value, cleared: &[Keys]) -> Value {
    tags::clear(&mut base, cleared);
    for (section, value) in own.as_object().into_iter().flatten() {
        if section != "services" {
            base[section] = merge(base[section].take(), value.clone());
            continue;
        }
        if base[section].is_null() {
            base[section] = json!({});
        }
        for (name, service) in value.as_object().into_iter().flatten() {
            base[section][name] = match base[section].get(name) {
                Some(old) => merge(normalize(old), normalize(service)),
                None => service.clone(),
            };
        }
    }
    base
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
    if let Some(include) = document.get_mut("include") {
        for_each_path(include, &relative);
    }
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
        if let Some(files) = service.get_mut("env_file") {
            for_each_path(files, &relative);
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

/// Visits the paths of the files under `env_file` and `include`: texts, or maps with them.
fn for_each_path(value: &mut Value, visit: &dyn Fn(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_path(item, visit)),
        Value::Object(fields) => {
            for key in ["path", "env_file", "project_directory"] {
                if let Some(inner) = fields.get_mut(key) {
                    for_each_path(inner, visit);
                }
            }
        }
        one => visit(one),
    }
}
