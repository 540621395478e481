//! One time of being connected: events, lists and looks side by side until the engine is lost.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::observed::{Object, ObjectId, WatchEvent};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::errors::Error;
use bollard::models::EventMessage;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Interval, Sleep, sleep};

use super::delay_queue::DelayQueue;
use super::events::{self, EventEffect, Events};
use super::last_seen::{InspectNeed, LastSeen};
use super::pace::interval;
use super::queries::{self, Listing};
use super::stall_detector::StallDetector;
use crate::in_flight::Updates;
use crate::memory_peaks;
use crate::work_queue::WorkQueue;
use crate::{Shared, call};

/// More looks at once gain nothing, and older engines do not like them.
const PARALLEL_INSPECTS: usize = 4;
/// Lists that are asked for lie at least so far apart.
const SPACING: Duration = Duration::from_millis(50);
/// After a list that failed while the engine answers pings.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// So many failures of list and ping in a row are a loss.
const FAILURES: u32 = 3;

/// The event of a creation may come before the answer to the call that made it.
const CALLS_REPORT: Duration = Duration::from_millis(100);

/// A call's answer and its last event come at about the same time: whichever is late is waited for this long, so that
/// one look shows both.
const LAST_EVENT: Duration = Duration::from_millis(5);

/// Why a session ended.
#[derive(Debug)]
pub(super) struct SessionError(pub(super) String);

