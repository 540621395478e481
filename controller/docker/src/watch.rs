//! The watch of one Docker engine: an endless stream of [`WatchEvent`]s, as a Kubernetes informer delivers them.
//!
//! [`watch_events`] is the entry point. [`Watcher::step`] is the whole state machine: it takes a [`State`] and returns the next.
//!
//! # States
//!
//! ```text
//!                connected               due, or requested           Init was taken
//! Disconnected ────────────▶ Watching ──────────────────▶ Announced ────────────────▶ Listing
//!      ▲                      ▲    ▲                                                   │   │
//!      │                      │    └──────────────── complete: InitDone ───────────────┘   │
//!      │                      └─────── the engine responds ─────── Pinging ◀─── failed ────┘
//!      └── from every state: the event stream ends and no ping is answered, or the third failure of list or ping in a row
//! ```
//!
//! The [`Session`] exists in all states except `Disconnected`. In all of them it follows the events and inspects objects;
//! its [`InspectQueue`](inspect_queue::InspectQueue) decides which object is inspected when. The path of an event is:
//! [`Session::step`] → [`events::effects`] → the queue → [`queries::inspect`] → [`WatchEvent::Apply`] or
//! [`WatchEvent::Delete`].
//!
//! A connection opens in this order: subscribe to the events, ping the engine, emit [`WatchEvent::Connected`], list. Events
//! come first, so a change during the list is never missed. When the previous session ended without a complete list,
//! the engine must also return a list of one container before it counts as connected.
//!
//! # Guarantees to the consumer
//!
//! - The stream never ends. It never reports an error as such: a lost engine is an event.
//! - Every list starts with [`WatchEvent::Init`] and, when it succeeds, ends with [`WatchEvent::InitDone`]. An object that
//!   the watch did not report between these two no longer exists. It gets no `Delete`.
//! - A list is requested from the engine only after the consumer has taken `Init`. It therefore contains the effect of
//!   every call that returned before `Init`.
//! - A list that fails has no `InitDone` and proves nothing. The same holds for a list that a `Disconnected` cuts off.
//! - [`WatchEvent::Apply`] holds the object as the engine last reported it. A container that a list shows as new or
//!   changed has `inspect: None`; an inspect and a second `Apply` follow. After a reconnect an unchanged container keeps
//!   its previous details until the next inspect.
//! - Events are level-triggered. Several changes may become one `Apply`, and an `Apply` may repeat a known state.
//! - The end of a run is reported immediately, with `inspect: None`. An inspect and a second `Apply` follow. A list between them does not
//!   revive the run: the engine lists a container as running until it has handled the end.
//! - While a call of this backend changes a container, its events cause no `Apply`. One inspect and one `Apply` follow the
//!   end of the call. An object that a call created is reported without an inspect.
//! - [`WatchEvent::Delete`] follows only for an object that was reported and that an inspect no longer finds.
//! - [`WatchEvent::StoppedByOther`] and [`WatchEvent::OutOfMemory`] are hints: the engine's events can be lost or replayed. Events
//!   of earlier runs, and stops by this backend, are filtered out.
//! - Only objects with the label `argusai.managed=true` are reported. A container that merely inherited the label from
//!   its image is dropped after its first inspect.
//! - [`WatchEvent::EventsLost`] and [`WatchEvent::EventsRestored`] change nothing about the reported objects.
//! - `Connected` follows every successful connect, also the first, and [`WatchEvent::EngineStarted`] follows it. Every `Disconnected` invalidates a running list.
//!
//! # Recovery
//!
//! - *A lost event*: the next list shows the change. Lists run every 10 to 30 seconds ([`pace`]) and on request
//!   ([`Backend::request_relist`](argus_backend::Backend::request_relist)).
//! - *A stalled event stream*: the [`stall_detector`] notices a change in a list, or a call of this backend, that had no
//!   event for five seconds. The session then subscribes again and emits [`WatchEvent::StreamGap`].
//! - *A failed event stream*: a ping follows. If the engine answers, the session continues: it requests a list and
//!   subscribes again, after 100 ms and then with a backoff up to 60 s ([`event_stream`]). It emits [`WatchEvent::StreamGap`]. From the second failure in a row on it
//!   emits [`WatchEvent::EventsLost`], lists every 2 to 10 seconds, and emits [`WatchEvent::EventsRestored`] once a subscription
//!   has worked for 10 seconds.
//! - *A failed inspect*: the object stays in the queue and is inspected again after 1 to 30 seconds, without a delay for
//!   other objects. If the engine did not accept the connection, a list follows immediately.
//! - *A list or event that Argus cannot read*: [`WatchEvent::Unreadable`] reports it once, and a list follows. The session continues
//!   with the last complete list.
//! - *A failed list*: a ping follows. If it succeeds, the next list starts after one second.
//! - *A lost engine*: reconnects back off from 500 ms, with jitter: to 1 s on a local socket, else to
//!   60 s. After a socket that refuses the user, the delay is 60 s. A new or changed socket file
//!   or [`Backend::reconnect`](argus_backend::Backend::reconnect) ends the wait immediately. Only a session that lasted
//!   10 seconds resets the backoff.
//!
//! # Costs
//!
//! The watch spawns no task: its single consumer drives it by polling the stream. An engine event costs at most one entry
//! in the queue, and no call is awaited between two events. The queue of pending watch events is bounded by the size of a list.
//! Calls of this backend suppress inspects of the same container while they run ([`in_flight`](crate::in_flight)).

