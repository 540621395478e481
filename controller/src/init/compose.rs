//! Translation of the services of a compose file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use argus_crds::error::Code;
use argus_crds::yaml::document;
use serde_json::{Map, Value, json};

use super::{Draft, ProjectInfo, dockerfile, variables};
use crate::exit::{Exit, Failure};

mod parts;

/// Keys that need no translation: Argus does the same by default, or only Compose uses them.
const IGNORED: &[&str] = &[
    "container_name",
    "expose",
    "init",
    "labels",
    "pull_policy",
    "restart",
    "stdin_open",
    "tty",
];

/// Reads a compose file and resolves its `<<` merges.
pub(super) fn read_document(path: &Path) -> Result<Value, Failure> {
    let name = path.display().to_string();
    let bytes = fs::read(path)
        .map_err(|error| Failure::operation_failed(&format!("cannot read `{name}`"), &error))?;
    let read = document(&name, &bytes).map_err(|diagnostic| {
        let line = diagnostic
            .location
            .map(|location| format!(":{}", location.line))
            .unwrap_or_default();
        Failure::with_code(
            Code::SpecInvalid,
            format!("`{name}`{line}: {}", diagnostic.message),
        )
        .with_details(serde_json::json!({ "path": path, "reason": diagnostic.message }))
        .with_exit(Exit::SpecRejected)
        .with_hint("fix the file or move it away")
    })?;
    Ok(apply_merge_keys(read.value))
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

/// Translates all services of a document.
pub(super) fn create_draft(document: &Value, project: &ProjectInfo<'_>) -> Draft {
    let mut read = BTreeSet::new();
    let document = replace_variables(document, &mut read);
    let mut notes = Vec::new();
    let nothing = Map::new();
    let services = document["services"].as_object().unwrap_or(&nothing);
    let one_shots = find_one_shots(services);
    let mut found = Vec::new();
    for (name, service) in services {
        let mut one = Service {
            name,
            project,
            notes: &mut notes,
        };
        found.extend(one.translate(service, one_shots.contains(name.as_str())));
    }
    for key in ["configs", "include", "secrets"] {
        if document.get(key).is_some() {
            notes.push(format!("left out: `{key}`"));
        }
    }
    if !read.is_empty() {
        let names: Vec<String> = read.iter().map(|name| format!("`{name}`")).collect();
        notes.push(format!(
            "values from the `.env` next to this file: {}",
            names.join(", ")
        ));
    }
    if found.is_empty() {
        notes.push("no service could be translated".to_owned());
    }
    Draft {
        services: found,
        from: None,
        notes,
    }
}

/// Replaces the variables in all texts of a document.
fn replace_variables(value: &Value, read: &mut BTreeSet<String>) -> Value {
    match value {
        Value::String(text) => Value::String(variables::replace_variables(text, read)),
        Value::Array(items) => items.iter().map(|item| replace_variables(item, read)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), replace_variables(value, read)))
            .collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
    }
}

/// Services on whose completion other services wait.
fn find_one_shots(services: &Map<String, Value>) -> BTreeSet<&str> {
    let waits = services
        .values()
        .filter_map(|service| service["depends_on"].as_object());
    waits
        .flatten()
        .filter(|(_, on)| on["condition"] == "service_completed_successfully")
        .map(|(name, _)| name.as_str())
        .collect()
}

/// A service during its translation.
struct Service<'a> {
    name: &'a str,
    project: &'a ProjectInfo<'a>,
    notes: &'a mut Vec<String>,
}

