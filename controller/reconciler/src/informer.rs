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
        Sighting::Away { tries, .. } => {
            tracing::debug!(tries, "engine does not answer yet");
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
        | Sighting::Stopped(..)
        | Sighting::OutOfMemory(..) => false,
    };
    world.apply(sighting);
    worth
}

#[cfg(test)]
mod tests {
    use argus_core::labels::{ENVIRONMENT, MANAGED};
    use argus_core::observed::{Network, Object};
    use argus_core::time::Timestamp;
    use futures::channel::mpsc::unbounded;

    use super::*;
    use crate::fake::Fake;

    fn network(id: &str) -> Sighting {
        let id = argus_core::ident::NetworkId::new(id).unwrap();
        let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop")];
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Sighting::Saw(Object::Network(Arc::new(Network {
            name: id.to_string(),
            id,
            labels,
            created_at: Timestamp(1),
        })))
    }

    #[tokio::test]
    async fn half_of_the_first_list_is_not_shown() {
        let (sight, sightings) = unbounded();
        let (worlds, mut seen) = watch::channel(Arc::<World>::default());
        let stop = CancellationToken::new();
        let story = async {
            for sighting in [Sighting::Found(Timestamp(1)), Sighting::ListBegan, network("a")] {
                sight.unbounded_send(sighting).unwrap();
                // Every task that can run does, so that the informer meets a pause after each sighting.
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            }
            assert!(
                seen.borrow_and_update().reachable(),
                "an engine that answers is told at once"
            );
            sight.unbounded_send(network("b")).unwrap();
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            assert!(!seen.has_changed().unwrap());
            sight.unbounded_send(Sighting::ListDone).unwrap();
            seen.changed().await.unwrap();
            let world = seen.borrow_and_update().clone();
            assert!(world.synced());
            for id in ["a", "b"] {
                assert!(
                    world
                        .network(&argus_core::ident::NetworkId::new(id).unwrap())
                        .is_some()
                );
            }
            stop.cancel();
        };
        let backend = Arc::new(Fake::seeing(sightings.boxed()));
        tokio::join!(run(backend, worlds, stop.clone()), story);
    }
}
