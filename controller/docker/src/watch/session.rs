//! One time of being connected: events, lists and looks side by side until the engine is lost.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::observed::{Object, ObjectId, Sighting};
use argus_core::outcome::ActError;
use argus_core::time::Timestamp;
use bollard::errors::Error;
use bollard::models::EventMessage;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Interval, Sleep, sleep};

use super::doubt::Doubt;
use super::events::{self, Events, Note};
use super::known::{Known, Look};
use super::linger::Linger;
use super::look::{self, Listing};
use super::pace::interval;
use crate::dirty::Dirty;
use crate::grip::News;
use crate::peaks;
use crate::{Shared, call};

/// More looks at once gain nothing, and older engines do not like them.
const LOOKS_AT_ONCE: usize = 4;
/// Lists that are asked for lie at least so far apart.
const SPACING: Duration = Duration::from_millis(50);
/// After a list that failed while the engine answers pings.
const LIST_AGAIN: Duration = Duration::from_secs(1);
/// So many failures of list and ping in a row are a loss.
const FAILURES: u32 = 3;

/// The event of a creation may come before the answer to the call that made it.
const HANDS_TELL: Duration = Duration::from_millis(100);

/// A call's answer and its last event come at about the same time: whichever is late is waited for this long, so that
/// one look shows both.
const LAST_EVENT: Duration = Duration::from_millis(5);

/// Why a session ended.
#[derive(Debug)]
pub(super) struct Lost(pub(super) String);

