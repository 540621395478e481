//! Translation of the services of a compose file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use argus_reconciler::specs::env_vars;
use serde_json::{Map, Value, json};

use super::variables::Variables;
use super::{Draft, ProjectInfo, dockerfile};

mod document;
mod files;
mod networks;
mod outside;
mod parts;

pub(super) use document::Document;

/// Keys that need no translation: Argus does the same by default, or only Compose uses them.
const IGNORED: &[&str] = &["container_name", "expose", "init"];

/// Translates all services of a document.
pub(super) fn create_draft(document: &Document, project: &ProjectInfo<'_>) -> Draft {
    let env = fs::read_to_string(project.dir.join(".env")).unwrap_or_default();
    let mut variables = Variables {
        project: env_vars::parse(&env),
        ..Variables::default()
    };
    let value = replace_variables(&document.value, &mut variables);
    let mut notes = document.notes.clone();
    let nothing = Map::new();
    let services = value["services"].as_object().unwrap_or(&nothing);
    let has_profile = |service: &Value| service["profiles"].as_array().is_some_and(|all| !all.is_empty());
    let omitted: BTreeSet<&str> = services
        .iter()
        .filter(|(_, service)| has_profile(service))
        .map(|(name, _)| name.as_str())
        .collect();
    let one_shots = find_one_shots(services);
    let mut found = Vec::new();
    for (name, service) in services {
        if omitted.contains(name.as_str()) {
            let at = document.locate(name, "profiles");
            notes.push(format!("left out: service `{name}`, which has `profiles`{at}"));
            continue;
        }
        let mut one = Service {
            name,
            project,
            document,
            top: &value,
            omitted: &omitted,
            notes: &mut notes,
        };
        found.extend(one.translate(service, one_shots.contains(name.as_str())));
    }
    let internal = networks::are_internal(&value, &omitted);
    notes.extend(outside::notes(&value, document, internal));
    let names = |all: &BTreeSet<String>| {
        let names: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    if !variables.written.is_empty() {
        notes.push(format!(
            "values from the `.env` of the project: {}",
            names(&variables.written)
        ));
    }
    if !variables.read.is_empty() {
        notes.push(format!(
            "values from the `.env` next to this file: {}",
            names(&variables.read)
        ));
    }
    if found.is_empty() {
        notes.push("no service could be translated".to_owned());
    }
    let secrets = variables.secrets();
    Draft {
        services: found,
        internal,
        from: None,
        notes,
        secrets: secrets
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// Replaces the variables in all texts of a document.
fn replace_variables(value: &Value, variables: &mut Variables) -> Value {
    match value {
        Value::String(text) => Value::String(variables.replace(text)),
        Value::Array(items) => items
            .iter()
            .map(|item| replace_variables(item, variables))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), replace_variables(value, variables)))
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
    document: &'a Document,
    /// Document with its variables replaced.
    top: &'a Value,
    /// Services that are left out.
    omitted: &'a BTreeSet<&'a str>,
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
                    self.note_deploy(value);
                    let limits = &value["resources"]["limits"];
                    if let Some(cpus) = limits.get("cpus") {
                        service.insert("cpus".to_owned(), cpus.clone());
                    }
                    (&mut service, "memory", parts::translate_size(&limits["memory"]))
                }
                "stop_grace_period" => (&mut service, "stopGrace", parts::translate_duration(value)),
                "depends_on" => (
                    &mut service,
                    "dependsOn",
                    Some(self.translate_dependencies(value)),
                ),
                "ports" => (&mut container, "ports", self.translate_ports(value)),
                "environment" => (&mut container, "environment", Some(translate_environment(value))),
                "volumes" => (&mut container, "volumes", self.translate_volumes(value)),
                "healthcheck" => (&mut container, "healthcheck", self.translate_healthcheck(value)),
                "labels" => (&mut container, "labels", Some(parts::translate_labels(value))),
                "networks" => (&mut container, "aliases", self.translate_networks(value)),
                "restart" if !matches!(value.as_str(), Some("no")) && *value != false => continue,
                "profiles" | "env_file" | "secrets" | "configs" => continue,
                key if IGNORED.contains(&key) || key.starts_with("x-") => continue,
                other => {
                    self.add_note(other, &format!("`{other}`"));
                    continue;
                }
            };
            to.extend(value.map(|value| (name.to_owned(), value)));
        }
        let variables = self.read_env_files(&written["env_file"]);
        if !variables.is_empty() {
            let own = container.shift_remove("environment");
            let mut all: Map<String, Value> = variables
                .into_iter()
                .map(|(name, value)| (name, json!(value)))
                .collect();
            all.extend(
                own.as_ref()
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default(),
            );
            container.insert("environment".to_owned(), Value::Object(all));
        }
        let files = self.mount_files(written);
        if !files.is_empty() {
            let volumes = container.entry("volumes").or_insert_with(|| json!([]));
            volumes
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.extend(files.clone()));
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
            self.add_note("", "the whole service, which has neither `image` nor `build`");
            return None;
        }
        service.insert("container".to_owned(), Value::Object(container));
        Some(Value::Object(service))
    }

    /// Notes a part at `key`, which has no counterpart.
    fn add_note(&mut self, key: &str, what: &str) {
        let at = self.document.locate(self.name, key);
        self.notes
            .push(format!("left out of `{}`: {what}{at}", self.name));
    }

    /// Notes all keys under `deploy` except the limits of processors and memory.
    fn note_deploy(&mut self, value: &Value) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            if key != "resources" {
                self.add_note(&format!("deploy.{key}"), &format!("`deploy.{key}`"));
                continue;
            }
            for (key, inner) in inner.as_object().into_iter().flatten() {
                for name in inner.as_object().into_iter().flat_map(Map::keys) {
                    if key != "limits" || !matches!(name.as_str(), "cpus" | "memory") {
                        let path = format!("deploy.resources.{key}.{name}");
                        self.add_note(&path, &format!("`{path}`"));
                    }
                }
            }
        }
    }

    fn translate_build(&mut self, value: &Value) -> Option<Value> {
        let context = value
            .as_str()
            .or_else(|| value["context"].as_str())
            .unwrap_or(".");
        if context.contains("://") {
            self.add_note("build", "`build`: its context is not a folder");
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
        if let Some(target) = parts::scalar_to_text(&value["target"]) {
            build["target"] = json!(target);
        }
        let known = ["context", "dockerfile", "target", "args"];
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                self.add_note(&format!("build.{key}"), &format!("`build.{key}`"));
            }
        }
        Some(build)
    }

    fn translate_ports(&mut self, value: &Value) -> Option<Value> {
        let mut ports = Vec::new();
        for (index, port) in value.as_array()?.iter().enumerate() {
            match parts::translate_port(port) {
                Some(port) => ports.push(json!(port)),
                None => self.add_note(&format!("ports[{index}]"), &format!("port `{port}`")),
            }
        }
        Some(Value::Array(ports))
    }

    fn translate_volumes(&mut self, value: &Value) -> Option<Value> {
        let mut volumes = Vec::new();
        for (index, volume) in value.as_array()?.iter().enumerate() {
            match parts::translate_volume(volume, &self.project.back, self.name) {
                Ok(volume) => volumes.push(json!(volume)),
                Err(reason) => self.add_note(&format!("volumes[{index}]"), &reason),
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
                    self.add_note("healthcheck.test", "`healthcheck.test`");
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
            self.add_note("healthcheck.start_interval", "`healthcheck.start_interval`");
        }
        Some(check)
    }

    fn translate_dependencies(&mut self, value: &Value) -> Value {
        let long = |(name, on): (&String, &Value)| {
            let condition = match on["condition"].as_str() {
                Some("service_healthy") => "healthy",
                Some("service_completed_successfully") => "completed",
                Some(_) | None => return json!(name),
            };
            json!({ "service": name, "condition": condition })
        };
        let Value::Object(all) = value else {
            return value.clone();
        };
        let (gone, kept): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|(name, _)| self.omitted.contains(name.as_str()));
        for (name, _) in gone {
            let what = format!("`depends_on`: `{name}`, which is left out");
            self.add_note(&format!("depends_on.{name}"), &what);
        }
        kept.into_iter().map(long).collect()
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