mod event_stream;
mod events;
mod inspect_queue;
mod last_seen;
mod pace;
mod queries;
mod session;
mod stall_detector;
mod unreadable;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_core::backoff::{Growth, delay, jittered};
use argus_core::ident::ContainerId;
use argus_core::observed::{Container, Object, ObjectId, WatchEvent};
use argus_core::outcome::ActionError;
use argus_core::socket_access::is_refused;
use argus_core::time::Timestamp;
use futures::future::BoxFuture;
use futures::{Stream, stream};
use tokio::time::{Sleep, sleep};

use crate::connect::Endpoint;
use crate::{Shared, call};
use last_seen::LastSeen;
use pace::LIST_RETRY_DELAY;
use queries::Listing;
use session::{Output, Session, SessionError};
use unreadable::ListError;

/// Base of the exponential backoff of reconnects.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// Maximum backoff between two reconnects over a network.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum backoff between two reconnects to a local socket, where an attempt costs next to nothing.
const MAX_LOCAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Minimum duration of a session that counts as successful and resets the backoff.
const MIN_SESSION: Duration = Duration::from_secs(10);
/// Interval of checks for a new socket during a backoff. A check is one `stat`, without a connection.
const SOCKET_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Number of failures of list or ping, without a complete list in between, that end the session.
const MAX_LIST_FAILURES: u32 = 3;

/// The endless stream behind `Backend::watch`.
pub(crate) fn watch_events(shared: Arc<Shared>) -> impl Stream<Item = WatchEvent> + Send + 'static {
    let watcher = Watcher {
        shared,
        state: State::Disconnected,
        output: Output::new(),
        last_seen: LastSeen::default(),
        attempt: 0,
        failed_attempts: 0,
        must_list: false,
        connected_at: Timestamp::default(),
        reported_loss: None,
    };
    stream::unfold(watcher, |mut watcher| async {
        let event = watcher.next().await;
        Some((event, watcher))
    })
}

/// Inspects one container; `None` when it does not exist or does not carry our label.
pub(crate) async fn inspect_container(
    shared: &Arc<Shared>,
    id: &ContainerId,
) -> Result<Option<Arc<Container>>, ActionError> {
    let client = shared.connection.client()?;
    let (_, found) = queries::inspect(client, shared.clone(), ObjectId::Container(id.clone())).await;
    Ok(found?.and_then(|object| match object {
        Object::Container(container) => Some(container),
        Object::Network(_) | Object::Volume(_) => None,
    }))
}

