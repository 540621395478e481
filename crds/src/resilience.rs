//! Checks, restarts and reactions to failures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, HumanDuration};

/// Checks, restarts and reactions to failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resilience {
    /// Preflight checks before the creation of resources.
    pub preflight: Preflight,
    /// Restarts of failed containers.
    pub container: ContainerResilience,
    /// Port conflicts and connectivity checks.
    pub network: NetworkResilience,
    /// Circuit breaker of the environment.
    pub circuit_breaker: CircuitBreaker,
}

/// Preflight checks before the creation of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Preflight {
    /// True to run the checks.
    pub enabled: bool,
    /// Minimum free space on the engine's disk.
    pub disk_space_threshold: ByteSize,
    /// True to remove orphans of dead controllers in this project.
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

/// Restarts of failed containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResilience {
    /// True to restart a failed container.
    pub restart_on_failure: bool,
    /// Maximum number of restarts before Argus gives up.
    #[schemars(range(max = 10))]
    pub max_restarts: u32,
    /// Delay before the first restart.
    pub restart_delay: HumanDuration,
    /// Growth of the delay between restarts.
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

/// Growth of the delay between restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RestartBackoff {
    #[default]
    Exponential,
    Linear,
}

/// Port conflicts and connectivity checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkResilience {
    /// Reaction to a taken host port: `auto` moves to a free port of `isolation.portRange`, `fail` waits for the port.
    pub port_conflict_strategy: PortConflictStrategy,
    /// True to check the declared connections between services.
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

/// Reaction to a taken host port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum PortConflictStrategy {
    #[default]
    Auto,
    Fail,
}

/// Circuit breaker of an environment. The controller has a separate one for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CircuitBreaker {
    /// True for a circuit breaker of this environment.
    pub enabled: bool,
    /// Number of failures in a row that open the circuit breaker.
    #[schemars(range(min = 1, max = 20))]
    pub failure_threshold: u32,
    /// Initial time in the open state before a test call, from `100ms` to `5m`. It doubles with each further opening.
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
