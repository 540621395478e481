//! How failures are met.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, HumanDuration};

/// How failures are met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resilience {
    /// What is checked before anything is created.
    pub preflight: Preflight,
    /// What is done about containers that fail.
    pub container: ContainerResilience,
    /// What is done about ports and networks.
    pub network: NetworkResilience,
    /// When the environment is left alone for a while.
    pub circuit_breaker: CircuitBreaker,
}

/// What is checked before anything is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Preflight {
    /// Whether the checks are made.
    pub enabled: bool,
    /// How much disk space must be free.
    pub disk_space_threshold: ByteSize,
    /// Whether what dead runs left behind is removed.
    pub clean_orphans: bool,
}

impl Default for Preflight {
    fn default() -> Self {
        Self {
            enabled: true,
            disk_space_threshold: ByteSize::from_bytes(2_000_000_000),
            clean_orphans: true,
        }
    }
}

/// What is done about containers that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResilience {
    /// Whether a failed container is restarted.
    pub restart_on_failure: bool,
    /// How often at most, before it is given up; the same failure three times in a row ends it earlier.
    #[schemars(range(max = 10))]
    pub max_restarts: u32,
    /// The delay before the first restart.
    pub restart_delay: HumanDuration,
    /// How the delay grows.
    pub restart_backoff: RestartBackoff,
}

impl Default for ContainerResilience {
    fn default() -> Self {
        Self {
            restart_on_failure: true,
            max_restarts: 3,
            restart_delay: HumanDuration::from_secs(2),
            restart_backoff: RestartBackoff::Exponential,
        }
    }
}

/// How the delay between restarts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RestartBackoff {
    #[default]
    Exponential,
    Linear,
}

/// What is done about ports and networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkResilience {
    /// When a host port is taken: `auto` moves to a free one of `isolation.portRange`, `fail` waits until it is free and says so.
    pub port_conflict_strategy: PortConflictStrategy,
    /// Whether every service is checked to reach every other one that it names.
    pub verify_connectivity: bool,
}

impl Default for NetworkResilience {
    fn default() -> Self {
        Self {
            port_conflict_strategy: PortConflictStrategy::Auto,
            verify_connectivity: true,
        }
    }
}

/// What happens when a host port is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum PortConflictStrategy {
    #[default]
    Auto,
    Fail,
}

/// When an environment is left alone for a while; the engine's own breaker is the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CircuitBreaker {
    /// Whether the environment has a breaker of its own.
    pub enabled: bool,
    /// How many failures in a row open it.
    #[schemars(range(min = 1, max = 20))]
    pub failure_threshold: u32,
    /// How long it stays open before one attempt, the first time: from `100ms` to `5m`, and twice as long each time after that.
    pub reset_timeout_ms: HumanDuration,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            enabled: true,
            failure_threshold: 5,
            reset_timeout_ms: HumanDuration::from_secs(30),
        }
    }
}
