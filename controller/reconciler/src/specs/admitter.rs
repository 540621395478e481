//! Whoever decides what a file's contents mean.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use argus_core::desired::excluded::Excluded;
use argus_core::desired::host::HostPaths;
use argus_core::time::Timestamp;

use super::digest::Digests;
use super::registry::Admission;
use super::surroundings::Surroundings;

/// A file's contents with their surroundings.
#[derive(Debug, Clone)]
pub struct AdmissionInput<'a> {
    /// Absolute path without links.
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
    /// Where the paths that the contents name lead.
    pub host: HostPaths,
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
    /// What the context never contains.
    pub excluded: Excluded,
}

/// What contents need to be judged by, beside themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The builds.
    pub builds: Vec<Context>,
    /// The `openapi` document of each mock that has one.
    pub documents: BTreeMap<String, PathBuf>,
}

/// The image of this program, which serves mocks: made when a file needs it first.
#[derive(Clone)]
pub struct OwnImage {
    /// Absolute path of the folder that it is built from.
    pub folder: PathBuf,
    /// Fills the folder; `None`: nothing is built from here, and it is taken as it is.
    pub fill: Option<Fill>,
}

/// Fills a folder, or finds it filled; blocks.
pub type Fill = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

impl OwnImage {
    /// The digest of a build's folder, which is filled before if it is this one; `None` where nobody could look.
    ///
    /// # Errors
    /// In words: the folder cannot be filled or read.
    pub fn digest(&self, build: &Context, digests: &mut Digests) -> Option<Result<String, String>> {
        let filled = match &self.fill {
            _ if build.folder != self.folder => Ok(()),
            Some(fill) => fill(),
            None if build.folder.exists() => Ok(()),
            None => return None,
        };
        let digest = filled.and_then(|()| digests.of(&build.folder, &build.dockerfile, &build.excluded));
        Some(digest.map_err(|error| {
            let folder = build.folder.display();
            format!("build context `{folder}` cannot be read: {error}")
        }))
    }
}

impl fmt::Debug for OwnImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnImage")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Parses and admits; all but the place of a file is pure, so that equal readings give equal judgements.
pub trait Admitter: Send + Sync + 'static {
    /// The place of a file on the host, which is what this looks at the disk for.
    fn surroundings(&self, path: &Path) -> Surroundings;

    /// The paths of the host that the contents name; nothing when they do not parse.
    fn named(&self, path: &Path, bytes: &[u8]) -> BTreeSet<String>;

    /// What else has to be read, with what `{{env.X}}` may read; nothing when the contents do not parse.
    fn needs(
        &self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        host: &HostPaths,
    ) -> Needs;

    /// What the contents mean.
    fn admit(&self, reading: &AdmissionInput<'_>) -> Admission;
}
