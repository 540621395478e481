//! Circuit breakers of the engine and of its environments, and the ramp-up after an outage.
//!
//! # Trip conditions
//!
//! The engine's breaker counts the failures of all calls; the breaker of an environment counts those of its own calls.
//! Failures of a single resource count as successes, because the engine answered. An answer after more than 80 % of its deadline is a
//! failure. Timeouts, unknown outcomes and errors of Argus itself count as nothing. [`MAX_FAILED_PINGS`] unanswered pings in a row open the engine's breaker immediately.
//!
//! # Recovery
//!
//! An engine that answers again, or whose cooldown is over, makes all open breakers half-open, see [`breaker`](super::breaker): one test
//! call then decides for the engine and for the environment of the call. After it has closed the engine's breaker, this environment
//! continues alone. The others follow when it has no action left, after 5 s at the latest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::action::{ActionKind, EngineSign, Subject};
use crate::desired::Accepted;
use crate::desired::BreakerSettings;
use crate::ident::EnvName;
use crate::observed::{RetryState, Store};
use crate::outcome::{ActionError, Done};
use crate::socket_access::is_refused;
use crate::state::breaker::{Breaker, CallOutcome, CircuitState};
use crate::time::Timestamp;
use crate::wait::WaitReason;

/// Unanswered pings in a row that open the engine's breaker immediately.
pub const MAX_FAILED_PINGS: u32 = 3;
/// Failed reconnects after which Argus reports that the engine does not return. Argus continues to retry.
pub const RECONNECTS_BEFORE_REPORT: u32 = 10;
/// Maximum time for which the first environment runs alone after an outage.
const RAMP_UP_LIMIT: Duration = Duration::from_secs(5);
/// Operation of a failed ping.
const PING: &str = "ping";
/// Jitter key of the engine's cooldowns.
const ENGINE_KEY: &str = "engine";

/// All breakers on one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BreakerRegistry {
    engine: Breaker,
    /// Settings of the engine's breaker.
    engine_settings: BreakerSettings,
    environments: BTreeMap<EnvName, Breaker>,
    /// Clones share the settings, which only a spec file changes.
    settings: Arc<BTreeMap<EnvName, Option<BreakerSettings>>>,
    /// Number of the newest complete list.
    complete_list: u64,
    /// Number of the newest started list.
    list_started: u64,
    /// True if the engine's breaker is open because the engine does not answer pings.
    engine_unreachable: bool,
    /// True if the engine was unreachable at the last observation.
    was_away: bool,
    /// Failed attempts to reach the engine since its last answer.
    reconnect_attempts: u32,
    ramp: Option<RampUp>,
    /// Call whose answer took almost its whole deadline, with the reason to count it. Its result follows.
    pub(crate) slow: Option<(Subject, String)>,
    /// Increases with every change of the allowed calls.
    version: u64,
}

/// Ramp-up after the engine's breaker closed: one environment runs alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RampUp {
    first: EnvName,
    until: Timestamp,
}

impl BreakerRegistry {
    /// Creates a registry without failures.
    pub fn new(engine_settings: BreakerSettings) -> Self {
        Self {
            engine_settings,
            ..Self::default()
        }
    }

    /// Breaker of the engine.
    pub fn engine(&self) -> &Breaker {
        &self.engine
    }

    /// Breaker of an environment; `None` before its first counted failure.
    pub fn of(&self, env: &EnvName) -> Option<&Breaker> {
        self.environments.get(env)
    }

    /// Number of openings of the engine's breaker and of the environment's breaker. A call that was planned at another number
    /// is not executed.
    pub fn openings(&self, env: &EnvName) -> u64 {
        self.engine.openings() + self.of(env).map_or(0, Breaker::openings)
    }

    /// Version of the allowed calls; increases with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Compares everything that the status of an environment shows. Its plan shows the waits for a breaker.
    pub fn is_same_for(&self, env: &EnvName, other: &Self) -> bool {
        self.engine == other.engine
            && self.of(env) == other.of(env)
            && self.reconnect_attempts == other.reconnect_attempts
    }

    /// Wait reason if a breaker or the ramp-up blocks the actions of this environment.
    pub fn blocked_by(&self, env: &EnvName, now: Timestamp) -> Option<WaitReason> {
        if !self.engine.allows_call(self.complete_list) {
            return Some(breaker_wait(&self.engine, true));
        }
        if let Some(breaker) = self.of(env)
            && !breaker.allows_call(self.complete_list)
        {
            return Some(breaker_wait(breaker, false));
        }
        let ramp = self.ramp.as_ref()?;
        (ramp.first != *env && ramp.until > now).then(|| WaitReason::RampUp {
            environment: ramp.first.clone(),
            until: ramp.until,
        })
    }

