//! One controller per state directory: an exclusive lock that names its holder.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::state_dir::StateDir;

/// Who holds the lock, as the lock file tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockHolder {
    /// Process id, in the holder's own pid namespace.
    pub pid: u32,
    /// Host (or container) name.
    pub host: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// This run of the controller.
    pub run: String,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it (`LEASE_HELD`, exit code 7).
    #[error("`{}` is held by process {} on `{}` since {}", .path.display(), .holder.pid, .holder.host, .holder.since)]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who has it; empty fields where the file did not tell.
        holder: LockHolder,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock `{}`", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The lock, held until this is dropped (or the process ends, however it ends).
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path` without waiting.
    pub fn take(path: &Path, me: &LockHolder) -> Result<Self, LockError> {
        let io = |source| LockError::Io {
            path: path.to_path_buf(),
            source,
        };
        // A file that is replaced between open and lock makes another round; nobody replaces it that often.
        for _ in 0..16 {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held {
                        path: path.to_path_buf(),
                        holder: read(&mut file),
                    });
                }
                Err(error) => return Err(io(error.into())),
            }
            let lock = Self {
                file,
                path: path.to_path_buf(),
            };
            if lock.is_at_its_path() {
                if let Err(error) = lock.sign(me) {
                    // On a full disk, for one: it is held all the same.
                    tracing::warn!(path = %path.display(), %error, "cannot write who holds the lock");
                }
                return Ok(lock);
            }
        }
        Err(io(io::Error::other("the lock file is replaced all the time")))
    }

    /// The locked file is still the one that others would lock.
    pub fn is_at_its_path(&self) -> bool {
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(mine), Ok(there)) => (mine.dev(), mine.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    fn sign(&self, me: &LockHolder) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(me)?)?;
        file.sync_data()
    }
}

/// The task that looks after the lock.
pub const LOCK: &str = "lock";
/// How often the lock is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Returns when the file at its path is another one, for then another controller may hold that.
pub(crate) async fn watch(lock: Arc<Lock>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
        if !lock.is_at_its_path() {
            tracing::error!("the lock file was removed or replaced, another controller may be at work");
            return;
        }
    }
}

impl Lock {
    /// What became of the lock that is not at its path any more.
    pub(crate) fn lost(&self, state: &StateDir) -> String {
        let root = state.root().display();
        if !state.root().exists() {
            format!("state directory `{root}` was removed while the controller ran")
        } else if self.path.exists() {
            format!("state directory `{root}` was replaced while the controller ran")
        } else {
            let path = self.path.display();
            format!("`{path}` was removed while the controller ran, another one could have taken it")
        }
    }
}

/// The name of this host, for people.
pub fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname");
    kernel
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "?".to_owned())
}

fn read(file: &mut File) -> LockHolder {
    let mut text = String::new();
    // The holder may be in the middle of signing: then it stays unnamed.
    let _unreadable_is_unnamed = file.take(4_096).read_to_string(&mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(pid: u32) -> LockHolder {
        LockHolder {
            pid,
            host: "here".to_owned(),
            since: "now".to_owned(),
            run: "R".to_owned(),
        }
    }

    #[test]
    fn the_second_is_told_who_holds_it_and_gets_it_after_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path, &me(1)).unwrap();
        match Lock::take(&path, &me(2)).unwrap_err() {
            LockError::Held { holder, .. } => assert_eq!(holder, me(1)),
            LockError::Io { .. } => panic!("not an I/O error"),
        }
        drop(first);
        drop(Lock::take(&path, &me(2)).unwrap());
    }

    #[test]
    fn a_removed_lock_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path, &me(1)).unwrap();
        assert!(first.is_at_its_path());
        std::fs::remove_file(&path).unwrap();
        assert!(!first.is_at_its_path());
        let second = Lock::take(&path, &me(2)).unwrap();
        assert!(second.is_at_its_path() && !first.is_at_its_path());
    }
}
