//! Lines of a spec file: the positions and values of its keys.

use std::collections::BTreeMap;

use argus_crds::yaml::SourceMap;
use argus_crds::{E2eSpec, SpecEdit};
use serde::{Deserialize, Serialize};

use super::spec_values::{SpecValues, spec_values};

/// Keys of the environment that errors name.
const ENVIRONMENT_KEYS: [&str; 5] = [
    "project",
    "resilience.network.portConflictStrategy",
    "isolation.portRange",
    "argus.hold",
    "network.name",
];

/// Keys of each service that errors name.
const SERVICE_KEYS: [&str; 15] = [
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
];

/// Positions of the keys of one spec file. They do not change the revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLines {
    environment: BTreeMap<String, Key>,
    /// Keys by service, relative to the path of the service.
    services: BTreeMap<String, ServiceKeys>,
    /// Values of all keys.
    #[serde(skip_serializing_if = "SpecValues::is_empty")]
    values: SpecValues,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ServiceKeys {
    /// Path of the service in the file.
    path: String,
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
}

impl KeyLines {
    /// Reads the positions from a parsed file.
    pub fn of(spec: &E2eSpec, source: &SourceMap) -> Self {
        let mut lines = Self {
            values: spec_values(source),
            ..Self::default()
        };
        for key in ENVIRONMENT_KEYS {
            lines
                .environment
                .extend(read(source, key).map(|found| (key.to_owned(), found)));
        }
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
            let without_value = |(key, found): (String, Key)| (key, Key { now: None, ..found });
            found.extend(secret.into_iter().filter_map(place).map(without_value));
            lines
                .services
                .insert(declared.name.to_owned(), ServiceKeys { path, keys: found });
        }
        for name in spec.mocks.keys() {
            let path = format!("mocks.{name}");
            let keys = read(source, &path)
                .map(|found| (String::new(), found))
                .into_iter()
                .collect();
            lines.services.insert(name.clone(), ServiceKeys { path, keys });
        }
        lines
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
        complete(SpecEdit::new(file, key, reason), self.environment.get(key))
    }

    /// Creates a change of a key of a service; `key` is relative to the service.
    pub fn edit_service(&self, file: &str, service: &str, key: &str, reason: impl Into<String>) -> SpecEdit {
        let Some(known) = self.services.get(service) else {
            return SpecEdit::new(file, format!("services.{service}.{key}"), reason);
        };
        let edit = SpecEdit::new(file, format!("{}.{key}", known.path), reason);
        let parents = std::iter::successors(Some(key), |key| {
            (!key.is_empty()).then(|| key.rfind(['.', '[']).map_or("", |end| &key[..end]))
        });
        let exact = known.keys.get(key);
        let line = parents
            .into_iter()
            .find_map(|key| known.keys.get(key))
            .map(|found| found.line);
        complete(edit, exact).line(line)
    }
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_lines_in_every_form_of_a_file() {
        for (text, key, line) in [
            (
                "project: { name: p }\nservices:\n  web:\n    image: a:1\n    container: { name: w }\n",
                "services.web.image",
                4,
            ),
            (
                "project: { name: p }\nservices:\n  - name: web\n    image: a:1\n    container: { name: w }\n",
                "services.web.image",
                4,
            ),
            (
                "project: { name: web }\nservice:\n  image: a:1\n  container: { name: web }\n",
                "service.image",
                3,
            ),
        ] {
            let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
            let lines = KeyLines::of(&read.spec.unwrap(), &read.source);
            let edit = lines.edit_service("e2e.yaml", "web", "image", "it is missing");
            assert_eq!(
                (edit.key.as_str(), edit.line, edit.now.as_deref()),
                (key, Some(line), Some("a:1")),
                "{text}"
            );
        }
    }

    #[test]
    fn missing_key_has_the_line_of_its_parent() {
        let text = "project: { name: p }\nservices:\n  web:\n    image: a\n    container:\n      name: w\n      environment:\n        TOKEN: hidden\n";
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let lines = KeyLines::of(&read.spec.unwrap(), &read.source);
        let edit = |key| lines.edit_service("e2e.yaml", "web", key, "x");
        assert_eq!((edit("memory").line, edit("memory").now), (Some(3), None));
        assert_eq!(edit("container.environment.NEW").line, Some(7));
        let secret = edit("container.environment.TOKEN");
        assert_eq!((secret.line, secret.now), (Some(8), None));
    }
}
