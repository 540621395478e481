//! The root of an `e2e.yaml` file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mock::Mock;
use crate::quantity::{ByteSize, HumanDuration};
use crate::resilience::Resilience;
use crate::service::{Service, ServicesShape};
use crate::suite::{History, Tests};

/// One test environment, as it stands in an `e2e.yaml` file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct E2eSpec {
    /// Version of the format.
    #[serde(default = "first_version")]
    pub version: String,
    /// The project that the environment belongs to.
    pub project: Project,
    /// The one service under test (short form); ignored when `services` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// The services under test: a list, or a map from name to service. Declaration order is kept.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::service::list_or_map"
    )]
    #[schemars(with = "ServicesShape")]
    pub services: Vec<Service>,
    /// Mock services by name; the name is their DNS name on the environment's network.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mocks: BTreeMap<String, Mock>,
    /// The test suites and how they are run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Tests>,
    /// The Docker network of the environment.
    #[serde(default)]
    pub network: Network,
    /// What keeps two copies of one project apart.
    #[serde(default)]
    pub isolation: Isolation,
    /// How failures are met.
    #[serde(default)]
    pub resilience: Resilience,
    /// The Node tool's history of test results; carried through, not acted on.
    #[serde(default)]
    pub history: History,
    /// Settings of the Node tool's dashboard; carried through, not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<Value>,
    /// Repositories of the Node tool; carried through, not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repos: Option<Value>,
    /// Plugins of the Node tool; carried through, not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Value>,
    /// Settings of the Node tool's server; carried through, not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Value>,
    /// What Argus adds to the format for a whole environment.
    #[serde(default)]
    pub argus: Argus,
}

/// A service of a file with the name it goes by and the place it stands at.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared<'a> {
    /// Its own name, else its container's, else the project's.
    pub name: &'a str,
    /// Path of the service in the file, as in `services[2]` or `service`.
    pub path: String,
    /// The service itself.
    pub service: &'a Service,
}

impl E2eSpec {
    /// The services that count, in declaration order: those of `services`, else the one of `service`.
    pub fn declared(&self) -> Vec<Declared<'_>> {
        let named = |path: String, service| Declared {
            name: self.name_of(service),
            path,
            service,
        };
        if self.services.is_empty() {
            return self
                .service
                .iter()
                .map(|service| named("service".to_owned(), service))
                .collect();
        }
        let path = |index: usize| format!("services[{index}]");
        self.services
            .iter()
            .enumerate()
            .map(|(index, service)| named(path(index), service))
            .collect()
    }

    /// The blocks of the Node tool that the file carries and Argus does not act on.
    pub fn carried(&self) -> Vec<&'static str> {
        let blocks = [
            ("dashboard", &self.dashboard),
            ("repos", &self.repos),
            ("plugins", &self.plugins),
            ("server", &self.server),
        ];
        blocks
            .into_iter()
            .filter(|(_, block)| block.is_some())
            .map(|(name, _)| name)
            .collect()
    }

    fn name_of<'a>(&'a self, service: &'a Service) -> &'a str {
        let container = service
            .container
            .as_ref()
            .map(|container| container.name.as_str());
        service
            .name
            .as_deref()
            .or(container)
            .unwrap_or(&self.project.name)
    }
}

/// The project that an environment belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its slug is the name of the environment, unless `isolation.namespace` is given.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// What the project is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version of the project, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The Docker network of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Name of the network, taken as it is written; by default `argusai-<namespace or project slug>-network`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What keeps two copies of one project apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Isolation {
    /// Name of the environment, in place of the slug of the project's name; containers and named volumes get it as a suffix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where a reassigned host port is taken from: `[low, high]`, both included, from 1024.
    pub port_range: PortRange,
}

/// A range of host ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u16; 2]", into = "[u16; 2]")]
pub struct PortRange {
    /// The lowest port.
    pub low: u16,
    /// The highest port.
    pub high: u16,
}

impl Default for PortRange {
    fn default() -> Self {
        Self {
            low: 9000,
            high: 9999,
        }
    }
}

impl From<[u16; 2]> for PortRange {
    fn from([low, high]: [u16; 2]) -> Self {
        Self { low, high }
    }
}

impl From<PortRange> for [u16; 2] {
    fn from(range: PortRange) -> Self {
        [range.low, range.high]
    }
}

impl JsonSchema for PortRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PortRange".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A range of host ports, both ends included: `[low, high]`.",
            "type": "array",
            "items": { "type": "integer", "minimum": 1024, "maximum": 65535 },
            "minItems": 2,
            "maxItems": 2
        })
    }
}

/// What Argus adds to the format for a whole environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Argus {
    /// What is removed together with the environment.
    pub deletion: Deletion,
    /// How long the environment lives after its revision was accepted; without it, until its file goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<HumanDuration>,
    /// Whether the environment is held: it is watched and nothing is changed.
    pub hold: bool,
    /// When a revision that does not become ready gives way to the last known good one.
    pub rollback: Rollback,
    /// The budget of restarts, beyond what `resilience.container` says.
    pub restart: RestartPolicy,
    /// How tightly containers are confined.
    pub policy: Policy,
}

/// What is removed together with an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletion {
    /// What happens to named volumes.
    pub volumes: VolumeDeletion,
}

/// What happens to named volumes when their environment goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum VolumeDeletion {
    #[default]
    Keep,
    Delete,
}

/// When a revision that does not become ready gives way to the last known good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    /// Whether Argus rolls back by itself.
    pub auto: bool,
    /// How long a new revision may take to become ready.
    pub deadline: HumanDuration,
}

impl Default for Rollback {
    fn default() -> Self {
        Self {
            auto: false,
            deadline: HumanDuration::from_secs(300),
        }
    }
}

/// The budget of restarts of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartPolicy {
    /// The window in which restarts count against `resilience.container.maxRestarts`; with a health check all do until `resetAfter`.
    pub window: HumanDuration,
    /// How long a container is healthy before its restarts are forgotten.
    pub reset_after: HumanDuration,
    /// The longest delay between two restarts.
    pub max_delay: HumanDuration,
    /// When the budget is spent: `giveUp` waits for a change, `slowRetry` tries every minute. `never`: no failure is followed by a restart.
    pub mode: RestartMode,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            window: HumanDuration::from_secs(300),
            reset_after: HumanDuration::from_secs(60),
            max_delay: HumanDuration::from_secs(60),
            mode: RestartMode::GiveUp,
        }
    }
}

/// What happens when the budget of restarts is spent: wait for a change, try every minute, or never restart at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RestartMode {
    #[default]
    GiveUp,
    SlowRetry,
    Never,
}

/// How tightly containers are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Whether an init process reaps the container's children.
    pub init: bool,
    /// Whether processes are kept from gaining privileges.
    pub no_new_privileges: bool,
    /// How many processes a container may have.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pids_limit: u32,
    /// How large one log file of a container grows, from `1KB` to `1GB`.
    pub log_max_size: ByteSize,
    /// How many log files of a container are kept.
    #[schemars(range(min = 1, max = 100))]
    pub log_max_files: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            init: true,
            no_new_privileges: true,
            pids_limit: 512,
            log_max_size: ByteSize::from_bytes(10_000_000),
            log_max_files: 3,
        }
    }
}

fn first_version() -> String {
    "1".to_owned()
}
