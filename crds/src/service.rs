//! Services under test: image, container and dependencies.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::build::Build;
use crate::network::{self, NetworkAttachment};
use crate::probe::Healthcheck;
use crate::quantity::{ByteSize, CpuCount, HumanDuration};
use crate::text::{self, Command, PortText, shape};

/// Service under test: its image, its container and its dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "the settings are independent")]
pub struct Service {
    /// Unique name. Required in a list of services. In a map, the key is the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Build of the image. Either `build` or `image` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Image to run. Argus pulls a missing image. With `build`, the tag of the built image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Time of the pull of `image`: `missing` pulls an image that the engine does not have, `always` also pulls before the first
    /// container of each revision, `never` does not pull. Default: `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
    /// Number of containers, from 1 to 50. The others have the names `NAME-2`, `NAME-3` and so on, and share the DNS names. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Container of the service; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Values for the templates `{{config.NAME}}`.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub vars: BTreeMap<String, String>,
    /// List of dependencies, which start before the service and stop after it: names, or maps with a name and a condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Arguments of the main process; replaces `CMD` of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Entry point of the container; replaces `ENTRYPOINT` of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Command>,
    /// User of the main process, such as `1000:1000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Working directory of the main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Signal of a stop, such as `SIGINT`. Default: that of the image, otherwise `SIGTERM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Host name in the container. Default: the container ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// True for a read-only root file system. Volumes and `tmpfs` stay writable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// True for an init process in the container, false for a program that must be the first process. Default: `argus.policy.init`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// True to prevent the processes of the container from gaining privileges. Default: `argus.policy.noNewPrivileges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_new_privileges: Option<bool>,
    /// True to keep the standard input of the main process open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_open: bool,
    /// Limits of the main process by name, such as `nofile`: one number, or `soft:hard`; -1 for none.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub ulimits: BTreeMap<String, String>,
    /// Capabilities to remove, such as `NET_RAW` or `ALL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cap_drop: Vec<String>,
    /// Kernel settings in the namespaces of the container by name, such as `net.core.somaxconn`.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub sysctls: BTreeMap<String, String>,
    /// Memory limit of the container, at least `6Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// CPU limit of the container, such as `1.5`; from 0.01 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuCount>,
    /// In-memory directories: `/path` or `/path:options`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmpfs: Vec<String>,
    /// Additional host names for the container: `name:address`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_hosts: Vec<String>,
    /// Time to stop before the engine kills the container, at most `10m`. Default: `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<HumanDuration>,
    /// True for a container that runs once. Its dependents start after its exit code 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_shot: bool,
    /// True for a service that can end: its exit code 0 is not a failure, and Argus does not start it again. Until then, it is like any
    /// other service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_complete: bool,
    /// Effect on the environment if Argus gives up this service. Default: `critical` if other services depend on it, otherwise
    /// `important`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<Criticality>,
    /// Privileged mode. Argus rejects it, except in an allowed project with `--allow-privileged`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub privileged: bool,
    /// Added capabilities, such as `NET_ADMIN`. Argus rejects them, except in an allowed project with `--allow-privileged`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    /// Devices of the host: `/dev/name[:/dev/other[:rwm]]`. Argus rejects them, except in an allowed project with `--allow-privileged`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Network mode: `service:NAME` shares the addresses and ports of another service. Argus rejects every other value except
    /// `bridge`, `default` and `private`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mode: Option<String>,
    /// PID namespace. Argus rejects every value except `bridge`, `default` and `private`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// IPC namespace. Argus rejects every value except `bridge`, `default` and `private`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipc: Option<String>,
}