/// State of the watch. Each step makes one transition, after the consumer has taken all earlier events.
enum State {
    /// No connection, the initial state. The next step waits for the backoff and connects. A failure emits
    /// [`WatchEvent::Disconnected`], once per reason, and [`WatchEvent::Retrying`].
    Disconnected,
    /// No list is in progress. The next one starts at the end of the sleep, or earlier on request.
    Watching(Box<Session>, Pin<Box<Sleep>>),
    /// The consumer has taken [`WatchEvent::Init`]. The next step requests the list, which therefore shows the effect of
    /// every call that the consumer made before.
    Announced(Box<Session>),
    /// A list is in progress.
    Listing(Box<Session>, RunningList),
    /// The last list failed. A ping shows whether the engine still responds.
    Pinging(Box<Session>, BoxFuture<'static, Result<(), ActionError>>),
}

struct RunningList {
    since: Timestamp,
    call: BoxFuture<'static, Result<Listing, ListError>>,
}

struct Watcher {
    shared: Arc<Shared>,
    state: State,
    /// Watch events that the consumer has not taken yet.
    output: Output,
    last_seen: LastSeen,
    /// Attempts to connect since the last successful session.
    attempt: u32,
    /// Consecutive attempts that failed.
    failed_attempts: u32,
    /// The last session has had no complete list.
    must_list: bool,
    /// Start of the last session.
    connected_at: Timestamp,
    /// Reason of the last reported disconnect; `None` while connected.
    reported_loss: Option<String>,
}

impl Watcher {
    async fn next(&mut self) -> WatchEvent {
        loop {
            if let Some(event) = self.output.pop_front() {
                return event;
            }
            // `unfold` keeps a pending step, so the placeholder is never seen.
            let state = std::mem::replace(&mut self.state, State::Disconnected);
            match self.step(state).await {
                Ok(next) => self.state = next,
                Err(SessionError(reason)) => self.on_session_lost(reason),
            }
        }
    }

    /// Makes one transition. An error ends the session, and the next state is [`State::Disconnected`].
    async fn step(&mut self, state: State) -> Result<State, SessionError> {
        let (last_seen, output) = (&mut self.last_seen, &mut self.output);
        Ok(match state {
            State::Disconnected => self.connect().await,
            State::Watching(mut session, mut next_list) => tokio::select! {
                stepped = session.step(last_seen, output) => {
                    stepped?;
                    State::Watching(session, next_list)
                }
                () = &mut next_list => {
                    session.announce_list(output);
                    State::Announced(session)
                }
                // In other states the request stays pending: it asks for a list that starts after it.
                () = self.shared.relist.notified() => {
                    let delay = session.relist_delay();
                    State::Watching(session, Box::pin(sleep(delay)))
                }
            },
            State::Announced(session) => {
                let since = (self.shared.now)();
                let call = session.list();
                State::Listing(session, RunningList { since, call })
            }
            State::Listing(mut session, mut list) => tokio::select! {
                stepped = session.step(last_seen, output) => {
                    stepped?;
                    State::Listing(session, list)
                }
                listed = &mut list.call => match listed {
                    Ok(listing) => {
                        let cost = (self.shared.now)().since(list.since);
                        session.on_listed(listing, last_seen, output);
                        self.must_list = false;
                        let next_list = Box::pin(sleep(session.list_interval(cost)));
                        State::Watching(session, next_list)
                    }
                    Err(ListError::Unreadable(what)) => {
                        session.on_unreadable_list(what, output)?;
                        State::Watching(session, Box::pin(sleep(LIST_RETRY_DELAY)))
                    }
                    Err(ListError::Failed(error)) => self.ping(session, &error)?,
                },
            },
            State::Pinging(mut session, mut ping) => tokio::select! {
                stepped = session.step(last_seen, output) => {
                    stepped?;
                    State::Pinging(session, ping)
                }
                pinged = &mut ping => match pinged {
                    Ok(()) => State::Watching(session, Box::pin(sleep(LIST_RETRY_DELAY))),
                    Err(error) => self.ping(session, &error)?,
                },
            },
        })
    }

