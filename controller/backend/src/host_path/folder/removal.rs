//! Removal of all that a folder contains.

use std::ffi::OsStr;
use std::io;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::Folder;

/// Maximum number of levels of folders that are removed.
const MAX_LEVELS: usize = 32;

impl Folder {
    /// Removes an entry, and all that a folder contains. Links are removed themselves. An entry that does not exist is no error.
    ///
    /// # Errors
    /// Something cannot be removed, or is too deep.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        self.remove_levels(name, MAX_LEVELS)
    }

    fn remove_levels(&self, name: &OsStr, left: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) if left > 0 => {}
            Err(error) => return Err(error.into()),
        }
        let folder = self.enter(name, None)?;
        for entry in folder.list()? {
            folder.remove_levels(&entry?, left - 1)?;
        }
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::REMOVEDIR)?)
    }
}
