//! Build contexts that spec files require, and the image of this program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use argus_core::desired::excluded::Excluded;
use argus_core::quoting::PathText as _;

use super::digest::{ContextDigest, Digests};

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

/// Problem of a build context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextProblem {
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
    pub hint: &'static str,
}

impl ContextProblem {
    fn of(folder: &Path, error: &io::Error) -> Self {
        let hint = if error.kind() == io::ErrorKind::PermissionDenied {
            "add the path to the `.dockerignore`, or permit the user of Argus to read it"
        } else {
            "`context` is relative to the folder of the spec file"
        };
        let message = format!("cannot read build context `{}`: {error}", folder.shown());
        Self { message, hint }
    }
}

/// Image of this program, which serves mocks. Its context is written when a file first needs it.
#[derive(Clone, Default)]
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
    /// The context cannot be written or read.
    pub fn digest(
        &self,
        build: &BuildContext,
        digests: &mut Digests,
    ) -> Option<Result<ContextDigest, ContextProblem>> {
        let result = match &self.write_context {
            _ if build.folder != self.folder => Ok(()),
            Some(write_context) => write_context(),
            None if build.folder.exists() => Ok(()),
            None => return None,
        };
        let digest = result.and_then(|()| digests.of(&build.folder, &build.dockerfile, &build.excluded));
        Some(digest.map_err(|error| ContextProblem::of(&build.folder, &error)))
    }
}

impl fmt::Debug for OwnImageContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnImageContext")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
