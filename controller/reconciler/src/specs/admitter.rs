//! Admitter interface: the decision about the meaning of a file's contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use argus_core::desired::excluded::Excluded;
use argus_core::desired::host::HostPaths;
use argus_core::time::Timestamp;

use super::digest::{ContextDigest, Digests};
use super::location::SpecLocation;
use super::registry::Admission;

/// Contents of a file with all other inputs of its admission.
#[derive(Debug, Clone)]
pub struct AdmissionInput<'a> {
    /// Absolute path without links.
    pub path: &'a Path,
    /// Path relative to the specs folder, for people.
    pub name: &'a str,
    /// Contents of the file.
    pub bytes: &'a [u8],
    /// Variables that `{{env.X}}` may read.
    pub variables: BTreeMap<String, String>,
    /// Digest of each build context by service, or the cause of its absence.
    pub digests: BTreeMap<String, Result<String, String>>,
    /// Text of each mock's `openapi` document, or the cause of its absence.
    pub documents: BTreeMap<String, Result<String, String>>,
    /// Targets of the host paths that the contents name.
    pub host: HostPaths,
    /// Stable for these contents.
    pub uuid: String,
    /// Time at which these contents were first read.
    pub first_seen: Timestamp,
}

/// Build context that a spec file requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildContext {
    /// Service that runs the image.
    pub service: String,
    /// Absolute path of the context.
    pub folder: PathBuf,
    /// Path of the Dockerfile, absolute or relative to the context.
    pub dockerfile: PathBuf,
    /// Paths that the context never contains.
    pub excluded: Excluded,
}

/// Other files that the admission of the contents requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequiredFiles {
    /// Build contexts.
    pub builds: Vec<BuildContext>,
    /// Path of each mock's `openapi` document.
    pub documents: BTreeMap<String, PathBuf>,
}

/// Image of this program, which serves mocks. Its context is written when a file first needs it.
#[derive(Clone)]
pub struct OwnImageContext {
    /// Absolute path of the build context.
    pub folder: PathBuf,
    /// Writer of the context; `None` if nothing is built here, and the folder is used as it is.
    pub write_context: Option<ContextWriter>,
}

/// Writes the context unless it is complete; blocks.
pub type ContextWriter = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

impl OwnImageContext {
    /// Returns the digest of a build context, which is written before if it is this one. `None` if the context is
    /// unavailable here.
    ///
    /// # Errors
    /// Text: the context cannot be written or read.
    pub fn digest(
        &self,
        build: &BuildContext,
        digests: &mut Digests,
    ) -> Option<Result<ContextDigest, String>> {
        let result = match &self.write_context {
            _ if build.folder != self.folder => Ok(()),
            Some(write_context) => write_context(),
            None if build.folder.exists() => Ok(()),
            None => return None,
        };
        let digest = result.and_then(|()| digests.of(&build.folder, &build.dockerfile, &build.excluded));
        Some(digest.map_err(|error| {
            let folder = build.folder.display();
            format!("cannot read build context `{folder}`: {error}")
        }))
    }
}

impl fmt::Debug for OwnImageContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnImageContext")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Parses and admits specs. Pure except for [`Admitter::locate`]: equal inputs give equal admissions.
pub trait Admitter: Send + Sync + 'static {
    /// Returns the surroundings of a file on the host. `path` has no links. Reads the disk.
    fn locate(&self, path: &Path) -> SpecLocation;

    /// Returns the host paths that the contents of the file name. Empty if the contents do not parse.
    fn host_paths(&self, location: &SpecLocation, bytes: &[u8]) -> BTreeSet<String>;

    /// Returns the other files to read, given the variables for `{{env.X}}`. Empty if the contents do not parse.
    fn required_files(
        &self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        host: &HostPaths,
    ) -> RequiredFiles;

    /// Admits the contents.
    fn admit(&self, input: &AdmissionInput<'_>) -> Admission;
}
