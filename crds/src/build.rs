//! Build of an image from a Dockerfile.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// Build of an image from a Dockerfile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// Path of the Dockerfile, relative to the file's folder. Default: `Dockerfile` in the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// Text of the Dockerfile, instead of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile_inline: Option<String>,
    /// Build context, relative to the file's folder.
    #[serde(default = "default_context")]
    pub context: String,
    /// Stage of the Dockerfile to build. Default: the last stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Tag to build and run. Default: `image` of the service, otherwise `argus/<environment>-<service>:latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Build arguments by name.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub args: BTreeMap<String, String>,
    /// Platform of the image, such as `linux/arm64`. Default: the platform of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Network of the `RUN` instructions: `default` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Labels of the image by name.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub labels: BTreeMap<String, String>,
    /// Images with a build cache whose layers the build can reuse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_from: Vec<String>,
    /// Images of a registry that receive the build cache: `NAME`, or `type=registry,ref=NAME,mode=max` for the layers of all stages.
    /// Only in a project that `argus allow` allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_to: Vec<String>,
    /// Secrets of `RUN --mount=type=secret` by id. The image and the build cache do not contain them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, BuildSecret>,
    /// Further contexts by name, for `FROM`, `COPY --from` and `RUN --mount`: a folder relative to the file's folder, or
    /// `docker-image://NAME`.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "text::map"
    )]
    #[schemars(with = "text::TextMap")]
    pub additional_contexts: BTreeMap<String, String>,
    /// SSH agents of `RUN --mount=type=ssh`: `default`, the agent of the controller. Only in a project that `argus allow` allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh: Vec<String>,
}

/// Source of a secret of a build: one of both keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildSecret {
    /// Path of a file of the project, relative to the file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of an environment variable of the controller. Only in a project that `argus allow` allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

fn default_context() -> String {
    ".".to_owned()
}
