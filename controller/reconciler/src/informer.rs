//! The eyes' ledger: applies sightings to the world and publishes it whenever they pause.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::observed::{Container, Object, Sighting, World};
use argus_core::time::Timestamp;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::metrics::Tally;

/// Sightings that are taken in without a pause before the world is published; a storm shall not hide what came first.
const BATCH: usize = 1_024;

/// Follows the engine until it is stopped. Returns before that only when the backend breaks its word and ends the watch.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    worlds: watch::Sender<Arc<World>>,
    tally: Tally,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut sightings = backend.watch();
    let mut world = World::default();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return,
            first = sightings.next() => first,
        };
        let Some(first) = first else { return };
        count(&world, &first, &tally, clock.now());
        let mut worth = take(&mut world, first);
        // Everything that is there already makes one new world, and so does the whole of the first list.
        for _ in 0..BATCH {
            match sightings.next().now_or_never() {
                Some(Some(next)) => {
                    count(&world, &next, &tally, clock.now());
                    worth |= take(&mut world, next);
                }
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
        | Sighting::OutOfMemory(..)
        | Sighting::Retagged(_)
        | Sighting::Deaf => false,
    };
    world.apply(sighting);
    worth
}

/// What a sighting says of the seeing itself, before it is applied.
fn count(world: &World, sighting: &Sighting, tally: &Tally, now: Timestamp) {
    match sighting {
        Sighting::ListDone => tally.lists.inc(),
        Sighting::Lost(..) if world.reachable() => tally.gaps.inc(),
        Sighting::Deaf => tally.gaps.inc(),
        // What the first list shows, and the first one after a loss, nobody was there to see.
        Sighting::Saw(Object::Container(seen)) if world.last_complete() > 0 => {
            let known = world.container(&seen.id).and_then(|known| turned_at(known));
            if let Some(at) = turned_at(seen).filter(|at| Some(*at) > known) {
                tally.lag_seconds.observe(now.since(at).as_secs_f64());
            }
        }
        Sighting::Saw(_)
        | Sighting::Lost(..)
        | Sighting::ListBegan
        | Sighting::Gone(_)
        | Sighting::Stopped(..)
        | Sighting::OutOfMemory(..)
        | Sighting::Retagged(_)
        | Sighting::Away { .. }
        | Sighting::Found(_) => {}
    }
}

/// When a container began to run, or ended, last.
fn turned_at(container: &Container) -> Option<Timestamp> {
    let facts = container.facts.as_ref()?;
    facts.started_at.max(facts.finished_at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_core::labels::{ENVIRONMENT, MANAGED};
    use argus_core::observed::{Config, ContainerState, Facts, Network};
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

    #[test]
    fn what_was_not_seen_and_what_was_seen_late_is_counted() {
        let (tally, mut world) = (Tally::default(), World::default());
        let mut see = |sighting: Sighting, now: i64| {
            count(&world, &sighting, &tally, Timestamp(now));
            take(&mut world, sighting);
        };
        let ran = |from: i64, to: Option<i64>| {
            let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop")];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            Sighting::Saw(Object::Container(Arc::new(Container {
                id: argus_core::ident::ContainerId::new("a").unwrap(),
                name: "a".to_owned(),
                labels: labels.into_iter().collect(),
                image: "a".to_owned(),
                state: ContainerState::Running,
                created_at: Timestamp(1),
                networks: BTreeMap::new(),
                facts: Some(Facts {
                    started_at: Some(Timestamp(from)),
                    finished_at: to.map(Timestamp),
                    exit_code: 0,
                    oom_killed: false,
                    error: String::new(),
                    image_id: None,
                    health: None,
                    config: Config::default(),
                }),
                stopped_by_other: None,
                oom_at: None,
            })))
        };
        let lost = || Sighting::Lost(Timestamp(1), "gone".to_owned());
        see(lost(), 1);
        assert_eq!(tally.gaps.get(), 0, "there was nothing to lose yet");
        for sighting in [
            Sighting::Found(Timestamp(1)),
            Sighting::ListBegan,
            ran(1_000, None),
            Sighting::ListDone,
        ] {
            see(sighting, 9_000);
        }
        assert_eq!(tally.lag_seconds.get_sample_count(), 0, "it began unseen");
        see(ran(1_000, None), 10_000);
        see(ran(1_000, Some(11_000)), 11_250);
        assert_eq!(tally.lag_seconds.get_sample_count(), 1);
        assert!((tally.lag_seconds.get_sample_sum() - 0.25).abs() < 1e-9);
        see(lost(), 12_000);
        see(lost(), 13_000);
        assert_eq!(
            (tally.gaps.get(), tally.lists.get()),
            (1, 1),
            "one loss is one gap"
        );
        see(Sighting::Deaf, 14_000);
        assert_eq!(tally.gaps.get(), 2);
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
        let run = run(backend, worlds, Tally::default(), Clock::system(), stop.clone());
        tokio::join!(run, story);
    }
}
