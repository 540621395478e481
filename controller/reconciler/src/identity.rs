//! Identity of the controller: a ULID that belongs to its state directory, and is derived from the specs folder if
//! that file is lost.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::quarantine::{self, Quarantined};
use crate::state_dir::write_private;
use crate::state_file;

/// Maximum size of an identity file in bytes.
const MAX_BYTES: u64 = 4 * 1024;

/// Parses the content of an identity file: a ULID with its checksum.
fn parse(text: &str) -> Option<&str> {
    let mut words = text.split_ascii_whitespace();
    let (identity, sum) = (words.next()?, words.next());
    let is_valid = Ulid::from_string(identity).is_ok() && sum.is_none_or(|sum| sum == checksum(identity));
    (is_valid && words.next().is_none()).then_some(identity)
}

/// Returns the stored identity without a change of the file; `None` without a valid one.
pub fn peek(path: &Path) -> Option<String> {
    let text = state_file::read_text(path, MAX_BYTES).ok()?;
    parse(&text).map(str::to_owned)
}

/// Reads the identity, or creates one if the file is missing or corrupt. A corrupt file is quarantined and returned
/// as well.
///
/// `recorded` is the identity in the journal. Without it, the new identity is derived from the host and the specs
/// folder. A lost state directory then does not turn the resources of this folder into those of another controller.
pub fn read_or_create(
    path: &Path,
    specs: &Path,
    recorded: Option<&str>,
    now: Timestamp,
) -> (String, Option<Quarantined>) {
    let mut quarantined = quarantine::move_unless_file(path, now);
    match state_file::read(path, MAX_BYTES) {
        Ok(bytes) => {
            if let Some(identity) = std::str::from_utf8(&bytes).ok().and_then(parse) {
                return (identity.to_owned(), None);
            }
            quarantined = Some(quarantine::move_file(path, "its checksum does not match", now));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => quarantined = Some(quarantine::move_file(path, &error.to_string(), now)),
    }
    let recorded = recorded.filter(|recorded| Ulid::from_string(recorded).is_ok());
    let identity = recorded.map_or_else(|| derived(specs), str::to_owned);
    let line = format!("{identity} {}\n", checksum(&identity));
    if let Err(error) = write_private(path, line.as_bytes()) {
        tracing::warn!(path = %path.shown(), %error, "cannot write the identity; the next start creates it again");
    }
    (identity, quarantined)
}

fn checksum(identity: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(identity.as_bytes()).into();
    format!("{:08x}", u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

fn derived(specs: &Path) -> String {
    let folder = specs.canonicalize().unwrap_or_else(|_| specs.to_path_buf());
    let host = rustix::system::uname();
    let mut hasher = Sha256::new();
    hasher.update(host.nodename().to_bytes());
    hasher.update([0]);
    hasher.update(folder.as_os_str().as_encoded_bytes());
    ulid_of(hasher)
}

fn ulid_of(hasher: Sha256) -> String {
    let mut first = [0_u8; 16];
    first.copy_from_slice(&hasher.finalize()[..16]);
    Ulid::from_bytes(first).to_string()
}

/// Identifier of a state directory, unique over all hosts. The holder of its lock is the only controller of the
/// directory.
pub fn state_dir_id(root: &Path) -> String {
    let path = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut hasher = Sha256::new();
    hasher.update(rustix::system::uname().nodename().to_bytes());
    // Hosts may share a name, and copies of a directory may share a path.
    hasher.update(std::fs::read("/etc/machine-id").unwrap_or_default());
    hasher.update([0]);
    hasher.update(path.as_os_str().as_encoded_bytes());
    if let Ok(about) = std::fs::metadata(&path) {
        hasher.update(about.dev().to_le_bytes());
        hasher.update(about.ino().to_le_bytes());
    }
    ulid_of(hasher)
}

/// New ULID from the time and random bits.
pub fn new_ulid(now: Timestamp) -> String {
    let random = Ulid::generate().random();
    Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), random).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_state_directory_has_another_identifier() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(state_dir_id(one.path()), state_dir_id(one.path()));
        assert_ne!(state_dir_id(one.path()), state_dir_id(other.path()));
    }

    #[test]
    fn peek_reads_the_identity_that_was_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        assert_eq!(peek(&path), None, "a peek creates nothing");
        let (made, _) = read_or_create(&path, dir.path(), None, Timestamp(1_000));
        assert_eq!(peek(&path), Some(made));
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!(peek(&path), None);
    }

    #[test]
    fn identity_is_stable_and_recovers_from_loss_and_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other_path) = (dir.path().join("identity"), dir.path().join("other"));
        let made =
            |path: &Path, specs: &Path, recorded| read_or_create(path, specs, recorded, Timestamp(1_000)).0;
        let first = made(&path, dir.path(), None);
        let elsewhere = Path::new("/elsewhere");
        assert_eq!(made(&path, elsewhere, Some("01ARZ3NDEKTSV4RRFFQ69G5FAV")), first);
        let written = std::fs::read_to_string(&path).unwrap();
        let other = written.replacen(&first[25..26], if first.ends_with('0') { "1" } else { "0" }, 1);
        for spoilt in ["garbage", "", &other, &written[..20], &format!("{written} more")] {
            std::fs::write(&path, spoilt).unwrap();
            assert_eq!(made(&path, dir.path(), None), first, "{spoilt}");
            std::fs::write(&path, spoilt).unwrap();
            let (recorded, quarantined) = read_or_create(&path, elsewhere, Some(&first), Timestamp(2_000));
            assert_eq!(
                (recorded.as_str(), quarantined.is_some()),
                (first.as_str(), true),
                "{spoilt}"
            );
        }
        std::fs::write(&path, &first).unwrap();
        assert_eq!(made(&path, elsewhere, None), first, "without its checksum");
        assert_ne!(made(&other_path, elsewhere, None), first);
    }
}
