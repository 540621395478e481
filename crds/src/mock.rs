//! Mocks: replacements for missing services.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::quantity::HumanDuration;
use crate::text;

pub mod config;

/// Mock with inline routes, an `OpenAPI` document, or an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mock {
    /// Port on the host.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Port on the Docker network. Default: `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub container_port: Option<u16>,
    /// Routes. The most specific match responds. Of equal matches, the first in the file responds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<MockRoute>,
    /// Names of its networks. Default: `default`, the network of the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Image to run. With it, only `port`, `containerPort`, `networks`, `args` and `volumes` apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Arguments for the image: one string, split into words without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// Mounts for the image: `host-or-volume:container[:ro]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// Path of an `OpenAPI` document, version 3.0, 3.1 or 3.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openapi: Option<String>,
    /// Source of responses: the document (`auto`), the target (`record`), the recordings (`replay`), or the document with values
    /// from the request (`smart`).
    #[serde(default)]
    pub mode: MockMode,
    /// True to respond with 422 to requests that violate the document.
    #[serde(default)]
    pub validate: bool,
    /// False to add no headers for browsers that request from another origin, and to answer none of their preflight requests.
    /// Default: `true`.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    pub cors: bool,
    /// URL of the real service to record; must begin with `http://`. Required in mode `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Existing folder of the recordings, relative to the file's folder; for modes `record` and `replay`.
    #[serde(default = "default_recordings_dir")]
    pub recordings_dir: String,
    /// Maximum nesting of optional parts in generated responses.
    #[serde(default = "default_max_depth")]
    #[schemars(range(min = 1, max = 32))]
    pub max_depth: u32,
    /// Routes with precedence over all others and over the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<MockRoute>,
}

/// Source of a mock's responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum MockMode {
    #[default]
    Auto,
    Record,
    Replay,
    Smart,
}

/// Route of a mock: a request pattern and its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MockRoute {
    /// HTTP method in any letter case; `ANY` matches all methods.
    pub method: String,
    /// Path pattern. `:name` matches one segment; `*` at the end matches the rest.
    pub path: String,
    /// Response of the route.
    #[serde(default)]
    pub response: MockResponse,
    /// Further conditions on the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<MockWhen>,
}

/// Response of a mock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MockResponse {
    /// HTTP status.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Response headers; values can contain templates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub headers: BTreeMap<String, String>,
    /// Response body of any type. Its strings can contain templates such as `{{request.body.x}}` and `{{uuid}}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Delay before the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<HumanDuration>,
}

impl Default for MockResponse {
    fn default() -> Self {
        Self {
            status: 200,
            headers: BTreeMap::new(),
            body: None,
            delay: None,
        }
    }
}

/// Conditions on a request in addition to method and path. All must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MockWhen {
    /// Fields of the request body.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub body: BTreeMap<String, Value>,
    /// Request headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters of the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub query: BTreeMap<String, String>,
}

fn on() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_on(value: &bool) -> bool {
    *value
}

fn default_recordings_dir() -> String {
    ".argusai/recordings".to_owned()
}

fn default_max_depth() -> u32 {
    3
}
