//! Lines of a spec file: the positions and values of its keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_crds::compose::{compose_key, compose_value};
use argus_crds::yaml::SourceMap;
use argus_crds::{E2eSpec, SpecEdit};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

mod as_written;

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 200;

/// Keys of the environment that errors name.
const ENVIRONMENT_KEYS: [&str; 6] = [
    "project",
    "resilience.network.portConflictStrategy",
    "isolation.portRange",
    "argus.hold",
    "network.name",
    "argus.policy.pidsLimit",
];

/// Keys of each service that errors name.
const SERVICE_KEYS: [&str; 27] = [
    "",
    "image",
    "build.dockerfile",
    "memory",
    "command",
    "entrypoint",
    "container",
    "container.name",
    "container.environment",
    "container.healthcheck",
    "container.healthcheck.type",
    "container.healthcheck.path",
    "container.healthcheck.port",
    "container.healthcheck.startPeriod",
    "container.healthcheck.retries",
    "container.healthcheck.command",
    "container.healthcheck.timeout",
    "container.healthcheck.scheme",
    "container.healthcheck.headers",
    "container.healthcheck.status",
    "container.healthcheck.pattern",
    "container.healthcheck.times",
    "tmpfs",
    "user",
    "init",
    "noNewPrivileges",
    "dependsOn",
];

/// Positions of the keys of one spec file. They do not change the revision. Clones share them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLines {
    environment: Arc<BTreeMap<String, Key>>,
    /// Keys by service, relative to the path of the service.
    services: Arc<BTreeMap<String, ServiceKeys>>,
    /// Values of all keys.
    #[serde(skip_serializing_if = "SpecValues::is_empty")]
    values: SpecValues,
    /// True for a Compose file, whose keys have other names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_compose: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ServiceKeys {
    /// Path of the service in the file.
    path: String,
    /// Keys by their place in the service. A key without an entry has the line of its nearest parent.
    keys: BTreeMap<String, Key>,
}

/// Position of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    /// Line of the key, or of its nearest existing parent.
    line: usize,
    /// Text in the file; `None` for a missing key, a list, a map, and a value that may be secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    /// Text in a Compose file, if it differs from its translation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<String>,
}

impl KeyLines {
    /// Reads the positions from a parsed file.
    pub fn from_spec(spec: &E2eSpec, source: &SourceMap) -> Self {
        let networks = spec.networks.keys().map(|name| format!("networks.{name}.name"));
        let environment = ENVIRONMENT_KEYS.map(str::to_owned).into_iter().chain(networks);
        let environment = environment.filter_map(|key| Some((key.clone(), read(source, &key)?)));
        let mut services = BTreeMap::new();
        for declared in spec.declared_services() {
            let path = match declared.path.as_str() {
                "service" => "service".to_owned(),
                _ => format!("services.{}", declared.name),
            };
            let mut keys: Vec<String> = SERVICE_KEYS.map(str::to_owned).to_vec();
            keys.extend((0..declared.service.depends_on.len()).map(|index| format!("dependsOn[{index}]")));
            keys.extend(
                (0..declared.service.depends_on.len()).map(|index| format!("dependsOn[{index}].condition")),
            );
            let mut secret = Vec::new();
            if let Some(container) = &declared.service.container {
                keys.extend((0..container.ports.len()).map(|index| format!("container.ports[{index}]")));
                keys.extend((0..container.volumes.len()).map(|index| format!("container.volumes[{index}]")));
                let files = (0..container.files.len()).map(|index| format!("container.files[{index}]"));
                keys.extend(files.flat_map(|file| [format!("{file}.mode"), file]));
                secret.extend(
                    container
                        .environment
                        .keys()
                        .map(|name| format!("container.environment.{name}")),
                );
            }
            let place = |key: String| {
                let full = format!("{}.{key}", declared.path);
                let found = read(source, full.trim_end_matches('.'))?;
                Some((key, found))
            };
            let mut found: BTreeMap<String, Key> = keys.into_iter().filter_map(place).collect();
            let without_value = |(key, found): (String, Key)| {
                let line = found.line;
                (
                    key,
                    Key {
                        line,
                        ..Key::default()
                    },
                )
            };
            found.extend(secret.into_iter().filter_map(place).map(without_value));
            let keys = without_implied(found);
            services.insert(declared.name.to_owned(), ServiceKeys { path, keys });
        }
        for name in spec.mocks.keys() {
            let path = format!("mocks.{name}");
            let keys = read(source, &path)
                .map(|found| (String::new(), found))
                .into_iter()
                .collect();
            services.insert(name.clone(), ServiceKeys { path, keys });
        }
        Self {
            environment: Arc::new(environment.collect()),
            services: Arc::new(services),
            values: spec_values(source),
            is_compose: source.is_translated(),
        }
    }

    /// Reports whether the file is a Compose file, whose keys have other names.
    pub fn is_compose(&self) -> bool {
        self.is_compose
    }

