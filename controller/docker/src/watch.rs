//! The watch of one Docker engine: an endless stream of [`WatchEvent`]s, as a Kubernetes informer delivers them.
//!
//! # States
//!
//! The [`Watcher`] is in one of two states:
//!
//! - **Disconnected**, the initial state (`session` is `None`). [`Watcher::connect`] waits for its backoff and then opens
//!   a [`Session`]. A failure emits [`WatchEvent::Disconnected`], once per reason, and [`WatchEvent::Retrying`].
//! - **Connected** (`session` is `Some`). The session follows the engine's events, lists all labelled objects from time
//!   to time, and inspects single objects, all in parallel. Its first error ends it.
//!
//! A session opens in this order: subscribe to the events, ping the engine, emit [`WatchEvent::Connected`], list. Events
//! come first, so a change during the list is never missed. When the previous session ended without a complete list,
//! the engine must also return a list of one container before it counts as connected.
//!
//! Inside a [`session`] the list is in one of four states: idle until the next list is due, announced, in progress, or
//! failed and waiting for a ping. Three failures of list or ping without a complete list in between end the session.
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
//! - [`WatchEvent::Delete`] follows only for an object that was reported and that an inspect no longer finds.
//! - [`WatchEvent::Stopped`] and [`WatchEvent::OutOfMemory`] are hints: the engine's events can be lost or replayed. Events
//!   of earlier runs, and stops by this backend, are filtered out.
//! - Only objects with the label `argusai.managed=true` are reported. A container that merely inherited the label from
//!   its image is dropped after its first inspect.
//! - `Connected` follows every successful connect, also the first. Every `Disconnected` invalidates a running list.
//!
//! # Recovery
//!
//! - *A lost event*: the next list shows the change. Lists run every 10 to 30 seconds ([`pace`]) and on request
//!   ([`Backend::request_relist`](argus_backend::Backend::request_relist)).
//! - *A stalled event stream*: the [`stall_detector`] notices a change in a list, or a call of this backend, that had no
//!   event for five seconds. The session then subscribes again and emits [`WatchEvent::StreamStalled`].
//! - *A failed inspect*: the object stays in the [`WorkQueue`](crate::work_queue::WorkQueue) and is inspected again after
//!   1 to 30 seconds, without a delay for other objects.
//! - *A failed list*: a ping follows. If it succeeds, the next list starts after one second.
//! - *A lost engine*: reconnects start after 100 ms and then back off from 500 ms to 60 s, with jitter. A new socket file
//!   or [`Backend::reconnect`](argus_backend::Backend::reconnect) ends the wait immediately. Only a session that lasted
//!   10 seconds resets the backoff.
//!
//! # Costs
//!
//! The watch spawns no task: its single consumer drives it by polling the stream. An engine event costs one entry in a
//! set, and no call is awaited between two events. The queue of pending watch events is bounded by the size of a list.
//! Calls of this backend suppress inspects of the same container while they run ([`in_flight`](crate::in_flight)).

mod delay_queue;
mod events;
mod last_seen;
mod pace;
mod queries;
mod session;
mod stall_detector;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use argus_core::backoff::{Growth, delay, jittered};
use argus_core::observed::WatchEvent;
use argus_core::time::Timestamp;
use futures::{Stream, stream};

use crate::Shared;
use last_seen::LastSeen;
use session::{Session, SessionError};

/// Delay before the first reconnect. It is short, because most losses are a restart of the engine or a cut connection.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Base of the exponential backoff of all later reconnects.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// Maximum backoff between two reconnects.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Minimum duration of a session that counts as successful and resets the backoff.
const MIN_SESSION: Duration = Duration::from_secs(10);
/// Interval of checks for a new socket during a backoff. A check is one `stat`, without a connection.
const SOCKET_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The endless stream behind `Backend::watch`.
pub(crate) fn events(shared: Arc<Shared>) -> impl Stream<Item = WatchEvent> + Send + 'static {
    let watcher = Watcher {
        shared,
        queue: VecDeque::new(),
        last_seen: LastSeen::default(),
        session: None,
        attempt: 0,
        misses: 0,
        must_list: false,
        reason: None,
    };
    stream::unfold(watcher, |mut watcher| async {
        let event = watcher.next().await;
        Some((event, watcher))
    })
}

struct Watcher {
    shared: Arc<Shared>,
    queue: VecDeque<WatchEvent>,
    last_seen: LastSeen,
    session: Option<(Session, Timestamp)>,
    /// Attempts to connect since the last successful session.
    attempt: u32,
    /// Consecutive attempts that failed.
    misses: u32,
    /// The last session ended without a complete list.
    must_list: bool,
    /// Reason of the last reported disconnect; `None` while connected.
    reason: Option<String>,
}

impl Watcher {
    async fn next(&mut self) -> WatchEvent {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return event;
            }
            match &mut self.session {
                Some((session, since)) => {
                    let Err(SessionError(reason)) =
                        session.next_wake(&mut self.last_seen, &mut self.queue).await
                    else {
                        continue;
                    };
                    if (self.shared.now)().since(*since) >= MIN_SESSION {
                        self.attempt = 0;
                    }
                    self.must_list = session.listed_at.is_none();
                    self.session = None;
                    self.on_lost(reason);
                }
                None => self.connect().await,
            }
        }
    }

    async fn connect(&mut self) {
        if self.attempt > 0 {
            wait_for_retry(&self.shared, retry_delay(&self.shared, self.attempt)).await;
        }
        self.attempt = self.attempt.saturating_add(1);
        match Session::open(&self.shared, self.must_list, &mut self.last_seen, &mut self.queue).await {
            Ok(session) => {
                let now = (self.shared.now)();
                self.last_seen.invalidate_all();
                self.reason = None;
                self.misses = 0;
                self.queue.push_front(WatchEvent::Connected(now));
                self.session = Some((session, now));
            }
            Err(SessionError(reason)) => {
                self.misses = self.misses.saturating_add(1);
                self.on_lost(reason);
                let next = (self.shared.now)() + retry_delay(&self.shared, self.attempt);
                self.queue.push_back(WatchEvent::Retrying {
                    tries: self.misses,
                    next: Some(next),
                });
            }
        }
    }

    /// Reports that the engine is unreachable, once per reason: a repetition would be no news.
    fn on_lost(&mut self, reason: String) {
        if self.reason.as_ref() != Some(&reason) {
            tracing::debug!(endpoint = %self.shared.connection.endpoint(), %reason, "engine lost");
            self.reason = Some(reason.clone());
            self.queue
                .push_back(WatchEvent::Disconnected((self.shared.now)(), reason));
        }
        // A session that ends immediately is retried with a delay.
        self.attempt = self.attempt.max(1);
    }
}

/// Delay before the given attempt.
fn retry_delay(shared: &Shared, attempt: u32) -> Duration {
    match attempt {
        0 | 1 => FIRST_RETRY_DELAY,
        later => {
            let key = shared.connection.endpoint().to_string();
            jittered(
                delay(Growth::Exponential, RETRY_BASE, MAX_RETRY_DELAY, later - 1),
                &key,
                later,
            )
        }
    }
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