/// Container of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name of the container. With `isolation.namespace`, it becomes `<namespace>-<name>`, and the name itself is an alias in the network.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Published ports: `[ip:]host:container[/udp]`, or one number for both ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortText>,
    /// Environment variables. Numbers and booleans keep the spelling of the file.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub environment: BTreeMap<String, String>,
    /// Mounts: `host-or-volume:container[:ro]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Files that Argus copies into the container before its first start. A changed file replaces the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ContainerFile>,
    /// Labels of the container. Argus reserves the prefix `argusai.`.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub labels: BTreeMap<String, String>,
    /// Additional DNS names of the service on all its networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Networks of the container: a list of names, or a map from name to settings. Default: `default`, the network of the environment.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "network::list_or_map"
    )]
    #[schemars(with = "network::AttachmentsShape")]
    pub networks: BTreeMap<String, NetworkAttachment>,
    /// Arguments of the main process, misplaced: the key belongs next to `container`, and is used if it is missing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Health check; not for `oneShot` containers. Default: HEALTHCHECK of the image. Without a health check, a running container is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
}

/// File of a container with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFile {
    /// Absolute path in the container, outside of its mounts.
    pub path: String,
    /// Text of the file, in which Argus resolves its own templates.
    pub content: String,
    /// Permissions as three octal digits with an optional leading zero. Default: `0444`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Numeric ID of the owner. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Numeric ID of the group. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// Time of the pull of an image: if it is missing, also before the first container of a revision, or never.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum PullPolicy {
    #[default]
    Missing,
    Always,
    Never,
}

/// Effect of a given-up service on its environment: failed, degraded, ready with a warning, or ready and never waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Criticality {
    Critical,
    Important,
    Recoverable,
    Optional,
}

/// Dependency of a service on another service or a mock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Name of the other service or mock.
    pub service: String,
    /// Condition to wait for. Default: completed for a one-shot service, otherwise healthy, or running without a health check.
    pub condition: Option<DependencyCondition>,
    /// False if the service also starts when Argus gave the other one up.
    pub required: bool,
    /// True to restart the service each time that the dependency has started again. Default: false.
    pub restart: bool,
}

/// Condition that a dependency must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum DependencyCondition {
    Started,
    Healthy,
    Completed,
}

/// Dependency with a condition.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DependencyWithCondition")]
struct LongDependency {
    /// Name of the service or mock that must be ready first.
    service: String,
    /// Condition to wait for. Default: `completed` for a `oneShot` service, otherwise `healthy`. Without a health check,
    /// `healthy` means running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    condition: Option<DependencyCondition>,
    /// `false` if the service also starts without the other one: when Argus gave it up, or the file does not contain it.
    /// Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    required: Option<bool>,
    /// True to restart the service each time that the dependency has started again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    restart: bool,
}

impl Serialize for Dependency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.condition.is_none() && self.required && !self.restart {
            return serializer.serialize_str(&self.service);
        }
        let long = LongDependency {
            service: self.service.clone(),
            condition: self.condition,
            required: (!self.required).then_some(false),
            restart: self.restart,
        };
        long.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the name of a service, or a map with `service` and `condition`";
        let short = |name: &str| {
            Ok(Self {
                service: name.to_owned(),
                condition: None,
                required: true,
                restart: false,
            })
        };
        let long = |long: LongDependency| Self {
            service: long.service,
            condition: long.condition,
            required: long.required.unwrap_or(true),
            restart: long.restart,
        };
        text::scalar_or_map(deserializer, expected, short, long)
    }
}

shape!(Dependency, "Dependency", long: LongDependency; {
    "description": "Dependency: the name of a service or mock, or a map with its name and a condition.",
    "anyOf": [{ "type": "string" }, long]
});

/// Schema of `services` in a file.
pub(crate) struct ServicesShape;

shape!(ServicesShape, "Services", service: Service; {
    "description": "Services under test: a list, or a map from name to service.",
    "anyOf": [
        { "type": "array", "items": service, "maxItems": 500 },
        { "type": "object", "additionalProperties": service, "maxProperties": 500 }
    ]
});

/// Reads `services` from a list, or from a map whose keys become the names.
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
