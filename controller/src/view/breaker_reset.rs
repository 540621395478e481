//! Reset of a circuit breaker: its state before and after.

use std::sync::Arc;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_crds::status::{BreakerChange, BreakerFailure, BreakerScope, BreakerState, BreakerStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Statuses;

/// Maximum time to wait until the status shows the reset and the result of its test call.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// Name of the engine's breaker.
const ENGINE: &str = "engine";

/// Result of a reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BreakerReset {
    /// Owner of the breaker: `engine`, or the name of an environment.
    pub(crate) breaker: String,
    /// True if the state changed. A closed breaker stays closed.
    pub(crate) changed: bool,
    /// State before the reset, with the failures that opened the breaker; `null` if nothing was counted yet.
    pub(crate) previous: Option<BreakerStatus>,
    /// State after the reset. Half-open allows one call, whose result closes or opens the breaker.
    pub(crate) current: Option<BreakerStatus>,
    /// State changes since the reset, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<BreakerChange>,
    /// Other breakers that were not closed and were reset as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<String>,
}

impl BreakerReset {
    /// True if the breaker was closed, so that the reset did nothing.
    pub(crate) fn was_closed(&self) -> bool {
        is_closed(self.previous.as_ref())
    }

    /// Describes the state, its changes since the reset, and the failures before it, one per line.
    pub(crate) fn describe(&self) -> String {
        let owner = match self.breaker.as_str() {
            ENGINE => "the engine",
            environment => environment,
        };
        let state = match self.current.as_ref().map(|now| now.state).unwrap_or_default() {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half-open",
        };
        if self.was_closed() {
            return format!("the breaker of {owner} is closed, nothing changed\n");
        }
        let failures = self.previous.iter().flat_map(|before| &before.last_failures);
        let failure = |it: &BreakerFailure| format!("  {} {}: {}\n", it.at, it.operation, it.error);
        let change = |it: &BreakerChange| format!("  {} {}: {}\n", it.at, it.to, it.reason);
        let mut text = format!("the breaker of {owner} is {state} after the reset\n");
        text.extend(self.changes.iter().map(change));
        let mut failures = failures.map(failure).peekable();
        if failures.peek().is_some() {
            text.push_str("failures before the reset:\n");
        }
        text.extend(failures);
        text
    }
}

/// State of a breaker before its reset.
#[derive(Debug)]
pub(crate) struct BreakerBefore {
    /// Environment whose breaker is reported; `None` for the engine's breaker.
    env: Option<String>,
    previous: Option<BreakerStatus>,
    others: Vec<String>,
}

impl BreakerBefore {
    /// Reads the breaker of an environment. Without one, the reset applies to all breakers.
    /// The first one that is not closed is then reported.
    pub(crate) fn read(statuses: &Statuses, env: Option<&EnvName>) -> Self {
        let mut open = Vec::new();
        if env.is_none() {
            let engine = statuses.controller.breaker.as_ref();
            open.extend((!is_closed(engine)).then_some(None));
            let own = |breaker: &BreakerStatus| breaker.scope == BreakerScope::Environment;
            let environments = statuses.environments.iter();
            let not_closed = environments.filter(|(_, status)| {
                let breaker = status.breaker.as_ref().filter(|breaker| own(breaker));
                !is_closed(breaker)
            });
            open.extend(not_closed.map(|(name, _)| Some(name.clone())));
        }
        let mut open = open.into_iter();
        let env = match env {
            Some(env) => Some(env.to_string()),
            None => open.next().flatten(),
        };
        Self {
            previous: find_breaker(statuses, env.as_deref()),
            env,
            others: open.flatten().collect(),
        }
    }

    /// Waits until the status shows the accepted reset and the result of the test call, for at most [`STATUS_TIMEOUT`].
    pub(crate) async fn wait_for_reset(self, mut statuses: watch::Receiver<Arc<Statuses>>) -> BreakerReset {
        let env = self.env.as_deref();
        if !is_closed(self.previous.as_ref()) {
            let changed_status = statuses.wait_for(|statuses| {
                let now = find_breaker(statuses, env);
                let is_tested = now.as_ref().map(|now| now.state) != Some(BreakerState::HalfOpen);
                is_tested && has_changed(self.previous.as_ref(), now.as_ref())
            });
            // After the timeout, the current state is returned.
            drop(tokio::time::timeout(STATUS_TIMEOUT, changed_status).await);
        }
        let current = find_breaker(&statuses.borrow(), env);
        let engines = |breaker: &BreakerStatus| breaker.scope == BreakerScope::Engine;
        let owner = match env {
            Some(env) if !self.previous.as_ref().is_some_and(engines) => env,
            Some(_) | None => ENGINE,
        };
        let known = self.previous.iter().flat_map(|before| &before.history);
        let known: Vec<&BreakerChange> = known.collect();
        let changes = current.iter().flat_map(|now| &now.history);
        let changes = changes.filter(|change| !known.contains(change)).cloned();
        BreakerReset {
            breaker: owner.to_owned(),
            changed: has_changed(self.previous.as_ref(), current.as_ref()),
            changes: changes.collect(),
            previous: self.previous,
            current,
            others: self.others,
        }
    }
}

