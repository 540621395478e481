//! Reload of a mock's file after a change.
//! Invariant 23: it loses no request, and an invalid file changes nothing.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::real;
use argus_core::desired::RECORDINGS;
use argus_core::hex::hex;
use argus_core::quoting::PathText as _;
use argus_crds::Diagnostic;
use argus_crds::error::{Code, Reason};
use argus_mock::{CompiledMock, MockConfig};
use sha2::{Digest, Sha256};

use super::recordings;
use crate::process::exit::{Failure, format_chain};

/// Maximum size of the file, in bytes: documents of at most 1 MiB, which grow in JSON by escaped quotes and line ends.
const MAX_FILE: u64 = argus_crds::mock::config::MAX_CONFIG_BYTES as u64;

pub(super) struct ConfigReloader {
    file: PathBuf,
    last_read: Option<Fingerprint>,
}

/// Identity of a file version at the path.
#[derive(PartialEq, Eq)]
struct Fingerprint {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// A file that was read and can be served.
pub(super) struct Loaded {
    pub(super) served: CompiledMock,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) hash: String,
    /// Folder of the recordings.
    pub(super) folder: PathBuf,
}

/// Error of a file that cannot be served.
#[derive(Debug)]
pub(super) struct LoadError {
    file: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Unreadable(std::io::Error),
    NotAConfig(String),
    Invalid(Vec<Diagnostic>),
}

impl ConfigReloader {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            last_read: None,
        }
    }

    /// True if the file changed since the last read.
    pub(super) fn has_changed(&self) -> bool {
        self.read_fingerprint() != self.last_read
    }

    /// Reads the current file.
    pub(super) async fn read(&mut self) -> Result<Loaded, LoadError> {
        // Taken before the content, so that a write during the read is noticed at the next check.
        self.last_read = self.read_fingerprint();
        let load_error = |cause| LoadError {
            file: self.file.clone(),
            cause,
        };
        if self
            .last_read
            .as_ref()
            .is_some_and(|fingerprint| fingerprint.size > MAX_FILE)
        {
            return Err(load_error(Cause::NotAConfig(format!(
                "it exceeds {} MiB",
                MAX_FILE >> 20
            ))));
        }
        let bytes = tokio::fs::read(&self.file)
            .await
            .map_err(|error| load_error(Cause::Unreadable(error)))?;
        let config = MockConfig::parse(&bytes).map_err(|cause| load_error(Cause::NotAConfig(cause)))?;
        let folder = self
            .recordings_folder(&config)
            .map_err(|diagnostic| load_error(Cause::Invalid(vec![diagnostic])))?;
        let recordings = recordings::read_recordings(&folder).await;
        let (served, diagnostics) = CompiledMock::new(&config, recordings);
        let Some(served) = served else {
            return Err(load_error(Cause::Invalid(diagnostics)));
        };
        for diagnostic in diagnostics {
            tracing::warn!(path = diagnostic.path, "{}", diagnostic.message);
        }
        let port = config.mock.container_port.unwrap_or(config.mock.port);
        Ok(Loaded {
            served,
            name: config.name,
            port,
            hash: hex(&Sha256::digest(&bytes)),
            folder,
        })
    }

    /// Returns the folder of the recordings: one below that of the file, or the mount of a container.
    fn recordings_folder(&self, config: &MockConfig) -> Result<PathBuf, Diagnostic> {
        let folder = Path::new(&config.mock.recordings_dir);
        let is_below = folder
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below && folder != Path::new(RECORDINGS) {
            let message = format!("`{}` leads out of the folder of the file", folder.shown());
            let hint = "write a path below the folder of the file";
            return Err(Diagnostic::error("mock.recordingsDir", message).hint(hint));
        }
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        Ok(real(file.parent().unwrap_or(Path::new("/"))).join(folder))
    }

    fn read_fingerprint(&self) -> Option<Fingerprint> {
        // This call takes some microseconds. Another thread would cost ten times as much, and every response waits for it.
        let metadata = std::fs::metadata(&self.file).ok()?;
        // The change time cannot be set from outside, unlike the modification time.
        Some(Fingerprint {
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Unreadable(error) => {
                write!(f, "cannot read `{}`: {}", self.file.shown(), format_chain(error))
            }
            Cause::NotAConfig(cause) => write!(f, "`{}` is not a valid mock: {cause}", self.file.shown()),
            Cause::Invalid(diagnostics) => {
                let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
                let messages: Vec<String> = errors
                    .map(|error| format!("`{}`: {}", error.path, error.message))
                    .collect();
                f.write_str(&messages.join("; "))
            }
        }
    }
}

impl LoadError {
    pub(super) fn into_failure(self) -> Failure {
        match &self.cause {
            Cause::Unreadable(_) => Failure::with_reason(Reason::Unreadable, self.to_string()),
            Cause::NotAConfig(_) | Cause::Invalid(_) => {
                Failure::with_code(Code::SpecInvalid, self.to_string())
            }
        }
    }
}
