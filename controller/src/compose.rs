//! Compose files: their translation to the content of a spec file.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::budget::Budget;
use serde_json::{Map, Value, json};

use crate::compose::spec_draft::note::{Note, Place};
use crate::compose::spec_draft::{Draft, ProjectInfo};

mod build;
mod deploy;
mod document;
mod environment;
mod extends;
mod files;
mod includes;
mod memory;
mod merge;
mod networks;
mod numbers;
mod origin;
mod outside;
mod overrides;
mod parts;
mod process;
mod readiness;
mod secret_values;
mod selection;
mod shape;
pub(crate) mod spec_draft;
mod tags;
mod translation;
mod unknown_keys;
mod variables;
mod volumes;

pub(crate) use document::Document;
pub(crate) use overrides::{FILES, PROFILES};
use selection::Omitted;
pub(crate) use selection::{OPTIONAL, SERVICES};
pub(crate) use translation::translate;
pub(crate) use variables::NAME;
use variables::{Variables, replace_in_paths, replace_variables};

/// Keys that need no translation: Argus does the same by default, or only Compose uses them.
const IGNORED: &[&str] = &["container_name", "expose", "links", "tmpfs", "shm_size"];

/// Translates all services of a document.
pub(crate) fn create_draft(document: &Document, project: &ProjectInfo<'_>) -> Draft {
    create_draft_with_dotenv(document, project, &BTreeMap::new())
}

