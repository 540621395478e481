//! The eyes' ledger: applies sightings to the world and publishes it whenever they pause.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::observed::{Container, Object, Store, WatchEvent};
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
    stores: watch::Sender<Arc<Store>>,
    tally: Tally,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut events = backend.watch();
    let mut store = Store::default();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return,
            first = events.next() => first,
        };
        let Some(first) = first else { return };
        count(&store, &first, &tally, clock.now());
        let mut worth = take(&mut store, first);
        // Everything that is there already makes one new world, and so does the whole of the first list.
        for _ in 0..BATCH {
            match events.next().now_or_never() {
                Some(Some(next)) => {
                    count(&store, &next, &tally, clock.now());
                    worth |= take(&mut store, next);
                }
                Some(None) => return,
                None => break,
            }
        }
        // Half of the first list looks like an engine on which most things are missing.
        if worth || store.last_complete() > 0 {
            stores.send_replace(Arc::new(store.clone()));
        }
    }
}

/// Applies one sighting; tells whether it is to be known even before the first list is complete.
fn take(store: &mut Store, event: WatchEvent) -> bool {
    let worth = match &event {
        WatchEvent::Disconnected(_, reason) => {
            tracing::warn!(reason, "engine does not answer");
            true
        }
        WatchEvent::Retrying { tries, .. } => {
            tracing::debug!(tries, "engine does not answer yet");
            true
        }
        WatchEvent::Connected(_) => {
            tracing::info!("engine answers");
            true
        }
        WatchEvent::Init
        | WatchEvent::InitDone
        | WatchEvent::Apply(_)
        | WatchEvent::Delete(_)
        | WatchEvent::Stopped(..)
        | WatchEvent::OutOfMemory(..)
        | WatchEvent::ImageMoved(_)
        | WatchEvent::StreamStalled => false,
    };
    store.apply(event);
    worth
}

/// What a sighting says of the seeing itself, before it is applied.
fn count(store: &Store, event: &WatchEvent, tally: &Tally, now: Timestamp) {
    match event {
        WatchEvent::InitDone => tally.lists.inc(),
        WatchEvent::Disconnected(..) if store.reachable() => tally.gaps.inc(),
        WatchEvent::StreamStalled => tally.gaps.inc(),
        // What the first list shows, and the first one after a loss, nobody was there to see.
        WatchEvent::Apply(Object::Container(seen)) if store.last_complete() > 0 => {
            let known = store.container(&seen.id).and_then(|known| turned_at(known));
            if let Some(at) = turned_at(seen).filter(|at| Some(*at) > known) {
                tally.lag_seconds.observe(now.since(at).as_secs_f64());
            }
        }
        WatchEvent::Apply(_)
        | WatchEvent::Disconnected(..)
        | WatchEvent::Init
        | WatchEvent::Delete(_)
        | WatchEvent::Stopped(..)
        | WatchEvent::OutOfMemory(..)
        | WatchEvent::ImageMoved(_)
        | WatchEvent::Retrying { .. }
        | WatchEvent::Connected(_) => {}
    }
}

/// When a container began to run, or ended, last.
fn turned_at(container: &Container) -> Option<Timestamp> {
    let facts = container.inspect.as_ref()?;
    facts.started_at.max(facts.finished_at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_core::labels::{ENVIRONMENT, MANAGED};
    use argus_core::observed::{Config, ContainerState, InspectInfo, Network};
    use futures::channel::mpsc::unbounded;

    use super::*;
    use crate::fake_backend::FakeBackend;

    fn network(id: &str) -> WatchEvent {
        let id = argus_core::ident::NetworkId::new(id).unwrap();
        let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop")];
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        WatchEvent::Apply(Object::Network(Arc::new(Network {
            name: id.to_string(),
            id,
            labels,
            created_at: Timestamp(1),
        })))
    }

    #[test]
    fn what_was_not_seen_and_what_was_seen_late_is_counted() {
        let (tally, mut store) = (Tally::default(), Store::default());
        let mut see = |event: WatchEvent, now: i64| {
            count(&store, &event, &tally, Timestamp(now));
            take(&mut store, event);
        };
        let ran = |from: i64, to: Option<i64>| {
            let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop")];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            WatchEvent::Apply(Object::Container(Arc::new(Container {
                id: argus_core::ident::ContainerId::new("a").unwrap(),
                name: "a".to_owned(),
                labels: labels.into_iter().collect(),
                image: "a".to_owned(),
                state: ContainerState::Running,
                created_at: Timestamp(1),
                networks: BTreeMap::new(),
                inspect: Some(InspectInfo {
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
        let lost = || WatchEvent::Disconnected(Timestamp(1), "gone".to_owned());
        see(lost(), 1);
        assert_eq!(tally.gaps.get(), 0, "there was nothing to lose yet");
        for event in [
            WatchEvent::Connected(Timestamp(1)),
            WatchEvent::Init,
            ran(1_000, None),
            WatchEvent::InitDone,
        ] {
            see(event, 9_000);
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
        see(WatchEvent::StreamStalled, 14_000);
        assert_eq!(tally.gaps.get(), 2);
    }

    #[tokio::test]
    async fn half_of_the_first_list_is_not_shown() {
        let (sight, events) = unbounded();
        let (stores, mut seen) = watch::channel(Arc::<Store>::default());
        let stop = CancellationToken::new();
        let story = async {
            for event in [
                WatchEvent::Connected(Timestamp(1)),
                WatchEvent::Init,
                network("a"),
            ] {
                sight.unbounded_send(event).unwrap();
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
            sight.unbounded_send(WatchEvent::InitDone).unwrap();
            seen.changed().await.unwrap();
            let store = seen.borrow_and_update().clone();
            assert!(store.synced());
            for id in ["a", "b"] {
                assert!(
                    store
                        .network(&argus_core::ident::NetworkId::new(id).unwrap())
                        .is_some()
                );
            }
            stop.cancel();
        };
        let backend = Arc::new(FakeBackend::seeing(events.boxed()));
        let run = run(backend, stores, Tally::default(), Clock::system(), stop.clone());
        tokio::join!(run, story);
    }
}