/// What the lister is at.
enum Lister {
    /// Until the next list is due.
    Idle(Pin<Box<Sleep>>),
    /// The list was announced; it is asked for when the consumer has taken that in, so that a list which counts as
    /// begun after some call was also asked for after it.
    Announced,
    /// Since when, and the answer.
    Listing(Timestamp, BoxFuture<'static, Result<Listing, ActError>>),
    /// The last list failed: does the engine answer at all?
    Pinging(BoxFuture<'static, Result<(), ActError>>),
}

/// A live connection to an engine.
pub(super) struct Session {
    shared: Arc<Shared>,
    client: bollard::Docker,
    events: Events,
    dirty: Dirty,
    looks: FuturesUnordered<BoxFuture<'static, Looked>>,
    rests: FuturesUnordered<BoxFuture<'static, ObjectId>>,
    linger: Linger,
    samples: Interval,
    lister: Lister,
    pub(super) listed_at: Option<Timestamp>,
    failures: u32,
    /// Looked at since the list was announced: newer than whatever it shows of them.
    looked_at: BTreeSet<ObjectId>,
    doubt: Doubt,
}

type Looked = (ObjectId, Result<Option<Object>, ActError>);

enum Turn {
    Event(Option<Result<EventMessage, Error>>),
    Looked(ObjectId, Result<Option<Object>, ActError>),
    Rested(ObjectId),
    Lingered(ObjectId),
    Told,
    SampleDue,
    LookAgain,
    ListDue,
    Listed(Timestamp, Result<Listing, ActError>),
    Pinged(Result<(), ActError>),
}

impl Session {
    /// Subscribes, and waits until the engine answers a ping, and a list where none came of the last session: else an engine
    /// that lists nothing would be found and lost again for ever.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        must_list: bool,
        known: &mut Known,
        queue: &mut VecDeque<Sighting>,
    ) -> Result<Self, Lost> {
        let client = shared
            .connection
            .client()
            .map_err(|error| Lost(error.to_string()))?;
        let subscribed_at = (shared.now)();
        // What was told before is older than the list that comes first.
        drop(shared.grip.news());
        let mut session = Self {
            events: events::subscribe(&client, subscribed_at),
            shared: shared.clone(),
            client,
            dirty: Dirty::default(),
            looks: FuturesUnordered::new(),
            rests: FuturesUnordered::new(),
            linger: Linger::default(),
            samples: tokio::time::interval(peaks::EVERY),
            lister: Lister::Idle(Box::pin(sleep(Duration::ZERO))),
            listed_at: None,
            failures: 0,
            looked_at: BTreeSet::new(),
            doubt: Doubt::new(subscribed_at),
        };
        let mut answers = Box::pin(look::answers(shared, session.client.clone(), must_list));
        loop {
            // The stream is polled first, so the subscription is on its way before the ping.
            tokio::select! {
                biased;
                event = session.events.next() => session.heard(event, known, queue)?,
                answer = &mut answers => return match answer {
                    Ok(()) => Ok(session),
                    Err(error) => Err(Lost(error.to_string())),
                },
            }
        }
    }

    /// Waits for the next thing to happen and takes it in.
    pub(super) async fn turn(
        &mut self,
        known: &mut Known,
        queue: &mut VecDeque<Sighting>,
    ) -> Result<(), Lost> {
        let grip = &self.shared.grip;
        let held = |id: &ObjectId| matches!(id, ObjectId::Container(id) if grip.holds(id));
        while let Some(id) = self.dirty.next(LOOKS_AT_ONCE, held) {
            self.looks
                .push(Box::pin(look::look(self.client.clone(), self.shared.clone(), id)));
        }
        if matches!(self.lister, Lister::Announced) {
            let list = Box::pin(look::list(self.client.clone()));
            self.lister = Lister::Listing((self.shared.now)(), list);
        }
        match self.next().await {
            Turn::Event(event) => self.heard(event, known, queue)?,
            Turn::Looked(id, found) => self.looked(&id, found, known, queue),
            Turn::Rested(id) => self.dirty.rested(&id),
            Turn::Lingered(id) => self.dirty.mark(id),
            Turn::Told => self.told(known, queue),
            Turn::SampleDue => self.shared.peaks.sample(),
            Turn::LookAgain => self.list_in(self.spacing()),
            Turn::ListDue => {
                self.looked_at.clear();
                self.lister = Lister::Announced;
                queue.push_back(Sighting::ListBegan);
            }
            Turn::Listed(since, Ok(listing)) => {
                self.listed(listing, known, queue);
                let now = (self.shared.now)();
                self.listed_at = Some(now);
                self.list_in(interval(now.since(since)));
            }
            Turn::Listed(_, Err(error)) | Turn::Pinged(Err(error)) => self.failed(&error)?,
            Turn::Pinged(Ok(())) => self.list_in(LIST_AGAIN),
        }
        Ok(())
    }

    /// Whatever is ready, in no order of preference: a storm of events must not keep the looks from being answered.
    async fn next(&mut self) -> Turn {
        let Self {
            events,
            looks,
            rests,
            linger,
            samples,
            lister,
            shared,
            ..
        } = self;
        let idle = matches!(lister, Lister::Idle(_));
        let lister = async {
            match lister {
                Lister::Idle(due) => {
                    due.await;
                    Turn::ListDue
                }
                Lister::Listing(since, list) => Turn::Listed(*since, list.await),
                Lister::Pinging(ping) => Turn::Pinged(ping.await),
                Lister::Announced => pending().await,
            }
        };
        tokio::select! {
            event = events.next() => Turn::Event(event),
            Some((id, found)) = looks.next() => Turn::Looked(id, found),
            Some(id) = rests.next() => Turn::Rested(id),
            id = linger.over() => Turn::Lingered(id),
            _ = samples.tick(), if !shared.peaks.is_empty() => Turn::SampleDue,
            () = shared.grip.told() => Turn::Told,
            // During a list the wish is kept: it is for a list that begins after it.
            () = shared.look_again.notified(), if idle => Turn::LookAgain,
            turn = lister => turn,
        }
    }

    fn heard(
        &mut self,
        event: Option<Result<EventMessage, Error>>,
        known: &mut Known,
        queue: &mut VecDeque<Sighting>,
    ) -> Result<(), Lost> {
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(Lost(crate::error::transport(&error).to_string())),
            None => return Err(Lost("the event stream ended".to_owned())),
        };
        self.told(known, queue);
        self.doubt.heard();
        for note in events::notes(&event) {
            match note {
                Note::Made(id) if known.contains(&id) => {}
                Note::Made(id) => self.linger.begin(id, HANDS_TELL),
                Note::Changed(id) => self.changed(id),
                Note::ChangedIfKnown(id) if known.container(&id).is_some() => {
                    self.changed(ObjectId::Container(id));
                }
                Note::ChangedIfKnown(_) => {}
                Note::Stopped(id, at) => {
                    if !known.ran_since(&id, at) && !self.shared.own_stops.is_ours(&id, at) {
                        queue.push_back(Sighting::Stopped(id, at));
                    }
                }
                Note::OutOfMemory(id, at) => {
                    self.shared.peaks.sample_one(&id);
                    if !known.ran_since(&id, at) {
                        queue.push_back(Sighting::OutOfMemory(id, at));
                    }
                }
            }
        }
        Ok(())
    }

