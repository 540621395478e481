//! Who this controller is: a ULID that stays with its state directory, and with its spec folder when that is lost.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use argus_core::time::Timestamp;
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::journal::quarantine::{self, Quarantined};
use crate::state_dir::write_private;

/// The identity that a file holds: a ULID with its checksum.
fn of(text: &str) -> Option<&str> {
    let mut words = text.split_ascii_whitespace();
    let (identity, sum) = (words.next()?, words.next());
    let whole = Ulid::from_string(identity).is_ok() && sum.is_none_or(|sum| sum == checksum(identity));
    (whole && words.next().is_none()).then_some(identity)
}

/// The identity that is kept here, for those who only look; `None` where none can be read.
pub fn peek(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    of(&text).map(str::to_owned)
}

/// Reads the identity, or makes one that was not there or is not as it was written; then what was put aside comes with it.
///
/// `told`: what the journal says it was. Without that it is made from the host and the spec folder, so that a lost state
/// directory does not turn what this folder made into another controller's.
pub fn read_or_make(
    path: &Path,
    specs: &Path,
    told: Option<&str>,
    now: Timestamp,
) -> (String, Option<Quarantined>) {
    let mut aside = quarantine::unless_file(path, now);
    match std::fs::read(path) {
        Ok(bytes) => {
            if let Some(identity) = std::str::from_utf8(&bytes).ok().and_then(of) {
                return (identity.to_owned(), None);
            }
            aside = Some(quarantine::set(path, "it is not as it was written", now));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => aside = Some(quarantine::set(path, &error.to_string(), now)),
    }
    let told = told.filter(|told| Ulid::from_string(told).is_ok());
    let identity = told.map_or_else(|| derived(specs), str::to_owned);
    let line = format!("{identity} {}\n", checksum(&identity));
    if let Err(error) = write_private(path, line.as_bytes()) {
        tracing::warn!(path = %path.display(), %error, "cannot keep the identity; it is made anew at the next start");
    }
    (identity, aside)
}

fn checksum(identity: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(identity.as_bytes()).into();
    format!("{:08x}", u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
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
    fn who_only_looks_reads_the_same_as_who_made_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        assert_eq!(peek(&path), None, "to look makes nothing");
        let (made, _) = read_or_make(&path, dir.path(), None, Timestamp(1_000));
        assert_eq!(peek(&path), Some(made));
        std::fs::write(&path, "garbage").unwrap();
        assert_eq!(peek(&path), None);
    }

    #[test]
    fn it_stays_the_same_and_a_lost_or_spoilt_one_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other_path) = (dir.path().join("identity"), dir.path().join("other"));
        let made = |path: &Path, specs: &Path, told| read_or_make(path, specs, told, Timestamp(1_000)).0;
        let first = made(&path, dir.path(), None);
        let elsewhere = Path::new("/elsewhere");
        assert_eq!(made(&path, elsewhere, Some("01ARZ3NDEKTSV4RRFFQ69G5FAV")), first);
        let written = std::fs::read_to_string(&path).unwrap();
        let other = written.replacen(&first[25..26], if first.ends_with('0') { "1" } else { "0" }, 1);
        for spoilt in ["garbage", "", &other, &written[..20], &format!("{written} more")] {
            std::fs::write(&path, spoilt).unwrap();
            assert_eq!(made(&path, dir.path(), None), first, "{spoilt}");
            std::fs::write(&path, spoilt).unwrap();
            let (told, aside) = read_or_make(&path, elsewhere, Some(&first), Timestamp(2_000));
            assert_eq!(
                (told.as_str(), aside.is_some()),
                (first.as_str(), true),
                "{spoilt}"
            );
        }
        std::fs::write(&path, &first).unwrap();
        assert_eq!(made(&path, elsewhere, None), first, "without its checksum");
        assert_ne!(made(&other_path, elsewhere, None), first);
    }
}
