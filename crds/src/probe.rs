//! Health checks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::quantity::HumanDuration;
use crate::text::{self, Command, shape};

/// Health check of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Healthcheck {
    /// Kind of probe: an HTTP request, a TCP connection, a command in the container, lines of its output (`log`), or `docker` for the
    /// image's own HEALTHCHECK with its own times.
    #[serde(rename = "type")]
    pub kind: ProbeType,
    /// Path of the HTTP request. Required for `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Port inside the container. Default: the container's first published TCP port. With the type `docker`, this port must accept
    /// connections if the image has no HEALTHCHECK.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Protocol of the HTTP request. `https` accepts every certificate, also a self-signed one. Default: `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<ProbeScheme>,
    /// Method of the HTTP request, which has no body. Default: `GET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<ProbeMethod>,
    /// Headers of the HTTP request. `Host` replaces the default `localhost` with the port.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub headers: BTreeMap<String, String>,
    /// Status codes of the HTTP answer that mean success. Default: `200-399`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusCodes>,
    /// Regular expression that a line of the output matches once the service is ready, at any position. It then stays ready until the
    /// container stops. Required for `log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Number of lines that match `pattern`, counted from the start of the container. Default: `1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub times: Option<u32>,
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
            scheme: None,
            method: None,
            headers: BTreeMap::new(),
            status: None,
            pattern: None,
            times: None,
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
    Log,
    Docker,
}

/// Protocol of an HTTP health check.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum ProbeScheme {
    #[default]
    Http,
    Https,
}

/// Method of an HTTP health check.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum ProbeMethod {
    #[default]
    Get,
    Head,
    Options,
    Post,
    Put,
    Patch,
    Delete,
}

impl ProbeMethod {
    /// Name in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Unparsed status codes: each a number, or a range such as `200-399`. The crate `argus-core` parses them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct StatusCodes(pub Vec<String>);

impl<'de> Deserialize<'de> for StatusCodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a status code, a range such as `200-399`, or a list of them";
        text::scalar_or_list(
            deserializer,
            expected,
            |text| Ok(Self(vec![text.to_owned()])),
            Self,
        )
    }
}

shape!(StatusCodes, "StatusCodes"; {
    "description": "Status code, range such as `200-399`, or list of them.",
    "anyOf": [
        { "type": ["string", "integer"] },
        { "type": "array", "items": { "type": ["string", "integer"] } }
    ]
});
