//! A service under test.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::probe::Healthcheck;
use crate::quantity::{ByteSize, CpuCount, HumanDuration};
use crate::text::{self, Command, PortText};

/// A service under test: how its image comes about, how its container runs, what it needs first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Unique name; required in a list of services, taken from the key in a map of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How the image is built. One of `build` and `image` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The image to run, pulled where it is not on the engine; with `build`, the tag to build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The container that is run; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Values for `{{config.NAME}}`.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub vars: BTreeMap<String, String>,
    /// The services that come first; always a list, of names, or of maps with a name and what is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Arguments of the container's main process, instead of the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// The container's entry point, instead of the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Command>,
    /// The user of the main process, as in `1000:1000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The working directory of the main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The most memory the container may use, from `6Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// How many processors the container may use, as in `1.5`; from 0.01 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuCount>,
    /// Directories in memory, `/path` or `/path:options` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmpfs: Vec<String>,
    /// Further names that the container resolves, `name:address` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_hosts: Vec<String>,
    /// How long the container may take to stop before it is killed; by default `10s`, at most `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<HumanDuration>,
    /// Whether the container runs once: exit 0 satisfies what depends on it, and it is not run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_shot: bool,
    /// What it means for the environment when this service is given up; by default `critical` where others depend on it, else
    /// `important`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<Criticality>,
    /// Whether full privileges are asked for; never granted, and a file that asks is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged: bool,
    /// Capabilities asked for; never granted, and a file that asks is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    /// Devices asked for; never granted, and a file that asks is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Network mode asked for; a container has its own: anything but `bridge`, `default` or `private` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mode: Option<String>,
    /// Process namespace asked for; a container has its own: anything but `bridge`, `default` or `private` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// IPC namespace asked for; a container has its own: anything but `bridge`, `default` or `private` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc: Option<String>,
}

/// How an image is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// The Dockerfile, relative to the directory of the file; by default `Dockerfile` in the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// The build context, relative to the directory of the file.
    #[serde(default = "here")]
    pub context: String,
    /// The tag to build and to run; by default the `image` beside, else `argus/<environment>-<service>:latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Build arguments.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub args: BTreeMap<String, String>,
}

/// The container of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name of the container; with `isolation.namespace` it becomes `<name>-<namespace>`.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Published ports, `[ip:]host:container[/udp]` each; a single port is published under its own number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortText>,
    /// Environment variables; a number or a bool is taken as the text that stands in the file.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub environment: BTreeMap<String, String>,
    /// Mounts, `host-or-volume:container[:ro]` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// How it is found out that the container is healthy; without it by the image's own HEALTHCHECK, and where there is none running is
    /// enough. Not for what runs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
}

/// What it means for the environment when a service is given up: failed, degraded, a warning, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Criticality {
    Critical,
    Important,
    Recoverable,
    Optional,
}

/// A service that comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Name of the service or mock.
    pub service: String,
    /// What is waited for; without it, healthy where it has a health check, running where it has none.
    pub condition: Option<DependencyCondition>,
}

/// What is waited for in a service that comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum DependencyCondition {
    Started,
    Healthy,
    Completed,
}

/// A dependency with its condition.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DependencyWithCondition")]
struct LongDependency {
    /// Name of the service or mock that comes first.
    service: String,
    /// What is waited for.
    #[serde(default)]
    condition: Option<DependencyCondition>,
}

impl Serialize for Dependency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(condition) = self.condition else {
            return serializer.serialize_str(&self.service);
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("service", &self.service)?;
        map.serialize_entry("condition", &condition)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Dependency;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a service, or a map with `service` and `condition`")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Dependency, D::Error> {
                inner.deserialize_any(self)
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Dependency, E> {
                Ok(Dependency {
                    service: name.to_owned(),
                    condition: None,
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Dependency, A::Error> {
                let long = LongDependency::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Dependency {
                    service: long.service,
                    condition: long.condition,
                })
            }
        }
        deserializer.deserialize_newtype_struct(text::AS_WRITTEN, Either)
    }
}

impl JsonSchema for Dependency {
    fn schema_name() -> Cow<'static, str> {
        "Dependency".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<LongDependency>();
        json_schema!({
            "description": "A service that comes first: its name, or its name with the condition that is waited for.",
            "anyOf": [{ "type": "string" }, long]
        })
    }
}

/// The shape of `services` in a file.
pub(crate) struct ServicesShape;

impl JsonSchema for ServicesShape {
    fn schema_name() -> Cow<'static, str> {
        "Services".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let service = generator.subschema_for::<Service>();
        json_schema!({
            "description": "The services under test: a list, or a map from name to service.",
            "anyOf": [
                { "type": "array", "items": service, "maxItems": 500 },
                { "type": "object", "additionalProperties": service, "maxProperties": 500 }
            ]
        })
    }
}

/// Reads `services` from a list or from a map, whose keys become the names.
pub(crate) fn list_or_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Service>, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Vec<Service>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of services, or a map from name to service")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Service>, A::Error> {
            let mut services = Vec::new();
            while let Some(service) = list.next_element()? {
                services.push(service);
            }
            Ok(services)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Service>, A::Error> {
            let mut services = Vec::new();
            while let Some((name, service)) = map.next_entry::<String, Service>()? {
                services.push(Service {
                    name: Some(name),
                    ..service
                });
            }
            Ok(services)
        }
    }
    deserializer.deserialize_any(Either)
}

fn here() -> String {
    ".".to_owned()
}
