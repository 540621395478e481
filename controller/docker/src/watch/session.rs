//! One connection to an engine: it follows the events and inspects objects in parallel, until an error ends it.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use argus_core::observed::{Object, ObjectId, Unreadable, WatchEvent};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::models::EventMessage;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Interval, sleep};

use super::event_stream::{EventStream, StreamInput};
use super::events::{self, EventEffect};
use super::inspect_queue::InspectQueue;
use super::last_seen::{InspectNeed, LastSeen};
use super::pace::{MIN_LIST_DISTANCE, list_interval};
use super::queries::{self, Listing};
use super::stall_detector::StallDetector;
use super::unreadable::ListError;
use crate::Shared;
use crate::in_flight::CallUpdate;
use crate::memory_peaks;

/// Delay of an inspect after a creation. The event may arrive before the response of the call that created the object,
/// and that call reports the object.
const CREATED_DELAY: Duration = Duration::from_millis(100);
/// Delay of an inspect after a call of this backend. The response and the last event of a call arrive at about the same
/// time, and one inspect should show the effect of both. Timestamps are cut to milliseconds, so the delay is 5 to 6 ms.
const RESUMED_DELAY: Duration = Duration::from_millis(6);

/// Reason for the end of a session.
#[derive(Debug)]
pub(super) struct SessionError(pub(super) String);

/// Watch events that the consumer has not taken yet.
pub(super) type Output = VecDeque<WatchEvent>;
/// Result of an inspect: the object, or `None` when it is gone or not ours.
type InspectResult = Result<Option<Object>, ActionError>;

/// A live connection to an engine.
pub(super) struct Session {
    shared: Arc<Shared>,
    client: bollard::Docker,
    events: EventStream,
    queue: InspectQueue,
    inspects: FuturesUnordered<BoxFuture<'static, (ObjectId, InspectResult)>>,
    samples: Interval,
    stall_detector: StallDetector,
    /// Time of the last complete list.
    listed_at: Option<Timestamp>,
    /// Failures of list or ping since then.
    pub(super) list_failures: u32,
    /// Last reported response that Argus cannot read.
    unreadable: Option<Box<Unreadable>>,
}

/// Input of the session, except that of its list.
enum Input {
    Stream(StreamInput),
    Inspected(ObjectId, InspectResult),
    InspectDue,
    CallsUpdated,
    SampleDue,
}