/// What the lister is at.
enum ListState {
    /// Until the next list is due.
    Idle(Pin<Box<Sleep>>),
    /// The list was announced; it is asked for when the consumer has taken that in, so that a list which counts as
    /// begun after some call was also asked for after it.
    Announced,
    /// Since when, and the answer.
    Listing(Timestamp, BoxFuture<'static, Result<Listing, ActionError>>),
    /// The last list failed: does the engine answer at all?
    Pinging(BoxFuture<'static, Result<(), ActionError>>),
}

/// A live connection to an engine.
pub(super) struct Session {
    shared: Arc<Shared>,
    client: bollard::Docker,
    events: Events,
    dirty: WorkQueue,
    inspects: FuturesUnordered<BoxFuture<'static, InspectResult>>,
    backoffs: FuturesUnordered<BoxFuture<'static, ObjectId>>,
    delays: DelayQueue,
    samples: Interval,
    lister: ListState,
    pub(super) listed_at: Option<Timestamp>,
    failures: u32,
    /// Looked at since the list was announced: newer than whatever it shows of them.
    inspected_at: BTreeSet<ObjectId>,
    stall_detector: StallDetector,
}

type InspectResult = (ObjectId, Result<Option<Object>, ActionError>);

enum Wake {
    Event(Option<Result<EventMessage, Error>>),
    Inspected(ObjectId, Result<Option<Object>, ActionError>),
    BackoffOver(ObjectId),
    DelayOver(ObjectId),
    CallsUpdated,
    SampleDue,
    RelistRequested,
    ListDue,
    Listed(Timestamp, Result<Listing, ActionError>),
    Pinged(Result<(), ActionError>),
}

impl Session {
    /// Subscribes, and waits until the engine answers a ping, and a list where none came of the last session: else an engine
    /// that lists nothing would be found and lost again for ever.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        must_list: bool,
        known: &mut LastSeen,
        queue: &mut VecDeque<WatchEvent>,
    ) -> Result<Self, SessionError> {
        let client = shared
            .connection
            .client()
            .map_err(|error| SessionError(error.to_string()))?;
        let subscribed_at = (shared.now)();
        // What was told before is older than the list that comes first.
        drop(shared.in_flight.news());
        let mut session = Self {
            events: events::subscribe(&client, subscribed_at),
            shared: shared.clone(),
            client,
            dirty: WorkQueue::default(),
            inspects: FuturesUnordered::new(),
            backoffs: FuturesUnordered::new(),
            delays: DelayQueue::default(),
            samples: tokio::time::interval(memory_peaks::EVERY),
            lister: ListState::Idle(Box::pin(sleep(Duration::ZERO))),
            listed_at: None,
            failures: 0,
            inspected_at: BTreeSet::new(),
            stall_detector: StallDetector::new(subscribed_at),
        };
        let mut answers = Box::pin(queries::answers(shared, session.client.clone(), must_list));
        loop {
            // The stream is polled first, so the subscription is on its way before the ping.
            tokio::select! {
                biased;
                event = session.events.next() => session.on_event(event, known, queue)?,
                answer = &mut answers => return match answer {
                    Ok(()) => Ok(session),
                    Err(error) => Err(SessionError(error.to_string())),
                },
            }
        }
    }

    /// Waits for the next thing to happen and takes it in.
    pub(super) async fn next_wake(
        &mut self,
        known: &mut LastSeen,
        queue: &mut VecDeque<WatchEvent>,
    ) -> Result<(), SessionError> {
        let in_flight = &self.shared.in_flight;
        let held = |id: &ObjectId| matches!(id, ObjectId::Container(id) if in_flight.holds(id));
        while let Some(id) = self.dirty.next(PARALLEL_INSPECTS, held) {
            self.inspects.push(Box::pin(queries::inspect(
                self.client.clone(),
                self.shared.clone(),
                id,
            )));
        }
        if matches!(self.lister, ListState::Announced) {
            let list = Box::pin(queries::list(self.client.clone()));
            self.lister = ListState::Listing((self.shared.now)(), list);
        }
        match self.next().await {
            Wake::Event(event) => self.on_event(event, known, queue)?,
            Wake::Inspected(id, found) => self.on_inspected(&id, found, known, queue),
            Wake::BackoffOver(id) => self.dirty.backoff_over(&id),
            Wake::DelayOver(id) => self.dirty.mark(id),
            Wake::CallsUpdated => self.on_calls_updated(known, queue),
            Wake::SampleDue => self.shared.peaks.sample(),
            Wake::RelistRequested => self.list_in(self.spacing()),
            Wake::ListDue => {
                self.inspected_at.clear();
                self.lister = ListState::Announced;
                queue.push_back(WatchEvent::Init);
            }
            Wake::Listed(since, Ok(listing)) => {
                self.on_listed(listing, known, queue);
                let now = (self.shared.now)();
                self.listed_at = Some(now);
                self.list_in(interval(now.since(since)));
            }
            Wake::Listed(_, Err(error)) | Wake::Pinged(Err(error)) => self.on_failed(&error)?,
            Wake::Pinged(Ok(())) => self.list_in(LIST_AGAIN),
        }
        Ok(())
    }

    /// Whatever is ready, in no order of preference: a storm of events must not keep the looks from being answered.
    async fn next(&mut self) -> Wake {
        let Self {
            events,
            inspects: looks,
            backoffs: rests,
            delays: linger,
            samples,
            lister,
            shared,
            ..
        } = self;
        let idle = matches!(lister, ListState::Idle(_));
        let lister = async {
            match lister {
                ListState::Idle(due) => {
                    due.await;
                    Wake::ListDue
                }
                ListState::Listing(since, list) => Wake::Listed(*since, list.await),
                ListState::Pinging(ping) => Wake::Pinged(ping.await),
                ListState::Announced => pending().await,
            }
        };
        tokio::select! {
            event = events.next() => Wake::Event(event),
            Some((id, found)) = looks.next() => Wake::Inspected(id, found),
            Some(id) = rests.next() => Wake::BackoffOver(id),
            id = linger.next_expired() => Wake::DelayOver(id),
            _ = samples.tick(), if !shared.peaks.is_empty() => Wake::SampleDue,
            () = shared.in_flight.told() => Wake::CallsUpdated,
            // During a list the wish is kept: it is for a list that begins after it.
            () = shared.relist.notified(), if idle => Wake::RelistRequested,
            turn = lister => turn,
        }
    }

    fn on_event(
        &mut self,
        event: Option<Result<EventMessage, Error>>,
        known: &mut LastSeen,
        queue: &mut VecDeque<WatchEvent>,
    ) -> Result<(), SessionError> {
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(SessionError(crate::error::transport(&error).to_string())),
            None => return Err(SessionError("the event stream ended".to_owned())),
        };
        self.on_calls_updated(known, queue);
        self.stall_detector.on_event();
        for note in events::effects(&event) {
            match note {
                EventEffect::Created(id) if known.contains(&id) => {}
                EventEffect::Created(id) => self.delays.insert(id, CALLS_REPORT),
                EventEffect::Changed(id) => self.changed(id),
                EventEffect::ChangedIfKnown(id) if known.container(&id).is_some() => {
                    self.changed(ObjectId::Container(id));
                }
                EventEffect::ChangedIfKnown(_) => {}
                EventEffect::Stopped(id, at) => {
                    if !known.ran_since(&id, at) && !self.shared.own_stops.is_ours(&id, at) {
                        queue.push_back(WatchEvent::Stopped(id, at));
                    }
                }
                EventEffect::OutOfMemory(id, at) => {
                    self.shared.peaks.sample_one(&id);
                    if !known.ran_since(&id, at) {
                        queue.push_back(WatchEvent::OutOfMemory(id, at));
                    }
                }
            }
        }
        Ok(())
    }

    /// What the hands are at is looked at when they let go of it.
    fn changed(&mut self, id: ObjectId) {
        if self.is_held(&id) {
            self.stall_detector.on_event_during_call(id);
        } else {
            self.delays.remove(&id);
            self.dirty.mark(id);
        }
    }

