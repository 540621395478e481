//! Reads of state files, which are bounded, follow no links and never block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Maximum size of a file that is read into memory, in bytes. The controller never writes a larger one.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Opens a regular file for reading.
///
/// # Errors
/// The path is a link, or not a file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let file = no_links(OpenOptions::new().read(true)).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a file"))
}

/// Adds the flags that refuse links and never wait for a FIFO or a device.
pub(crate) fn no_links(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// Those of [`open`], or the file is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// Those of [`read`], or the file is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_devices_and_long_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(
            read(&path, 4)
                .unwrap_err()
                .to_string()
                .contains("more than 4 bytes")
        );
        let link = dir.path().join("link");
        for target in ["/dev/zero", "state.json", "nowhere"] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            assert!(read(&link, 5).is_err(), "{target}");
            fs::remove_file(&link).unwrap();
        }
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for special in [Path::new("/dev/zero"), &fifo, dir.path()] {
            let error = read(special, 5).unwrap_err().to_string();
            assert_eq!(error, "it is not a file", "{}", special.display());
        }
    }
}
