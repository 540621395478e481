//! An engine in memory with faults: deterministic for a seed, in virtual time.
//!
//! [`Engine`] has three parts: the [`Model`] holds the objects, a [`FaultProfile`] breaks calls, and the watch delays,
//! drops, repeats and reorders events. The caller passes the time to each method and takes [`SimEvent`]s out.
//! [`Sim`] wraps an [`Engine`] as a [`Backend`](crate::Backend). Randomness comes from one [`Rng`], so the same seed and
//! the same calls give the same run.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::action::Action;
use argus_core::backoff::{self, Growth};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::time::Timestamp;

mod backend;
mod call;
pub mod faults;
mod lease;
mod log;
mod manual_changes;
pub mod model;
pub mod rng;
mod watch;

pub use backend::Sim;
pub use faults::{Fault, FaultProfile};
pub use model::{Call, ExitScript, Model};
pub use rng::Rng;

use watch::SimWatch;

/// Delay before the first reconnect to an engine that is down. It doubles up to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay before a reconnect.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time between two full lists.
const LIST_INTERVAL: Duration = Duration::from_secs(10);
/// Delay of a requested list. All requests within it share one list.
const RELIST_DELAY: Duration = Duration::from_millis(50);

/// An output of the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum SimEvent {
    /// An event of the watch.
    Observed(WatchEvent),
    /// The result of a call.
    Returned(CallId, Result<Done, ActionError>),
}

/// Identity of a started call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// The engine, the connection to it and its watch.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Actual state of the engine, without the delays of the watch.
    pub model: Model,
    faults: FaultProfile,
    rng: Rng,
    watch: SimWatch,
    /// Future events by time, then by the order in which they were scheduled.
    agenda: BTreeMap<(Timestamp, u64), Scheduled>,
    /// Counter for call ids and for the order of the agenda.
    count: u64,
    now: Timestamp,
    down: bool,
    /// Number of the watch session; lists and reconnects of an older session have no effect.
    session: u64,
    list_requested: bool,
    injected_faults: usize,
}

/// State of the containers after a restart of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRestart {
    /// All processes continue to run, as with live-restore.
    Running,
    /// All processes have ended.
    Ended,
    /// All processes have ended, and this percentage of the containers is lost. Foreign containers are never lost.
    Lost(u64),
}

#[derive(Debug, Clone)]
enum Scheduled {
    Arrive(WatchEvent),
    Answer(CallId, Result<Done, ActionError>),
    Execute(Action, Option<CallId>),
    ListBegins { session: u64, periodic: bool },
    ListTaken { session: u64 },
    Try { session: u64, tries: u32 },
    EngineRestored,
}

impl Engine {
    /// An empty engine with a fault profile; `seed` determines all of its randomness.
    pub fn new(seed: u64, faults: FaultProfile) -> Self {
        Self {
            faults,
            rng: Rng::new(seed),
            ..Self::default()
        }
    }

    /// Replaces the fault profile.
    pub fn set_faults(&mut self, faults: FaultProfile) {
        self.faults = faults;
    }

    /// Starts a watch. Events that an earlier watch has not delivered yet are dropped.
    pub fn start_watch(&mut self, now: Timestamp) {
        self.advance(now);
        self.end_session();
        if self.down {
            self.schedule(
                now,
                Scheduled::Arrive(WatchEvent::Disconnected(now, "connection refused".to_owned())),
            );
            self.schedule_retry(1);
        } else {
            self.begin_session();
        }
    }

    /// Requests a full list after 50 ms. Has no effect while the engine is down or a list is already requested.
    pub fn request_relist(&mut self, now: Timestamp) {
        self.advance(now);
        if !self.down && !self.list_requested {
            self.list_requested = true;
            let session = self.session;
            self.schedule(
                now + RELIST_DELAY,
                Scheduled::ListBegins {
                    session,
                    periodic: false,
                },
            );
        }
    }

