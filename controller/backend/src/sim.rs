//! A faulty engine in memory: deterministic, in virtual time, with eyes that lag, lose, repeat and reorder.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::backoff::{self, Growth};
use argus_core::observed::Sighting;
use argus_core::outcome::{ActError, Done};
use argus_core::plan::Act;
use argus_core::time::Timestamp;

mod backend;
mod call;
pub mod chance;
mod eyes;
pub mod faults;
mod lease;
pub mod model;
mod people;

pub use backend::Sim;
pub use chance::Chance;
pub use faults::{Fault, Weather};
pub use model::{Call, Life, Model};

use eyes::Eyes;

/// A full list is made this often.
/// An engine that is down is tried again after this, and then ever more seldom.
const FIRST_TRY: Duration = Duration::from_millis(500);
const LAST_TRY: Duration = Duration::from_secs(60);
const LIST_EVERY: Duration = Duration::from_secs(10);
/// A list that is asked for is made this soon; many wishes make one list.
const LIST_SOON: Duration = Duration::from_millis(50);

/// What comes out of the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The eyes report.
    Seen(Sighting),
    /// A call came back.
    Answered(Ticket, Result<Done, ActError>),
}

/// A call that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The engine, the wire to it and the eyes on it.
#[derive(Debug, Clone)]
pub struct Engine {
    /// What is really there.
    pub model: Model,
    weather: Weather,
    chance: Chance,
    eyes: Eyes,
    agenda: BTreeMap<(Timestamp, u64), Later>,
    count: u64,
    now: Timestamp,
    down: bool,
    /// Eyes that were closed since do not hear of what the earlier ones began.
    session: u64,
    list_asked: bool,
    troubles: usize,
}

/// What an engine's end leaves of its containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// They run on, as with live-restore.
    Running,
    /// Their processes have ended.
    Ended,
    /// Their processes have ended, and so many of a hundred are lost, but for what others made.
    Lost(u64),
}

#[derive(Debug, Clone)]
enum Later {
    Arrive(Sighting),
    Answer(Ticket, Result<Done, ActError>),
    Carry(Act, Option<Ticket>),
    ListBegins { session: u64, periodic: bool },
    ListTaken { session: u64 },
    Try { session: u64, tries: u32 },
    Return,
}

impl Engine {
    /// An empty engine in some weather.
    pub fn new(seed: u64, weather: Weather) -> Self {
        Self {
            model: Model::default(),
            weather,
            chance: Chance::new(seed),
            eyes: Eyes::default(),
            agenda: BTreeMap::new(),
            count: 0,
            now: Timestamp::default(),
            down: false,
            session: 0,
            list_asked: false,
            troubles: 0,
        }
    }

    /// The weather changes.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Somebody begins to look: what was under way to an earlier observer is lost.
    pub fn open_eyes(&mut self, now: Timestamp) {
        self.pass(now);
        self.blink();
        if self.down {
            self.put(
                now,
                Later::Arrive(Sighting::Lost(now, "connection refused".to_owned())),
            );
            self.look_for_it(1);
        } else {
            self.begin_session();
        }
    }

    /// The observer asks for a list soon.
    pub fn look_again(&mut self, now: Timestamp) {
        self.pass(now);
        if !self.down && !self.list_asked {
            self.list_asked = true;
            let session = self.session;
            self.put(
                now + LIST_SOON,
                Later::ListBegins {
                    session,
                    periodic: false,
                },
            );
        }
    }

    /// Begins a call; its answer comes as a [`Happening`].
    pub fn begin(&mut self, act: &Act, now: Timestamp) -> Ticket {
        self.pass(now);
        self.count += 1;
        let ticket = Ticket(self.count);
        let at = now + self.chance.millis(self.weather.call);
        let hung = || Err(ActError::TimedOut("no answer".to_owned()));
        if self.down {
            self.troubles += 1;
            self.put(
                at,
                Later::Answer(
                    ticket,
                    Err(ActError::Unreachable("connection refused".to_owned())),
                ),
            );
            return ticket;
        }
        let fault = Fault::of(&self.weather, &mut self.chance);
        self.troubles += usize::from(fault != Fault::None);
        match fault {
            Fault::None => self.put(at, Later::Carry(act.clone(), Some(ticket))),
            Fault::Before(error) => self.put(at, Later::Answer(ticket, Err(error))),
            Fault::AnswerLost(lost) => {
                self.put(at, Later::Carry(act.clone(), None));
                self.put(at, Later::Answer(ticket, Err(lost)));
            }
            Fault::Hangs(deadline) => self.put(now + deadline, Later::Answer(ticket, hung())),
            Fault::DoneAndHangs(deadline) => {
                self.put(at, Later::Carry(act.clone(), None));
                self.put(now + deadline, Later::Answer(ticket, hung()));
            }
            Fault::DoneLate(deadline, late) => {
                self.put(now + deadline, Later::Answer(ticket, hung()));
                self.put(now + deadline + late, Later::Carry(act.clone(), None));
            }
        }
        ticket
    }

