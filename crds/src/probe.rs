//! A health check.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::HumanDuration;
use crate::text::Command;

/// How it is found out that a container is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Healthcheck {
    /// How the container is asked: an HTTP GET, a TCP connection, a command in it, or (`docker`) its image's own HEALTHCHECK, which it must
    /// have, with the times that stand there and not here.
    #[serde(rename = "type")]
    pub kind: ProbeType,
    /// The path that is asked; healthy on 2xx and 3xx. Required for `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port inside the container; by default the first TCP port that it publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// The command that is run in the container. Required for `exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// How long to wait between two checks, once one was decided on; before that it is asked more often.
    pub interval: HumanDuration,
    /// How long one check may take.
    pub timeout: HumanDuration,
    /// How many failures in a row make the container unhealthy.
    #[schemars(range(min = 1, max = 1000))]
    pub retries: u32,
    /// How long after its start failures do not count; over with the first success.
    pub start_period: HumanDuration,
    /// How many successes in a row make the container healthy.
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

/// How a container is asked whether it is healthy.
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
