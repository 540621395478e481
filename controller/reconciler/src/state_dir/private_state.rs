//! Private state in its folder: who can have made it, and the project that it belongs to.

use std::io;
use std::path::PathBuf;

use argus_backend::host_path;

use super::{PRIVATE, StateDir, StateError, write_private};
use crate::private_folder::{self, FolderError};
use crate::specs::git_paths::is_tracked;

/// Names in a state directory that Argus reads.
const STATE_NAMES: [&str; 4] = [PRIVATE, "controller.json", "environments", "incidents"];

impl StateDir {
    /// Checks that no other user can have made or can exchange the folder of the private state. A missing one is fine.
    ///
    /// # Errors
    /// Another user owns it or can write above it, or it is a link or no folder.
    pub fn check_private(&self) -> Result<(), StateError> {
        let checked = if self.has_outer_private() {
            private_folder::check(&self.private)
        } else {
            private_folder::check_given(&self.root, &self.private).and_then(|()| self.check_untracked())
        };
        checked.map_err(|error| self.refused(error))
    }

    /// Checks that no repository contains the state in a folder that a user named.
    fn check_untracked(&self) -> Result<(), FolderError> {
        let root = host_path::real(&std::path::absolute(&self.root)?);
        if is_tracked(&root, &STATE_NAMES) {
            return Err(FolderError::Tracked(root));
        }
        Ok(())
    }

    fn refused(&self, error: FolderError) -> StateError {
        let path = self.locked_folder().to_path_buf();
        match error {
            FolderError::Io(source) => StateError::Io { path, source },
            source @ (FolderError::Untrusted { .. } | FolderError::Tracked(_)) => StateError::Untrusted {
                path,
                is_given: !self.has_outer_private(),
                source,
            },
        }
    }

    /// Creates a private folder outside of the state directory, as [`Self::create`] does.
    ///
    /// # Errors
    /// Those of [`Self::check_private`], or it cannot be created.
    pub fn create_private(&self) -> Result<(), StateError> {
        private_folder::create(&self.private).map_err(|error| self.refused(error))?;
        // Only useful: without the record, `argus prune` does not remove the folder.
        if let Err(error) = self.record_project() {
            tracing::warn!(%error, "cannot record the project of the private folder");
        }
        Ok(())
    }

    /// Path of the project of a private folder outside of the state directory.
    pub fn project_file(&self) -> PathBuf {
        self.private().join("project")
    }

    /// Checks that no link has the place of the private folder, which a start would follow.
    pub(super) fn check_no_link(&self) -> Result<(), StateError> {
        let checked = private_folder::check_own(&self.private);
        checked.map(drop).map_err(|error| self.refused(error))
    }

    /// Records the path of the project in its private folder, which has no other sign of a project that is removed.
    fn record_project(&self) -> io::Result<()> {
        let file = self.project_file();
        if file.exists() {
            return Ok(());
        }
        let root = std::path::absolute(self.root())?;
        // A project that is not writable contains no state.
        let parent = root.parent().filter(|_| !root.starts_with(self.private()));
        let project = parent.map_or_else(std::env::current_dir, |parent| Ok(parent.to_path_buf()))?;
        write_private(&file, project.as_os_str().as_encoded_bytes())
    }
}