    /// The engine goes down for a while; every process ends.
    pub fn restart(&mut self, now: Timestamp, away: Duration) {
        self.restart_with(now, away, Left::Ended);
    }

    /// The engine goes down for a while.
    pub fn restart_with(&mut self, now: Timestamp, away: Duration, left: Left) {
        self.pass(now);
        if self.down {
            return;
        }
        match left {
            Left::Running => {}
            Left::Ended => self.model.engine_restarts(),
            Left::Lost(share) => {
                self.model.engine_restarts();
                self.model.loses(share, &mut self.chance);
            }
        }
        self.blink();
        self.down = true;
        self.put(
            now,
            Later::Arrive(Sighting::Lost(now, "connection refused".to_owned())),
        );
        self.look_for_it(1);
        self.put(now + away, Later::Return);
    }

    /// A process, a stranger or a person changes something.
    pub fn change(&mut self, now: Timestamp, change: impl FnOnce(&mut Model)) {
        self.pass(now);
        change(&mut self.model);
        self.notice();
    }

    /// Calls that went wrong, and sights that did not come once, whole, in order.
    pub fn troubles(&self) -> usize {
        self.troubles
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Timestamp> {
        let agenda = self.agenda.keys().next().map(|(at, _)| *at);
        [agenda, self.model.next_end()].into_iter().flatten().min()
    }

    /// Everything that happens until `now`.
    pub fn until(&mut self, now: Timestamp) -> Vec<Happening> {
        let mut out = Vec::new();
        while let Some(at) = self.next_at().filter(|at| *at <= now) {
            self.pass(at.max(self.now));
            while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= at) {
                let later = entry.remove();
                out.extend(self.happen(later));
            }
        }
        self.pass(now);
        out
    }

    fn happen(&mut self, later: Later) -> Option<Happening> {
        match later {
            Later::Arrive(seen) => return Some(Happening::Seen(seen)),
            Later::Answer(ticket, answer) => return Some(Happening::Answered(ticket, answer)),
            Later::Carry(act, ticket) => {
                let answer = if self.down {
                    Err(ActError::ConnectionLost("connection closed".to_owned()))
                } else {
                    self.model.act(&act, self.now)
                };
                self.notice();
                return ticket.map(|ticket| Happening::Answered(ticket, answer));
            }
            Later::ListBegins { session, periodic } if session == self.session => {
                if periodic {
                    self.put(self.now + LIST_EVERY, Later::ListBegins { session, periodic });
                } else {
                    self.list_asked = false;
                }
                self.arrive(Sighting::ListBegan);
                let at = self.now + self.chance.millis(self.weather.list);
                self.put(at, Later::ListTaken { session });
            }
            Later::ListTaken { session } if session == self.session => self.list(),
            Later::Try { session, tries } if session == self.session && self.down => {
                let next = self.look_for_it(tries + 1);
                let next = Some(next);
                return Some(Happening::Seen(Sighting::Away { tries, next }));
            }
            Later::ListBegins { .. } | Later::ListTaken { .. } | Later::Try { .. } => {}
            Later::Return => {
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
        self.put(at, Later::Try { session, tries });
        at
    }

    fn list(&mut self) {
        let at = self.eyes.in_order(self.now, &self.weather, &mut self.chance);
        for seen in self.model.list() {
            if self.chance.percent(self.weather.thin) {
                self.troubles += 1;
                self.put(at, Later::Arrive(eyes::thin(&seen)));
                self.arrive(seen);
            } else {
                self.put(at, Later::Arrive(seen));
            }
        }
        self.put(at, Later::Arrive(Sighting::ListDone));
    }

    fn begin_session(&mut self) {
        self.arrive(Sighting::Found(self.now));
        let session = self.session;
        self.put(
            self.now,
            Later::ListBegins {
                session,
                periodic: true,
            },
        );
    }

    /// Whatever was under way to the eyes is lost, and a list with it.
    fn blink(&mut self) {
        self.session += 1;
        self.list_asked = false;
        self.eyes.close(self.now);
        self.agenda.retain(|_, later| !matches!(later, Later::Arrive(_)));
    }

    fn arrive(&mut self, seen: Sighting) {
        let at = self.eyes.in_order(self.now, &self.weather, &mut self.chance);
        self.put(at, Later::Arrive(seen));
    }

    /// Every change of the model becomes a sight, late or never.
    fn notice(&mut self) {
        for seen in std::mem::take(&mut self.model.changes) {
            if self.down {
                continue;
            }
            let (in_trouble, arrivals) = self
                .eyes
                .arrivals(seen, self.now, &self.weather, &mut self.chance);
            self.troubles += usize::from(in_trouble);
            for (at, seen) in arrivals {
                self.put(at, Later::Arrive(seen));
            }
        }
    }

    fn pass(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.model.pass(self.now);
        self.notice();
    }

    fn put(&mut self, at: Timestamp, later: Later) {
        self.count += 1;
        self.agenda.insert((at, self.count), later);
    }
}