    /// Starts a call; its result follows as [`SimEvent::Returned`].
    pub fn begin(&mut self, action: &Action, now: Timestamp) -> CallId {
        self.advance(now);
        self.count += 1;
        let id = CallId(self.count);
        let at = now + self.rng.millis(self.faults.call);
        let hung = || Err(ActionError::TimedOut("no answer".to_owned()));
        if self.down {
            self.injected_faults += 1;
            self.schedule(
                at,
                Scheduled::Answer(id, Err(ActionError::Unreachable("connection refused".to_owned()))),
            );
            return id;
        }
        let fault = Fault::of(&self.faults, &mut self.rng);
        self.injected_faults += usize::from(fault != Fault::None);
        match fault {
            Fault::None => self.schedule(at, Scheduled::Execute(action.clone(), Some(id))),
            Fault::Before(error) => self.schedule(at, Scheduled::Answer(id, Err(error))),
            Fault::ReplyLost(lost) => {
                self.schedule(at, Scheduled::Execute(action.clone(), None));
                self.schedule(at, Scheduled::Answer(id, Err(lost)));
            }
            Fault::Hangs(deadline) => self.schedule(now + deadline, Scheduled::Answer(id, hung())),
            Fault::AppliedAndHangs(deadline) => {
                self.schedule(at, Scheduled::Execute(action.clone(), None));
                self.schedule(now + deadline, Scheduled::Answer(id, hung()));
            }
            Fault::AppliedLate(deadline, late) => {
                self.schedule(now + deadline, Scheduled::Answer(id, hung()));
                self.schedule(now + deadline + late, Scheduled::Execute(action.clone(), None));
            }
        }
        id
    }

    /// Takes the engine down for `away`; every process ends.
    pub fn restart(&mut self, now: Timestamp, away: Duration) {
        self.restart_with(now, away, AfterRestart::Ended);
    }

    /// Takes the engine down for `away`. Has no effect on an engine that is already down.
    pub fn restart_with(&mut self, now: Timestamp, away: Duration, after: AfterRestart) {
        self.advance(now);
        if self.down {
            return;
        }
        match after {
            AfterRestart::Running => {}
            AfterRestart::Ended => self.model.engine_restarts(),
            AfterRestart::Lost(share) => {
                self.model.engine_restarts();
                self.model.lose_containers(share, &mut self.rng);
            }
        }
        self.end_session();
        self.down = true;
        self.schedule(
            now,
            Scheduled::Arrive(WatchEvent::Disconnected(now, "connection refused".to_owned())),
        );
        self.schedule_retry(1);
        self.schedule(now + away, Scheduled::EngineRestored);
    }

    /// Changes the model from outside Argus, as a process, another program or a person would.
    pub fn change(&mut self, now: Timestamp, change: impl FnOnce(&mut Model)) {
        self.advance(now);
        change(&mut self.model);
        self.deliver_changes();
    }

    /// Number of injected faults: failed calls, and watch events that were lost, repeated, reordered or incomplete.
    pub fn injected_faults(&self) -> usize {
        self.injected_faults
    }

    /// Time of the next event; `None` when nothing is scheduled.
    pub fn next_at(&self) -> Option<Timestamp> {
        let agenda = self.agenda.keys().next().map(|(at, _)| *at);
        [agenda, self.model.next_end()].into_iter().flatten().min()
    }