/// Returns the breaker in the status of an environment, or the engine's breaker.
fn find_breaker(statuses: &Statuses, env: Option<&str>) -> Option<BreakerStatus> {
    match env {
        Some(env) => statuses.environments.get(env)?.breaker.clone(),
        None => statuses.controller.breaker.clone(),
    }
}

fn is_closed(breaker: Option<&BreakerStatus>) -> bool {
    breaker.is_none_or(|breaker| breaker.state == BreakerState::Closed)
}

fn has_changed(before: Option<&BreakerStatus>, now: Option<&BreakerStatus>) -> bool {
    let state_of = |breaker: Option<&BreakerStatus>| {
        breaker.map_or((BreakerState::Closed, 0), |it| (it.state, it.times_opened))
    };
    state_of(before) != state_of(now)
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{BreakerChange, EnvironmentStatus};

    use super::*;

    fn breaker_status(scope: BreakerScope, state: BreakerState) -> BreakerStatus {
        let opened = BreakerChange {
            to: "open".to_owned(),
            reason: "5 failures in a row".to_owned(),
            ..BreakerChange::default()
        };
        BreakerStatus {
            scope,
            state,
            times_opened: 1,
            history: vec![opened],
            ..BreakerStatus::default()
        }
    }

    /// Creates statuses with the given state of the engine's breaker and of each environment's.
    fn statuses(engine: BreakerState, environments: &[(&str, BreakerState)]) -> Arc<Statuses> {
        let mut statuses = Statuses::default();
        statuses.controller.breaker = Some(breaker_status(BreakerScope::Engine, engine));
        for (name, state) in environments {
            let status = EnvironmentStatus {
                breaker: Some(breaker_status(BreakerScope::Environment, *state)),
                ..EnvironmentStatus::default()
            };
            statuses.environments.insert((*name).to_owned(), Arc::new(status));
        }
        Arc::new(statuses)
    }

    async fn reset(before: &Arc<Statuses>, env: Option<&str>, after: Arc<Statuses>) -> BreakerReset {
        let env = env.map(|env| EnvName::new(env).unwrap());
        let before_reset = BreakerBefore::read(before, env.as_ref());
        let (_sender, statuses) = watch::channel(after);
        before_reset.wait_for_reset(statuses).await
    }

    #[tokio::test]
    async fn reset_returns_state_before_and_after_with_reason() {
        use BreakerState::{Closed, HalfOpen, Open};
        let before = statuses(Closed, &[("blog", Closed), ("shop", Open)]);
        let after = statuses(Closed, &[("blog", Closed), ("shop", HalfOpen)]);
        // By name, and as the only one that is not closed.
        for env in [Some("shop"), None] {
            let result = reset(&before, env, after.clone()).await;
            let state = |breaker: &Option<BreakerStatus>| breaker.as_ref().map(|it| it.state);
            assert_eq!(
                (result.breaker.as_str(), result.changed),
                ("shop", true),
                "{env:?}"
            );
            assert_eq!(
                (state(&result.previous), state(&result.current)),
                (Some(Open), Some(HalfOpen))
            );
            let previous = result.previous.unwrap();
            assert_eq!(previous.history[0].reason, "5 failures in a row");
        }
    }

    #[tokio::test]
    async fn closed_breaker_stays_and_other_resets_are_listed() {
        use BreakerState::{Closed, HalfOpen, Open};
        let closed = statuses(Closed, &[("shop", Closed)]);
        for (env, owner) in [(Some("shop"), "shop"), (None, ENGINE)] {
            let result = reset(&closed, env, closed.clone()).await;
            assert_eq!((result.breaker.as_str(), result.changed), (owner, false));
            assert!(result.was_closed() && result.previous == result.current);
        }
        let open = statuses(Open, &[("blog", Open), ("shop", HalfOpen)]);
        let result = reset(&open, None, statuses(HalfOpen, &[])).await;
        assert_eq!((result.breaker.as_str(), result.changed), (ENGINE, true));
        assert_eq!(result.others, ["blog", "shop"]);
    }
}
