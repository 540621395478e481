//! Informer: applies watch events to the [`Store`] and publishes it when the events pause.
//!
//! It is the only writer of the store. It also counts the gaps of the event stream, measures the lag of the
//! watch, and records the responses of the engine that Argus cannot read.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::delays::Delays;
use argus_core::journal::Event;
use argus_core::observed::{Container, Object, Store, WatchEvent};
use argus_core::time::Timestamp;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::journal::Journal;

/// Maximum number of events that are applied without a publication. It bounds the delay during an event burst.
const MAX_BATCH_EVENTS: usize = 1_024;

/// Watches the engine until `stop` is cancelled. An earlier return means that the backend ended its watch, which
/// its contract forbids.
pub async fn run<B: Backend>(
    backend: Arc<B>,
    stores: watch::Sender<Arc<Store>>,
    delays: Delays,
    journal: Journal,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut events = backend.watch();
    let mut store = Store::new(delays);
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return,
            first = events.next() => first,
        };
        let Some(first) = first else { return };
        let mut is_urgent = apply_event(&mut store, first, &journal, clock.now());
        // Events that are already available are published together, and so is the whole first list.
        for _ in 0..MAX_BATCH_EVENTS {
            match events.next().now_or_never() {
                Some(Some(next)) => is_urgent |= apply_event(&mut store, next, &journal, clock.now()),
                Some(None) => return,
                None => break,
            }
        }
        // A partial first list would look like an engine on which most objects are missing.
        if is_urgent || store.last_complete() > 0 {
            stores.send_replace(Arc::new(store.clone()));
        }
    }
}

