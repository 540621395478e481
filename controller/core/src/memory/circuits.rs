//! The breakers of an engine and of the environments on it, and how work begins again after the engine's.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::memory::breaker::{Answer, Breaker, Settings, State};
use crate::observed::World;
use crate::outcome::{ActError, Done};
use crate::plan::{Subject, WaitingOn};
use crate::time::Timestamp;

/// Pings without an answer that open the engine's breaker at once.
pub const PINGS: u32 = 3;
/// After so many it is said that the engine does not come back, while it is looked for on.
pub const TRIES: u32 = 10;
/// The first environment goes alone for so long at most.
const ALONE: Duration = Duration::from_secs(5);
/// Spreads the engine's cooldowns.
const ENGINE: &str = "engine";

/// All breakers on one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Circuits {
    engine: Breaker,
    /// What the engine's goes by.
    engine_settings: Settings,
    environments: BTreeMap<EnvName, Breaker>,
    settings: BTreeMap<EnvName, Option<Settings>>,
    /// Number of the newest complete list.
    complete_list: u64,
    /// Number of the newest list that has begun.
    begun_list: u64,
    /// The engine's breaker is open because it does not answer at all.
    away: bool,
    /// Tries to reach an engine that is away.
    tries: u32,
    ramp: Option<Ramp>,
    /// Grows whenever what may be done changes.
    version: u64,
}

/// After the engine's breaker has closed one environment goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ramp {
    first: EnvName,
    until: Timestamp,
}

impl Circuits {
    /// None of them has anything counted yet.
    pub fn new(engine_settings: Settings) -> Self {
        Self {
            engine_settings,
            ..Self::default()
        }
    }

    /// The engine's own.
    pub fn engine(&self) -> &Breaker {
        &self.engine
    }

    /// That of an environment; `None` while nothing was ever counted.
    pub fn of(&self, env: &EnvName) -> Option<&Breaker> {
        self.environments.get(env)
    }

    /// The openings that count for an environment: a call decided on under another number is not made any more.
    pub fn openings(&self, env: &EnvName) -> u64 {
        self.engine.openings() + self.of(env).map_or(0, Breaker::openings)
    }

    /// Grows whenever what may be done changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What stands in the way of an act of this environment.
    pub fn bars(&self, env: &EnvName, now: Timestamp) -> Option<WaitingOn> {
        if !self.engine.lets_one_through(self.complete_list) {
            return Some(circuit(&self.engine, true));
        }
        if let Some(breaker) = self.of(env)
            && !breaker.lets_one_through(self.complete_list)
        {
            return Some(circuit(breaker, false));
        }
        let ramp = self.ramp.as_ref()?;
        (ramp.first != *env && ramp.until > now).then(|| WaitingOn::Ramp {
            environment: ramp.first.clone(),
            until: ramp.until,
        })
    }

    /// Exactly one act of this environment may be made now; what the others wait for.
    pub fn one_only(&self, env: &EnvName) -> Option<WaitingOn> {
        if !self.engine.is_closed() {
            return Some(circuit(&self.engine, true));
        }
        let breaker = self.of(env).filter(|breaker| !breaker.is_closed())?;
        Some(circuit(breaker, false))
    }

    /// How often an engine that is away was looked for.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// The same, once that is often.
    pub fn tries_in_vain(&self) -> Option<u32> {
        (self.tries >= TRIES).then_some(self.tries)
    }

