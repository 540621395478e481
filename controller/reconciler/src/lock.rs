//! Lock of the state directory: an exclusive file lock with the name of its holder. It ensures one controller per
//! directory.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::quoting::PathText as _;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::state_file;

/// Maximum size of the lock file.
const MAX_BYTES: u64 = 4_096;

/// Holder of the lock, as written in the lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockHolder {
    /// Process id, in the holder's own pid namespace.
    pub pid: u32,
    /// Name of the host or container.
    pub host: String,
    /// Time of the lock (RFC 3339).
    pub since: String,
    /// Id of the controller's run.
    pub run: String,
}

impl LockHolder {
    /// Reads the last holder of the lock at `path`. `None` if the file is unreadable or names none.
    pub fn read(path: &Path) -> Option<Self> {
        let text = state_file::read_text(path, MAX_BYTES).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Returns true if a process holds the lock at `path`. The check takes a shared lock for a moment.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Reason why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it. Reported as `LEASE_HELD` (exit code 7), the code for every refusal because another
    /// controller is active; the lock is the local form of the lease.
    #[error("`{}` is held by process {} on `{}` since {}", .path.shown(), .holder.pid, .holder.host, .holder.since)]
    Held {
        /// Path of the lock file.
        path: PathBuf,
        /// Holder; its fields are empty if the file is unreadable.
        holder: LockHolder,
    },
    /// The file cannot be opened, locked or written.
    #[error("cannot lock `{}`", .path.shown())]
    Io {
        /// Path of the lock file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// Lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path` without waiting.
    pub fn acquire(path: &Path, own_holder: &LockHolder) -> Result<Self, LockError> {
        let io = |source| LockError::Io {
            path: path.to_path_buf(),
            source,
        };
        // A file that is replaced between open and lock needs another attempt; 16 replacements in a row do not
        // happen.
        for _ in 0..16 {
            let mut file = state_file::open_or_create(path, 0o600).map_err(io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held {
                        path: path.to_path_buf(),
                        holder: read_holder(&mut file),
                    });
                }
                Err(error) => return Err(io(error.into())),
            }
            let lock = Self {
                file,
                path: path.to_path_buf(),
            };
            if lock.is_at_its_path() {
                if let Err(error) = lock.write_holder(own_holder) {
                    // For example on a full disk: the lock is held nevertheless.
                    tracing::warn!(path = %path.shown(), %error, "cannot write the holder of the lock");
                }
                return Ok(lock);
            }
        }
        Err(io(io::Error::other("the lock file was replaced 16 times")))
    }

    /// Reports whether the locked file is still the one at its path.
    pub fn is_at_its_path(&self) -> bool {
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(own), Ok(current)) => (own.dev(), own.ino()) == (current.dev(), current.ino()),
            _ => false,
        }
    }

    fn write_holder(&self, own_holder: &LockHolder) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(own_holder)?)?;
        file.sync_data()
    }
}

impl Drop for Lock {
    /// Releases the lock also for a child process that inherited the file and did not reach its `exec` yet.
    fn drop(&mut self) {
        flock(&self.file, FlockOperation::Unlock).unwrap_or_default();
    }
}

/// Name of the task that watches the lock.
pub const LOCK_TASK: &str = "lock";
/// Time between two checks of the lock file.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Returns when the file at its path was replaced, because another controller may hold the new one.
pub(crate) async fn watch(lock: Arc<Lock>, stop: CancellationToken) {
    while stop
        .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
        .await
        .is_some()
    {
        if !lock.is_at_its_path() {
            tracing::error!("the lock file was removed or replaced, another controller may be running");
            return;
        }
    }
}

impl Lock {
    /// Describes the loss of a lock whose file was removed or replaced.
    pub(crate) fn describe_loss(&self, root: &Path) -> String {
        let shown = root.shown();
        if !root.exists() {
            format!("state directory `{shown}` was removed while the controller ran")
        } else if self.path.exists() {
            format!("state directory `{shown}` was replaced while the controller ran")
        } else {
            let path = self.path.shown();
            format!("`{path}` was removed while the controller ran, another controller could have locked it")
        }
    }
}

/// Name of this host, for people.
pub fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname");
    kernel
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "?".to_owned())
}

fn read_holder(file: &mut File) -> LockHolder {
    let mut text = String::new();
    // The holder may be writing its name right now: then the name stays empty.
    let _unreadable_is_unnamed = file.take(MAX_BYTES).read_to_string(&mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_holder(pid: u32) -> LockHolder {
        LockHolder {
            pid,
            host: "here".to_owned(),
            since: "now".to_owned(),
            run: "R".to_owned(),
        }
    }

    #[test]
    fn second_controller_gets_the_holder_and_then_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::acquire(&path, &own_holder(1)).unwrap();
        match Lock::acquire(&path, &own_holder(2)).unwrap_err() {
            LockError::Held { holder, .. } => assert_eq!(holder, own_holder(1)),
            LockError::Io { .. } => panic!("not an I/O error"),
        }
        assert_eq!(LockHolder::read(&path), Some(own_holder(1)));
        drop(first);
        drop(Lock::acquire(&path, &own_holder(2)).unwrap());
    }

    #[test]
    fn inherited_file_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::acquire(&path, &own_holder(1)).unwrap();
        // As in a child process between `fork` and `exec`.
        let inherited = first.file.try_clone().unwrap();
        drop(first);
        Lock::acquire(&path, &own_holder(2)).unwrap();
        drop(inherited);
    }

    #[test]
    fn removed_lock_file_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::acquire(&path, &own_holder(1)).unwrap();
        assert!(first.is_at_its_path());
        std::fs::remove_file(&path).unwrap();
        assert!(!first.is_at_its_path());
        let second = Lock::acquire(&path, &own_holder(2)).unwrap();
        assert!(second.is_at_its_path() && !first.is_at_its_path());
    }
}