    /// Returns a value of a key of a service as the file writes it.
    pub fn write_value(&self, key: &str, value: &str) -> String {
        if self.is_compose {
            compose_value(key, value)
        } else {
            value.to_owned()
        }
    }

    /// Returns true if the file sets this key of the environment.
    pub fn has_value(&self, key: &str) -> bool {
        self.environment.get(key).is_some_and(|key| key.now.is_some())
    }

    /// Values of all keys; empty in the state of an earlier version.
    pub fn values(&self) -> &SpecValues {
        &self.values
    }

    /// Line of the project.
    pub fn project(&self) -> Option<usize> {
        self.environment.get("project").map(|key| key.line)
    }

    /// Line of a service or mock.
    pub fn service(&self, name: &str) -> Option<usize> {
        self.services.get(name)?.keys.get("").map(|key| key.line)
    }

    /// Creates a change of a key of the environment.
    pub fn edit(&self, file: &str, key: &str, reason: impl Into<String>) -> SpecEdit {
        let mut reason = reason.into();
        if self.is_compose {
            reason.push_str("; a Compose file has no such key, so write a spec file with `argus init`");
        }
        complete(SpecEdit::new(file, key, reason), self.environment.get(key))
    }

    /// Returns a key of a service as the file writes it; `key` is relative to the service.
    pub fn write_key(&self, key: &str) -> String {
        if self.is_compose {
            compose_key(key)
        } else {
            key.to_owned()
        }
    }

    /// Returns the path of a key of a service or mock as the file writes it; `key` is relative to the service.
    pub fn service_key(&self, service: &str, key: &str) -> String {
        let known = self.known(service).map(|known| known.path.clone());
        let path = known.unwrap_or_else(|| format!("services.{service}"));
        let path = format!("{path}.{}", self.write_key(key));
        path.trim_end_matches('.').to_owned()
    }

    /// Keys of a service, or of the one that a replica such as `web-2` repeats.
    fn known(&self, service: &str) -> Option<&ServiceKeys> {
        let first = || {
            let (first, number) = service.rsplit_once('-')?;
            number.parse::<u32>().ok()?;
            self.services.get(first)
        };
        self.services.get(service).or_else(first)
    }

    /// Creates a change of a key of a service; `key` is relative to the service.
    pub fn edit_service(&self, file: &str, service: &str, key: &str, reason: impl Into<String>) -> SpecEdit {
        let edit = SpecEdit::new(file, self.service_key(service, key), reason);
        let Some(known) = self.known(service) else {
            return edit;
        };
        let exact = known.keys.get(key).cloned().map(|exact| Key {
            now: exact.now.map(|now| self.write_value(key, &now)),
            ..exact
        });
        complete(edit, exact.as_ref()).line(line_of(&known.keys, key))
    }
}

/// Line of a key of a service, or of its nearest parent.
fn line_of(keys: &BTreeMap<String, Key>, key: &str) -> Option<usize> {
    let mut path = std::iter::successors(Some(key), |key| {
        (!key.is_empty()).then(|| key.rfind(['.', '[']).map_or("", |end| &key[..end]))
    });
    path.find_map(|key| keys.get(key)).map(|found| found.line)
}

/// Removes the keys without a value that have the line of their parent. Most keys are missing in a file, and each service would store them.
fn without_implied(all: BTreeMap<String, Key>) -> BTreeMap<String, Key> {
    let mut kept = BTreeMap::new();
    // A parent comes before its children.
    for (key, found) in all {
        let has_text = found.now.is_some() || found.written.is_some();
        if has_text || line_of(&kept, &key) != Some(found.line) {
            kept.insert(key, found);
        }
    }
    kept
}

fn complete(edit: SpecEdit, found: Option<&Key>) -> SpecEdit {
    let edit = edit.line(found.map(|found| found.line));
    match found.and_then(|found| found.now.as_ref()) {
        Some(now) => edit.now(now.clone()),
        None => edit,
    }
}

fn read(source: &SourceMap, path: &str) -> Option<Key> {
    Some(Key {
        line: source.locate(path)?.line,
        now: source.scalar(path).map(str::to_owned),
        written: source.written(path).map(str::to_owned),
    })
}

/// Values by the path of their key. Longer values are replaced by their length and hash.
pub type SpecValues = BTreeMap<String, String>;

/// Reads the values of a parsed file.
pub fn spec_values(source: &SourceMap) -> SpecValues {
    let scalars = source.scalars().into_iter();
    scalars
        .map(|scalar| (scalar.path, bounded(scalar.text)))
        .collect()
}

fn bounded(text: &str) -> String {
    if text.len() <= MAX_VALUE {
        return text.to_owned();
    }
    let hash = hex(&Sha256::digest(text.as_bytes())[..6]);
    format!("({} bytes, sha256 {hash})", text.len())
}

#[cfg(test)]
#[path = "key_lines_tests.rs"]
mod tests;
