//! Files and folders for a group.

use std::ffi::OsStr;
use std::io::{self, Write as _};

use rustix::fs::{AtFlags, Gid, Mode};

use super::Folder;

impl Folder {
    /// As [`Folder::write`]. No other group can read the file at any time.
    ///
    /// # Errors
    /// The file cannot be written, or the user may not give it to the group; nothing changed.
    pub fn write_for(&self, group: Option<u32>, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        let at_first = group.map_or(mode, |_| mode & 0o700);
        let (temporary, mut file) = self.create_temporary(at_first)?;
        let given = group.map_or(Ok(()), |group| {
            rustix::fs::fchown(&file, None, Some(Gid::from_raw(group)))
        });
        // The umask may have cleared bits.
        let written = given
            .and_then(|()| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)))
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| self.rename(&temporary, name));
        if written.is_err() {
            drop(self.remove(&temporary));
        }
        written
    }

    /// Sets the group of an entry. A link gets it itself.
    ///
    /// # Errors
    /// Nothing exists there, or the user may not give it to the group.
    pub fn set_group(&self, name: &OsStr, group: u32) -> io::Result<()> {
        let group = Some(Gid::from_raw(group));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(&self.directory, name, None, group, flags)?)
    }

    /// Sets the group of this folder.
    ///
    /// # Errors
    /// The user may not give it to the group.
    pub fn set_own_group(&self, group: u32) -> io::Result<()> {
        self.set_group(OsStr::new("."), group)
    }
}