impl Service<'_> {
    fn translate(&mut self, written: &Value, one_shot: bool) -> Option<Value> {
        let mut service = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let mut container = Map::new();
        let own = written["container_name"].as_str().map(str::to_owned);
        let name = own.unwrap_or_else(|| format!("{}-{}", self.project.slug, self.name));
        container.insert("name".to_owned(), json!(name));
        let nothing = Map::new();
        for (key, value) in written.as_object().unwrap_or(&nothing) {
            let (to, name, value) = match key.as_str() {
                "image" => (&mut service, "image", Some(value.clone())),
                "build" => (&mut service, "build", self.translate_build(value)),
                "command" | "entrypoint" => (&mut service, key.as_str(), Some(value.clone())),
                "user" => (
                    &mut service,
                    "user",
                    parts::scalar_to_text(value).map(Value::String),
                ),
                "working_dir" => (&mut service, "workingDir", Some(value.clone())),
                "tmpfs" => (&mut service, "tmpfs", Some(parts::to_list(value))),
                "extra_hosts" => (&mut service, "extraHosts", Some(parts::join_pairs(value, ':'))),
                "cpus" => (&mut service, "cpus", Some(value.clone())),
                "mem_limit" => (&mut service, "memory", parts::translate_size(value)),
                "deploy" => {
                    let limits = &value["resources"]["limits"];
                    if let Some(cpus) = limits.get("cpus") {
                        service.insert("cpus".to_owned(), cpus.clone());
                    }
                    (&mut service, "memory", parts::translate_size(&limits["memory"]))
                }
                "stop_grace_period" => (&mut service, "stopGrace", parts::translate_duration(value)),
                "depends_on" => (&mut service, "dependsOn", Some(translate_dependencies(value))),
                "ports" => (&mut container, "ports", self.translate_ports(value)),
                "environment" => (&mut container, "environment", Some(translate_environment(value))),
                "volumes" => (&mut container, "volumes", self.translate_volumes(value)),
                "healthcheck" => (&mut container, "healthcheck", self.translate_healthcheck(value)),
                "networks" if parts::has_no_alias(value) => continue,
                "profiles" => {
                    self.add_note(&format!("`{key}`: the service always runs"));
                    continue;
                }
                "env_file" => {
                    self.add_note("`env_file`: move its variables to `container.environment`");
                    continue;
                }
                key if IGNORED.contains(&key) || key.starts_with("x-") => continue,
                other => {
                    self.add_note(&format!("`{other}`"));
                    continue;
                }
            };
            to.extend(value.map(|value| (name.to_owned(), value)));
        }
        if one_shot {
            service.insert("oneShot".to_owned(), json!(true));
        } else if !container.contains_key("healthcheck") && written.get("healthcheck").is_none() {
            let ports = container.get("ports").and_then(Value::as_array);
            if let Some(port) = ports.and_then(|ports| dockerfile::find_first_tcp(ports)) {
                container.insert("healthcheck".to_owned(), json!({ "type": "tcp", "port": port }));
            }
        }
        if service.contains_key("image") && service.contains_key("build") {
            // Compose tags the built image with the name under `image`.
            let image = service.shift_remove("image");
            service["build"]["image"] = json!(image);
        }
        if !service.contains_key("image") && !service.contains_key("build") {
            self.add_note("the whole service, which has neither `image` nor `build`");
            return None;
        }
        service.insert("container".to_owned(), Value::Object(container));
        Some(Value::Object(service))
    }

    fn add_note(&mut self, what: &str) {
        self.notes.push(format!("left out of `{}`: {what}", self.name));
    }

    fn translate_build(&mut self, value: &Value) -> Option<Value> {
        let context = value
            .as_str()
            .or_else(|| value["context"].as_str())
            .unwrap_or(".");
        if context.contains("://") {
            self.add_note("`build`: its context is not a folder");
            return None;
        }
        let folder = parts::join_paths(&self.project.back, context);
        let mut build = json!({ "context": folder });
        if let Some(file) = value["dockerfile"].as_str() {
            build["dockerfile"] = json!(parts::join_paths(&folder, file));
        }
        let args = translate_environment(&value["args"]);
        if args.as_object().is_some_and(|args| !args.is_empty()) {
            build["args"] = args;
        }
        let known = ["context", "dockerfile", "args"];
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                self.add_note(&format!("`build.{key}`"));
            }
        }
        Some(build)
    }

    fn translate_ports(&mut self, value: &Value) -> Option<Value> {
        let mut ports = Vec::new();
        for port in value.as_array()? {
            match parts::translate_port(port) {
                Some(port) => ports.push(json!(port)),
                None => self.add_note(&format!("port `{port}`")),
            }
        }
        Some(Value::Array(ports))
    }

    fn translate_volumes(&mut self, value: &Value) -> Option<Value> {
        let mut volumes = Vec::new();
        for volume in value.as_array()? {
            match parts::translate_volume(volume, &self.project.back) {
                Ok(volume) => volumes.push(json!(volume)),
                Err(reason) => self.add_note(&reason),
            }
        }
        (!volumes.is_empty()).then_some(Value::Array(volumes))
    }

    fn translate_healthcheck(&mut self, value: &Value) -> Option<Value> {
        let command = match &value["test"] {
            _ if value["disable"] == true => return None,
            Value::String(shell) => json!(["sh", "-c", shell]),
            Value::Array(words) => match words.first().and_then(Value::as_str) {
                Some("CMD") => json!(words[1..]),
                Some("CMD-SHELL") => json!(["sh", "-c", words.get(1)]),
                Some("NONE") => return None,
                Some(_) | None => {
                    self.add_note("`healthcheck.test`");
                    return None;
                }
            },
            // Without a test, only the timing changes. The probe is the image's own HEALTHCHECK.
            _ => Value::Null,
        };
        let mut check = if command.is_null() {
            json!({ "type": "docker" })
        } else {
            json!({ "type": "exec", "command": command })
        };
        for (from, to) in [
            ("interval", "interval"),
            ("timeout", "timeout"),
            ("start_period", "startPeriod"),
        ] {
            if let Some(span) = parts::translate_duration(&value[from]) {
                check[to] = span;
            }
        }
        if let Some(retries) = value.get("retries") {
            check["retries"] = retries.clone();
        }
        if value.get("start_interval").is_some() {
            self.add_note("`healthcheck.start_interval`");
        }
        Some(check)
    }
}

fn translate_dependencies(value: &Value) -> Value {
    let long = |(name, on): (&String, &Value)| {
        let condition = match on["condition"].as_str() {
            Some("service_healthy") => "healthy",
            Some("service_completed_successfully") => "completed",
            Some(_) | None => return json!(name),
        };
        json!({ "service": name, "condition": condition })
    };
    match value {
        Value::Object(all) => all.iter().map(long).collect(),
        names => names.clone(),
    }
}

/// Variables as a map, from a map or a list of `NAME=value`. Variables without a value become `{{env.NAME}}`.
fn translate_environment(value: &Value) -> Value {
    let outside = |name: &str| format!("{{{{env.{name}}}}}");
    let all: BTreeMap<String, String> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| {
                (
                    name.clone(),
                    parts::scalar_to_text(value).unwrap_or_else(|| outside(name)),
                )
            })
            .collect(),
        Value::Array(list) => list
            .iter()
            .filter_map(Value::as_str)
            .map(|line| match line.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (line.to_owned(), outside(line)),
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeMap::new(),
    };
    json!(all)
}
