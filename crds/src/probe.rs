//! Health checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::HumanDuration;
use crate::text::Command;

/// Health check of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Healthcheck {
    /// Kind of probe: an HTTP GET, a TCP connection, a command in the container, or `docker` for the image's own HEALTHCHECK
    /// with its own times.
    #[serde(rename = "type")]
    pub kind: ProbeType,
    /// Path of the HTTP request. Status 2xx and 3xx mean success. Required for `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Port inside the container. Default: the container's first published TCP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Command to run in the container. Required for `exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Time between two probes. Until the first result, Argus probes more often.
    pub interval: HumanDuration,
    /// Maximum time of one probe.
    pub timeout: HumanDuration,
    /// Number of failed probes in a row that make the container unhealthy.
    #[schemars(range(min = 1, max = 1000))]
    pub retries: u32,
    /// Time after the start in which failed probes do not count. It ends with the first successful probe.
    pub start_period: HumanDuration,
    /// Number of successful probes in a row that make the container healthy.
    #[schemars(range(min = 1, max = 100))]
    pub success_threshold: u32,
}

impl Default for Healthcheck {
    fn default() -> Self {
        Self {
            kind: ProbeType::Http,
            path: None,
            port: None,
            command: None,
            interval: HumanDuration::from_secs(10),
            timeout: HumanDuration::from_secs(5),
            retries: 10,
            start_period: HumanDuration::from_secs(30),
            success_threshold: 1,
        }
    }
}

/// Kind of probe of a health check.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum ProbeType {
    #[default]
    Http,
    Tcp,
    Exec,
    Docker,
}