impl Session {
    /// Subscribes to the events and waits until the engine responds to a ping and, if `must_list`, to a small list.
    ///
    /// Without that list, an engine that answers pings but fails to list would connect and disconnect without end.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        must_list: bool,
        last_seen: &mut LastSeen,
        output: &mut Output,
    ) -> Result<Self, SessionError> {
        let client = shared
            .connection
            .client()
            .map_err(|error| SessionError(error.to_string()))?;
        let subscribed_at = (shared.now)();
        let mut queue = InspectQueue::default();
        // Earlier updates are older than the first list of this session.
        for id in shared.in_flight.reset() {
            queue.suspend(ObjectId::Container(id));
        }
        let mut session = Self {
            events: EventStream::open(shared, &client, subscribed_at),
            shared: shared.clone(),
            client,
            queue,
            inspects: FuturesUnordered::new(),
            samples: tokio::time::interval(memory_peaks::ROUND_INTERVAL),
            stall_detector: StallDetector::new(subscribed_at),
            listed_at: None,
            list_failures: 0,
            unreadable: None,
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
                input = session.events.next() => session.on_stream(input, last_seen, output)?,
                result = &mut test => return match result {
                    Ok(engine_started_at) => {
                        output.extend(engine_started_at.map(WatchEvent::EngineStarted));
                        Ok(session)
                    }
                    Err(error) => Err(SessionError(error.to_string())),
                },
            }
        }
    }

    /// Starts the inspects that are due, waits for the next input and handles it.
    ///
    /// Cancel-safe: only the wait for the input suspends.
    pub(super) async fn step(
        &mut self,
        last_seen: &mut LastSeen,
        output: &mut Output,
    ) -> Result<(), SessionError> {
        self.on_calls_updated(last_seen, output);
        if !output.is_empty() {
            return Ok(());
        }
        while let Some(id) = self.queue.pop((self.shared.now)()) {
            let inspect = queries::inspect(self.client.clone(), self.shared.clone(), id);
            self.inspects.push(Box::pin(inspect));
        }
        match self.next_input().await {
            Input::Stream(input) => self.on_stream(input, last_seen, output)?,
            Input::Inspected(id, result) => self.on_inspected(&id, result, last_seen, output),
            Input::SampleDue => output.extend(self.shared.peaks.sample_due((self.shared.now)())),
            // The next step handles both.
            Input::InspectDue | Input::CallsUpdated => {}
        }
        Ok(())
    }

    /// Returns the first input that is ready. The choice is random, so that a burst of events cannot delay inspects.
    async fn next_input(&mut self) -> Input {
        let next_due = self
            .queue
            .next_due()
            .map(|due| sleep(due.since((self.shared.now)())));
        let inspect_due = async {
            match next_due {
                Some(delay) => delay.await,
                None => pending().await,
            }
        };
        tokio::select! {
            input = self.events.next() => Input::Stream(input),
            Some((id, result)) = self.inspects.next() => Input::Inspected(id, result),
            () = inspect_due => Input::InspectDue,
            () = self.shared.in_flight.updated() => Input::CallsUpdated,
            _ = self.samples.tick(), if !self.shared.peaks.is_empty() => Input::SampleDue,
        }
    }

    fn on_stream(
        &mut self,
        input: StreamInput,
        last_seen: &mut LastSeen,
        output: &mut Output,
    ) -> Result<(), SessionError> {
        match input {
            StreamInput::Event(event) => self.on_event(&event, last_seen, output),
            StreamInput::Failed => {}
            StreamInput::Pinged(failure, Err(_)) => return Err(SessionError(failure.reason)),
            StreamInput::Pinged(failure, Ok(unreadable)) => {
                if let Some(what) = unreadable {
                    self.report_unreadable(what, output);
                }
                self.events.retry_later(failure.reason, output);
                if !self.events.is_lost() {
                    output.push_back(WatchEvent::StreamGap);
                }
                // The list shows what happened since the last event.
                self.shared.relist.notify_one();
            }
            StreamInput::Restored => output.push_back(WatchEvent::EventsRestored),
        }
        Ok(())
    }

    fn on_event(&mut self, event: &EventMessage, last_seen: &mut LastSeen, output: &mut Output) {
        // First the calls, so that the queue suspends the object before it handles an event of the call.
        self.on_calls_updated(last_seen, output);
        self.stall_detector.on_event();
        let now = (self.shared.now)();
        for effect in events::effects(event) {
            match effect {
                EventEffect::Created(id) if last_seen.contains(&id) => {}
                EventEffect::Created(id) => self.queue.require(id, now + CREATED_DELAY),
                EventEffect::Changed(id) => self.queue.mark_changed(id, now),
                EventEffect::ChangedIfKnown(id) if last_seen.container(&id).is_some() => {
                    self.queue.mark_changed(ObjectId::Container(id), now);
                }
                EventEffect::ChangedIfKnown(_) => {}
                EventEffect::Released(name) => output.push_back(WatchEvent::Released(name)),
                EventEffect::Ended(id, at) => {
                    let is_ours = self.queue.is_suspended(&ObjectId::Container(id.clone()));
                    let ended = (!is_ours).then(|| last_seen.on_ended(&id, at)).flatten();
                    // The inspect follows, and the engine may need 100 ms for it.
                    output.extend(ended.map(|container| WatchEvent::Apply(Object::Container(container))));
                }
                EventEffect::StopRequested(id, at) => {
                    let run = last_seen.started_at(&id);
                    if !last_seen.ran_since(&id, at) && !self.shared.own_stops.is_ours(&id, run, at) {
                        output.push_back(WatchEvent::StoppedByOther(id, at));
                    }
                }
                EventEffect::OutOfMemory(id, at) => {
                    self.shared.peaks.sample_one(&id);
                    if !last_seen.ran_since(&id, at) {
                        output.push_back(WatchEvent::OutOfMemory(id, at));
                    }
                }
            }
        }
    }

    /// Applies the updates of calls to the queue, and reports the objects that calls created.
    fn on_calls_updated(&mut self, last_seen: &mut LastSeen, output: &mut Output) {
        for update in self.shared.in_flight.take_updates() {
            let now = (self.shared.now)();
            match update {
                CallUpdate::Started(id) => self.queue.suspend(ObjectId::Container(id)),
                CallUpdate::Ended(id) => {
                    let had_event = self.queue.resume(ObjectId::Container(id), now + RESUMED_DELAY);
                    self.stall_detector.on_call_ended(had_event, now);
                }
                CallUpdate::Created(object) => {
                    let id = object.id();
                    if !last_seen.contains(&id) {
                        last_seen.on_created(&object);
                        self.queue.on_created(id, now);
                        output.push_back(WatchEvent::Apply(object));
                    }
                }
            }
        }
    }

    fn on_inspected(
        &mut self,
        id: &ObjectId,
        result: InspectResult,
        last_seen: &mut LastSeen,
        output: &mut Output,
    ) {
        let now = (self.shared.now)();
        match result {
            Ok(Some(object)) => {
                let unannounced = self.queue.finish(id);
                last_seen.on_applied(&object);
                if let Object::Container(container) = &object {
                    let run = last_seen.started_at(&container.id);
                    self.shared.own_stops.on_run(&container.id, run);
                    if unannounced && self.stall_detector.is_overdue(container, now) {
                        self.subscribe_again(output);
                    }
                }
                output.push_back(WatchEvent::Apply(object));
            }
            Ok(None) => {
                self.queue.finish(id);
                if let ObjectId::Container(id) = id {
                    self.shared.peaks.forget(id);
                }
                if last_seen.on_deleted(id) {
                    output.push_back(WatchEvent::Delete(id.clone()));
                }
            }
            Err(error) => {
                let backoff = self.queue.fail(id, now);
                tracing::debug!(?id, %error, ?backoff, "inspect failed");
                if matches!(
                    error,
                    ActionError::Unreachable(_) | ActionError::ConnectionLost(_)
                ) {
                    // An engine that shuts down refuses connections long before its event stream ends.
                    self.shared.relist.notify_one();
                }
            }
        }
    }

    /// Announces a list to the consumer, before the request to the engine.
    pub(super) fn announce_list(&mut self, output: &mut Output) {
        self.queue.start_list();
        output.push_back(WatchEvent::Init);
    }

    /// The request of an announced list.
    pub(super) fn list(&self) -> BoxFuture<'static, Result<Listing, ListError>> {
        Box::pin(queries::list(self.client.clone(), self.shared.times))
    }

    /// Reports a list that Argus cannot read. Fails before the first complete list, and at the second such list in a row.
    pub(super) fn on_unreadable_list(
        &mut self,
        what: Box<Unreadable>,
        output: &mut Output,
    ) -> Result<(), SessionError> {
        let reason = what.to_string();
        self.report_unreadable(what, output);
        self.listed_at.take().map(drop).ok_or(SessionError(reason))
    }

    /// Reports a response that Argus cannot read, once per text.
    fn report_unreadable(&mut self, what: Box<Unreadable>, output: &mut Output) {
        if self.unreadable.as_ref() != Some(&what) {
            output.push_back(WatchEvent::Unreadable(what.clone()));
            self.unreadable = Some(what);
        }
    }

    /// Time until the next periodic list. Without events, lists alone show changes, so they run more often.
    pub(super) fn list_interval(&self, cost: Duration) -> Duration {
        list_interval(self.shared.list_interval, cost, !self.events.is_lost())
    }

    /// Delay of a requested list, so that lists keep their minimum distance.
    pub(super) fn relist_delay(&self) -> Duration {
        let elapsed = self
            .listed_at
            .map_or(MIN_LIST_DISTANCE, |at| (self.shared.now)().since(at));
        MIN_LIST_DISTANCE.saturating_sub(elapsed)
    }

    /// Reports a complete list, and queues the containers that are new or have changed.
    pub(super) fn on_listed(&mut self, mut listing: Listing, last_seen: &mut LastSeen, output: &mut Output) {
        let now = (self.shared.now)();
        self.listed_at = Some(now);
        self.list_failures = 0;
        if self.stall_detector.is_stalled(now) {
            self.subscribe_again(output);
        }
        let mut reported = BTreeSet::new();
        for listed in listing.containers {
            let id = ObjectId::Container(listed.container.id.clone());
            if self.queue.is_newer_than_list(&id)
                || self.shared.owned_ids.has_inherited_labels(&listed.container.id)
            {
                continue;
            }
            let (container, need) = last_seen.on_listed(listed);
            match need {
                InspectNeed::None => {}
                InspectNeed::NotInspected => self.queue.require(id.clone(), now),
                InspectNeed::Changed => self.queue.mark_listed(id.clone(), now),
            }
            output.push_back(WatchEvent::Apply(Object::Container(container)));
            reported.insert(id);
        }
        self.shared.bridges.on_listed(&mut listing.networks);
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
            if !self.queue.is_newer_than_list(&id) {
                last_seen.on_applied(&object);
                output.push_back(WatchEvent::Apply(object));
                reported.insert(id);
            }
        }
        last_seen.retain(|id| reported.contains(id) || self.queue.is_newer_than_list(id));
        output.extend(last_seen.take_retagged());
        output.push_back(WatchEvent::InitDone);
    }

    /// Replaces a stalled event stream by a new subscription.
    fn subscribe_again(&mut self, output: &mut Output) {
        self.stall_detector = StallDetector::new((self.shared.now)());
        if self.events.is_failing() {
            return;
        }
        tracing::warn!("the engine's event stream is stalled: subscribing again");
        self.events.subscribe();
        output.push_back(WatchEvent::StreamGap);
    }
}
