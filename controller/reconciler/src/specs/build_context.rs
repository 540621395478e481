//! Build contexts that spec files require, and the image of this program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use argus_core::desired::excluded::Excluded;
use argus_core::desired::{Build, NamedContext, SENT_DOCKERFILE, Service};
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
    /// Further folders of the build.
    pub named: Vec<NamedFolder>,
}

/// Further folder of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFolder {
    /// Name in the Dockerfile.
    pub name: String,
    /// Absolute path.
    pub folder: PathBuf,
    /// Paths that the context never contains.
    pub excluded: Excluded,
}

impl BuildContext {
    /// Returns the context of a service's build. The image of this program has the context in `own_image`.
    pub(super) fn of(service: &Service, build: &Build, own_image: &Path) -> Self {
        let (folder, excluded) = if service.injected_file.is_some() {
            (own_image.to_owned(), Excluded::default())
        } else {
            (PathBuf::from(&build.context), build.excluded.clone())
        };
        let named = |(name, context): (&String, &NamedContext)| match context {
            NamedContext::Folder { path, excluded } => Some(NamedFolder {
                name: name.clone(),
                folder: path.into(),
                excluded: excluded.clone(),
            }),
            NamedContext::Image(_) => None,
        };
        Self {
            service: service.name.to_string(),
            folder,
            dockerfile: PathBuf::from(&build.dockerfile),
            excluded,
            named: build.options.contexts.iter().filter_map(named).collect(),
        }
    }
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
        let mut digest = match digest {
            Ok(digest) => digest,
            Err(error) => return Some(Err(ContextProblem::of(&build.folder, &error))),
        };
        for named in &build.named {
            // A further context has no Dockerfile.
            match digests.of(&named.folder, Path::new(SENT_DOCKERFILE), &named.excluded) {
                Ok(found) => digest.add(&named.name, found),
                Err(error) => return Some(Err(ContextProblem::of(&named.folder, &error))),
            }
        }
        Some(Ok(digest))
    }
}

impl fmt::Debug for OwnImageContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnImageContext")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
