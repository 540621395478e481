//! Access to files of the state directory: bounded reads that follow no links and never block, and the correction of
//! file modes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::state_dir::StateDir;

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

/// File whose mode was corrected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectedMode {
    /// Path of the file.
    pub path: PathBuf,
    /// Mode before the correction.
    pub from: u32,
    /// Mode after the correction.
    pub to: u32,
}

/// Corrects and logs the modes of all state files. Readers of the private ones could otherwise see secrets, and writers
/// of the public ones could deceive agents.
pub fn correct_modes(state: &StateDir) -> Vec<CorrectedMode> {
    let folders = [
        (state.private(), 0o600),
        (state.builds(), 0o600),
        (state.environments(), 0o644),
        (state.incidents(), 0o644),
    ];
    let mut files = vec![(state.controller_json(), 0o644)];
    for (folder, mode) in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| (entry.path(), mode)));
    }
    let mut corrected = Vec::new();
    for (path, to) in files {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        let from = meta.permissions().mode() & 0o7777;
        if !meta.is_file() || from == to {
            continue;
        }
        match fs::set_permissions(&path, Permissions::from_mode(to)) {
            Ok(()) => {
                let (was, now) = (format!("{from:04o}"), format!("{to:04o}"));
                tracing::warn!(path = %path.display(), was, now, "corrected the mode of a state file");
                corrected.push(CorrectedMode { path, from, to });
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot correct the mode of a state file");
            }
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn wrong_modes_are_corrected_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let outside = dir.path().join("outside");
        for (path, mode) in [
            (state.state_json(), 0o644),
            (state.identity(), 0o600),
            (state.builds().join("x.log"), 0o666),
            (state.environments().join("shop.json"), 0o666),
            (outside.clone(), 0o644),
        ] {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, state.private().join("link")).unwrap();
        let mut corrected: Vec<_> = correct_modes(&state)
            .into_iter()
            .map(|file| (file.path, file.from, file.to))
            .collect();
        corrected.sort();
        let mut expected = vec![
            (state.state_json(), 0o644, 0o600),
            (state.builds().join("x.log"), 0o666, 0o600),
            (state.environments().join("shop.json"), 0o666, 0o644),
        ];
        expected.sort();
        assert_eq!(corrected, expected);
        assert_eq!(correct_modes(&state), []);
        let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "the target of a link keeps its mode");
    }
}
