//! A mock of a service that is not there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::quantity::HumanDuration;
use crate::text;

pub mod config;

/// A mock: inline routes, an `OpenAPI` document, or an image that is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mock {
    /// The port on the host.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// The port on the Docker network; by default the one on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub container_port: Option<u16>,
    /// What is answered; the most specific route that matches counts, then the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<MockRoute>,
    /// An image to run; of the other keys only `port`, `containerPort`, `args` and `volumes` count then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Arguments of that image, in one text that is split into words without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// Mounts of that image, `host-or-volume:container[:ro]` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// An `OpenAPI` document, 3.0 or 3.1, to answer from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openapi: Option<String>,
    /// Where answers come from: the document, a recorded target, the recordings, or (`smart`) the document with what was asked in it.
    #[serde(default)]
    pub mode: MockMode,
    /// Whether a request that breaks the document's schema is answered with 422.
    #[serde(default)]
    pub validate: bool,
    /// The real service that is recorded, `http://` only. Required in mode `record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Folder of the recordings, relative to the directory of the file; for `record` and `replay`, and it must be there.
    #[serde(default = "recordings")]
    pub recordings_dir: String,
    /// How deep generated answers nest.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 32))]
    pub max_depth: u32,
    /// Routes that go before all others and before the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<MockRoute>,
}

/// Where a mock's answers come from.
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

/// What a mock answers to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MockRoute {
    /// The HTTP method, in any case; `ANY` for all.
    pub method: String,
    /// The path; `:name` takes one segment, `*` at the end all that follows.
    pub path: String,
    /// What is answered.
    #[serde(default)]
    pub response: MockResponse,
    /// What else must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<MockWhen>,
}

/// What a mock answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MockResponse {
    /// The HTTP status.
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub headers: BTreeMap<String, String>,
    /// The body: anything; texts in it may carry `{{request.body.x}}`, `{{uuid}}` and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// How long to wait before the answer.
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

/// What must match, besides method and path, for a route to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MockWhen {
    /// Fields of the request's body.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub body: BTreeMap<String, Value>,
    /// Headers of the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub headers: BTreeMap<String, String>,
    /// Parameters of the request's query.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "text::map")]
    #[schemars(with = "text::TextMap")]
    pub query: BTreeMap<String, String>,
}

fn recordings() -> String {
    ".argusai/recordings".to_owned()
}

fn three() -> u32 {
    3
}