    /// What the hands are at is looked at when they let go of it.
    fn changed(&mut self, id: ObjectId) {
        if self.is_held(&id) {
            self.doubt.heard_during_a_call(id);
        } else {
            self.linger.end(&id);
            self.dirty.mark(id);
        }
    }

    fn is_held(&self, id: &ObjectId) -> bool {
        matches!(id, ObjectId::Container(id) if self.shared.grip.holds(id))
    }

    /// What the hands have made is seen; what they let go of is looked at soon.
    fn told(&mut self, known: &mut Known, queue: &mut VecDeque<Sighting>) {
        let News { released, made } = self.shared.grip.news();
        for object in made {
            let id = object.id();
            if !known.contains(&id) {
                known.made(&object);
                self.linger.end(&id);
                self.looked_at.insert(id);
                queue.push_back(Sighting::Saw(object));
            }
        }
        for id in released {
            let id = ObjectId::Container(id);
            self.doubt.call_ended(&id, (self.shared.now)());
            self.linger.begin(id, LAST_EVENT);
        }
    }

    fn looked(
        &mut self,
        id: &ObjectId,
        found: Result<Option<Object>, ActError>,
        known: &mut Known,
        queue: &mut VecDeque<Sighting>,
    ) {
        match found {
            Ok(Some(object)) => {
                self.dirty.done(id);
                self.looked_at.insert(id.clone());
                known.saw(&object);
                if let Object::Container(container) = &object
                    && self.doubt.looked(container, (self.shared.now)())
                {
                    self.subscribe(queue);
                }
                queue.push_back(Sighting::Saw(object));
            }
            Ok(None) => {
                self.dirty.done(id);
                self.looked_at.insert(id.clone());
                if let ObjectId::Container(id) = id {
                    self.shared.peaks.forget(id);
                }
                if known.gone(id) {
                    queue.push_back(Sighting::Gone(id.clone()));
                }
            }
            Err(error) => {
                let rest = self.dirty.failed(id);
                tracing::debug!(?id, %error, ?rest, "look failed");
                let id = id.clone();
                self.rests.push(Box::pin(async move {
                    sleep(rest).await;
                    id
                }));
            }
        }
    }

    fn listed(&mut self, listing: Listing, known: &mut Known, queue: &mut VecDeque<Sighting>) {
        self.failures = 0;
        if self.doubt.is_too_silent((self.shared.now)()) {
            self.subscribe(queue);
        }
        let mut shown = BTreeSet::new();
        for listed in listing.containers {
            let id = ObjectId::Container(listed.container.id.clone());
            if self.looked_at.contains(&id) || self.shared.own.only_inherits(&listed.container.id) {
                continue;
            }
            let (container, look) = known.listed(listed);
            if look != Look::Not {
                if !self.dirty.concerns(&id) {
                    self.doubt.suspect(container.id.clone());
                }
                self.dirty.mark(id.clone());
            }
            queue.push_back(Sighting::Saw(Object::Container(container)));
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
            if !self.looked_at.contains(&id) {
                known.saw(&object);
                queue.push_back(Sighting::Saw(object));
                shown.insert(id);
            }
        }
        known.retain(|id| shown.contains(id) || self.looked_at.contains(id));
        queue.extend(known.retagged());
        queue.push_back(Sighting::ListDone);
    }

    fn failed(&mut self, error: &ActError) -> Result<(), Lost> {
        self.failures += 1;
        if self.failures >= FAILURES {
            return Err(Lost(error.to_string()));
        }
        let shared = self.shared.clone();
        self.lister = Lister::Pinging(Box::pin(async move { call::ping(&shared).await }));
        Ok(())
    }

    /// Subscribes anew: no event told of a change that is older than any event takes.
    fn subscribe(&mut self, queue: &mut VecDeque<Sighting>) {
        tracing::warn!("no event told of a change: subscribing again");
        let now = (self.shared.now)();
        self.events = events::subscribe(&self.client, now);
        self.doubt = Doubt::new(now);
        queue.push_back(Sighting::Deaf);
    }

    fn list_in(&mut self, wait: Duration) {
        self.lister = Lister::Idle(Box::pin(sleep(wait)));
    }

    fn spacing(&self) -> Duration {
        let rested = self.listed_at.map_or(SPACING, |at| (self.shared.now)().since(at));
        SPACING.saturating_sub(rested)
    }
}
