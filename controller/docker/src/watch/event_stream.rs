//! Event stream of a session. If only the stream fails, it is opened again with a backoff, while the session continues
//! with lists.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::backoff::{Growth, delay, jittered};
use argus_core::observed::{Unreadable as Report, WatchEvent};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::models::EventMessage;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;
use tokio::time::{Sleep, sleep};

use super::events::{self, Events};
use super::session::Output;
use super::unreadable::Unreadable;
use crate::{Shared, call};

/// Delay before the first new subscription. It is short, because most losses are a cut connection.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Base of the exponential backoff of all later subscriptions.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// Maximum backoff between two subscriptions.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time after which a subscription without an error counts as working.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Number of failures in a row that are reported.
const REPORTED_FAILURES: u32 = 2;

/// Result of the ping that follows a failure of the stream, with the description of an event that Argus cannot read.
type Pinged = Result<Option<Box<Report>>, ActionError>;

/// Failure of the stream.
#[derive(Debug, Default)]
pub(super) struct StreamFailure {
    pub(super) reason: String,
    /// The event that Argus cannot read.
    unreadable: Option<Unreadable>,
}

/// Event stream with its retries.
pub(super) struct EventStream {
    shared: Arc<Shared>,
    client: bollard::Docker,
    events: Events,
    subscribed_at: Timestamp,
    /// Consecutive subscriptions that failed.
    failures: u32,
    /// Ping after a failure, with the reason of the failure.
    ping: Option<(StreamFailure, BoxFuture<'static, Pinged>)>,
    /// The next subscription also requests the events shortly before it.
    must_replay: bool,
    /// End of the backoff before the next subscription.
    backoff: Option<Pin<Box<Sleep>>>,
}

/// Input from the event stream.
pub(super) enum StreamInput {
    /// The engine sent an event.
    Event(Box<EventMessage>),
    /// The stream failed, and a ping begins.
    Failed,
    /// The ping after a failure ended.
    Pinged(StreamFailure, Pinged),
    /// The stream works again.
    Restored,
}

impl EventStream {
    /// Subscribes to the events. The request is sent at the first poll.
    pub(super) fn open(shared: &Arc<Shared>, client: &bollard::Docker, now: Timestamp) -> Self {
        Self {
            shared: shared.clone(),
            client: client.clone(),
            events: events::subscribe(client, now, true),
            subscribed_at: now,
            failures: 0,
            ping: None,
            must_replay: true,
            backoff: None,
        }
    }

    /// Replaces the stream by a new subscription.
    pub(super) fn subscribe(&mut self) {
        self.subscribed_at = (self.shared.now)();
        self.events = events::subscribe(&self.client, self.subscribed_at, self.must_replay);
        self.must_replay = true;
        self.backoff = None;
    }

    /// Reports whether the engine delivers no events.
    pub(super) fn is_lost(&self) -> bool {
        self.failures >= REPORTED_FAILURES
    }

    /// Reports whether the stream has failed and is not open again.
    pub(super) fn is_failing(&self) -> bool {
        self.is_lost() || self.ping.is_some() || self.backoff.is_some()
    }

    /// Returns the next input. Cancel-safe.
    pub(super) async fn next(&mut self) -> StreamInput {
        if let Some((failure, ping)) = &mut self.ping {
            let result = ping.await;
            let failure = std::mem::take(failure);
            // A replay would repeat the event.
            self.must_replay = failure.unreadable.is_none();
            self.ping = None;
            return StreamInput::Pinged(failure, result);
        }
        if let Some(backoff) = &mut self.backoff {
            backoff.await;
            self.subscribe();
        }
        let stable_in = self.is_lost().then(|| STABLE_AFTER.saturating_sub(self.age()));
        let stable = async {
            match stable_in {
                Some(left) => sleep(left).await,
                None => pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            event = self.events.next() => event,
            () = stable => {
                self.failures = 0;
                return StreamInput::Restored;
            }
        };
        match event {
            Some(Ok(event)) => StreamInput::Event(Box::new(event)),
            Some(Err(error)) => self.fail(StreamFailure {
                reason: crate::error::classify_transport(&error).to_string(),
                unreadable: Unreadable::from_error(&error),
            }),
            None => self.fail(StreamFailure {
                reason: "the event stream ended".to_owned(),
                unreadable: None,
            }),
        }
    }

    /// Time since the last subscription.
    fn age(&self) -> Duration {
        (self.shared.now)().since(self.subscribed_at)
    }

    fn fail(&mut self, failure: StreamFailure) -> StreamInput {
        self.events = stream::pending().boxed();
        let (shared, client) = (self.shared.clone(), self.client.clone());
        let unreadable = failure.unreadable.clone();
        let ping = Box::pin(async move {
            call::ping(&shared).await?;
            Ok(match unreadable {
                Some(unreadable) => Some(unreadable.describe("an event", &client, shared.times).await),
                None => None,
            })
        });
        self.ping = Some((failure, ping));
        StreamInput::Failed
    }

    /// Schedules the next subscription, because the engine answers pings. Reports the loss of the events once.
    pub(super) fn retry_later(&mut self, reason: String, output: &mut Output) {
        let worked = self.failures == 0 || self.age() >= STABLE_AFTER;
        let was_lost = self.is_lost();
        self.failures = if worked {
            1
        } else {
            self.failures.saturating_add(1)
        };
        self.backoff = Some(Box::pin(sleep(self.retry_delay())));
        if was_lost && !self.is_lost() {
            // It worked long enough, but ended before its timer could report that.
            output.push_back(WatchEvent::EventsRestored);
        }
        if self.is_lost() && !was_lost {
            tracing::debug!(%reason, "the engine delivers no events");
            output.push_back(WatchEvent::EventsLost((self.shared.now)(), reason));
        }
    }

    fn retry_delay(&self) -> Duration {
        if self.failures <= 1 {
            return FIRST_RETRY_DELAY;
        }
        let key = self.shared.connection.endpoint().to_string();
        let growing = delay(
            Growth::Exponential,
            RETRY_BASE,
            MAX_RETRY_DELAY,
            self.failures - 1,
        );
        jittered(growing, &key, self.failures).min(MAX_RETRY_DELAY)
    }
}
