//! Who this controller is: a ULID that stays with its state directory.

use std::io;
use std::path::Path;

use argus_core::time::Timestamp;
use ulid::Ulid;

use crate::state::write_private;

/// Reads the identity, or makes one that was not there or was not readable as one.
pub fn read_or_make(path: &Path, now: Timestamp) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) if Ulid::from_string(text.trim()).is_ok() => Ok(text.trim().to_owned()),
        Ok(_) => {
            tracing::warn!(path = %path.display(), "identity is not a ULID, a new one is made");
            make(path, now)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path, now),
        Err(error) => Err(error),
    }
}

fn make(path: &Path, now: Timestamp) -> io::Result<String> {
    let identity = fresh(now);
    write_private(path, identity.as_bytes())?;
    Ok(identity)
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
    fn it_stays_the_same_and_is_made_anew_when_it_is_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        let first = read_or_make(&path, Timestamp(1_000)).unwrap();
        assert_eq!(read_or_make(&path, Timestamp(9_000)).unwrap(), first);
        std::fs::write(&path, "garbage").unwrap();
        assert_ne!(read_or_make(&path, Timestamp(9_000)).unwrap(), first);
    }
}
