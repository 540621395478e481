//! The eyes' ledger: applies sightings to the world and publishes it whenever they pause.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::observed::{Sighting, World};
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Sightings that are taken in without a pause before the world is published; a storm shall not hide what came first.
const BATCH: usize = 1_024;

/// Follows the engine until it is stopped. Returns before that only when the backend breaks its word and ends the watch.
pub async fn run<B: Backend>(backend: Arc<B>, worlds: watch::Sender<Arc<World>>, stop: CancellationToken) {
    let mut sightings = backend.watch();
    let mut world = World::default();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return,
            first = sightings.next() => first,
        };
        let Some(first) = first else { return };
        let mut worth = take(&mut world, first);
        // Everything that is there already makes one new world, and so does the whole of the first list.
        for _ in 0..BATCH {
            match sightings.next().now_or_never() {
                Some(Some(next)) => worth |= take(&mut world, next),
                Some(None) => return,
                None => break,
            }
        }
        // Half of the first list looks like an engine on which most things are missing.
        if worth || world.last_complete() > 0 {
            worlds.send_replace(Arc::new(world.clone()));
        }
    }
}

/// Applies one sighting; tells whether it is to be known even before the first list is complete.
fn take(world: &mut World, sighting: Sighting) -> bool {
    let worth = match &sighting {
        Sighting::Lost(_, reason) => {
            tracing::warn!(reason, "engine does not answer");
            true
        }
        Sighting::Found(_) => {
            tracing::info!("engine answers");
            true
        }
        Sighting::ListBegan
        | Sighting::ListDone
        | Sighting::Saw(_)
        | Sighting::Gone(_)
        | Sighting::Stopped(..) => false,
    };
    world.apply(sighting);
    worth
}
