//! Status files: the state of each environment and of the controller, for people and agents.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::error::StructuredError;

mod breaker;
mod calls;
mod orphan;
mod preflight;
mod users;
mod waiting_on;

pub use breaker::{BreakerChange, BreakerFailure, BreakerStatus};
pub use calls::Calls;
pub use orphan::Orphan;
pub use preflight::{
    CheckName, CheckResult, PREFLIGHT_VERSION, PreflightBefore, PreflightCheck, PreflightFix,
    PreflightOverall, PreflightReport,
};
pub use users::{ActiveHold, EarlierRun, RunningTest, SuiteStatus};
pub use waiting_on::{Amount, ImageAction, ImageProgress, WaitingOn};

/// Version of the format of the status files.
pub const STATUS_VERSION: u32 = 1;

/// Start of the note about a rollback, before the revision that it replaced.
pub const ROLLED_BACK: &str = "rolled back from revision ";

/// Status of one environment: `<state>/environments/ENV.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvironmentStatus {
    /// Version of the file format.
    pub schema_version: u32,
    /// Name of the environment: its namespace, or the slug of its project.
    pub environment: String,
    /// Name of the project.
    pub project: String,
    /// Path of the spec file.
    pub spec_path: String,
    /// Top directory of the git worktree of the spec file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// File in the project that contains the addresses, if the spec file requests one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_file: Option<String>,
    /// Desired revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Revision that the other fields describe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_revision: Option<String>,
    /// Last revision that became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good_revision: Option<String>,
    /// State of the environment in one word.
    pub phase: Phase,
    /// State of the environment in detail.
    pub conditions: Vec<Condition>,
    /// Status of each service and mock.
    pub services: Vec<ServiceStatus>,
    /// All published ports.
    pub port_mappings: Vec<PortMapping>,
    /// Result of the last connectivity check; absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectivity: Option<Connectivity>,
    /// Circuit breaker of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerStatus>,
    /// Last preflight report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightReport>,
    /// Errors and warnings about the current content of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// Current errors of the environment.
    pub errors: Vec<StructuredError>,
    /// Orphans: resources of dead controllers.
    pub orphans: Vec<Orphan>,
    /// Information that is not an error, such as ignored blocks of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Running tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<RunningTest>,
    /// Last results of the test suites, sorted by suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub test_results: Vec<SuiteStatus>,
    /// Current holds of the environment or its services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<ActiveHold>,
    /// Number of restarts of services during the current test, or during the last one with a restart.
    #[serde(rename = "restartsDuringRun")]
    pub test_restart_count: u32,
    /// Mode of the controller: its permitted actions.
    pub mode: Mode,
    /// True if the file contains the last known state instead of the current one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Time of this state (RFC 3339).
    pub as_of: String,
}

/// Status of the controller: `<state>/controller.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerStatus {
    /// Version of the file format.
    pub schema_version: u32,
    /// Identifier of the controller.
    pub controller: String,
    /// Version of the `argus` program.
    pub version: String,
    /// Process id of the controller.
    pub pid: u32,
    /// Time of its start (RFC 3339).
    pub started_at: String,
    /// Time of its clean stop (RFC 3339). Absent while it runs, and after a kill; then no process has its `pid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// Mode of the controller: its permitted actions.
    pub mode: Mode,
    /// Reason for the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode_reason: Option<String>,
    /// Watched folder with spec files.
    pub specs: String,
    /// Source of the namespace of files without one, as given with `--namespace-from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_from: Option<String>,
    /// Value of the variable in `namespaceFrom`, where the controller runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// State of the controller in detail.
    pub conditions: Vec<Condition>,
    /// Status of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineStatus>,
    /// Circuit breaker of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerStatus>,
    /// Last preflight report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightReport>,
    /// Phase of each environment, by its name.
    pub environments: BTreeMap<String, Phase>,
    /// Rejected spec files.
    pub rejected: Vec<RejectedSpec>,
    /// Orphans: resources of dead controllers.
    pub orphans: Vec<Orphan>,
    /// Current errors of the controller.
    pub errors: Vec<StructuredError>,
    /// Address of its HTTP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Time of this state (RFC 3339).
    pub as_of: String,
}

/// Status of the engine of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EngineStatus {
    /// Address of the engine.
    pub endpoint: String,
    /// True if the engine responds.
    pub reachable: bool,
    /// Version of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// API version of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Size of the unused build cache in bytes, measured after the last build; absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_cache_bytes: Option<u64>,
}

