//! What agents read in the status files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::error::{Code, StructuredError};

mod calls;
mod preflight;
mod users;

pub use calls::Calls;
pub use preflight::{
    CheckName, CheckResult, PREFLIGHT_VERSION, PreflightBefore, PreflightCheck, PreflightFix,
    PreflightOverall, PreflightReport,
};
pub use users::{ActiveHold, RunningTest};

/// The version of the status files.
pub const STATUS_VERSION: u32 = 1;

/// `<state>/environments/ENV.json`: how one environment is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvironmentStatus {
    /// Version of this file's format.
    pub schema_version: u32,
    /// Identity of the environment: its namespace, or the slug of its project.
    pub environment: String,
    /// Name of the project.
    pub project: String,
    /// The file that it is written in.
    pub spec_path: String,
    /// The revision that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The revision that the rest of this file is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_revision: Option<String>,
    /// The last revision that became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good_revision: Option<String>,
    /// The state of the environment in one word.
    pub phase: Phase,
    /// The state of the environment in detail.
    pub conditions: Vec<Condition>,
    /// The services and mocks.
    pub services: Vec<ServiceStatus>,
    /// Every published port.
    pub port_mappings: Vec<PortMapping>,
    /// Who reaches whom, once that was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectivity: Option<Connectivity>,
    /// The circuit breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerStatus>,
    /// The last preflight report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightReport>,
    /// What is wrong with the file, as it stands now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// What is wrong with the environment.
    pub errors: Vec<StructuredError>,
    /// Resources of dead runs that were found.
    pub orphans: Vec<Orphan>,
    /// Things to know that are not errors, as the blocks that are carried and not acted on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The tests that run on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<RunningTest>,
    /// What of it is held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<ActiveHold>,
    /// How many restarts happened while tests ran.
    pub restarts_during_run: u32,
    /// What the controller may do at present.
    pub mode: Mode,
    /// Whether this is the last that is known rather than what is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// When this was so (RFC 3339).
    pub as_of: String,
}

/// `<state>/controller.json`: how the controller is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerStatus {
    /// Version of this file's format.
    pub schema_version: u32,
    /// Identity of the controller.
    pub controller: String,
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// When it ended with a clean stop (RFC 3339); absent while it runs, and after a kill: then nothing runs under `pid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// What it may do at present.
    pub mode: Mode,
    /// Why it is in that mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode_reason: Option<String>,
    /// The folder that it watches.
    pub specs: String,
    /// The state of the controller in detail.
    pub conditions: Vec<Condition>,
    /// The engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineStatus>,
    /// The circuit breaker of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerStatus>,
    /// The last preflight report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightReport>,
    /// The environments with their phase.
    pub environments: BTreeMap<String, Phase>,
    /// Files that could not be taken.
    pub rejected: Vec<RejectedSpec>,
    /// Resources of dead runs that were found.
    pub orphans: Vec<Orphan>,
    /// What is wrong with the controller.
    pub errors: Vec<StructuredError>,
    /// Where it listens for HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// When this was so (RFC 3339).
    pub as_of: String,
}

/// The engine behind a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EngineStatus {
    /// Where it is reached.
    pub endpoint: String,
    /// Whether it answers.
    pub reachable: bool,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
}

/// A file that could not be taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RejectedSpec {
    /// The file.
    pub spec_path: String,
    /// Its environment, where that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

/// How one service or mock is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Whether it is a service or a mock.
    pub role: ServiceRole,
    /// What its container does.
    pub state: ServiceState,
    /// What its health check says.
    pub health: Health,
    /// How often its container was restarted by Argus.
    pub restarts: u32,
    /// Why nothing is done at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingOn>,
    /// The engine's id of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// The name of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// The image it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its published ports.
    pub ports: Vec<PortMapping>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<StructuredError>,
}

/// Why nothing is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingOn {
    /// The reason as an identifier, as in `DependencyNotReady`.
    pub reason: String,
    /// The reason in words.
    pub message: String,
    /// The service that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// When it is looked at again (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The error behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
}

/// One published port: where it was wanted and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortMapping {
    /// The service or mock.
    pub service: String,
    /// The port in the container.
    pub container_port: u16,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The host port that the file asks for.
    pub original_port: u16,
    /// The host port that it got.
    pub actual_port: u16,
    /// Whether the two differ.
    pub reassigned: bool,
    /// The host address that it is published on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// One condition, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Truth,
    /// Why, as an identifier.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// When `status` last changed (RFC 3339).
    pub last_transition_time: String,
}

/// Who reaches whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Connectivity {
    /// Whether all links work.
    pub verified: bool,
    /// When that was looked at (RFC 3339).
    pub as_of: String,
    /// Every link that was looked at.
    pub links: Vec<Link>,
}

/// One link between two services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Link {
    /// Who asks.
    pub from: String,
    /// Who is asked.
    pub to: String,
    /// The name that it is asked for by.
    pub host: String,
    /// The port that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether the name resolves.
    pub dns: bool,
    /// Whether a connection is made.
    pub tcp: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a circuit breaker is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerStatus {
    /// Whose breaker it is.
    pub scope: BreakerScope,
    /// Its state.
    pub state: BreakerState,
    /// How many failures in a row it has counted.
    pub failures: u32,
    /// How often it opened.
    pub times_opened: u64,
    /// When it lets one attempt through (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// The failure that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Its last changes of state, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<BreakerChange>,
}

/// One change of a circuit breaker's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerChange {
    /// When (RFC 3339).
    pub at: String,
    /// `closed`, `open` or `halfOpen`.
    pub to: String,
    /// Why.
    pub reason: String,
}

/// A resource that nobody desires and whose controller is dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Orphan {
    /// `container`, `network` or `volume`.
    pub kind: String,
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project on its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The environment that it was part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The controller that made it; none for the Node tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// When it was made, by the engine's clock (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// What becomes of it: `reported`, `waiting` for its grace, `removing`, `removed` or `failed`.
    pub result: String,
    /// Why it was not removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

macro_rules! words {
    ($(#[doc = $doc:literal] $name:ident $style:literal { $first:ident $(, $rest:ident)* })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = $style)]
        #[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
        pub enum $name { #[default] $first $(, $rest)* }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[Self::$first $(, Self::$rest)*];
        }
    )+};
}

words! {
    #[doc = "The state of an environment in one word."]
    Phase "PascalCase" { Pending, Progressing, Ready, Degraded, Failed, Held, Terminating }
    #[doc = "What the controller may do at present."]
    Mode "PascalCase" { Full, Limited, Reduced, Minimal, Safe, Recovery }
    #[doc = "What a service's container does."]
    ServiceState "PascalCase" {
        Unknown, Waiting, Pulling, Building, Creating, Starting, Running, Ready, Completed, Restarting, Paused,
        Stopping, Failed
    }
    #[doc = "What a health check says."]
    Health "PascalCase" { Unknown, Starting, Healthy, Unhealthy, None }
    #[doc = "Whether something is a service under test or a mock."]
    ServiceRole "camelCase" { Service, Mock }
    #[doc = "Whether a condition holds."]
    Truth "PascalCase" { Unknown, True, False }
    #[doc = "Whose circuit breaker it is."]
    BreakerScope "camelCase" { Engine, Environment }
    #[doc = "The state of a circuit breaker."]
    BreakerState "camelCase" { Closed, Open, HalfOpen }
}