    fn is_held(&self, id: &ObjectId) -> bool {
        matches!(id, ObjectId::Container(id) if self.shared.in_flight.holds(id))
    }

    /// What the hands have made is seen; what they let go of is looked at soon.
    fn on_calls_updated(&mut self, known: &mut LastSeen, queue: &mut VecDeque<WatchEvent>) {
        let Updates {
            released,
            created: made,
        } = self.shared.in_flight.news();
        for object in made {
            let id = object.id();
            if !known.contains(&id) {
                known.on_created(&object);
                self.delays.remove(&id);
                self.inspected_at.insert(id);
                queue.push_back(WatchEvent::Apply(object));
            }
        }
        for id in released {
            let id = ObjectId::Container(id);
            self.stall_detector.on_call_ended(&id, (self.shared.now)());
            self.delays.insert(id, LAST_EVENT);
        }
    }

    fn on_inspected(
        &mut self,
        id: &ObjectId,
        found: Result<Option<Object>, ActionError>,
        known: &mut LastSeen,
        queue: &mut VecDeque<WatchEvent>,
    ) {
        match found {
            Ok(Some(object)) => {
                self.dirty.done(id);
                self.inspected_at.insert(id.clone());
                known.on_applied(&object);
                if let Object::Container(container) = &object
                    && self.stall_detector.on_inspected(container, (self.shared.now)())
                {
                    self.subscribe(queue);
                }
                queue.push_back(WatchEvent::Apply(object));
            }
            Ok(None) => {
                self.dirty.done(id);
                self.inspected_at.insert(id.clone());
                if let ObjectId::Container(id) = id {
                    self.shared.peaks.forget(id);
                }
                if known.on_deleted(id) {
                    queue.push_back(WatchEvent::Delete(id.clone()));
                }
            }
            Err(error) => {
                let rest = self.dirty.failed(id);
                tracing::debug!(?id, %error, ?rest, "look failed");
                let id = id.clone();
                self.backoffs.push(Box::pin(async move {
                    sleep(rest).await;
                    id
                }));
            }
        }
    }

    fn on_listed(&mut self, listing: Listing, known: &mut LastSeen, queue: &mut VecDeque<WatchEvent>) {
        self.failures = 0;
        if self.stall_detector.is_stalled((self.shared.now)()) {
            self.subscribe(queue);
        }
        let mut shown = BTreeSet::new();
        for listed in listing.containers {
            let id = ObjectId::Container(listed.container.id.clone());
            if self.inspected_at.contains(&id) || self.shared.owned_ids.labels_inherited(&listed.container.id)
            {
                continue;
            }
            let (container, look) = known.on_listed(listed);
            if look != InspectNeed::None {
                if !self.dirty.concerns(&id) {
                    self.stall_detector.expect_event(container.id.clone());
                }
                self.dirty.mark(id.clone());
            }
            queue.push_back(WatchEvent::Apply(Object::Container(container)));
            shown.insert(id);
        }
        let networks = listing
            .networks
            .into_iter()
            .map(|network| Object::Network(Arc::new(network)));
        let volumes = listing
            .volumes
            .into_iter()
            .map(|volume| Object::Volume(Arc::new(volume)));
        for object in networks.chain(volumes) {
            let id = object.id();
            if !self.inspected_at.contains(&id) {
                known.on_applied(&object);
                queue.push_back(WatchEvent::Apply(object));
                shown.insert(id);
            }
        }
        known.retain(|id| shown.contains(id) || self.inspected_at.contains(id));
        queue.extend(known.retagged());
        queue.push_back(WatchEvent::InitDone);
    }

    fn on_failed(&mut self, error: &ActionError) -> Result<(), SessionError> {
        self.failures += 1;
        if self.failures >= FAILURES {
            return Err(SessionError(error.to_string()));
        }
        let shared = self.shared.clone();
        self.lister = ListState::Pinging(Box::pin(async move { call::ping(&shared).await }));
        Ok(())
    }

    /// Subscribes anew: no event told of a change that is older than any event takes.
    fn subscribe(&mut self, queue: &mut VecDeque<WatchEvent>) {
        tracing::warn!("no event told of a change: subscribing again");
        let now = (self.shared.now)();
        self.events = events::subscribe(&self.client, now);
        self.stall_detector = StallDetector::new(now);
        queue.push_back(WatchEvent::StreamStalled);
    }

    fn list_in(&mut self, wait: Duration) {
        self.lister = ListState::Idle(Box::pin(sleep(wait)));
    }

    fn spacing(&self) -> Duration {
        let rested = self.listed_at.map_or(SPACING, |at| (self.shared.now)().since(at));
        SPACING.saturating_sub(rested)
    }
}
