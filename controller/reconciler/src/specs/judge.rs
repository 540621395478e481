//! Whoever decides what a file's contents mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::time::Timestamp;

use super::book::Judged;

/// A file's contents with their surroundings.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// Absolute path.
    pub path: &'a Path,
    /// Path relative to the spec folder, for people.
    pub name: &'a str,
    /// Contents.
    pub bytes: &'a [u8],
    /// What `{{env.X}}` may read.
    pub variables: BTreeMap<String, String>,
    /// Digest of each build's context by service, or why there is none.
    pub digests: BTreeMap<String, Result<String, String>>,
    /// Text of each mock's `openapi` document, or why there is none.
    pub documents: BTreeMap<String, Result<String, String>>,
    /// Stable for these contents.
    pub uuid: String,
    /// When these contents were seen first.
    pub first_seen: Timestamp,
}

/// A build that a file wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Service that runs it.
    pub service: String,
    /// Absolute path of the context.
    pub folder: PathBuf,
    /// Dockerfile, absolute or relative to the context.
    pub dockerfile: PathBuf,
}

/// What contents need to be judged by, beside themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The builds.
    pub builds: Vec<Context>,
    /// The `openapi` document of each mock that has one.
    pub documents: BTreeMap<String, PathBuf>,
}

/// Parses and admits; pure, so that equal readings give equal judgements.
pub trait Judge: Send + Sync + 'static {
    /// What else has to be read; nothing when the contents do not parse.
    fn needs(&self, path: &Path, bytes: &[u8]) -> Needs;

    /// What the contents mean.
    fn judge(&self, reading: &Reading<'_>) -> Judged;
}
