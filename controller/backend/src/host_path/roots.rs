//! Directories that host paths may lead into.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{PathError, Resolved, real, resolve};

/// Directories that paths may lead into, with their links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Allows these directories. They may be named through links, because an operator names them.
    pub fn new<'a>(directories: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(directories.into_iter().map(real).collect())
    }

    /// Allows a directory whose path has no links. Does not follow a link that replaced a component of it since.
    #[must_use]
    pub fn with_resolved(mut self, directory: &Path) -> Self {
        self.0.push(directory.to_owned());
        self
    }

    /// Resolves an absolute path and refuses one that leads out of all of these directories.
    ///
    /// # Errors
    /// The path leads out, or cannot be resolved.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, PathError> {
        let resolved = resolve(path)?;
        if self.0.iter().any(|root| resolved.path.starts_with(root)) {
            return Ok(resolved);
        }
        Err(PathError::Outside {
            path: path.to_owned(),
            real: resolved.path,
        })
    }

    /// Opens a regular file that an absolute path leads to, as [`Self::resolve`] and [`Resolved::open`] do.
    ///
    /// # Errors
    /// The path leads out, or the file cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.resolve(path).map_err(io::Error::other)?.open()
    }
}
