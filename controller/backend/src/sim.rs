//! A faulty engine in memory: deterministic, in virtual time, with eyes that lag, lose, repeat and reorder.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::backoff::{self, Growth};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::time::Timestamp;

mod backend;
mod call;
pub mod faults;
mod lease;
mod manual_changes;
pub mod model;
pub mod rng;
mod watch;

pub use backend::Sim;
pub use faults::{Fault, FaultProfile};
pub use model::{Call, ContainerScript, Model};
pub use rng::Rng;

use watch::SimWatch;

/// A full list is made this often.
/// An engine that is down is tried again after this, and then ever more seldom.
const FIRST_TRY: Duration = Duration::from_millis(500);
const LAST_TRY: Duration = Duration::from_secs(60);
const LIST_EVERY: Duration = Duration::from_secs(10);
/// A list that is asked for is made this soon; many wishes make one list.
const LIST_SOON: Duration = Duration::from_millis(50);

/// What comes out of the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum SimEvent {
    /// The eyes report.
    Observed(WatchEvent),
    /// A call came back.
    Returned(CallId, Result<Done, ActionError>),
}

/// A call that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// The engine, the wire to it and the eyes on it.
#[derive(Debug, Clone)]
pub struct Engine {
    /// What is really there.
    pub model: Model,
    faults: FaultProfile,
    rng: Rng,
    watch: SimWatch,
    agenda: BTreeMap<(Timestamp, u64), Scheduled>,
    count: u64,
    now: Timestamp,
    down: bool,
    /// Eyes that were closed since do not hear of what the earlier ones began.
    session: u64,
    list_asked: bool,
    problems: usize,
}

/// What an engine's end leaves of its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRestart {
    /// They run on, as with live-restore.
    Running,
    /// Their processes have ended.
    Ended,
    /// Their processes have ended, and so many of a hundred are lost, but for what others made.
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
    Return,
}

impl Engine {
    /// An empty engine in some weather.
    pub fn new(seed: u64, weather: FaultProfile) -> Self {
        Self {
            model: Model::default(),
            faults: weather,
            rng: Rng::new(seed),
            watch: SimWatch::default(),
            agenda: BTreeMap::new(),
            count: 0,
            now: Timestamp::default(),
            down: false,
            session: 0,
            list_asked: false,
            problems: 0,
        }
    }

    /// The weather changes.
    pub fn set_faults(&mut self, faults: FaultProfile) {
        self.faults = faults;
    }

    /// Somebody begins to look: what was under way to an earlier observer is lost.
    pub fn start_watch(&mut self, now: Timestamp) {
        self.pass(now);
        self.blink();
        if self.down {
            self.put(
                now,
                Scheduled::Arrive(WatchEvent::Disconnected(now, "connection refused".to_owned())),
            );
            self.look_for_it(1);
        } else {
            self.begin_session();
        }
    }

    /// The observer asks for a list soon.
    pub fn request_relist(&mut self, now: Timestamp) {
        self.pass(now);
        if !self.down && !self.list_asked {
            self.list_asked = true;
            let session = self.session;
            self.put(
                now + LIST_SOON,
                Scheduled::ListBegins {
                    session,
                    periodic: false,
                },
            );
        }
    }

    /// Begins a call; its answer comes as a [`Happening`].
    pub fn begin(&mut self, act: &Action, now: Timestamp) -> CallId {
        self.pass(now);
        self.count += 1;
        let ticket = CallId(self.count);
        let at = now + self.rng.millis(self.faults.call);
        let hung = || Err(ActionError::TimedOut("no answer".to_owned()));
        if self.down {
            self.problems += 1;
            self.put(
                at,
                Scheduled::Answer(
                    ticket,
                    Err(ActionError::Unreachable("connection refused".to_owned())),
                ),
            );
            return ticket;
        }
        let fault = Fault::of(&self.faults, &mut self.rng);
        self.problems += usize::from(fault != Fault::None);
        match fault {
            Fault::None => self.put(at, Scheduled::Execute(act.clone(), Some(ticket))),
            Fault::Before(error) => self.put(at, Scheduled::Answer(ticket, Err(error))),
            Fault::ReplyLost(lost) => {
                self.put(at, Scheduled::Execute(act.clone(), None));
                self.put(at, Scheduled::Answer(ticket, Err(lost)));
            }
            Fault::Hangs(deadline) => self.put(now + deadline, Scheduled::Answer(ticket, hung())),
            Fault::AppliedAndHangs(deadline) => {
                self.put(at, Scheduled::Execute(act.clone(), None));
                self.put(now + deadline, Scheduled::Answer(ticket, hung()));
            }
            Fault::AppliedLate(deadline, late) => {
                self.put(now + deadline, Scheduled::Answer(ticket, hung()));
                self.put(now + deadline + late, Scheduled::Execute(act.clone(), None));
            }
        }
        ticket
    }

    /// The engine goes down for a while; every process ends.
    pub fn restart(&mut self, now: Timestamp, away: Duration) {
        self.restart_with(now, away, AfterRestart::Ended);
    }

