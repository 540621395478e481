//! Build of an image.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::desired::excluded;
use crate::desired::hash::hash_of;
use crate::ident::Hash;
use crate::quoting::PathText as _;

/// Repository of images whose tag in the file names an image that Argus did not build.
const SUBSTITUTES: &str = "argus/build";
/// Maximum length of the readable part of a substitute.
const MAX_SUBSTITUTE_NAME: usize = 60;

/// Settings of a build that have a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildOptions {
    /// Platform of the image; `None` for the platform of the engine.
    pub platform: Option<String>,
    /// Network of the `RUN` instructions.
    pub network: Option<String>,
    /// Labels of the image, without those of Argus.
    pub labels: BTreeMap<String, String>,
    /// Images whose layers the build can reuse.
    pub cache_from: Vec<String>,
    /// Text of the Dockerfile; `None` for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Sources of the secrets by id. Their values are read at the start of the build, and are in no document.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretSource>,
    /// Further contexts by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<String, NamedContext>,
    /// True if the build can use the SSH agent of the controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ssh: bool,
    /// Images of a registry that receive the build cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_to: Vec<CacheTarget>,
}

/// Source of a secret of a build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretSource {
    /// Absolute path of a file.
    File(String),
    /// Name of an environment variable of the controller.
    Environment(String),
}

/// Content of a further context of a build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NamedContext {
    /// Folder of the host.
    Folder {
        /// Absolute path.
        path: String,
        /// Paths that the context never contains.
        #[serde(default, skip_serializing_if = "crate::desired::is_default")]
        excluded: excluded::Excluded,
    },
    /// Reference of an image.
    Image(String),
}

/// Image of a registry that receives the build cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheTarget {
    /// Reference of the image.
    pub reference: String,
    /// True for the layers of all stages, false for those of the built image.
    pub all_stages: bool,
}

/// Name of a Dockerfile in the context that is the engine's only: its text is in the spec file, or its file is outside the context.
pub const SENT_DOCKERFILE: &str = ".argus.dockerfile";

impl BuildOptions {
    /// Returns the settings that decide about the contents of the image. Equal projects in different folders have equal settings. A build
    /// cache does not change the image.
    #[must_use]
    pub fn of_contents(&self) -> Self {
        let source = |source: &SecretSource| match source {
            SecretSource::File(path) => {
                SecretSource::File(path.rsplit('/').next().unwrap_or_default().to_owned())
            }
            SecretSource::Environment(name) => SecretSource::Environment(name.clone()),
        };
        let context = |context: &NamedContext| match context {
            // Its digest is part of the contents.
            NamedContext::Folder { .. } => NamedContext::Folder {
                path: String::new(),
                excluded: excluded::Excluded::default(),
            },
            NamedContext::Image(reference) => NamedContext::Image(reference.clone()),
        };
        let secrets = self.secrets.iter();
        let contexts = self.contexts.iter();
        Self {
            cache_from: Vec::new(),
            cache_to: Vec::new(),
            secrets: secrets.map(|(id, from)| (id.clone(), source(from))).collect(),
            contexts: contexts
                .map(|(name, from)| (name.clone(), context(from)))
                .collect(),
            ..self.clone()
        }
    }

    /// Returns the first key of the spec file that only `BuildKit` knows.
    pub fn buildkit_key(&self) -> Option<&'static str> {
        [
            ("secrets", self.secrets.is_empty()),
            ("additionalContexts", self.contexts.is_empty()),
            ("ssh", !self.ssh),
            ("cacheTo", self.cache_to.is_empty()),
        ]
        .into_iter()
        .find_map(|(key, is_unused)| (!is_unused).then_some(key))
    }
}

/// Build of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Build {
    /// Tag of the built image.
    pub tag: String,
    /// Absolute path of the context folder.
    pub context: String,
    /// Path of the Dockerfile, relative to the context, or absolute if it is outside.
    pub dockerfile: String,
    /// Stage to build; `None` for the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Build arguments.
    pub args: BTreeMap<String, String>,
    /// Further settings.
    #[serde(default, skip_serializing_if = "crate::desired::is_default")]
    pub options: Box<BuildOptions>,
    /// Hash of context, Dockerfile, arguments, target and options; a different digest requires a new build.
    pub digest: Hash,
    /// Paths that the context never contains.
    #[serde(default, skip_serializing_if = "crate::desired::is_default")]
    pub excluded: excluded::Excluded,
    /// True if a person allowed the project: `ADD` can read each address. No part of the contents, and no stored revision keeps it.
    #[serde(skip)]
    pub allowed: bool,
}

impl Build {
    /// Returns the path of the Dockerfile on the host, as a text. An absolute one replaces the context.
    pub(crate) fn shown_dockerfile(&self) -> String {
        let path = Path::new(&self.context).join(&self.dockerfile);
        path.shown().to_string()
    }
}

/// Returns the tag of a build whose own tag names an image that Argus did not build, and keeps.
///
/// ```
/// use argus_core::desired::substitute_tag;
///
/// assert!(substitute_tag("registry:5000/shop/app:1").starts_with("argus/build:app-"));
/// assert_ne!(substitute_tag("app:1"), substitute_tag("app:2"));
/// ```
pub fn substitute_tag(tag: &str) -> String {
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let last = tag.rsplit('/').next().unwrap_or_default();
    let name: String = last
        .chars()
        .take_while(is_allowed)
        .take(MAX_SUBSTITUTE_NAME)
        .collect();
    let hash = hash_of(tag);
    let short: String = hash.as_str().chars().take(12).collect();
    format!("{SUBSTITUTES}:{name}-{short}")
}
