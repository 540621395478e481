//! Root of a spec file (`e2e.yaml`), and its settings for the whole environment.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::halt_after_same::HaltAfterSame;
use crate::mock::Mock;
use crate::network::Network;
use crate::quantity::{ByteSize, HumanDuration};
use crate::resilience::Resilience;
use crate::service::{Service, ServicesShape};
use crate::suite::{History, Tests};
use crate::text::shape;
use crate::volume::NamedVolume;

/// Test environment, as declared in an `e2e.yaml` file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct E2eSpec {
    /// Version of the format; only `1` is supported.
    #[serde(default = "default_version")]
    pub version: String,
    /// Project of the environment.
    pub project: Project,
    /// Single service under test (short form); ignored if `services` exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Services under test: a list, or a map from name to service. Argus keeps the order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::service::list_or_map"
    )]
    #[schemars(with = "ServicesShape")]
    pub services: Vec<Service>,
    /// Mock services by name. The name is also their DNS name on the environment's network.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mocks: BTreeMap<String, Mock>,
    /// Test suites for `argus test run`, and their retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Tests>,
    /// Docker network of the environment: the network `default` of services that list no networks.
    #[serde(default)]
    pub network: Network,
    /// Further Docker networks, by the name in `networks` of a container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, Network>,
    /// Settings of named volumes, by the name in `volumes` of a container. A volume without settings needs no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, NamedVolume>,
    /// Separation of several copies of one project on the same engine.
    #[serde(default)]
    pub isolation: Isolation,
    /// Checks, restarts and reactions to failures.
    #[serde(default)]
    pub resilience: Resilience,
    /// History of test results. Argus keeps at most 50 runs in its state directory.
    #[serde(default)]
    pub history: History,
    /// Dashboard settings of the Node tool; ignored by Argus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<Value>,
    /// Repositories of the Node tool; ignored by Argus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repos: Option<Value>,
    /// Plugins of the Node tool; ignored by Argus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Value>,
    /// Server settings of the Node tool; ignored by Argus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Value>,
    /// Scenarios of the Node tool; ignored by Argus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenarios: Option<Value>,
    /// Runtime of the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Settings of Argus for the whole environment, beyond the format of the Node tool.
    #[serde(default)]
    pub argus: Argus,
}

/// Runtime of the services of an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Runtime {
    /// Kind of runtime. With `host`, the environment has no containers. Argus runs `kubernetes` on Docker.
    #[serde(rename = "type")]
    pub kind: RuntimeKind,
}

/// Kind of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RuntimeKind {
    #[default]
    Docker,
    Kubernetes,
    Host,
}

/// Service of a file with its effective name and its path.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredService<'a> {
    /// Name of the service, otherwise of its container, otherwise of the project.
    pub name: &'a str,
    /// Path of the service in the file, such as `services[2]` or `service`.
    pub path: String,
    /// Declared service.
    pub service: &'a Service,
}

impl E2eSpec {
    /// Returns the effective services in the order of the file: those of `services`, otherwise the one of `service`.
    pub fn declared_services(&self) -> Vec<DeclaredService<'_>> {
        let declared = |path: String, service| DeclaredService {
            name: self.name_of(service),
            path,
            service,
        };
        if self.services.is_empty() {
            return self
                .service
                .iter()
                .map(|service| declared("service".to_owned(), service))
                .collect();
        }
        let path = |index: usize| format!("services[{index}]");
        self.services
            .iter()
            .enumerate()
            .map(|(index, service)| declared(path(index), service))
            .collect()
    }

    /// Returns the names of the Node tool's blocks in the file. Argus ignores them.
    pub fn ignored_blocks(&self) -> Vec<&'static str> {
        let blocks = [
            ("dashboard", &self.dashboard),
            ("repos", &self.repos),
            ("plugins", &self.plugins),
            ("server", &self.server),
            ("scenarios", &self.scenarios),
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

/// Project of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Project name. Its slug (`My Shop` becomes `my-shop`) is the environment's name, unless `isolation.namespace` is set.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// Description of the project for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version of the project for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Separation of several copies of one project on the same engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Isolation {
    /// Environment name that replaces the project's slug. It is also the prefix of containers.
    /// `auto` is the name of the git worktree of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Range of host ports for services whose own port is taken: `[low, high]`, inclusive, from 1024.
    pub port_range: PortRange,
}