    /// When the passing of time alone changes something.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let due = |breaker: &Breaker| match breaker.state() {
            State::Open { until } => Some(*until),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        };
        let engine = due(&self.engine).filter(|_| !self.away);
        let ramp = self.ramp.as_ref().map(|ramp| ramp.until);
        engine
            .into_iter()
            .chain(self.environments.values().filter_map(due))
            .chain(ramp)
            .min()
    }

    /// Takes the settings of an environment in; `None` where nobody desires it any more.
    pub(crate) fn configure(&mut self, env: &EnvName, accepted: Option<&Accepted>) {
        let Some(accepted) = accepted else {
            self.settings.remove(env);
            return;
        };
        let settings = accepted.desired.breaker;
        if settings.is_none() && self.environments.remove(env).is_some() {
            self.version += 1;
        }
        self.settings.insert(env.clone(), settings);
    }

    /// Forgets environments that are neither desired nor seen.
    pub(crate) fn retain(&mut self, known: impl Fn(&EnvName) -> bool) {
        self.settings.retain(|env, _| known(env));
        self.environments.retain(|env, _| known(env));
    }

    /// Takes in how the engine is, and the time. Tells whether a list is wanted.
    pub(crate) fn look(&mut self, world: &World, now: Timestamp) -> bool {
        let complete = std::mem::replace(&mut self.complete_list, world.last_complete());
        self.begun_list = world.lists_begun();
        self.tries = world.away().map_or(0, |away| away.tries);
        if complete != self.complete_list && self.is_tried() {
            self.version += 1;
        }
        if self.ramp.as_ref().is_some_and(|ramp| ramp.until <= now) {
            self.ramp = None;
            self.version += 1;
        }
        if let Some(away) = world.away() {
            if away.tries >= PINGS {
                self.away = true;
                let until = away.next.unwrap_or(now);
                let why = format!("no answer to {} pings in a row: {}", away.tries, away.reason);
                self.engine.hold_open(until, now, &why);
                self.version += 1;
            }
            return false;
        }
        let mut wanted = false;
        if std::mem::take(&mut self.away) {
            wanted |= self
                .engine
                .reset(self.begun_list, now, "the engine answers again");
        }
        wanted |= self.engine.tick(self.begun_list, now);
        for breaker in self.environments.values_mut() {
            wanted |= breaker.tick(self.begun_list, now);
        }
        self.version += u64::from(wanted);
        wanted
    }

    fn is_tried(&self) -> bool {
        let half_open = |breaker: &Breaker| matches!(breaker.state(), State::HalfOpen { .. });
        half_open(&self.engine) || self.environments.values().any(half_open)
    }

    /// An act of this environment is on its way.
    pub(crate) fn called(&mut self, env: &EnvName, subject: &Subject) {
        self.engine.called(subject);
        if let Some(breaker) = self.environments.get_mut(env) {
            breaker.called(subject);
        }
    }

    /// An act of this environment came back.
    pub fn heard(
        &mut self,
        env: &EnvName,
        subject: &Subject,
        outcome: &Result<Done, ActError>,
        now: Timestamp,
    ) {
        let answer = answer(outcome);
        let was_closed = self.engine.is_closed();
        let all_closed = was_closed && self.of(env).is_none_or(Breaker::is_closed);
        self.engine
            .heard(subject, answer, self.engine_settings, ENGINE, now);
        if !was_closed && self.engine.is_closed() {
            let (first, until) = (env.clone(), now + ALONE);
            self.ramp = Some(Ramp { first, until });
        }
        let settings = self.settings.get(env).copied();
        if let Some(settings) = settings.unwrap_or(Some(Settings::default()))
            && (matches!(answer, Answer::Bad(_)) || self.environments.contains_key(env))
        {
            let breaker = self.environments.entry(env.clone()).or_default();
            breaker.heard(subject, answer, settings, env.as_str(), now);
        }
        if !all_closed || self.of(env).is_some_and(|breaker| !breaker.is_closed()) || !self.engine.is_closed()
        {
            self.version += 1;
        }
    }

    /// This environment was planned; it has acts on their way or not. Tells whether others may go on now.
    pub(crate) fn planned(&mut self, env: &EnvName, idle: bool, now: Timestamp) -> bool {
        if !idle {
            return false;
        }
        let complete = self.complete_list;
        let rested = self
            .environments
            .get_mut(env)
            .is_some_and(|breaker| breaker.rest(complete, now));
        let first = self.ramp.as_ref().is_some_and(|ramp| ramp.first == *env);
        if first {
            self.ramp = None;
        }
        self.version += u64::from(rested || first);
        rested || first
    }

    /// All environments were planned, and none of them has anything to try the engine with.
    pub(crate) fn nothing_to_do(&mut self, now: Timestamp) -> bool {
        let rested = self.engine.rest(self.complete_list, now);
        self.version += u64::from(rested);
        rested
    }

    /// A person wants it tried at once: one environment's, or all with the engine's. Tells whether a list is wanted.
    pub(crate) fn reset(&mut self, env: Option<&EnvName>, now: Timestamp) -> bool {
        const WHY: &str = "a person asks for it";
        let mut changed = false;
        let begun = self.begun_list;
        for (name, breaker) in &mut self.environments {
            if env.is_none_or(|env| env == name) {
                changed |= breaker.reset(begun, now, WHY);
            }
        }
        if env.is_none() && !self.away {
            changed |= self.engine.reset(begun, now, WHY);
        }
        self.version += u64::from(changed);
        changed
    }
}

/// What an outcome says about the engine, and not about one resource on it.
fn answer(outcome: &Result<Done, ActError>) -> Answer<'_> {
    match outcome {
        Err(ActError::Unreachable(why) | ActError::Engine(why) | ActError::ConnectionLost(why)) => {
            Answer::Bad(why)
        }
        // A call on one container that hangs while pings are answered, or that we gave up ourselves.
        Err(
            ActError::TimedOut(_)
            | ActError::Unknown(_)
            | ActError::CircuitOpen
            | ActError::JournalUnwritable(_)
            | ActError::NotOurs(_),
        ) => Answer::Silent,
        // Whoever refuses is there.
        Ok(_)
        | Err(
            ActError::NameTaken { .. }
            | ActError::PortTaken(_)
            | ActError::ImageMissing
            | ActError::ImageNotFound(_)
            | ActError::AuthRequired(_)
            | ActError::RateLimited { .. }
            | ActError::PullFailed(_)
            | ActError::BuildFailed { .. }
            | ActError::EntrypointNotFound(_)
            | ActError::BadMount(_)
            | ActError::StartFailed(_)
            | ActError::Gone
            | ActError::NetworkGone(_)
            | ActError::PoolExhausted(_)
            | ActError::NetworkInUse(_)
            | ActError::Busy(_)
            | ActError::DiskFull(_)
            | ActError::Rejected(_),
        ) => Answer::Good,
    }
}

fn circuit(breaker: &Breaker, engine: bool) -> WaitingOn {
    WaitingOn::Circuit {
        engine,
        until: match breaker.state() {
            State::Open { until } => Some(*until),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        },
        why: breaker.last_failure().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
#[path = "circuits_tests.rs"]
mod tests;
