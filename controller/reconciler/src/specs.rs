//! Specs task: scans the specs folder and publishes the [`SpecRegistry`].
//!
//! A scan ([`SpecLoader::scan_once`]) lists the [`source`] ([`scan`]), parses and admits changed files once
//! ([`evaluation`]), debounces them ([`debounce`]) and enters the admission into the registry ([`registry`]). File notifications ([`folder_watcher`]),
//! sync requests ([`sync_barrier`]) and a timer trigger scans. Notifications cover the specs folder and the other inputs of its files
//! ([`inputs`]), such as build contexts.
//!
//! A file takes effect immediately after its writer has closed it or renamed it into place, and its other inputs after a quiet time
//! ([`file_writes`]).

use std::sync::Arc;
use std::time::Duration;

use argus_core::time::Timestamp;
use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::clock::Clock;

pub mod admission;
pub mod build_context;
mod build_delay;
mod conflicts;
mod context_rules;
pub mod debounce;
pub mod digest;
pub mod env_vars;
pub mod evaluation;
pub mod file_writes;
mod filesystem;
pub mod folder_watcher;
mod git_index;
pub mod git_paths;
mod grace;
mod inputs;
pub mod loader;
pub mod location;
mod mounted_files;
mod nested_git;
pub mod parsed_file;
pub mod registry;
pub mod scan;
mod settings;
pub mod source;
mod symlinks;
pub mod sync_barrier;
mod translated_file;

use debounce::{QUIET_TIME, REQUESTED_QUIET_TIME};
use folder_watcher::{FolderWatcher, Triggers};
pub use loader::{PersistedSpecs, SpecLoader};
pub use registry::{FileEntry, FileState, SpecRegistry};
pub use settings::SpecLoaderSettings;
use sync_barrier::SyncResponder;

/// Minimum time between a completely written file and the scan: files that are written together are scanned together.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// A scan after a notification waits this many times as long as the last scan took, counted from its start.
const PAUSE_PER_SCAN: u32 = 10;
/// Maximum of this pause.
const MAX_PAUSE: Duration = Duration::from_secs(3);
/// Bytes of all build contexts that a scan reads, so that large contexts delay no other file.
const PART_BYTES: u64 = 64 << 20;
/// Maximum delay of a scan after a notification.
const MAX_SCAN_DELAY: Duration = Duration::from_secs(1);
/// Scan interval while not every folder can be watched.
const UNWATCHED_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Output channels of the specs task.
#[derive(Debug, Clone)]
pub struct SpecOutputs {
    /// State to persist.
    pub persisted_specs: watch::Sender<PersistedSpecs>,
    /// Registry, published when it changes.
    pub registries: watch::Sender<Arc<SpecRegistry>>,
    /// Notified when a file has changed, before the scan that reads it.
    pub noticed: Arc<Notify>,
}

