//! The breakers of an engine and of the environments on it, and how work begins again after the engine's.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::observed::Store;
use crate::outcome::{ActionError, Done};
use crate::plan::{Subject, WaitingOn};
use crate::state::breaker::{Breaker, BreakerSettings, CallOutcome, CircuitState};
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
pub struct BreakerRegistry {
    engine: Breaker,
    /// What the engine's goes by.
    engine_settings: BreakerSettings,
    environments: BTreeMap<EnvName, Breaker>,
    settings: BTreeMap<EnvName, Option<BreakerSettings>>,
    /// Number of the newest complete list.
    complete_list: u64,
    /// Number of the newest list that has begun.
    list_started: u64,
    /// The engine's breaker is open because it does not answer at all.
    away: bool,
    /// Tries to reach an engine that is away.
    reconnect_attempts: u32,
    ramp: Option<RampUp>,
    /// Grows whenever what may be done changes.
    version: u64,
}

/// After the engine's breaker has closed one environment goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RampUp {
    first: EnvName,
    until: Timestamp,
}

impl BreakerRegistry {
    /// None of them has anything counted yet.
    pub fn new(engine_settings: BreakerSettings) -> Self {
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
    pub fn times_opened(&self, env: &EnvName) -> u64 {
        self.engine.times_opened() + self.of(env).map_or(0, Breaker::times_opened)
    }

    /// Grows whenever what may be done changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What stands in the way of an act of this environment.
    pub fn blocked_by(&self, env: &EnvName, now: Timestamp) -> Option<WaitingOn> {
        if !self.engine.allows_call(self.complete_list) {
            return Some(circuit(&self.engine, true));
        }
        if let Some(breaker) = self.of(env)
            && !breaker.allows_call(self.complete_list)
        {
            return Some(circuit(breaker, false));
        }
        let ramp = self.ramp.as_ref()?;
        (ramp.first != *env && ramp.until > now).then(|| WaitingOn::RampUp {
            environment: ramp.first.clone(),
            until: ramp.until,
        })
    }

    /// Exactly one act of this environment may be made now; what the others wait for.
    pub fn half_open_limit(&self, env: &EnvName) -> Option<WaitingOn> {
        if !self.engine.is_closed() {
            return Some(circuit(&self.engine, true));
        }
        let breaker = self.of(env).filter(|breaker| !breaker.is_closed())?;
        Some(circuit(breaker, false))
    }

    /// How often an engine that is away was looked for.
    pub fn reconnect_attempts(&self) -> u32 {
        self.reconnect_attempts
    }

    /// The same, once that is often.
    pub fn failed_reconnects(&self) -> Option<u32> {
        (self.reconnect_attempts >= TRIES).then_some(self.reconnect_attempts)
    }

    /// When the passing of time alone changes something.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let due = |breaker: &Breaker| match breaker.state() {
            CircuitState::Open { until } => Some(*until),
            CircuitState::Closed { .. } | CircuitState::HalfOpen { .. } => None,
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
    pub(crate) fn observe(&mut self, store: &Store, now: Timestamp) -> bool {
        let complete = std::mem::replace(&mut self.complete_list, store.last_complete());
        self.list_started = store.lists_begun();
        self.reconnect_attempts = store.retry().map_or(0, |away| away.attempts);
        if complete != self.complete_list && self.is_tried() {
            self.version += 1;
        }
        if self.ramp.as_ref().is_some_and(|ramp| ramp.until <= now) {
            self.ramp = None;
            self.version += 1;
        }
        if let Some(away) = store.retry() {
            if away.attempts >= PINGS {
                self.away = true;
                let until = away.next.unwrap_or(now);
                let why = format!("no answer to {} pings in a row: {}", away.attempts, away.reason);
                self.engine.force_open(until, now, &why);
                self.version += 1;
            }
            return false;
        }
        let mut wanted = false;
        if std::mem::take(&mut self.away) {
            wanted |= self
                .engine
                .reset(self.list_started, now, "the engine answers again");
        }
        wanted |= self.engine.tick(self.list_started, now);
        for breaker in self.environments.values_mut() {
            wanted |= breaker.tick(self.list_started, now);
        }
        self.version += u64::from(wanted);
        wanted
    }

    fn is_tried(&self) -> bool {
        let half_open = |breaker: &Breaker| matches!(breaker.state(), CircuitState::HalfOpen { .. });
        half_open(&self.engine) || self.environments.values().any(half_open)
    }

    /// An act of this environment is on its way.
    pub(crate) fn on_call(&mut self, env: &EnvName, subject: &Subject) {
        self.engine.on_call(subject);
        if let Some(breaker) = self.environments.get_mut(env) {
            breaker.on_call(subject);
        }
    }

    /// An act of this environment came back.
    pub fn on_result(
        &mut self,
        env: &EnvName,
        subject: &Subject,
        outcome: &Result<Done, ActionError>,
        now: Timestamp,
    ) {
        let answer = answer(outcome);
        let was_closed = self.engine.is_closed();
        let all_closed = was_closed && self.of(env).is_none_or(Breaker::is_closed);
        self.engine
            .on_result(subject, answer, self.engine_settings, ENGINE, now);
        if !was_closed && self.engine.is_closed() {
            let (first, until) = (env.clone(), now + ALONE);
            self.ramp = Some(RampUp { first, until });
        }
        let settings = self.settings.get(env).copied();
        if let Some(settings) = settings.unwrap_or(Some(BreakerSettings::default()))
            && (matches!(answer, CallOutcome::Failure(_)) || self.environments.contains_key(env))
        {
            let breaker = self.environments.entry(env.clone()).or_default();
            breaker.on_result(subject, answer, settings, env.as_str(), now);
        }
        if !all_closed || self.of(env).is_some_and(|breaker| !breaker.is_closed()) || !self.engine.is_closed()
        {
            self.version += 1;
        }
    }

    /// This environment was planned; it has acts on their way or not. Tells whether others may go on now.
    pub(crate) fn on_planned(&mut self, env: &EnvName, idle: bool, now: Timestamp) -> bool {
        if !idle {
            return false;
        }
        let complete = self.complete_list;
        let rested = self
            .environments
            .get_mut(env)
            .is_some_and(|breaker| breaker.close_if_idle(complete, now));
        let first = self.ramp.as_ref().is_some_and(|ramp| ramp.first == *env);
        if first {
            self.ramp = None;
        }
        self.version += u64::from(rested || first);
        rested || first
    }

    /// All environments were planned, and none of them has anything to try the engine with.
    pub(crate) fn nothing_to_do(&mut self, now: Timestamp) -> bool {
        let rested = self.engine.close_if_idle(self.complete_list, now);
        self.version += u64::from(rested);
        rested
    }

    /// A person wants it tried at once: one environment's, or all with the engine's. Tells whether a list is wanted.
    pub(crate) fn reset(&mut self, env: Option<&EnvName>, now: Timestamp) -> bool {
        const WHY: &str = "a person asks for it";
        let mut changed = false;
        let begun = self.list_started;
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
fn answer(outcome: &Result<Done, ActionError>) -> CallOutcome<'_> {
    match outcome {
        Err(ActionError::Unreachable(why) | ActionError::Engine(why) | ActionError::ConnectionLost(why)) => {
            CallOutcome::Failure(why)
        }
        // A call on one container that hangs while pings are answered, or that we gave up ourselves.
        Err(
            ActionError::TimedOut(_)
            | ActionError::Unknown(_)
            | ActionError::CircuitOpen
            | ActionError::JournalUnwritable(_)
            | ActionError::NotOurs(_),
        ) => CallOutcome::Ignored,
        // Whoever refuses is there.
        Ok(_)
        | Err(
            ActionError::NameTaken { .. }
            | ActionError::PortTaken(_)
            | ActionError::ImageMissing
            | ActionError::ImageNotFound(_)
            | ActionError::AuthRequired(_)
            | ActionError::RateLimited { .. }
            | ActionError::PullFailed(_)
            | ActionError::BuildFailed { .. }
            | ActionError::EntrypointNotFound(_)
            | ActionError::BadMount(_)
            | ActionError::MountRefused(_)
            | ActionError::StartFailed(_)
            | ActionError::Gone
            | ActionError::NetworkGone(_)
            | ActionError::PoolExhausted(_)
            | ActionError::NetworkInUse(_)
            | ActionError::Busy(_)
            | ActionError::DiskFull(_)
            | ActionError::Rejected(_),
        ) => CallOutcome::Success,
    }
}

fn circuit(breaker: &Breaker, engine: bool) -> WaitingOn {
    WaitingOn::Breaker {
        engine,
        until: match breaker.state() {
            CircuitState::Open { until } => Some(*until),
            CircuitState::Closed { .. } | CircuitState::HalfOpen { .. } => None,
        },
        why: breaker.last_failure().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
#[path = "breaker_registry_tests.rs"]
mod tests;