    /// Wait reason of all actions but one, if a breaker allows exactly one call of this environment.
    pub fn half_open_limit(&self, env: &EnvName) -> Option<WaitReason> {
        if !self.engine.is_closed() {
            return Some(breaker_wait(&self.engine, true));
        }
        let breaker = self.of(env).filter(|breaker| !breaker.is_closed())?;
        Some(breaker_wait(breaker, false))
    }

    /// Failed attempts to reach the engine since its last answer.
    pub fn reconnect_attempts(&self) -> u32 {
        self.reconnect_attempts
    }

    /// Same number as [`Self::reconnect_attempts`], from [`RECONNECTS_BEFORE_REPORT`] on.
    pub fn reconnects_to_report(&self) -> Option<u32> {
        (self.reconnect_attempts >= RECONNECTS_BEFORE_REPORT).then_some(self.reconnect_attempts)
    }

    /// Time at which a cooldown or the ramp-up ends. While the engine is away, its return ends the cooldowns.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let due = |breaker: &Breaker| match breaker.state() {
            CircuitState::Open { until } => Some(*until),
            CircuitState::Closed | CircuitState::HalfOpen { .. } => None,
        };
        let breakers = self.environments.values().chain([&self.engine]);
        let cooldowns = breakers.filter_map(due).filter(|_| !self.was_away);
        let ramp = self.ramp.as_ref().map(|ramp| ramp.until);
        cooldowns.chain(ramp).min()
    }

    /// Sets the breaker settings of an environment; `None` removes those of a removed environment.
    pub(crate) fn configure(&mut self, env: &EnvName, accepted: Option<&Accepted>) {
        let Some(accepted) = accepted else {
            if self.settings.contains_key(env) {
                Arc::make_mut(&mut self.settings).remove(env);
            }
            return;
        };
        let settings = accepted.desired.breaker;
        if settings.is_none() && self.environments.remove(env).is_some() {
            self.version += 1;
        }
        if self.settings.get(env) != Some(&settings) {
            Arc::make_mut(&mut self.settings).insert(env.clone(), settings);
        }
    }

    /// Drops environments that are neither desired nor observed.
    pub(crate) fn retain(&mut self, known: impl Fn(&EnvName) -> bool) {
        if !self.settings.keys().all(&known) {
            Arc::make_mut(&mut self.settings).retain(|env, _| known(env));
        }
        self.environments.retain(|env, _| known(env));
    }

    /// Updates the breakers from the connection state and the time. Returns true if a relist is needed.
    pub(crate) fn observe(&mut self, store: &Store, now: Timestamp) -> bool {
        let complete = std::mem::replace(&mut self.complete_list, store.last_complete());
        self.list_started = store.lists_started();
        let attempts = store.retry().map_or(0, |retry| retry.attempts);
        let attempts_before = std::mem::replace(&mut self.reconnect_attempts, attempts);
        if complete != self.complete_list && self.is_half_open() {
            self.version += 1;
        }
        if self.ramp.as_ref().is_some_and(|ramp| ramp.until <= now) {
            self.ramp = None;
            self.version += 1;
        }
        if let Some(retry) = store.retry() {
            self.was_away = true;
            if is_refused(retry.reason) {
                // The engine is not the problem, and further attempts do not help.
                self.reconnect_attempts = 0;
            } else {
                self.on_failed_pings(retry, attempts.saturating_sub(attempts_before), now);
            }
            return false;
        }
        let mut relist = false;
        self.engine_unreachable = false;
        let was_away = std::mem::replace(&mut self.was_away, !store.is_reachable());
        if was_away && !self.was_away {
            // Failures before the outage say nothing about the engine after it.
            const WHY: &str = "the engine answers again";
            relist |= self.engine.reset(self.list_started, now, WHY);
            relist |= self.reset_environments(None, now, WHY);
        }
        if self.engine.tick(self.list_started, now) {
            // The same failures opened the breakers of environments. Their longer cooldowns would outlast the engine's outage.
            self.reset_environments(None, now, "the engine is tested again");
            relist = true;
        }
        for breaker in self.environments.values_mut() {
            relist |= breaker.tick(self.list_started, now);
        }
        self.version += u64::from(relist);
        relist
    }

    /// Counts new failed pings. After [`MAX_FAILED_PINGS`], each one opens the engine's breaker, also after a reset.
    fn on_failed_pings(&mut self, retry: RetryState<'_>, new: u32, now: Timestamp) {
        for _ in 0..new {
            self.engine.count_failure(PING, retry.reason, now);
        }
        self.engine_unreachable = retry.attempts >= MAX_FAILED_PINGS;
        let is_reset = matches!(self.engine.state(), CircuitState::HalfOpen { .. });
        if self.engine_unreachable && (new > 0 || !is_reset) {
            let why = format!("no answer to {} pings in a row: {}", retry.attempts, retry.reason);
            self.engine.force_open(retry.next.unwrap_or(now), now, &why);
            self.version += u64::from(new > 0);
        }
    }

    fn is_half_open(&self) -> bool {
        let half_open = |breaker: &Breaker| matches!(breaker.state(), CircuitState::HalfOpen { .. });
        half_open(&self.engine) || self.environments.values().any(half_open)
    }

    /// Records a submitted action of this environment.
    pub(crate) fn on_call(&mut self, env: &EnvName, subject: &Subject) {
        self.engine.on_call(subject);
        if let Some(breaker) = self.environments.get_mut(env) {
            breaker.on_call(subject);
        }
    }

    /// Records the result of an action of this environment.
    pub fn on_result(
        &mut self,
        env: &EnvName,
        subject: &Subject,
        operation: ActionKind,
        outcome: &Result<Done, ActionError>,
        now: Timestamp,
    ) {
        let slow = self.slow.take().filter(|(of, _)| of == subject);
        let operation = operation.as_str();
        let call_outcome = match (classify(operation, outcome), &slow) {
            (CallOutcome::Success, Some((_, why))) => CallOutcome::Failure { operation, why },
            (other, _) => other,
        };
        let was_closed = self.engine.is_closed();
        let all_closed = was_closed && self.of(env).is_none_or(Breaker::is_closed);
        self.engine
            .on_result(subject, call_outcome, self.engine_settings, ENGINE_KEY, now);
        if !was_closed && self.engine.is_closed() {
            let (first, until) = (env.clone(), now + RAMP_UP_LIMIT);
            self.ramp = Some(RampUp { first, until });
        }
        let settings = self.settings.get(env).copied();
        if let Some(settings) = settings.unwrap_or(Some(BreakerSettings::default()))
            && (matches!(call_outcome, CallOutcome::Failure { .. }) || self.environments.contains_key(env))
        {
            let breaker = self.environments.entry(env.clone()).or_default();
            breaker.on_result(subject, call_outcome, settings, env.as_str(), now);
        }
        if !all_closed || self.of(env).is_some_and(|breaker| !breaker.is_closed()) || !self.engine.is_closed()
        {
            self.version += 1;
        }
    }

    /// Records that an environment was planned; `idle` without actions. Returns true if other environments may now continue.
    pub(crate) fn on_planned(&mut self, env: &EnvName, idle: bool, now: Timestamp) -> bool {
        if !idle {
            return false;
        }
        let complete = self.complete_list;
        let closed = self
            .environments
            .get_mut(env)
            .is_some_and(|breaker| breaker.close_if_idle(complete, now));
        let first = self.ramp.as_ref().is_some_and(|ramp| ramp.first == *env);
        if first {
            self.ramp = None;
        }
        self.version += u64::from(closed || first);
        closed || first
    }

    /// Closes the engine's half-open breaker if no environment has a test call for it. Returns true if it closed.
    pub(crate) fn close_engine_if_idle(&mut self, now: Timestamp) -> bool {
        let closed = self.engine.close_if_idle(self.complete_list, now);
        self.version += u64::from(closed);
        closed
    }

    /// Resets the breaker of one environment, or all breakers. Returns true if a relist is needed. The next failed ping opens
    /// the breaker of an unreachable engine again.
    pub(crate) fn reset(&mut self, env: Option<&EnvName>, now: Timestamp) -> bool {
        const WHY: &str = "reset requested";
        let mut changed = self.reset_environments(env, now, WHY);
        if env.is_none() {
            changed |= self.engine.reset(self.list_started, now, WHY);
        }
        self.version += u64::from(changed);
        changed
    }

    /// Resets the breaker of one environment or of all environments. Returns true if one of them changed.
    fn reset_environments(&mut self, env: Option<&EnvName>, now: Timestamp, why: &str) -> bool {
        let mut changed = false;
        for (name, breaker) in &mut self.environments {
            if env.is_none_or(|env| env == name) {
                changed |= breaker.reset(self.list_started, now, why);
            }
        }
        changed
    }
}

/// Classifies a result: does it show a failure of the engine, or only of one resource?
fn classify<'a>(operation: &'a str, outcome: &'a Result<Done, ActionError>) -> CallOutcome<'a> {
    let Err(error) = outcome else {
        return CallOutcome::Success;
    };
    let refuses_this_user = matches!(error, ActionError::Unreachable(why) if is_refused(why));
    match error.signs().engine {
        EngineSign::Failed(why) if !refuses_this_user => CallOutcome::Failure { operation, why },
        EngineSign::Failed(_) | EngineSign::Nothing => CallOutcome::Ignored,
        EngineSign::Answered => CallOutcome::Success,
    }
}

fn breaker_wait(breaker: &Breaker, engine: bool) -> WaitReason {
    WaitReason::Breaker {
        engine,
        until: match breaker.state() {
            CircuitState::Open { until } => Some(*until),
            CircuitState::Closed | CircuitState::HalfOpen { .. } => None,
        },
        why: breaker.last_failure().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
#[path = "breaker_registry_tests.rs"]
mod tests;
