//! What all connections of a mock server share: the mock as it is now, its journal, and chance.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::time::Timestamp;
use argus_mock::journal::Journal;
use argus_mock::{CompiledMock, Moment};
use argus_reconciler::clock;
use tokio::sync::watch;

use super::reload::{ConfigReloader, Loaded, Refused};
use crate::exit::Failure;

pub(super) struct Shared {
    reloader: tokio::sync::Mutex<ConfigReloader>,
    current: watch::Sender<Arc<Current>>,
    journal: Mutex<Journal>,
    seed: RandomState,
    drawn: AtomicU64,
    name: String,
    port: u16,
}

/// The mock as it is now.
pub(super) struct Current {
    pub(super) served: Arc<CompiledMock>,
    /// Where recordings lie.
    pub(super) folder: PathBuf,
    /// The SHA-256 of the file it was made from.
    pub(super) hash: String,
    pub(super) since: Timestamp,
    /// Why a newer file is not served.
    pub(super) problem: Option<String>,
}

impl Shared {
    /// Reads the file for the first time; without a mock there is nothing to serve.
    pub(super) async fn load(file: PathBuf) -> Result<Self, Failure> {
        let mut keeper = ConfigReloader::new(file);
        let loaded = keeper.read().await.map_err(Refused::into_failure)?;
        let (name, port) = (loaded.name.clone(), loaded.port);
        let (current, _) = watch::channel(Arc::new(Current::new(loaded, clock::now())));
        Ok(Self {
            reloader: tokio::sync::Mutex::new(keeper),
            current,
            journal: Mutex::default(),
            seed: RandomState::new(),
            drawn: AtomicU64::new(0),
            name,
            port,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The port on which the file's first reading wanted it.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn current(&self) -> Arc<Current> {
        self.current.borrow().clone()
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one request is told of the world.
    pub(super) fn moment(&self) -> Moment {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let half = |which: u8| u128::from(self.seed.hash_one((which, number)));
        Moment {
            now: clock::now(),
            chance: (half(0) << 64) | half(1),
        }
    }

    /// Serves what is in the file now, where it changed (or where somebody asked) and can be served.
    pub(super) async fn look(&self, asked: bool) {
        let mut keeper = self.reloader.lock().await;
        if !asked && !keeper.changed() {
            return;
        }
        match keeper.read().await {
            Ok(loaded) => {
                if loaded.hash != self.current().hash {
                    tracing::info!(mock = loaded.name, hash = loaded.hash, "serving a new file");
                }
                self.current
                    .send_replace(Arc::new(Current::new(loaded, clock::now())));
            }
            Err(refused) => {
                tracing::error!(
                    reason = refused.to_string(),
                    "the file cannot be served, the last good one still is"
                );
                let current = self.current();
                self.current.send_replace(Arc::new(Current {
                    served: current.served.clone(),
                    folder: current.folder.clone(),
                    hash: current.hash.clone(),
                    since: current.since,
                    problem: Some(refused.to_string()),
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
