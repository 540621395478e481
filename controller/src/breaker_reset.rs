//! A breaker that somebody resets: how it was, and how it is then.

use std::sync::Arc;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_crds::status::{BreakerScope, BreakerState, BreakerStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::view::StatusDocuments;

/// What was reset shows what it is now within this, or it is told as it is then.
const SEEN: Duration = Duration::from_secs(3);
/// The name of the breaker that is nobody's.
const ENGINE: &str = "engine";

/// What came of a reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BreakerReset {
    /// Whose breaker this is: `engine`, or the name of an environment.
    pub(crate) breaker: String,
    /// Whether it is in another state than it was: a closed one stays closed.
    pub(crate) changed: bool,
    /// How it was, and in `history` what had opened it; none where nothing was ever counted.
    pub(crate) previous: Option<BreakerStatus>,
    /// How it is: half-open lets one call through, whose result closes or opens it.
    pub(crate) current: Option<BreakerStatus>,
    /// Whose breakers were not closed and were reset as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<String>,
}

impl BreakerReset {
    /// It was closed, so that there was nothing to do.
    pub(crate) fn was_closed(&self) -> bool {
        is_closed(self.previous.as_ref())
    }
}

/// How a breaker stands before it is reset.
#[derive(Debug)]
pub(crate) struct BreakerBefore {
    /// The environment that was named, or whose breaker tells for all.
    env: Option<String>,
    previous: Option<BreakerStatus>,
    others: Vec<String>,
}

impl BreakerBefore {
    /// Of the breaker of an environment; without one all are reset, and the first that is not closed tells.
    pub(crate) fn of(shown: &StatusDocuments, env: Option<&EnvName>) -> Self {
        let mut open = Vec::new();
        if env.is_none() {
            let engine = shown.controller.breaker.as_ref();
            open.extend((!is_closed(engine)).then_some(None));
            let own = |breaker: &BreakerStatus| breaker.scope == BreakerScope::Environment;
            let environments = shown.environments.iter();
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
            previous: breaker(shown, env.as_deref()),
            env,
            others: open.flatten().collect(),
        }
    }

    /// Once the reset was taken in: returns when it is seen, or when it takes too long.
    pub(crate) async fn wait_for_reset(
        self,
        mut shown: watch::Receiver<Arc<StatusDocuments>>,
    ) -> BreakerReset {
        let env = self.env.as_deref();
        if !is_closed(self.previous.as_ref()) {
            let seen = shown.wait_for(|shown| is_other(self.previous.as_ref(), breaker(shown, env).as_ref()));
            // What is not seen by then is told as it is.
            drop(tokio::time::timeout(SEEN, seen).await);
        }
        let current = breaker(&shown.borrow(), env);
        let engines = |breaker: &BreakerStatus| breaker.scope == BreakerScope::Engine;
        let whose = match env {
            Some(env) if !self.previous.as_ref().is_some_and(engines) => env,
            Some(_) | None => ENGINE,
        };
        BreakerReset {
            breaker: whose.to_owned(),
            changed: is_other(self.previous.as_ref(), current.as_ref()),
            previous: self.previous,
            current,
            others: self.others,
        }
    }
}

/// What an environment shows, or the engine's.
fn breaker(shown: &StatusDocuments, env: Option<&str>) -> Option<BreakerStatus> {
    match env {
        Some(env) => shown.environments.get(env)?.breaker.clone(),
        None => shown.controller.breaker.clone(),
    }
}

fn is_closed(breaker: Option<&BreakerStatus>) -> bool {
    breaker.is_none_or(|breaker| breaker.state == BreakerState::Closed)
}

fn is_other(before: Option<&BreakerStatus>, now: Option<&BreakerStatus>) -> bool {
    let words = |breaker: Option<&BreakerStatus>| {
        breaker.map_or((BreakerState::Closed, 0), |it| (it.state, it.times_opened))
    };
    words(before) != words(now)
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{BreakerChange, EnvironmentStatus};

    use super::*;

    fn standing(scope: BreakerScope, state: BreakerState) -> BreakerStatus {
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

    /// The engine's, and those of environments by name.
    fn shown(engine: BreakerState, environments: &[(&str, BreakerState)]) -> Arc<StatusDocuments> {
        let mut shown = StatusDocuments::default();
        shown.controller.breaker = Some(standing(BreakerScope::Engine, engine));
        for (name, state) in environments {
            let status = EnvironmentStatus {
                breaker: Some(standing(BreakerScope::Environment, *state)),
                ..EnvironmentStatus::default()
            };
            shown.environments.insert((*name).to_owned(), status);
        }
        Arc::new(shown)
    }

    async fn reset(
        before: &Arc<StatusDocuments>,
        env: Option<&str>,
        after: Arc<StatusDocuments>,
    ) -> BreakerReset {
        let env = env.map(|env| EnvName::new(env).unwrap());
        let standing = BreakerBefore::of(before, env.as_ref());
        let (_shows, shown) = watch::channel(after);
        standing.wait_for_reset(shown).await
    }

    #[tokio::test]
    async fn a_reset_tells_the_state_before_and_after_and_what_had_opened_it() {
        use BreakerState::{Closed, HalfOpen, Open};
        let before = shown(Closed, &[("blog", Closed), ("shop", Open)]);
        let after = shown(Closed, &[("blog", Closed), ("shop", HalfOpen)]);
        // By name, and as the one of all that was not closed.
        for env in [Some("shop"), None] {
            let told = reset(&before, env, after.clone()).await;
            let state = |breaker: &Option<BreakerStatus>| breaker.as_ref().map(|it| it.state);
            assert_eq!((told.breaker.as_str(), told.changed), ("shop", true), "{env:?}");
            assert_eq!(
                (state(&told.previous), state(&told.current)),
                (Some(Open), Some(HalfOpen))
            );
            let previous = told.previous.unwrap();
            assert_eq!(previous.history[0].reason, "5 failures in a row");
        }
    }

    #[tokio::test]
    async fn a_closed_breaker_stays_as_it_is_and_the_others_that_are_reset_are_named() {
        use BreakerState::{Closed, HalfOpen, Open};
        let closed = shown(Closed, &[("shop", Closed)]);
        for (env, whose) in [(Some("shop"), "shop"), (None, ENGINE)] {
            let told = reset(&closed, env, closed.clone()).await;
            assert_eq!((told.breaker.as_str(), told.changed), (whose, false));
            assert!(told.was_closed() && told.previous == told.current);
        }
        let open = shown(Open, &[("blog", Open), ("shop", HalfOpen)]);
        let told = reset(&open, None, shown(HalfOpen, &[])).await;
        assert_eq!((told.breaker.as_str(), told.changed), (ENGINE, true));
        assert_eq!(told.others, ["blog", "shop"]);
    }
}
