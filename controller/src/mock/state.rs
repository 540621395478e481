//! State that all connections of a mock server share: the current mock, its request journal, and the random seed.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::time::Timestamp;
use argus_mock::journal::Journal;
use argus_mock::{CompiledMock, Moment};
use argus_reconciler::clock;
use tokio::sync::watch;

use super::reload::{ConfigReloader, LoadError, Loaded};
use crate::process::exit::Failure;

pub(super) struct Shared {
    reloader: tokio::sync::Mutex<ConfigReloader>,
    current: watch::Sender<Arc<Current>>,
    journal: Mutex<Journal>,
    seed: RandomState,
    request_number: AtomicU64,
    name: String,
    port: u16,
}

/// The current mock.
pub(super) struct Current {
    pub(super) served: Arc<CompiledMock>,
    /// Folder of the recordings.
    pub(super) folder: PathBuf,
    /// SHA-256 of its file.
    pub(super) hash: String,
    pub(super) since: Timestamp,
    /// Error of a newer file that cannot be served.
    pub(super) problem: Option<String>,
}

impl Shared {
    /// Reads the file for the first time; an invalid file is an error.
    pub(super) async fn load(file: PathBuf) -> Result<Self, Failure> {
        let mut reloader = ConfigReloader::new(file);
        let loaded = reloader.read().await.map_err(LoadError::into_failure)?;
        let (name, port) = (loaded.name.clone(), loaded.port);
        let (current, _) = watch::channel(Arc::new(Current::new(loaded, clock::now())));
        Ok(Self {
            reloader: tokio::sync::Mutex::new(reloader),
            current,
            journal: Mutex::default(),
            seed: RandomState::new(),
            request_number: AtomicU64::new(0),
            name,
            port,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the port of the first version of the file.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn current(&self) -> Arc<Current> {
        self.current.borrow().clone()
    }

    pub(super) fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time and the random number for one request.
    pub(super) fn current_moment(&self) -> Moment {
        let number = self.request_number.fetch_add(1, Ordering::Relaxed);
        let half = |part: u8| u128::from(self.seed.hash_one((part, number)));
        Moment {
            now: clock::now(),
            random: (half(0) << 64) | half(1),
        }
    }

    /// Loads the file if it changed or if `force` is set; keeps the current mock if the file is invalid.
    pub(super) async fn reload(&self, force: bool) {
        let mut reloader = self.reloader.lock().await;
        if !force && !reloader.has_changed() {
            return;
        }
        match reloader.read().await {
            Ok(loaded) => {
                if loaded.hash != self.current().hash {
                    tracing::info!(mock = loaded.name, hash = loaded.hash, "serving a new file");
                }
                self.current
                    .send_replace(Arc::new(Current::new(loaded, clock::now())));
            }
            Err(error) => {
                tracing::error!(
                    reason = error.to_string(),
                    "cannot serve the file; the last valid one stays in use"
                );
                let current = self.current();
                self.current.send_replace(Arc::new(Current {
                    served: current.served.clone(),
                    folder: current.folder.clone(),
                    hash: current.hash.clone(),
                    since: current.since,
                    problem: Some(error.to_string()),
                }));
            }
        }
    }
}

impl Current {
    fn new(loaded: Loaded, now: Timestamp) -> Self {
        Self {
            served: Arc::new(loaded.served),
            folder: loaded.folder,
            hash: loaded.hash,
            since: now,
            problem: None,
        }
    }
}
