//! The file of a mock: read when it is another than before.

use std::fmt::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use argus_crds::Diagnostic;
use argus_crds::error::{Code, Reason};
use argus_mock::{CompiledMock, MockConfig};
use sha2::{Digest, Sha256};

use super::recordings;
use crate::exit::{Failure, chain};

/// A document has at most 1 MiB, and as a text in JSON it may grow by its quotes and line ends.
const LARGEST: u64 = argus_crds::mock::config::LARGEST as u64;

pub(super) struct ConfigReloader {
    file: PathBuf,
    seen: Option<Print>,
}

/// What tells one file at a path from the next.
#[derive(PartialEq, Eq)]
struct Print {
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
    /// Where recordings lie.
    pub(super) folder: PathBuf,
}

/// Why a file cannot be served.
#[derive(Debug)]
pub(super) struct Refused {
    file: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Unreadable(std::io::Error),
    NoConfig(String),
    Complaints(Vec<Diagnostic>),
}

impl ConfigReloader {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, seen: None }
    }

    /// Whether the file is another than the one read last.
    pub(super) fn changed(&self) -> bool {
        self.print() != self.seen
    }

    /// Reads the file as it is now.
    pub(super) async fn read(&mut self) -> Result<Loaded, Refused> {
        // Before its content: what is written while it is read is seen at the next look.
        self.seen = self.print();
        let refused = |why| Refused {
            file: self.file.clone(),
            why,
        };
        if self.seen.as_ref().is_some_and(|print| print.size > LARGEST) {
            return Err(refused(Why::NoConfig(format!(
                "it is larger than {} MiB",
                LARGEST >> 20
            ))));
        }
        let bytes = tokio::fs::read(&self.file)
            .await
            .map_err(|error| refused(Why::Unreadable(error)))?;
        let config = MockConfig::parse(&bytes).map_err(|why| refused(Why::NoConfig(why)))?;
        let recordings = recordings::read(&self.folder(&config)).await;
        let (served, diagnostics) = CompiledMock::new(&config, recordings);
        let Some(served) = served else {
            return Err(refused(Why::Complaints(diagnostics)));
        };
        for diagnostic in diagnostics {
            tracing::warn!(path = diagnostic.path, "{}", diagnostic.message);
        }
        let mut hash = String::with_capacity(64);
        for byte in Sha256::digest(&bytes) {
            // A text takes all that is written to it.
            let _infallible = write!(hash, "{byte:02x}");
        }
        let port = config.mock.container_port.unwrap_or(config.mock.port);
        let folder = self.folder(&config);
        Ok(Loaded {
            served,
            name: config.name,
            port,
            hash,
            folder,
        })
    }

    /// Where the recordings lie: a relative path is relative to the file.
    fn folder(&self, config: &MockConfig) -> PathBuf {
        let beside = self.file.parent().unwrap_or(Path::new("."));
        beside.join(&config.mock.recordings_dir)
    }

    fn print(&self) -> Option<Print> {
        // Some microseconds; handing it to another thread costs ten times that, and every answer waits for it.
        let found = std::fs::metadata(&self.file).ok()?;
        // The time of the change cannot be set from outside, unlike that of the content.
        Some(Print {
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Unreadable(error) => write!(f, "cannot read `{}`: {}", self.file.display(), chain(error)),
            Why::NoConfig(why) => write!(f, "`{}` is no mock: {why}", self.file.display()),
            Why::Complaints(diagnostics) => {
                let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
                let said: Vec<String> = errors
                    .map(|error| format!("`{}`: {}", error.path, error.message))
                    .collect();
                f.write_str(&said.join("; "))
            }
        }
    }
}

impl Refused {
    pub(super) fn into_failure(self) -> Failure {
        match &self.why {
            Why::Unreadable(_) => Failure::missing(Reason::Unreadable, self.to_string()),
            Why::NoConfig(_) | Why::Complaints(_) => Failure::of(Code::SpecInvalid, self.to_string()),
        }
    }
}
