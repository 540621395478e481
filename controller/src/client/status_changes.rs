//! Changes of statuses: from the channel of the controller in this process, else from notifications about its files.

use std::sync::Arc;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_reconciler::clock;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};

use super::{ControllerClient, Transport};
use crate::process::exit::Failure;
use crate::view::Statuses;

/// Interval of checks while the folder of the status files does not exist.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of checks for file systems without notifications.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Source of changes. It misses no change after its creation.
pub(crate) struct StatusChanges {
    client: ControllerClient,
    source: Source,
}

enum Source {
    Channel(watch::Receiver<Arc<Statuses>>),
    Files {
        changed: Arc<Notify>,
        watcher: Option<RecommendedWatcher>,
    },
}

impl ControllerClient {
    /// Returns the changes of statuses from now on.
    pub(crate) fn watch_statuses(&self) -> StatusChanges {
        let source = match &self.transport {
            Transport::InProcess(parts) => {
                let mut statuses = parts.statuses.clone();
                statuses.mark_unchanged();
                Source::Channel(statuses)
            }
            Transport::Remote => Source::Files {
                changed: Arc::default(),
                watcher: None,
            },
        };
        let mut changes = StatusChanges {
            client: self.clone(),
            source,
        };
        changes.start_watcher();
        changes
    }

    /// Waits until `check` returns a value for the current statuses. `None` after `limit`.
    pub(crate) async fn wait_for<T>(
        &self,
        limit: Duration,
        mut check: impl FnMut(&Statuses) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let deadline = clock::now() + limit;
        let mut changes = self.watch_statuses();
        loop {
            let found = check(self.statuses().await?.as_ref());
            if found.is_some() {
                return Ok(found);
            }
            if !changes.changed_before(deadline).await {
                return Ok(None);
            }
        }
    }
}

impl StatusChanges {
    /// Waits for a change. False after `deadline`.
    pub(crate) async fn changed_before(&mut self, deadline: Timestamp) -> bool {
        let left = deadline.since(clock::now());
        tokio::time::timeout(left, self.changed()).await.is_ok()
    }

    /// Waits for a change. Without notifications, it returns at intervals.
    pub(crate) async fn changed(&mut self) {
        match &mut self.source {
            Source::Channel(statuses) => {
                if statuses.changed().await.is_err() {
                    // The controller has stopped, so nothing changes any more.
                    std::future::pending::<()>().await;
                }
            }
            Source::Files { changed, watcher } => {
                let interval = if watcher.is_some() {
                    CHECK_INTERVAL
                } else {
                    RETRY_INTERVAL
                };
                // Both outcomes lead to a check.
                drop(tokio::time::timeout(interval, changed.notified()).await);
                self.start_watcher();
            }
        }
    }

    /// Watches the folder of the status files, once it exists.
    fn start_watcher(&mut self) {
        let Source::Files { changed, watcher } = &mut self.source else {
            return;
        };
        if watcher.is_some() {
            return;
        }
        let notify = changed.clone();
        let report = move |event: notify::Result<Event>| {
            // Reads of the files are events, too, also those of this process.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                notify.notify_one();
            }
        };
        let started = notify::recommended_watcher(report).and_then(|mut watcher| {
            watcher.watch(&self.client.state.environments(), RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        *watcher = started.ok();
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::EnvironmentStatus;

    use super::*;
    use crate::settings::{Options, Settings, SpecOptions};

    #[tokio::test]
    async fn writes_are_changes_and_reads_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            state: Some(dir.path().to_path_buf()),
            ..Options::default()
        };
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        let client = ControllerClient::remote(settings);
        let folder = client.state.environments();
        std::fs::create_dir_all(&folder).unwrap();
        let mut changes = client.watch_statuses();
        let text = serde_json::to_vec(&EnvironmentStatus::default()).unwrap();
        std::fs::write(folder.join("shop.json"), text).unwrap();
        changes.changed().await;
        // The write consists of several events.
        let soon = || clock::now() + CHECK_INTERVAL / 10;
        while changes.changed_before(soon()).await {}
        client.read_statuses().unwrap();
        assert!(!changes.changed_before(soon()).await);
    }
}
