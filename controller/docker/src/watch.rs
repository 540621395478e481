//! Sightings for ever: subscribe, list, follow, and all of it again after every loss.
//!
//! Nothing here is spawned. The stream is polled by its one consumer, which only takes facts in, so polling it is reading
//! the events: an event costs a mark in a set, no call is awaited in between, and looks, lists and events go on side by
//! side. What is ready to be handed out waits in a queue that one list bounds.

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

/// Most losses are a restart of the engine or a cut line: look once at once.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const BASE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// A session shorter than this did not work, whatever it began with.
const WORKED: Duration = Duration::from_secs(10);
/// How often the socket is looked at while an engine is waited for. A look is a `stat`, no connection.
const GLANCE: Duration = Duration::from_millis(250);

/// The endless stream behind `Backend::watch`.
pub(crate) fn events(shared: Arc<Shared>) -> impl Stream<Item = WatchEvent> + Send + 'static {
    let watcher = Watcher {
        shared,
        queue: VecDeque::new(),
        known: LastSeen::default(),
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
    known: LastSeen,
    session: Option<(Session, Timestamp)>,
    /// Tries to connect since the last session that worked.
    attempt: u32,
    /// Tries in a row that found no engine.
    misses: u32,
    /// No list came of the last session.
    must_list: bool,
    /// Why the engine is away, as last told.
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
                    let Err(SessionError(reason)) = session.next_wake(&mut self.known, &mut self.queue).await
                    else {
                        continue;
                    };
                    if (self.shared.now)().since(*since) >= WORKED {
                        self.attempt = 0;
                    }
                    self.must_list = session.listed_at.is_none();
                    self.session = None;
                    self.lost(reason);
                }
                None => self.connect().await,
            }
        }
    }

    async fn connect(&mut self) {
        if self.attempt > 0 {
            wait(&self.shared, pause(&self.shared, self.attempt)).await;
        }
        self.attempt = self.attempt.saturating_add(1);
        match Session::open(&self.shared, self.must_list, &mut self.known, &mut self.queue).await {
            Ok(session) => {
                let now = (self.shared.now)();
                self.known.invalidate_all();
                self.reason = None;
                self.misses = 0;
                self.queue.push_front(WatchEvent::Connected(now));
                self.session = Some((session, now));
            }
            Err(SessionError(reason)) => {
                self.misses = self.misses.saturating_add(1);
                self.lost(reason);
                let next = (self.shared.now)() + pause(&self.shared, self.attempt);
                self.queue.push_back(WatchEvent::Retrying {
                    tries: self.misses,
                    next: Some(next),
                });
            }
        }
    }

    /// Says that the engine is away; once per reason, as nothing else has changed.
    fn lost(&mut self, reason: String) {
        if self.reason.as_ref() != Some(&reason) {
            tracing::debug!(endpoint = %self.shared.connection.endpoint(), %reason, "engine lost");
            self.reason = Some(reason.clone());
            self.queue
                .push_back(WatchEvent::Disconnected((self.shared.now)(), reason));
        }
        // A session that broke at once is tried again later, not at once.
        self.attempt = self.attempt.max(1);
    }
}

/// How long the next try is waited for.
fn pause(shared: &Shared, attempt: u32) -> Duration {
    match attempt {
        0 | 1 => FIRST_RETRY,
        later => {
            let key = shared.connection.endpoint().to_string();
            jittered(delay(Growth::Exponential, BASE, LONGEST, later - 1), &key, later)
        }
    }
}

/// Waits for the next try; a socket that comes (back) ends the wait, and so does whoever asks for it.
async fn wait(shared: &Shared, mut left: Duration) {
    let connection = &shared.connection;
    let before = connection.socket_identity();
    while !left.is_zero() {
        let step = left.min(GLANCE);
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
