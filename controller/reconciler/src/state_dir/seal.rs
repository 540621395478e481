//! Seals of status files. A repository can contain a folder `.argus`, so a status file in a project counts only if it ends with a hash of
//! its content and of a key in the private state, which the repository cannot know.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_core::hex::hex;
use argus_core::quoting::PathText as _;
use sha2::{Digest, Sha256};

use super::{StateDir, write_private};
use crate::state_file;

/// Last field of a sealed file, before its seal.
const FIELD: &str = ",\n  \"seal\": \"";
/// Text after the seal.
const END: &str = "\"\n}\n";
/// End of a file without a seal.
const OPEN_END: &str = "\n}\n";
/// Length of the key in bytes.
const KEY: usize = 32;
/// Maximum size of the file of the key in bytes.
const MAX_KEY: u64 = 1024;

impl StateDir {
    /// Reads a status file of at most `limit` bytes, without its seal. One in a project that no controller of this user wrote counts as
    /// missing.
    ///
    /// # Errors
    /// The file cannot be read, or does not count.
    pub fn read_status(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = state_file::read(path, limit)?;
        if !self.has_outer_private() {
            return Ok(bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let content = content_of(&text);
        let is_ours = || {
            let key = self.read_seal_key().ok()?;
            let content = content.as_ref()?;
            Some(text == seal(content, self.sealed_name(path), &key))
        };
        if !self.is_of_another_user() && is_ours() != Some(true) {
            let why = format!("no controller of this user wrote `{}`", path.shown());
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
        if let Some(content) = content {
            bytes = content.into_bytes();
        }
        Ok(bytes)
    }

    /// Returns true if the public state is that of another user, whose private state this user cannot find. Root finds all of them. A link
    /// belongs to its own author, not to the owner of its target.
    pub fn is_of_another_user(&self) -> bool {
        let user = rustix::process::geteuid();
        let owner = self.root().symlink_metadata().map(|found| found.uid());
        self.has_outer_private() && !user.is_root() && owner.is_ok_and(|owner| owner != user.as_raw())
    }

    /// Returns the content of a status file with its seal. Only files in a project have one.
    pub(super) fn sealed(&self, path: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let is_status = path.extension().is_some_and(|ending| ending == "json");
        if !self.has_outer_private() || !is_status {
            return Ok(bytes.to_vec());
        }
        let key = match self.read_seal_key() {
            Err(error) if error.kind() == ErrorKind::NotFound => self.create_seal_key()?,
            read => read?,
        };
        let content = String::from_utf8_lossy(bytes);
        Ok(seal(&content, self.sealed_name(path), &key).into_bytes())
    }

    /// Reads the key. One of another length, such as an empty file of a full disk, counts as missing: others could guess it.
    fn read_seal_key(&self) -> io::Result<Vec<u8>> {
        let key = state_file::read(&self.seal_key(), MAX_KEY)?;
        if key.len() == 2 * KEY {
            Ok(key)
        } else {
            Err(io::Error::from(ErrorKind::NotFound))
        }
    }

    /// Path of a status file in the folder of the public state. An environment can have the name `controller`.
    fn sealed_name<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(self.root()).unwrap_or(path)
    }

    fn create_seal_key(&self) -> io::Result<Vec<u8>> {
        let mut random = [0_u8; KEY];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let key = hex(&random).into_bytes();
        write_private(&self.seal_key(), &key)?;
        Ok(key)
    }

    fn seal_key(&self) -> PathBuf {
        self.private().join("seal")
    }
}

/// Content of a file without its seal. `None` if it has none.
fn content_of(text: &str) -> Option<String> {
    let (content, seal) = text.rsplit_once(FIELD)?;
    let is_last = seal
        .strip_suffix(END)
        .is_some_and(|seal| seal.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_last.then(|| format!("{content}{OPEN_END}"))
}

/// Returns the content with its seal, which is valid for the name of the file only. Text in another form stays as it is.
fn seal(content: &str, name: &Path, key: &[u8]) -> String {
    let Some(open) = content.strip_suffix(OPEN_END) else {
        return content.to_owned();
    };
    let name = name.as_os_str().as_encoded_bytes();
    let hash_of = |parts: &[&[u8]]| {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize()
    };
    // The key is hashed twice, so that a known hash cannot be continued.
    let inner = hash_of(&[key, name, open.as_bytes()]);
    format!("{open}{FIELD}{}{END}", hex(&hash_of(&[key, &inner])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: u64 = 1 << 20;
    const STATUS: &str = "{\n  \"phase\": \"Ready\",\n  \"asOf\": \"now\"\n}\n";

    fn project() -> (tempfile::TempDir, StateDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::with_private(folder.path().join(".argus"), folder.path().join("outside"));
        for path in [state.environments(), state.private()] {
            fs::create_dir_all(path).unwrap();
        }
        let path = state.environments().join("shop.json");
        (folder, state, path)
    }

    #[test]
    fn status_files_count_only_with_the_seal_of_this_user() {
        let (_folder, state, path) = project();
        let read = |path: &Path| state.read_status(path, LIMIT).map_err(|error| error.kind());
        fs::write(&path, STATUS).unwrap();
        assert_eq!(read(&path), Err(ErrorKind::NotFound), "it is in the repository");
        state.write_status(&path, STATUS.as_bytes()).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&written).unwrap()["seal"].is_string());
        assert_eq!(read(&path).unwrap(), STATUS.as_bytes());
        let other = state.environments().join("other.json");
        fs::copy(&path, &other).unwrap();
        assert_eq!(read(&other), Err(ErrorKind::NotFound), "it has another name");
        let of_controller = state.environments().join("controller.json");
        state.write_status(&of_controller, STATUS.as_bytes()).unwrap();
        fs::rename(of_controller, state.controller_json()).unwrap();
        assert_eq!(
            read(&state.controller_json()),
            Err(ErrorKind::NotFound),
            "it is the status of an environment"
        );
        fs::write(&path, written.replace("Ready", "Other")).unwrap();
        assert_eq!(read(&path), Err(ErrorKind::NotFound), "its content changed");
        fs::write(&path, &written).unwrap();
        fs::remove_file(state.seal_key()).unwrap();
        assert_eq!(read(&path), Err(ErrorKind::NotFound), "the private state is gone");
        fs::write(state.seal_key(), "another key").unwrap();
        assert_eq!(read(&path), Err(ErrorKind::NotFound), "another key sealed it");
        // Root finds the private state of every user.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(state.root(), Some(1234), None).unwrap();
            assert_eq!(
                read(&path),
                Err(ErrorKind::NotFound),
                "the folder is that of a user"
            );
        }
    }

    #[test]
    fn empty_key_seals_nothing() {
        let (_folder, state, path) = project();
        fs::write(state.seal_key(), "").unwrap();
        let forged = seal(STATUS, state.sealed_name(&path), b"");
        fs::write(&path, forged).unwrap();
        assert!(state.read_status(&path, LIMIT).is_err());
        state.write_status(&path, STATUS.as_bytes()).unwrap();
        assert_eq!(state.read_status(&path, LIMIT).unwrap(), STATUS.as_bytes());
    }

    #[test]
    fn link_has_the_owner_of_its_author() {
        let (_folder, state, _) = project();
        fs::remove_dir_all(state.root()).unwrap();
        std::os::unix::fs::symlink("/proc/1", state.root()).unwrap();
        assert!(!state.is_of_another_user());
    }

    #[test]
    fn files_of_a_directory_with_all_its_state_need_no_seal() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::at(folder.path());
        let path = state.controller_json();
        state.write_status(&path, STATUS.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), STATUS);
        assert_eq!(state.read_status(&path, LIMIT).unwrap(), STATUS.as_bytes());
    }
}