/// Rejected spec file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RejectedSpec {
    /// Path of the file.
    pub spec_path: String,
    /// Name of its environment, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Errors and warnings about the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Use of a service's restart budget (`maxRestarts`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartBudget {
    /// Number of restarts after failures since the last reset of the budget.
    pub used: u32,
    /// Number of restarts before Argus gives the service up.
    pub left: u32,
}

/// Memory use of a container near its memory limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryWarning {
    /// Used bytes, without cache that the kernel can free.
    pub used_bytes: u64,
    /// Memory limit in bytes.
    pub limit_bytes: u64,
    /// Time since which the use is high (RFC 3339).
    pub since: String,
}

/// Status of a service or mock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Name of the service or mock.
    pub name: String,
    /// Role in the environment: a service under test or a mock.
    pub role: ServiceRole,
    /// State of its container.
    pub state: ServiceState,
    /// Result of its health check.
    pub health: Health,
    /// Number of restarts at this revision, for any reason.
    pub restarts: u32,
    /// Restart budget for failures. Absent if restarts are disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_budget: Option<RestartBudget>,
    /// Share of time in which tasks waited for CPU, memory or I/O of the host, in percent. Present while its health check fails and does not
    /// count yet, because the host is starved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pressure: Option<u8>,
    /// Memory use of its container. Present while the use is above 90 % of the memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_warning: Option<MemoryWarning>,
    /// Reason why the service cannot proceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingOn>,
    /// Container id of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// Name of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// Image of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Id of the image of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Labels of its container in the spec file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Published ports of the service.
    pub ports: Vec<PortMapping>,
    /// Last error of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<StructuredError>,
}

/// Published port with its requested and its actual host port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortMapping {
    /// Name of the service or mock.
    pub service: String,
    /// Port inside the container.
    pub container_port: u16,
    /// Protocol: `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// Requested host port of the file.
    pub original_port: u16,
    /// Actual host port.
    pub actual_port: u16,
    /// True if the two host ports differ.
    pub reassigned: bool,
    /// Host of the port for clients; absent if they cannot reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Condition, as in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Name of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Truth value of the condition.
    pub status: Truth,
    /// Reason for programs, as an identifier.
    pub reason: String,
    /// Reason for people.
    pub message: String,
    /// Time of the last change of `status` (RFC 3339).
    pub last_transition_time: String,
}

/// Result of a connectivity check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Connectivity {
    /// True if all declared connections work.
    pub verified: bool,
    /// Time of the check (RFC 3339).
    pub as_of: String,
    /// All checked connections.
    pub links: Vec<Link>,
}

/// Checked connection between two services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Link {
    /// Connecting service.
    pub from: String,
    /// Target service or mock.
    pub to: String,
    /// DNS name of the target.
    pub host: String,
    /// Target port; absent if only the name is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// True if the name resolves.
    pub dns: bool,
    /// True if a connection succeeds.
    pub tcp: bool,
    /// Error of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Reason why the connection is not verified, such as a service that is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
}

macro_rules! words {
    ($(#[doc = $doc:literal] $name:ident $style:literal { $first:ident $(, $rest:ident)* })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = $style)]
        #[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
        pub enum $name { #[default] $first $(, $rest)* }

        impl $name {
            /// All values in their order.
            pub const ALL: &[Self] = &[Self::$first $(, Self::$rest)*];
        }
    )+};
}

use words;

words! {
    #[doc = "State of an environment in one word."]
    Phase "PascalCase" { Pending, Progressing, Ready, Degraded, Failed, Held, Terminating }
    #[doc = "Mode of the controller: its permitted actions."]
    Mode "PascalCase" { Full, Limited, Reduced, Minimal, Safe, Recovery }
    #[doc = "State of a service's container."]
    ServiceState "PascalCase" {
        Unknown, Waiting, Pulling, Building, Creating, Starting, Running, Ready, Completed, Restarting, Paused,
        Stopping, Failed
    }
    #[doc = "Result of a health check."]
    Health "PascalCase" { Unknown, Starting, Healthy, Unhealthy, None }
    #[doc = "Role in the environment: a service under test or a mock."]
    ServiceRole "camelCase" { Service, Mock }
    #[doc = "Truth value of a condition."]
    Truth "PascalCase" { Unknown, True, False }
    #[doc = "Scope of a circuit breaker: the engine or an environment."]
    BreakerScope "camelCase" { Engine, Environment }
    #[doc = "State of a circuit breaker."]
    BreakerState "camelCase" { Closed, Open, HalfOpen }
}
