//! Who this controller is: a ULID that stays with its state directory, and with its spec folder when that is lost.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use argus_core::time::Timestamp;
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::state::write_private;

/// Reads the identity, or makes one that was not there or was not readable as one.
///
/// It is made from the host and the spec folder, so that a lost state directory does not turn what this
/// folder made into another controller's.
pub fn read_or_make(path: &Path, specs: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) if Ulid::from_string(text.trim()).is_ok() => Ok(text.trim().to_owned()),
        Ok(_) => {
            tracing::warn!(path = %path.display(), "identity is not a ULID, a new one is made");
            make(path, specs)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path, specs),
        Err(error) => Err(error),
    }
}

fn make(path: &Path, specs: &Path) -> io::Result<String> {
    let identity = derived(specs);
    write_private(path, identity.as_bytes())?;
    Ok(identity)
}

fn derived(specs: &Path) -> String {
    let folder = specs.canonicalize().unwrap_or_else(|_| specs.to_path_buf());
    let host = rustix::system::uname();
    let mut all = Sha256::new();
    all.update(host.nodename().to_bytes());
    all.update([0]);
    all.update(folder.as_os_str().as_encoded_bytes());
    let hash: [u8; 32] = all.finalize().into();
    let mut first = [0_u8; 16];
    first.copy_from_slice(&hash[..16]);
    Ulid::from_bytes(first).to_string()
}

/// Which state directory this is, among all on all hosts: whoever holds its lock is alone on it.
pub fn place(root: &Path) -> String {
    let path = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut all = Sha256::new();
    all.update(rustix::system::uname().nodename().to_bytes());
    // Hosts may share a name, and copies of a directory a path.
    all.update(std::fs::read("/etc/machine-id").unwrap_or_default());
    all.update([0]);
    all.update(path.as_os_str().as_encoded_bytes());
    if let Ok(about) = std::fs::metadata(&path) {
        all.update(about.dev().to_le_bytes());
        all.update(about.ino().to_le_bytes());
    }
    let hash: [u8; 32] = all.finalize().into();
    let mut first = [0_u8; 16];
    first.copy_from_slice(&hash[..16]);
    Ulid::from_bytes(first).to_string()
}

/// A new ULID: time and chance.
pub fn fresh(now: Timestamp) -> String {
    let random = Ulid::generate().random();
    Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), random).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_state_directory_is_another_place() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(place(one.path()), place(one.path()));
        assert_ne!(place(one.path()), place(other.path()));
    }

    #[test]
    fn it_stays_the_same_and_a_lost_or_spoilt_one_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("identity"), dir.path().join("other"));
        let first = read_or_make(&path, dir.path()).unwrap();
        assert_eq!(read_or_make(&path, Path::new("/elsewhere")).unwrap(), first);
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!(read_or_make(&path, dir.path()).unwrap(), first);
        assert_ne!(read_or_make(&other, Path::new("/elsewhere")).unwrap(), first);
    }
}
