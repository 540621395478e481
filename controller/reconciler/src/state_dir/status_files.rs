//! Access to the status files: they contain output of containers, so only the user of the controller reads them, and the members of
//! a group that the operator names.

use std::io;
use std::path::Path;

use argus_backend::host_path::folder::Folder;

use super::{StateDir, StateError};

impl StateDir {
    /// Lets a group read the status files.
    #[must_use]
    pub fn with_status_group(self, status_group: Option<u32>) -> Self {
        Self { status_group, ..self }
    }

    /// Number of the group that may read the status files.
    pub(crate) fn status_group(&self) -> Option<u32> {
        self.status_group
    }

    /// Mode of the status files: they contain output of containers.
    pub(crate) fn status_mode(&self) -> u32 {
        self.status_group.map_or(0o600, |_| 0o640)
    }

    /// Writes a status file atomically, with its seal.
    pub(crate) fn write_status(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = Folder::parent_of(path)?;
        let bytes = self.sealed(path, bytes)?;
        folder.write_for(self.status_group, &name, &bytes, self.status_mode())
    }

    /// Gives the folder of the status files to their group, which fails before the first write if the user may not do so.
    pub(super) fn check_status_group(&self) -> Result<(), StateError> {
        let Some(group) = self.status_group else {
            return Ok(());
        };
        let path = self.environments();
        let given = Folder::open(&path).and_then(|folder| folder.set_own_group(group));
        given.map_err(|source| StateError::Group { path, group, source })
    }
}
