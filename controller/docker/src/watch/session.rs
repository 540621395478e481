//! One connection to an engine: events, lists and inspects in parallel, until an error ends it.

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
use super::pace::{LIST_RETRY_DELAY, MIN_LIST_DISTANCE, list_interval};
use super::queries::{self, Listing};
use super::stall_detector::StallDetector;
use crate::memory_peaks;
use crate::work_queue::WorkQueue;
use crate::{Shared, call};

/// Maximum number of parallel inspects. More gain nothing, and older engines do not handle them well.
const MAX_PARALLEL_INSPECTS: usize = 4;
/// Number of failures of list or ping, without a complete list in between, that end the session.
const MAX_LIST_FAILURES: u32 = 3;
/// Delay of an inspect after a creation. The event may arrive before the response of the call that created the object,
/// and that call reports the object.
const CREATED_DELAY: Duration = Duration::from_millis(100);
/// Delay of an inspect after a call of this backend. The response and the last event of a call arrive at about the same
/// time, and one inspect should show the effect of both.
const RELEASED_DELAY: Duration = Duration::from_millis(5);

/// Reason for the end of a session.
#[derive(Debug)]
pub(super) struct SessionError(pub(super) String);

/// State of the periodic list.
enum ListState {
    /// Waits until the next list is due.
    Idle(Pin<Box<Sleep>>),
    /// [`WatchEvent::Init`] is in the queue. The request follows once the consumer has taken it, so that the list shows
    /// the effect of every call that the consumer made before.
    Announced,
    /// A list is in progress, since this time.
    Listing(Timestamp, BoxFuture<'static, Result<Listing, ActionError>>),
    /// The last list failed; a ping shows whether the engine still responds.
    Pinging(BoxFuture<'static, Result<(), ActionError>>),
}

/// A live connection to an engine.
pub(super) struct Session {
    shared: Arc<Shared>,
    client: bollard::Docker,
    events: Events,
    work_queue: WorkQueue,
    inspects: FuturesUnordered<BoxFuture<'static, (ObjectId, Inspected)>>,
    backoffs: FuturesUnordered<BoxFuture<'static, ObjectId>>,
    delays: DelayQueue,
    samples: Interval,
    list_state: ListState,
    pub(super) listed_at: Option<Timestamp>,
    failures: u32,
    /// Objects that were inspected or created since the list was announced; the list may show an older state of them.
    inspected: BTreeSet<ObjectId>,
    stall_detector: StallDetector,
}

/// Watch events that the consumer has not taken yet.
type Queue = VecDeque<WatchEvent>;
/// Result of an inspect: the object, or `None` when it is gone or not ours.
type Inspected = Result<Option<Object>, ActionError>;

/// Reason for a wake-up of the session.
enum Wake {
    Event(Option<Result<EventMessage, Error>>),
    Inspected(ObjectId, Inspected),
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
    /// Subscribes to the events and waits until the engine responds to a ping and, if `must_list`, to a small list.
    ///
    /// Without that list, an engine that answers pings but fails to list would connect and disconnect without end.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        must_list: bool,
        known: &mut LastSeen,
        queue: &mut Queue,
    ) -> Result<Self, SessionError> {
        let client = shared
            .connection
            .client()
            .map_err(|error| SessionError(error.to_string()))?;
        let subscribed_at = (shared.now)();
        // Updates from before this session are older than its first list.
        drop(shared.in_flight.take_updates());
        let mut session = Self {
            events: events::subscribe(&client, subscribed_at),
            shared: shared.clone(),
            client,
            work_queue: WorkQueue::default(),
            inspects: FuturesUnordered::new(),
            backoffs: FuturesUnordered::new(),
            delays: DelayQueue::default(),
            samples: tokio::time::interval(memory_peaks::SAMPLE_INTERVAL),
            list_state: ListState::Idle(Box::pin(sleep(Duration::ZERO))),
            listed_at: None,
            failures: 0,
            inspected: BTreeSet::new(),
            stall_detector: StallDetector::new(subscribed_at),
        };
        let mut test = Box::pin(queries::test_connection(
            shared,
            session.client.clone(),
            must_list,
        ));
        loop {
            // The event stream is polled first, so that the subscription is sent before the ping.
            tokio::select! {
                biased;
                event = session.events.next() => session.on_event(event, known, queue)?,
                result = &mut test => return match result {
                    Ok(()) => Ok(session),
                    Err(error) => Err(SessionError(error.to_string())),
                },
            }
        }
    }

    /// Waits for the next wake-up and handles it.
    pub(super) async fn next_wake(
        &mut self,
        known: &mut LastSeen,
        queue: &mut Queue,
    ) -> Result<(), SessionError> {
        let in_flight = &self.shared.in_flight;
        let has_call = |id: &ObjectId| matches!(id, ObjectId::Container(id) if in_flight.contains(id));
        while let Some(id) = self.work_queue.next(MAX_PARALLEL_INSPECTS, has_call) {
            let inspect = queries::inspect(self.client.clone(), self.shared.clone(), id);
            self.inspects.push(Box::pin(inspect));
        }
        if matches!(self.list_state, ListState::Announced) {
            let list = Box::pin(queries::list(self.client.clone()));
            self.list_state = ListState::Listing((self.shared.now)(), list);
        }
        match self.next().await {
            Wake::Event(event) => self.on_event(event, known, queue)?,
            Wake::Inspected(id, result) => self.on_inspected(&id, result, known, queue),
            Wake::BackoffOver(id) => self.work_queue.backoff_over(&id),
            Wake::DelayOver(id) => self.work_queue.mark(id),
            Wake::CallsUpdated => self.on_calls_updated(known, queue),
            Wake::SampleDue => self.shared.peaks.sample_all(),
            Wake::RelistRequested => self.schedule_list(self.list_delay()),
            Wake::ListDue => {
                self.inspected.clear();
                self.list_state = ListState::Announced;
                queue.push_back(WatchEvent::Init);
            }
            Wake::Listed(since, Ok(listing)) => {
                self.on_listed(listing, known, queue);
                let now = (self.shared.now)();
                self.listed_at = Some(now);
                self.schedule_list(list_interval(now.since(since)));
            }
            Wake::Listed(_, Err(error)) | Wake::Pinged(Err(error)) => self.on_failed(&error)?,
            Wake::Pinged(Ok(())) => self.schedule_list(LIST_RETRY_DELAY),
        }
        Ok(())
    }

    /// Returns the first source that is ready. The choice is random, so that a burst of events cannot delay inspects.
    async fn next(&mut self) -> Wake {
        let Self {
            events,
            inspects,
            backoffs,
            delays,
            samples,
            list_state,
            shared,
            ..
        } = self;
        let idle = matches!(list_state, ListState::Idle(_));
        let list_state = async {
            match list_state {
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
            Some((id, result)) = inspects.next() => Wake::Inspected(id, result),
            Some(id) = backoffs.next() => Wake::BackoffOver(id),
            id = delays.next_expired() => Wake::DelayOver(id),
            _ = samples.tick(), if !shared.peaks.is_empty() => Wake::SampleDue,
            () = shared.in_flight.updated() => Wake::CallsUpdated,
            // During a list the request stays pending: it asks for a list that starts after it.
            () = shared.relist.notified(), if idle => Wake::RelistRequested,
            wake = list_state => wake,
        }
    }

    fn on_event(
        &mut self,
        event: Option<Result<EventMessage, Error>>,
        known: &mut LastSeen,
        queue: &mut Queue,
    ) -> Result<(), SessionError> {
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                return Err(SessionError(crate::error::classify_transport(&error).to_string()));
            }
            None => return Err(SessionError("the event stream ended".to_owned())),
        };
        self.on_calls_updated(known, queue);
        self.stall_detector.on_event();
        for effect in events::effects(&event) {
            match effect {
                EventEffect::Created(id) if known.contains(&id) => {}
                EventEffect::Created(id) => self.delays.insert(id, CREATED_DELAY),
                EventEffect::Changed(id) => self.on_changed(id),
                EventEffect::ChangedIfKnown(id) if known.container(&id).is_some() => {
                    self.on_changed(ObjectId::Container(id));
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

    /// Marks a changed object for an inspect. During a call of this backend the inspect follows when the call ends.
    fn on_changed(&mut self, id: ObjectId) {
        if self.has_call_in_flight(&id) {
            self.stall_detector.on_event_during_call(id);
        } else {
            self.delays.remove(&id);
            self.work_queue.mark(id);
        }
    }

    fn has_call_in_flight(&self, id: &ObjectId) -> bool {
        matches!(id, ObjectId::Container(id) if self.shared.in_flight.contains(id))
    }

    /// Reports the objects that calls of this backend created, and schedules inspects of those whose calls ended.
    fn on_calls_updated(&mut self, known: &mut LastSeen, queue: &mut Queue) {
        let updates = self.shared.in_flight.take_updates();
        for object in updates.created {
            let id = object.id();
            if !known.contains(&id) {
                known.on_created(&object);
                self.delays.remove(&id);
                self.inspected.insert(id);
                queue.push_back(WatchEvent::Apply(object));
            }
        }
        for id in updates.released {
            let id = ObjectId::Container(id);
            self.stall_detector.on_call_ended(&id, (self.shared.now)());
            self.delays.insert(id, RELEASED_DELAY);
        }
    }

    fn on_inspected(&mut self, id: &ObjectId, result: Inspected, known: &mut LastSeen, queue: &mut Queue) {
        match result {
            Ok(Some(object)) => {
                self.work_queue.done(id);
                self.inspected.insert(id.clone());
                known.on_applied(&object);
                if let Object::Container(container) = &object
                    && self.stall_detector.on_inspected(container, (self.shared.now)())
                {
                    self.subscribe_again(queue);
                }
                queue.push_back(WatchEvent::Apply(object));
            }
            Ok(None) => {
                self.work_queue.done(id);
                self.inspected.insert(id.clone());
                if let ObjectId::Container(id) = id {
                    self.shared.peaks.forget(id);
                }
                if known.on_deleted(id) {
                    queue.push_back(WatchEvent::Delete(id.clone()));
                }
            }
            Err(error) => {
                let backoff = self.work_queue.failed(id);
                tracing::debug!(?id, %error, ?backoff, "inspect failed");
                let id = id.clone();
                self.backoffs.push(Box::pin(async move {
                    sleep(backoff).await;
                    id
                }));
            }
        }
    }

    fn on_listed(&mut self, listing: Listing, known: &mut LastSeen, queue: &mut Queue) {
        self.failures = 0;
        if self.stall_detector.is_stalled((self.shared.now)()) {
            self.subscribe_again(queue);
        }
        let mut reported = BTreeSet::new();
        for listed in listing.containers {
            let id = ObjectId::Container(listed.container.id.clone());
            if self.inspected.contains(&id)
                || self.shared.owned_ids.has_inherited_labels(&listed.container.id)
            {
                continue;
            }
            let (container, need) = known.on_listed(listed);
            if need != InspectNeed::None {
                if !self.work_queue.contains(&id) {
                    self.stall_detector.expect_event(container.id.clone());
                }
                self.work_queue.mark(id.clone());
            }
            queue.push_back(WatchEvent::Apply(Object::Container(container)));
            reported.insert(id);
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
            if !self.inspected.contains(&id) {
                known.on_applied(&object);
                queue.push_back(WatchEvent::Apply(object));
                reported.insert(id);
            }
        }
        known.retain(|id| reported.contains(id) || self.inspected.contains(id));
        queue.extend(known.take_retagged());
        queue.push_back(WatchEvent::InitDone);
    }

    /// Counts a failed list or ping; the next step is a ping, or the end of the session.
    fn on_failed(&mut self, error: &ActionError) -> Result<(), SessionError> {
        self.failures += 1;
        if self.failures >= MAX_LIST_FAILURES {
            return Err(SessionError(error.to_string()));
        }
        let shared = self.shared.clone();
        self.list_state = ListState::Pinging(Box::pin(async move { call::ping(&shared).await }));
        Ok(())
    }

    /// Replaces a stalled event stream by a new subscription.
    fn subscribe_again(&mut self, queue: &mut Queue) {
        tracing::warn!("the engine's event stream is stalled: subscribing again");
        let now = (self.shared.now)();
        self.events = events::subscribe(&self.client, now);
        self.stall_detector = StallDetector::new(now);
        queue.push_back(WatchEvent::StreamStalled);
    }

    fn schedule_list(&mut self, delay: Duration) {
        self.list_state = ListState::Idle(Box::pin(sleep(delay)));
    }

    /// Delay of a requested list, so that lists keep their minimum distance.
    fn list_delay(&self) -> Duration {
        let elapsed = self
            .listed_at
            .map_or(MIN_LIST_DISTANCE, |at| (self.shared.now)().since(at));
        MIN_LIST_DISTANCE.saturating_sub(elapsed)
    }
}