/// Range of host ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u16; 2]", into = "[u16; 2]")]
pub struct PortRange {
    /// Lowest port.
    pub low: u16,
    /// Highest port.
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

shape!(PortRange, "PortRange"; {
    "description": "Range of host ports: `[low, high]`, both ends included.",
    "type": "array",
    "items": { "type": "integer", "minimum": 1024, "maximum": 65535 },
    "minItems": 2,
    "maxItems": 2
});

/// Settings of Argus for the whole environment, beyond the format of the Node tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Argus {
    /// Resources to remove together with the environment.
    pub deletion: Deletion,
    /// Lifetime of the environment after Argus accepted its revision. Default: until its file is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<HumanDuration>,
    /// Hold: Argus observes the environment and changes nothing.
    pub hold: bool,
    /// Automatic rollback to the last good revision if a new revision does not become ready.
    pub rollback: Rollback,
    /// Restart budget and its reset, in addition to `resilience.container`.
    pub restart: RestartPolicy,
    /// Limits and confinement of all containers.
    pub policy: Policy,
    /// File for the addresses of the environment, relative to the spec file, such as `.env.argus`. Argus writes and removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_file: Option<String>,
}

/// Resources to remove together with an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletion {
    /// Effect of the removal on named volumes: `Keep` or `Delete`.
    pub volumes: VolumeDeletion,
}

/// Effect of the removal of an environment on its named volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum VolumeDeletion {
    #[default]
    Keep,
    Delete,
}

/// Automatic rollback to the last good revision if a new revision does not become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    /// True for an automatic rollback.
    pub auto: bool,
    /// Maximum time for a new revision to become ready. It starts again after an outage, a hold or a controller restart.
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

/// Restart budget of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartPolicy {
    /// Window in which restarts count against `maxRestarts`. With a health check, restarts count until the next reset.
    pub window: HumanDuration,
    /// Healthy time that resets budget and delay.
    pub reset_after: HumanDuration,
    /// Maximum delay between two restarts.
    pub max_delay: HumanDuration,
    /// Number of restart budgets in a row with the same failure after which Argus stops all restarts, or `off`.
    pub halt_after_same: HaltAfterSame,
    /// Behaviour after the budget is exhausted: `giveUp` waits for a change, `slowRetry` tries once per
    /// `slow-retry-interval` (default 60 s). `never` disables all restarts from the start.
    pub mode: RestartMode,
    /// Exit codes after which Argus never restarts the container, such as that of a wrong configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<u8>,
    /// Share of its memory limit in percent above which Argus replaces a container, within the restart budget. Default: no share.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 90, max = 99))]
    pub memory_above: Option<u8>,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            window: HumanDuration::from_secs(300),
            reset_after: HumanDuration::from_secs(60),
            max_delay: HumanDuration::from_secs(60),
            halt_after_same: HaltAfterSame::default(),
            mode: RestartMode::GiveUp,
            never: Vec::new(),
            memory_above: None,
        }
    }
}

/// Behaviour after the restart budget is exhausted: wait for a change, try once per minute, or never restart at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RestartMode {
    #[default]
    GiveUp,
    SlowRetry,
    Never,
}

/// Limits and confinement of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// True to run an init process that reaps the container's child processes.
    pub init: bool,
    /// True to prevent processes from gaining privileges.
    pub no_new_privileges: bool,
    /// Maximum number of processes per container.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pids_limit: u32,
    /// Maximum size of one log file of a container, from `1KB` to `1GB`.
    pub log_max_size: ByteSize,
    /// Maximum number of log files per container.
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

fn default_version() -> String {
    "1".to_owned()
}