    /// Advances the time to `now` and returns all events until then, in order.
    pub fn advance_until(&mut self, now: Timestamp) -> Vec<SimEvent> {
        let mut out = Vec::new();
        while let Some(at) = self.next_at().filter(|at| *at <= now) {
            self.advance(at.max(self.now));
            while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= at) {
                let scheduled = entry.remove();
                out.extend(self.process(scheduled));
            }
        }
        self.advance(now);
        out
    }

    fn process(&mut self, scheduled: Scheduled) -> Option<SimEvent> {
        match scheduled {
            Scheduled::Arrive(event) => return Some(SimEvent::Observed(event)),
            Scheduled::Answer(id, result) => return Some(SimEvent::Returned(id, result)),
            Scheduled::Execute(action, id) => {
                let result = if self.down {
                    Err(ActionError::ConnectionLost("connection closed".to_owned()))
                } else {
                    self.model.act(&action, self.now)
                };
                self.deliver_changes();
                return id.map(|id| SimEvent::Returned(id, result));
            }
            Scheduled::ListBegins { session, periodic } if session == self.session => {
                if periodic {
                    self.schedule(
                        self.now + LIST_INTERVAL,
                        Scheduled::ListBegins { session, periodic },
                    );
                } else {
                    self.list_requested = false;
                }
                self.deliver(WatchEvent::Init);
                let at = self.now + self.rng.millis(self.faults.list);
                self.schedule(at, Scheduled::ListTaken { session });
            }
            Scheduled::ListTaken { session } if session == self.session => self.deliver_list(),
            Scheduled::Try { session, tries } if session == self.session && self.down => {
                let next = self.schedule_retry(tries + 1);
                let next = Some(next);
                return Some(SimEvent::Observed(WatchEvent::Retrying { tries, next }));
            }
            Scheduled::ListBegins { .. } | Scheduled::ListTaken { .. } | Scheduled::Try { .. } => {}
            Scheduled::EngineRestored => {
                self.down = false;
                self.begin_session();
            }
        }
        None
    }

    /// Schedules the next reconnect to an engine that is down, with exponential backoff.
    fn schedule_retry(&mut self, tries: u32) -> Timestamp {
        let pause = backoff::delay(Growth::Exponential, MIN_RETRY_DELAY, MAX_RETRY_DELAY, tries);
        let (at, session) = (self.now + pause, self.session);
        self.schedule(at, Scheduled::Try { session, tries });
        at
    }

    fn deliver_list(&mut self) {
        let at = self.watch.in_order(self.now, &self.faults, &mut self.rng);
        for event in self.model.list() {
            if self.rng.percent(self.faults.without_inspect) {
                self.injected_faults += 1;
                self.schedule(at, Scheduled::Arrive(watch::without_inspect(&event)));
                self.deliver(event);
            } else {
                self.schedule(at, Scheduled::Arrive(event));
            }
        }
        self.schedule(at, Scheduled::Arrive(WatchEvent::InitDone));
    }

    fn begin_session(&mut self) {
        self.deliver(WatchEvent::Connected(self.now));
        let session = self.session;
        self.schedule(
            self.now,
            Scheduled::ListBegins {
                session,
                periodic: true,
            },
        );
    }

    /// Ends the watch session: drops its undelivered events and its running list.
    fn end_session(&mut self) {
        self.session += 1;
        self.list_requested = false;
        self.watch.close(self.now);
        self.agenda
            .retain(|_, scheduled| !matches!(scheduled, Scheduled::Arrive(_)));
    }

    fn deliver(&mut self, event: WatchEvent) {
        let at = self.watch.in_order(self.now, &self.faults, &mut self.rng);
        self.schedule(at, Scheduled::Arrive(event));
    }

    /// Turns each change of the model into a watch event, which the faults may delay or drop.
    fn deliver_changes(&mut self) {
        for event in std::mem::take(&mut self.model.changes) {
            if self.down {
                continue;
            }
            let (is_faulty, deliveries) = self
                .watch
                .deliveries(event, self.now, &self.faults, &mut self.rng);
            self.injected_faults += usize::from(is_faulty);
            for (at, event) in deliveries {
                self.schedule(at, Scheduled::Arrive(event));
            }
        }
    }

    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.model.advance(self.now);
        self.deliver_changes();
    }

    fn schedule(&mut self, at: Timestamp, scheduled: Scheduled) {
        self.count += 1;
        self.agenda.insert((at, self.count), scheduled);
    }
}