    async fn connect(&mut self) -> State {
        if self.attempt > 0 {
            let delay = self.retry_delay();
            wait_for_retry(&self.shared, delay).await;
        }
        self.attempt = self.attempt.saturating_add(1);
        match Session::open(
            &self.shared,
            self.must_list,
            &mut self.last_seen,
            &mut self.output,
        )
        .await
        {
            Ok(session) => {
                self.connected_at = (self.shared.now)();
                self.must_list = true;
                self.last_seen.invalidate_all();
                self.reported_loss = None;
                self.failed_attempts = 0;
                self.output.push_front(WatchEvent::Connected(self.connected_at));
                State::Watching(Box::new(session), Box::pin(sleep(Duration::ZERO)))
            }
            Err(SessionError(reason)) => {
                self.failed_attempts = self.failed_attempts.saturating_add(1);
                self.report_loss(reason);
                let next = (self.shared.now)() + self.retry_delay();
                self.output.push_back(WatchEvent::Retrying {
                    tries: self.failed_attempts,
                    next: Some(next),
                });
                State::Disconnected
            }
        }
    }

    /// Delay before the next attempt. A socket that refuses the user is tried slowly: its change ends the wait early.
    fn retry_delay(&self) -> Duration {
        if self.reported_loss.as_deref().is_some_and(is_refused) {
            return MAX_RETRY_DELAY;
        }
        retry_delay(self.shared.connection.endpoint(), self.attempt)
    }

    /// Counts a failed list or ping; the next step is a ping, or the end of the session.
    fn ping(&self, mut session: Box<Session>, error: &ActionError) -> Result<State, SessionError> {
        session.list_failures += 1;
        if session.list_failures >= MAX_LIST_FAILURES {
            return Err(SessionError(error.to_string()));
        }
        let shared = self.shared.clone();
        let ping = Box::pin(async move { call::ping(&shared).await });
        Ok(State::Pinging(session, ping))
    }

    fn on_session_lost(&mut self, reason: String) {
        // A session that ends immediately is retried with a delay.
        let lasted = (self.shared.now)().since(self.connected_at) >= MIN_SESSION;
        self.attempt = if lasted { 1 } else { self.attempt.max(1) };
        self.report_loss(reason);
    }

    /// Reports that the engine is unreachable, once per reason.
    fn report_loss(&mut self, reason: String) {
        if self.reported_loss.as_ref() != Some(&reason) {
            tracing::debug!(endpoint = %self.shared.connection.endpoint(), %reason, "engine lost");
            self.reported_loss = Some(reason.clone());
            self.output
                .push_back(WatchEvent::Disconnected((self.shared.now)(), reason));
        }
    }
}

/// Delay before the given attempt.
fn retry_delay(endpoint: &Endpoint, attempt: u32) -> Duration {
    let max = match endpoint {
        Endpoint::Unix(_) => MAX_LOCAL_RETRY_DELAY,
        Endpoint::Tcp(_) | Endpoint::Tls(..) => MAX_RETRY_DELAY,
    };
    let growing = delay(Growth::Exponential, RETRY_BASE, max, attempt);
    jittered(growing, &endpoint.to_string(), attempt).min(max)
}

/// Waits for the next attempt. A new socket or a request to reconnect ends the wait early.
async fn wait_for_retry(shared: &Shared, mut left: Duration) {
    let connection = &shared.connection;
    let before = connection.socket_identity();
    while !left.is_zero() {
        let step = left.min(SOCKET_CHECK_INTERVAL);
        if tokio::time::timeout(step, shared.reconnect.notified())
            .await
            .is_ok()
        {
            return;
        }
        left -= step;
        let socket = connection.socket_identity();
        if socket.is_some() && socket != before {
            return;
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "watch_time_tests.rs"]
mod time_tests;