/// Translates all services of a document for a spec file next to a `.env` with these variables.
pub(crate) fn create_draft_with_dotenv(
    document: &Document,
    project: &ProjectInfo<'_>,
    known: &BTreeMap<String, String>,
) -> Draft {
    let mut variables = Variables {
        is_inlined: project.is_inlined,
        project: project.variables.clone(),
        ..Variables::default()
    };
    let value = replace_in_paths(&document.value, &mut variables);
    let value = replace_variables(&value, &mut variables);
    let mut notes = document.notes.clone();
    let first = notes.len();
    let nothing = Map::new();
    let services = value["services"].as_object().unwrap_or(&nothing);
    let omitted = Omitted::find(services, &mut variables, document, &mut notes);
    let awaited = find_awaited(services);
    let (mut found, mut env_files) = (Vec::new(), document.env_files.clone());
    for (name, service) in services {
        if omitted.names.contains(name.as_str()) {
            notes.extend(omitted.note(name, service, &mut variables, document));
            continue;
        }
        let mut one = Service {
            name,
            project,
            document,
            top: &value,
            omitted: &omitted.names,
            awaited: &awaited,
            notes: &mut notes,
            env_files: &mut env_files,
            variables: &mut variables,
        };
        found.extend(one.translate(service));
    }
    // The settings of the services have counted as well.
    drop(notes.splice(first..first, variables.errors(document)));
    notes.extend(outside::notes(&value, document));
    let secrets = variables.secrets();
    let mut secrets: BTreeMap<String, String> = secrets
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if project.is_inlined {
        secret_values::move_to_dotenv(&mut found, &mut secrets, known);
        variables.read.extend(secrets.keys().cloned());
    }
    let names = |all: &BTreeSet<String>| {
        let names: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    if !variables.written.is_empty() {
        notes.push(Note::remark(format!(
            "values from the `.env` of the project: {}",
            names(&variables.written)
        )));
    }
    if !variables.read.is_empty() {
        notes.push(Note::remark(format!(
            "values from the `.env` next to this file: {}",
            names(&variables.read)
        )));
    }
    if found.is_empty() {
        notes.push(Note::error(
            "no service could be translated",
            document.place_of("services"),
        ));
    }
    let is_error = |name: &String| variables.unset.contains(name) || variables.required.contains_key(name);
    variables.missing.retain(|name| !is_error(name));
    let (network, networks) = networks::find_settings(&value, &found);
    Draft {
        network,
        networks,
        volumes: volumes::find_external(&value, &found),
        services: found,
        from: None,
        notes,
        missing: variables.missing,
        secrets,
    }
}

/// Services that others wait for, each with the condition.
fn find_awaited(services: &Map<String, Value>) -> BTreeSet<(&str, &str)> {
    let waits = services
        .values()
        .filter_map(|service| service["depends_on"].as_object());
    waits
        .flatten()
        .filter_map(|(name, on)| Some((name.as_str(), on["condition"].as_str()?)))
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
    /// Services that others wait for, each with the condition.
    awaited: &'a BTreeSet<(&'a str, &'a str)>,
    notes: &'a mut Vec<Note>,
    /// Rest of the budget for the files under `env_file`.
    env_files: &'a mut Budget,
    /// Variables of the translation.
    variables: &'a mut Variables,
}

impl Service<'_> {
    fn translate(&mut self, written: &Value) -> Option<Value> {
        let mut service = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let mut container = Map::new();
        let own = written["container_name"].as_str().map(str::to_owned);
        let name = own.unwrap_or_else(|| format!("{}-{}", self.project.slug, self.name));
        container.insert("name".to_owned(), json!(name));
        let nothing = Map::new();
        let keys = &self
            .variables
            .fill_settings(written.as_object().unwrap_or(&nothing));
        self.translate_keys(keys, &mut service, &mut container);
        self.add_links(&written["links"], &mut service);
        let memory = self.translate_memory(keys);
        if !memory.is_empty() {
            service.insert("tmpfs".to_owned(), json!(memory));
        }
        let own = container.get("environment").and_then(Value::as_object);
        let own = own.cloned().unwrap_or_default();
        let mut variables = self.read_env_files(&written["env_file"], &own);
        // As in Compose, a variable without a value removes that of a file.
        variables.retain(|name, _| written["environment"].get(name).is_none() || own.contains_key(name));
        if !variables.is_empty() {
            let variables = variables.into_iter().map(|(name, value)| (name, json!(value)));
            let all = variables.chain(own).collect();
            container.insert("environment".to_owned(), Value::Object(all));
        }
        let (mounts, files) = self.translate_files(written);
        if !mounts.is_empty() {
            let volumes = container.entry("volumes").or_insert_with(|| json!([]));
            volumes
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.extend(mounts.clone()));
        }
        if !files.is_empty() {
            container.insert("files".to_owned(), json!(files));
        }
        if self
            .awaited
            .contains(&(self.name, "service_completed_successfully"))
        {
            service.insert("oneShot".to_owned(), json!(true));
        } else if !container.contains_key("healthcheck") {
            let ports = container.get("ports").and_then(Value::as_array);
            if let Some(port) = ports.and_then(|ports| parts::find_first_tcp(ports)) {
                let kind = if readiness::is_disabled(&written["healthcheck"]) {
                    "tcp"
                } else {
                    "docker"
                };
                container.insert("healthcheck".to_owned(), json!({ "type": kind, "port": port }));
            }
        }
        if !service.contains_key("oneShot") && self.can_complete(written, &container) {
            service.insert("canComplete".to_owned(), json!(true));
        }
        self.omit_unpublished_ports(&mut container);
        if service.contains_key("build") {
            service.shift_remove("pullPolicy");
        }
        if service.contains_key("image") && service.contains_key("build") {
            // Compose tags the built image with the name under `image`.
            let image = service.shift_remove("image");
            service["build"]["image"] = json!(image);
        }
        if !service.contains_key("image") && !service.contains_key("build") {
            let what = format!("`{}` has neither `image` nor `build`", self.name);
            self.notes
                .push(Note::error(what, self.document.place(self.name, "")));
            return None;
        }
        service.insert("container".to_owned(), Value::Object(container));
        Some(Value::Object(service))
    }

    /// Notes a part at `key`, which has no counterpart.
    fn add_note(&mut self, key: &str, what: &str) {
        let note = Note::omission_of(self.name, what, self.document.place(self.name, key));
        if !self.notes.iter_mut().any(|known| known.absorb(&note)) {
            self.notes.push(note);
        }
    }

    /// Translates the keys of a service: those of the container to `container`, and the others to `service`.
    fn translate_keys(
        &mut self,
        keys: &Map<String, Value>,
        service: &mut Map<String, Value>,
        container: &mut Map<String, Value>,
    ) {
        for (key, value) in keys.iter().filter(|(_, value)| !value.is_null()) {
            let (to, name, value) = match key.as_str() {
                "image" => (&mut *service, "image", Some(value.clone())),
                "pull_policy" => (&mut *service, "pullPolicy", self.translate_pull_policy(value)),
                "build" => (&mut *service, "build", self.translate_build(value)),
                "command" | "entrypoint" => (&mut *service, key.as_str(), Some(value.clone())),
                "user" => (
                    &mut *service,
                    "user",
                    parts::scalar_to_text(value).map(Value::String),
                ),
                "working_dir" => (&mut *service, "workingDir", Some(value.clone())),
                "extra_hosts" => (&mut *service, "extraHosts", Some(parts::join_pairs(value, ':'))),
                "cpus" => (&mut *service, "cpus", Some(self.fill_number(value))),
                "mem_limit" => (
                    &mut *service,
                    "memory",
                    self.translate_part(key, value, parts::translate_size),
                ),
                "deploy" => {
                    self.note_deploy(value);
                    let replicas = self.translate_replicas("deploy.replicas", &value["replicas"]);
                    service.extend(replicas.map(|replicas| ("replicas".to_owned(), replicas)));
                    let limits = &value["resources"]["limits"];
                    if let Some(cpus) = limits.get("cpus") {
                        service.insert("cpus".to_owned(), self.fill_number(cpus));
                    }
                    (
                        &mut *service,
                        "memory",
                        self.translate_part(
                            "deploy.resources.limits.memory",
                            &limits["memory"],
                            parts::translate_size,
                        ),
                    )
                }
                "stop_grace_period" => (
                    &mut *service,
                    "stopGrace",
                    self.translate_part(key, value, parts::translate_duration),
                ),
                "depends_on" => (
                    &mut *service,
                    "dependsOn",
                    Some(self.translate_dependencies(value)),
                ),
                "ports" => (&mut *container, "ports", self.translate_ports(value)),
                "environment" => (
                    &mut *container,
                    "environment",
                    Some(self.translate_environment(key, value)),
                ),
                "volumes" => (&mut *container, "volumes", self.translate_volumes(value)),
                "healthcheck" => (&mut *container, "healthcheck", self.translate_healthcheck(value)),
                "labels" => (&mut *container, "labels", Some(parts::translate_labels(value))),
                "networks" => (&mut *container, "networks", self.translate_networks(value)),
                "restart" if !matches!(value.as_str(), Some("no")) && *value != false => continue,
                "profiles" | "env_file" | "secrets" | "configs" => continue,
                "init" => (
                    &mut *service,
                    "init",
                    self.translate_part(key, value, process::to_bool),
                ),
                "network_mode" => (&mut *service, "networkMode", self.translate_network_mode(value)),
                "security_opt" => (
                    &mut *service,
                    "noNewPrivileges",
                    self.translate_security_options(value),
                ),
                "scale" => (&mut *service, "replicas", self.translate_replicas(key, value)),
                // The default, whatever the key means.
                _ if *value == false => continue,
                key if IGNORED.contains(&key) || key.starts_with("x-") => continue,
                other => {
                    let Some((name, value)) = process::translate(other, value, self.project.is_inlined)
                    else {
                        self.note_process_key(other, value);
                        continue;
                    };
                    (&mut *service, name, Some(value))
                }
            };
            to.extend(value.map(|value| (name.to_owned(), value)));
        }
    }

    /// Time of the pull. A service that Compose builds has no pull.
    fn translate_pull_policy(&mut self, value: &Value) -> Option<Value> {
        match value.as_str() {
            Some("if_not_present" | "build") => None,
            Some(policy @ ("missing" | "always" | "never")) => Some(json!(policy)),
            Some(_) | None => {
                self.add_note("pull_policy", &format!("`pull_policy: {value}`"));
                None
            }
        }
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
            for (section, key) in parts::find_mount_settings(volume) {
                let path = format!("volumes[{index}].{section}.{key}");
                self.add_note(&path, &format!("`volumes`: `{section}.{key}`"));
            }
            if memory::is_memory(volume) {
                continue;
            }
            match parts::translate_volume(volume, &self.project.back, self.name) {
                Ok(volume) => volumes.push(json!(volume)),
                Err(reason) => self.add_note(&format!("volumes[{index}]"), &reason),
            }
        }
        (!volumes.is_empty()).then_some(Value::Array(volumes))
    }
}

#[cfg(test)]
mod key_tests;