    /// The engine goes down for a while.
    pub fn restart_with(&mut self, now: Timestamp, away: Duration, left: AfterRestart) {
        self.pass(now);
        if self.down {
            return;
        }
        match left {
            AfterRestart::Running => {}
            AfterRestart::Ended => self.model.engine_restarts(),
            AfterRestart::Lost(share) => {
                self.model.engine_restarts();
                self.model.loses(share, &mut self.rng);
            }
        }
        self.blink();
        self.down = true;
        self.put(
            now,
            Scheduled::Arrive(WatchEvent::Disconnected(now, "connection refused".to_owned())),
        );
        self.look_for_it(1);
        self.put(now + away, Scheduled::Return);
    }

    /// A process, a stranger or a person changes something.
    pub fn change(&mut self, now: Timestamp, change: impl FnOnce(&mut Model)) {
        self.pass(now);
        change(&mut self.model);
        self.notice();
    }

    /// Calls that went wrong, and sights that did not come once, whole, in order.
    pub fn problems(&self) -> usize {
        self.problems
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Timestamp> {
        let agenda = self.agenda.keys().next().map(|(at, _)| *at);
        [agenda, self.model.next_end()].into_iter().flatten().min()
    }

    /// Everything that happens until `now`.
    pub fn until(&mut self, now: Timestamp) -> Vec<SimEvent> {
        let mut out = Vec::new();
        while let Some(at) = self.next_at().filter(|at| *at <= now) {
            self.pass(at.max(self.now));
            while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= at) {
                let later = entry.remove();
                out.extend(self.step(later));
            }
        }
        self.pass(now);
        out
    }

    fn step(&mut self, later: Scheduled) -> Option<SimEvent> {
        match later {
            Scheduled::Arrive(seen) => return Some(SimEvent::Observed(seen)),
            Scheduled::Answer(ticket, answer) => return Some(SimEvent::Returned(ticket, answer)),
            Scheduled::Execute(act, ticket) => {
                let answer = if self.down {
                    Err(ActionError::ConnectionLost("connection closed".to_owned()))
                } else {
                    self.model.act(&act, self.now)
                };
                self.notice();
                return ticket.map(|ticket| SimEvent::Returned(ticket, answer));
            }
            Scheduled::ListBegins { session, periodic } if session == self.session => {
                if periodic {
                    self.put(self.now + LIST_EVERY, Scheduled::ListBegins { session, periodic });
                } else {
                    self.list_asked = false;
                }
                self.arrive(WatchEvent::Init);
                let at = self.now + self.rng.millis(self.faults.list);
                self.put(at, Scheduled::ListTaken { session });
            }
            Scheduled::ListTaken { session } if session == self.session => self.list(),
            Scheduled::Try { session, tries } if session == self.session && self.down => {
                let next = self.look_for_it(tries + 1);
                let next = Some(next);
                return Some(SimEvent::Observed(WatchEvent::Retrying { tries, next }));
            }
            Scheduled::ListBegins { .. } | Scheduled::ListTaken { .. } | Scheduled::Try { .. } => {}
            Scheduled::Return => {
                self.down = false;
                self.begin_session();
            }
        }
        None
    }

    /// An engine that is down is tried again and again, ever more seldom.
    fn look_for_it(&mut self, tries: u32) -> Timestamp {
        let pause = backoff::delay(Growth::Exponential, FIRST_TRY, LAST_TRY, tries);
        let (at, session) = (self.now + pause, self.session);
        self.put(at, Scheduled::Try { session, tries });
        at
    }

    fn list(&mut self) {
        let at = self.watch.in_order(self.now, &self.faults, &mut self.rng);
        for seen in self.model.list() {
            if self.rng.percent(self.faults.thin) {
                self.problems += 1;
                self.put(at, Scheduled::Arrive(watch::thin(&seen)));
                self.arrive(seen);
            } else {
                self.put(at, Scheduled::Arrive(seen));
            }
        }
        self.put(at, Scheduled::Arrive(WatchEvent::InitDone));
    }

    fn begin_session(&mut self) {
        self.arrive(WatchEvent::Connected(self.now));
        let session = self.session;
        self.put(
            self.now,
            Scheduled::ListBegins {
                session,
                periodic: true,
            },
        );
    }

    /// Whatever was under way to the eyes is lost, and a list with it.
    fn blink(&mut self) {
        self.session += 1;
        self.list_asked = false;
        self.watch.close(self.now);
        self.agenda
            .retain(|_, later| !matches!(later, Scheduled::Arrive(_)));
    }

    fn arrive(&mut self, seen: WatchEvent) {
        let at = self.watch.in_order(self.now, &self.faults, &mut self.rng);
        self.put(at, Scheduled::Arrive(seen));
    }

    /// Every change of the model becomes a sight, late or never.
    fn notice(&mut self) {
        for seen in std::mem::take(&mut self.model.changes) {
            if self.down {
                continue;
            }
            let (in_trouble, arrivals) = self.watch.arrivals(seen, self.now, &self.faults, &mut self.rng);
            self.problems += usize::from(in_trouble);
            for (at, seen) in arrivals {
                self.put(at, Scheduled::Arrive(seen));
            }
        }
    }

    fn pass(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.model.pass(self.now);
        self.notice();
    }

    fn put(&mut self, at: Timestamp, later: Scheduled) {
        self.count += 1;
        self.agenda.insert((at, self.count), later);
    }
}