/// Counts and applies one event. Returns true if it must be published even before the first list is complete.
fn apply_event(store: &mut Store, event: WatchEvent, journal: &Journal, now: Timestamp) -> bool {
    let metrics = journal.metrics();
    let is_urgent = match &event {
        WatchEvent::Disconnected(_, reason) => {
            tracing::warn!(reason, "engine does not answer");
            if store.is_reachable() {
                metrics.gaps.inc();
            }
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
        WatchEvent::EventsLost(_, reason) => {
            tracing::warn!(reason, "engine delivers no events, only lists show changes");
            metrics.gaps.inc();
            true
        }
        WatchEvent::Unreadable(what) => {
            tracing::warn!("{what}");
            metrics.unreadable.inc();
            journal.record_event(Event::WatchDegraded((**what).clone()));
            true
        }
        WatchEvent::EventsRestored => {
            tracing::info!("engine delivers events again");
            true
        }
        WatchEvent::InitDone => {
            metrics.lists.inc();
            false
        }
        WatchEvent::StreamGap => {
            metrics.gaps.inc();
            false
        }
        // The start of a container that a list reports was not observed live, so it has no lag.
        WatchEvent::Apply(Object::Container(container)) if store.last_complete() > 0 => {
            let known = store
                .container(&container.id)
                .and_then(|known| last_transition(known));
            if let Some(at) = last_transition(container).filter(|at| Some(*at) > known) {
                metrics.lag_seconds.observe(now.since(at).as_secs_f64());
            }
            false
        }
        WatchEvent::Init
        | WatchEvent::Apply(_)
        | WatchEvent::Delete(_)
        | WatchEvent::StoppedByOther(..)
        | WatchEvent::OutOfMemory(..)
        | WatchEvent::MemoryHigh(..)
        | WatchEvent::ImageRetagged(_)
        | WatchEvent::Released(_)
        | WatchEvent::EngineStarted(_) => false,
    };
    store.apply(event);
    is_urgent
}

/// Time of the last start or end of a container.
fn last_transition(container: &Container) -> Option<Timestamp> {
    let info = container.inspect.as_ref()?;
    info.started_at.max(info.finished_at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_core::labels::{ENVIRONMENT, MANAGED};
    use argus_core::observed::Unreadable;
    use argus_core::observed::{ContainerState, InspectInfo, Network};
    use futures::channel::mpsc::unbounded;

    use super::*;
    use crate::fake_backend::FakeBackend;
    use crate::journal::handle;
    use crate::journal::log_file::JournalContents;

    fn open_journal(dir: &tempfile::TempDir) -> (Journal, handle::WriterTask, JournalContents) {
        let path = dir.path().join("journal.jsonl");
        let (journal, writer, contents, _) =
            handle::open(&path, "RUN", Clock::system(), handle::DEFAULT_MAX_SIZE);
        (journal, writer, contents)
    }

    #[tokio::test]
    async fn unreadable_response_is_recorded_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, writer, _) = open_journal(&dir);
        let what = Unreadable {
            what: "an event".to_owned(),
            version: "99.1".to_owned(),
            text: "{}".to_owned(),
            ..Unreadable::default()
        };
        let mut store = Store::default();
        let event = WatchEvent::Unreadable(Box::new(what.clone()));
        let is_urgent = apply_event(&mut store, event, &journal, Timestamp(1));
        assert!(is_urgent, "it is published immediately");
        assert_eq!(journal.metrics().unreadable.get(), 1);
        assert_eq!(store.unreadable(), Some(&what));
        store.apply(WatchEvent::Init);
        assert!(store.unreadable().is_some(), "the list is not complete");
        store.apply(WatchEvent::InitDone);
        assert_eq!(store.unreadable(), None);
        drop(writer.closer());
        writer.run().await;
        let text = std::fs::read_to_string(dir.path().join("journal.jsonl")).unwrap();
        assert!(
            text.contains(
                r#""event":"watchDegraded","what":"an event","version":"99.1","cause":"","text":"{}""#
            ),
            "{text}"
        );
    }

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
            is_broken: false,
        })))
    }

    #[test]
    fn missed_and_late_events_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _writer, _) = open_journal(&dir);
        let (metrics, mut store) = (journal.metrics(), Store::default());
        let mut observe = |event: WatchEvent, now: i64| {
            apply_event(&mut store, event, &journal, Timestamp(now));
        };
        let container_ran = |from: i64, to: Option<i64>| {
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
                    ..InspectInfo::default()
                }),
                stopped_by_other: None,
                oom_at: None,
            })))
        };
        let lost = || WatchEvent::Disconnected(Timestamp(1), "gone".to_owned());
        observe(lost(), 1);
        assert_eq!(metrics.gaps.get(), 0, "there was nothing to lose yet");
        for event in [
            WatchEvent::Connected(Timestamp(1)),
            WatchEvent::Init,
            container_ran(1_000, None),
            WatchEvent::InitDone,
        ] {
            observe(event, 9_000);
        }
        assert_eq!(
            metrics.lag_seconds.get_sample_count(),
            0,
            "its start was not observed"
        );
        observe(container_ran(1_000, None), 10_000);
        observe(container_ran(1_000, Some(11_000)), 11_250);
        assert_eq!(metrics.lag_seconds.get_sample_count(), 1);
        assert!((metrics.lag_seconds.get_sample_sum() - 0.25).abs() < 1e-9);
        observe(lost(), 12_000);
        observe(lost(), 13_000);
        assert_eq!(
            (metrics.gaps.get(), metrics.lists.get()),
            (1, 1),
            "one loss is one gap"
        );
        observe(WatchEvent::StreamGap, 14_000);
        assert_eq!(metrics.gaps.get(), 2);
    }

    #[tokio::test]
    async fn partial_first_list_is_not_published() {
        let (sender, events) = unbounded();
        let (stores, mut container) = watch::channel(Arc::<Store>::default());
        let stop = CancellationToken::new();
        let script = async {
            for event in [
                WatchEvent::Connected(Timestamp(1)),
                WatchEvent::Init,
                network("a"),
            ] {
                sender.unbounded_send(event).unwrap();
                // Yields often enough for the informer to find a pause after each event.
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            }
            assert!(
                container.borrow_and_update().is_reachable(),
                "a connected engine is published immediately"
            );
            sender.unbounded_send(network("b")).unwrap();
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            assert!(!container.has_changed().unwrap());
            sender.unbounded_send(WatchEvent::InitDone).unwrap();
            container.changed().await.unwrap();
            let store = container.borrow_and_update().clone();
            assert!(store.is_synced());
            for id in ["a", "b"] {
                assert!(
                    store
                        .network(&argus_core::ident::NetworkId::new(id).unwrap())
                        .is_some()
                );
            }
            stop.cancel();
        };
        let backend = Arc::new(FakeBackend::with_events(events.boxed()));
        let dir = tempfile::tempdir().unwrap();
        let (journal, _writer, _) = open_journal(&dir);
        let run = run(
            backend,
            stores,
            Delays::default(),
            journal,
            Clock::system(),
            stop.clone(),
        );
        tokio::join!(run, script);
    }
}