/// Scans the folder until `stop` is cancelled. Publishes the registry when it changes, and the state to persist. A scan every
/// `interval` finds the changes that notifications miss.
pub async fn run(
    rules: SpecLoaderSettings,
    outputs: SpecOutputs,
    mut responder: SyncResponder,
    interval: Duration,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut watcher = FolderWatcher::new(rules.source.clone(), clock);
    let triggers = watcher.triggers();
    let loader = SpecLoader::new(rules, outputs.persisted_specs.borrow().clone());
    let mut loader = loader
        .with_writes(watcher.writes())
        .in_parts(PART_BYTES, stop.clone());
    let writes = watcher.writes();
    let (mut served, mut is_waiting) = (0, false);
    loop {
        let generation = responder.begin();
        // Requests during a wait do not end the delays again: the wait would never end while a context changes all the time.
        if generation > std::mem::replace(&mut served, generation)
            && !std::mem::replace(&mut is_waiting, true)
        {
            loader.request();
        }
        let started = clock.now();
        // This scan sees what caused the notifications so far.
        let _: Option<()> = triggers.changed.notified().now_or_never();
        // After a panic, the supervisor restarts the task with the persisted state.
        let (returned, result) = blocking::run(move || {
            let result = loader.scan_once(clock.now());
            (loader, result)
        })
        .await;
        loader = returned;
        if stop.is_cancelled() {
            return;
        }
        match &result.folders {
            Some(folders) => watcher.watch_folders(folders, result.inputs),
            None => watcher.unwatch_all(),
        }
        loader.registry.watch_limit = watcher.limit().map(str::to_owned);
        outputs.publish(&loader);
        if !loader.has_unconfirmed_files() {
            responder.completed(generation);
            is_waiting = false;
        }
        let tick = if watcher.is_complete() {
            interval
        } else {
            UNWATCHED_SCAN_INTERVAL
        };
        let longest_pause = (clock.now().since(started) * PAUSE_PER_SCAN).min(MAX_PAUSE);
        let pause = longest_pause.clamp(MIN_PAUSE, QUIET_TIME);
        let next = clock.now() + tick;
        let next = result.next_at.map_or(next, |at| at.min(next));
        let change = async {
            tokio::select! {
                () = triggers.written.notified() => {
                    outputs.noticed.notify_one();
                    clock.sleep_until(Some(clock.now() + pause)).await;
                }
                () = triggers.changed.notified() => {
                    outputs.noticed.notify_one();
                    let earliest = (started + longest_pause).min(next);
                    wait_until_quiet(&triggers, pause, (earliest, next), clock, &stop).await;
                }
                () = clock.sleep_until(Some(next)) => {}
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = change => {}
            () = responder.requested() => clock.sleep_until(Some(writes.quiet_at(REQUESTED_QUIET_TIME))).await,
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

/// Waits for [`QUIET_TIME`] without a notification, not before `earliest` and at the latest until `next`. Files that change all the time
/// therefore cause few scans of a large context. A completely written file ends the wait after `pause`.
async fn wait_until_quiet(
    triggers: &Triggers,
    pause: Duration,
    (earliest, next): (Timestamp, Timestamp),
    clock: Clock,
    stop: &CancellationToken,
) {
    let latest = (clock.now() + MAX_SCAN_DELAY).min(next.max(clock.now() + QUIET_TIME));
    let latest = latest.max(earliest);
    loop {
        let until = (clock.now() + QUIET_TIME).min(latest).max(earliest);
        tokio::select! {
            () = stop.cancelled() => return,
            () = triggers.written.notified() => return clock.sleep_until(Some(clock.now() + pause)).await,
            () = triggers.changed.notified() => {}
            () = clock.sleep_until(Some(until)) => return,
        }
        if clock.now() >= latest {
            return;
        }
    }
}

impl SpecOutputs {
    /// Channels with a notification of their own.
    pub fn new(
        persisted_specs: watch::Sender<PersistedSpecs>,
        registries: watch::Sender<Arc<SpecRegistry>>,
    ) -> Self {
        Self {
            persisted_specs,
            registries,
            noticed: Arc::default(),
        }
    }

    fn publish(&self, loader: &SpecLoader) {
        self.registries.send_if_modified(|registry| {
            let differs = **registry != *loader.registry();
            if differs {
                *registry = Arc::new(loader.registry().clone());
            }
            differs
        });
        let current = loader.persisted_specs();
        self.persisted_specs.send_if_modified(|persisted_specs| {
            let differs = *persisted_specs != current;
            if differs {
                *persisted_specs = current;
            }
            differs
        });
    }
}

#[cfg(test)]
#[path = "specs/pickup_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "specs/prefix_tests.rs"]
mod prefix_tests;

#[cfg(test)]
#[path = "specs/build_delay_tests.rs"]
mod build_delay_tests;

#[cfg(test)]
#[path = "specs/whole_file_tests.rs"]
mod whole_file_tests;
