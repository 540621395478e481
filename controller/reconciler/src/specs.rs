//! The spec folder: the task that keeps the book of environments.

use std::sync::Arc;
use std::time::Duration;

use argus_core::time::Timestamp;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

pub mod admission;
pub mod admitter;
mod clash;
pub mod debounce;
pub mod digest;
pub mod env_vars;
mod incomplete;
mod links;
pub mod loader;
pub mod nudge;
pub mod registry;
pub mod scan;
pub mod surroundings;
pub mod sync_barrier;

pub use loader::{Rules, SpecLoader, StartingPoint};
use nudge::Nudge;
pub use registry::{FileEntry, FileState, SpecRegistry};
use sync_barrier::SyncResponder;

/// So long must it be quiet after a notification before the folder is read.
const QUIET: Duration = Duration::from_millis(150);
/// However unquiet it is, the folder is read after this long.
const LONGEST: Duration = Duration::from_secs(1);
/// The folder is read at least this often, for what notifications miss.
const TICK: Duration = Duration::from_secs(30);
/// The same while not every folder can be watched.
const FAST_TICK: Duration = Duration::from_secs(1);

/// Reads the folder until it is stopped. Publishes the book when it differs, and what is to be kept of it.
pub async fn run(
    rules: Rules,
    kept: watch::Sender<StartingPoint>,
    books: watch::Sender<Arc<SpecRegistry>>,
    mut reader: SyncResponder,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut nudge = Nudge::new(rules.folder.clone());
    let nudged = nudge.changed();
    let mut desk = SpecLoader::new(rules, kept.borrow().clone());
    loop {
        let begun = reader.begin();
        let looked = tokio::task::spawn_blocking(move || {
            let mut desk = desk;
            let round = desk.scan_once(clock.now());
            (desk, round)
        });
        let round = match looked.await {
            Ok((back, round)) => {
                desk = back;
                round
            }
            Err(error) => match error.try_into_panic() {
                // The supervisor makes another desk from what was kept.
                Ok(payload) => std::panic::resume_unwind(payload),
                Err(_) => return,
            },
        };
        match &round.folders {
            Some(folders) => nudge.arm(folders),
            None => nudge.disarm(),
        }
        publish(&desk, &books, &kept);
        if desk.is_settled() {
            reader.settled(begun);
        }
        let tick = if nudge.is_complete() { TICK } else { FAST_TICK };
        let next = clock.now() + tick;
        let next = round.next_at.map_or(next, |at| at.min(next));
        tokio::select! {
            () = stop.cancelled() => return,
            () = nudged.notified() => quiet(&nudged, next, clock, &stop).await,
            () = reader.asked() => {}
            () = clock.sleep_until(Some(next)) => {}
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

/// Waits until no notification came for a while, but not beyond `next`.
async fn quiet(nudged: &Notify, next: Timestamp, clock: Clock, stop: &CancellationToken) {
    let latest = (clock.now() + LONGEST).min(next.max(clock.now() + QUIET));
    loop {
        let until = (clock.now() + QUIET).min(latest);
        tokio::select! {
            () = stop.cancelled() => return,
            () = nudged.notified() => {}
            () = clock.sleep_until(Some(until)) => return,
        }
        if clock.now() >= latest {
            return;
        }
    }
}

fn publish(desk: &SpecLoader, books: &watch::Sender<Arc<SpecRegistry>>, kept: &watch::Sender<StartingPoint>) {
    books.send_if_modified(|book| {
        let differs = **book != *desk.registry();
        if differs {
            *book = Arc::new(desk.registry().clone());
        }
        differs
    });
    let keep = desk.starting_point();
    kept.send_if_modified(|kept| {
        let differs = *kept != keep;
        if differs {
            *kept = keep;
        }
        differs
    });
}

#[cfg(test)]
#[path = "specs/pickup_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "specs/prefix_tests.rs"]
mod prefix_tests;
