//! Document of a compose file: with its `<<` merges, `include` and `extends` resolved, and with the lines of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use argus_crds::error::Code;
use argus_crds::yaml::{self, SourceMap};
use serde_json::{Map, Value, json};

use super::parts;
use crate::exit::{Exit, Failure};

/// Maximum number of files that a compose file may name.
const MAX_FILES: usize = 64;
/// Top-level maps that included files add to.
const SECTIONS: [&str; 5] = ["services", "volumes", "networks", "secrets", "configs"];
/// Keys of a service that an own value replaces, although both values are lists.
const REPLACED: [&str; 3] = ["command", "entrypoint", "test"];

/// A compose file with the files that it names.
#[derive(Debug)]
pub(in crate::init) struct Document {
    pub(in crate::init) value: Value,
    /// Problems of files that it names.
    pub(super) notes: Vec<String>,
    /// Path of each file relative to the project, and the lines of its keys. The first is the compose file itself.
    files: Vec<(PathBuf, SourceMap)>,
    /// File of each service of another file.
    origins: BTreeMap<String, usize>,
}

impl Document {
    /// Reads a compose file with the files that it names.
    pub(in crate::init) fn read(path: &Path) -> Result<Self, Failure> {
        let (value, source) = read_file(path)?;
        let mut document = Self {
            value: Value::Null,
            notes: Vec::new(),
            files: vec![(path.file_name().map(PathBuf::from).unwrap_or_default(), source)],
            origins: BTreeMap::new(),
        };
        let dir = path.parent().unwrap_or(Path::new("."));
        document.value = document.include_files(value, dir, 0);
        document.extend_services(dir);
        Ok(document)
    }

    /// Returns the location of a key of a service for a note, such as ` (line 3)`.
    pub(in crate::init) fn locate(&self, service: &str, key: &str) -> String {
        let file = self.origins.get(service).copied().unwrap_or_default();
        self.locate_in(file, &format!("services.{service}.{key}"))
    }

    /// Returns the location of a top-level path.
    pub(super) fn locate_path(&self, path: &str) -> String {
        self.locate_in(0, path)
    }

    fn locate_in(&self, file: usize, path: &str) -> String {
        let Some((name, source)) = self.files.get(file) else {
            return String::new();
        };
        let Some(location) = source.locate(path.trim_end_matches('.')) else {
            return String::new();
        };
        match file {
            0 => format!(" (line {})", location.line),
            _ => format!(" (`{}`, line {})", name.display(), location.line),
        }
    }

    /// Reads another file whose paths become relative to `dir`, the folder of the project.
    fn read_other(&mut self, dir: &Path, path: &str, depth: usize) -> Option<(Value, usize)> {
        if self.files.len() >= MAX_FILES || depth > 8 {
            self.notes.push(format!("left out: `{path}`: too many files"));
            return None;
        }
        let (mut value, source) = match read_file(&dir.join(path)) {
            Ok(read) => read,
            Err(failure) => {
                self.notes.push(format!("left out: {}", failure.message()));
                return None;
            }
        };
        self.files.push((PathBuf::from(path), source));
        let file = self.files.len() - 1;
        let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        if folder.as_os_str() != "" {
            rebase(&mut value, &folder);
        }
        Some((value, file))
    }

    /// Adds the files under `include`. Own keys win.
    fn include_files(&mut self, mut value: Value, dir: &Path, depth: usize) -> Value {
        let include = value.as_object_mut().and_then(|map| map.shift_remove("include"));
        for one in include.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let paths = match one.get("path").unwrap_or(one) {
                Value::Array(paths) => paths.clone(),
                path => vec![path.clone()],
            };
            for path in paths.iter().filter_map(Value::as_str) {
                let Some((other, file)) = self.read_other(dir, path, depth) else {
                    continue;
                };
                let other = self.include_files(other, dir, depth + 1);
                for section in SECTIONS {
                    for (name, entry) in other[section].as_object().into_iter().flatten() {
                        if value[section].get(name).is_none() {
                            if section == "services" {
                                self.origins.entry(name.clone()).or_insert(file);
                            }
                            if value[section].is_null() {
                                value[section] = json!({});
                            }
                            value[section][name] = entry.clone();
                        }
                    }
                }
            }
        }
        value
    }

    /// Merges each service with the service that it extends.
    fn extend_services(&mut self, dir: &Path) {
        let services = self.value["services"].clone();
        for name in services.as_object().into_iter().flat_map(Map::keys) {
            let extended = self.extend(&services, name, dir, &mut BTreeSet::new());
            self.value["services"][name] = extended;
        }
    }

    fn extend(&mut self, services: &Value, name: &str, dir: &Path, visited: &mut BTreeSet<String>) -> Value {
        let mut own = normalize(&services[name]);
        let Some(extends) = own.as_object_mut().and_then(|map| map.shift_remove("extends")) else {
            return own;
        };
        let base = extends
            .as_str()
            .or_else(|| extends["service"].as_str())
            .unwrap_or_default();
        let file = extends["file"].as_str();
        if !visited.insert(format!("{}:{base}", file.unwrap_or_default())) {
            return own;
        }
        let found = match file {
            None => Some(services.clone()),
            Some(file) => self
                .read_other(dir, file, 0)
                .map(|(other, _)| other["services"].clone()),
        };
        if let Some(services) = found.filter(|services| services.get(base).is_some()) {
            return merge(self.extend(&services, base, dir, visited), own);
        }
        let at = self.locate(name, "extends");
        self.notes.push(format!(
            "left out of `{name}`: `extends`: no service `{base}`{at}"
        ));
        own
    }
}

fn read_file(path: &Path) -> Result<(Value, SourceMap), Failure> {
    let name = path.display().to_string();
    let bytes = fs::read(path)
        .map_err(|error| Failure::operation_failed(&format!("cannot read `{name}`"), &error))?;
    let read = yaml::document(&name, &bytes).map_err(|diagnostic| {
        let line = diagnostic
            .location
            .map(|location| format!(":{}", location.line))
            .unwrap_or_default();
        Failure::with_code(
            Code::SpecInvalid,
            format!("`{name}`{line}: {}", diagnostic.message),
        )
        .with_details(json!({ "path": path, "reason": diagnostic.message }))
        .with_exit(Exit::SpecRejected)
        .with_hint("fix the file or move it away")
    })?;
    Ok((apply_merge_keys(read.value), read.source))
}

/// Merges the maps under `<<` into the map that contains them. Existing keys win.
fn apply_merge_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(apply_merge_keys).collect(),
        Value::Object(fields) => {
            let mut fields: Map<String, Value> = fields
                .into_iter()
                .map(|(key, value)| (key, apply_merge_keys(value)))
                .collect();
            let others = match fields.shift_remove("<<") {
                Some(Value::Array(others)) => others,
                Some(other) => vec![other],
                None => Vec::new(),
            };
            for other in others {
                for (key, value) in other.as_object().into_iter().flatten() {
                    fields.entry(key).or_insert_with(|| value.clone());
                }
            }
            Value::Object(fields)
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Converts the keys of a service with two forms to maps, so that they can be merged.
fn normalize(service: &Value) -> Value {
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
fn merge(base: Value, own: Value) -> Value {
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
fn rebase(document: &mut Value, folder: &Path) {
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
