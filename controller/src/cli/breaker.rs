//! `argus breaker`: how the circuit breakers stand, and the engine tried at once.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{BreakerScope, BreakerState, BreakerStatus};
use argus_reconciler::state::StateDir;
use argus_reconciler::{Answer, Command};
use clap::{Args, Subcommand};
use serde_json::{Map, json};

use super::output::{self, Format};
use super::{status, table, tell};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

const HEAD: &[&str] = &[
    "BREAKER",
    "STATE",
    "FAILURES",
    "OPENINGS",
    "RETRY AT",
    "LAST FAILURE",
];

#[derive(Debug, Args)]
pub(crate) struct Breaker {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show whether the engine is left alone, since when and why
    Status(Which),
    /// Try the engine at once instead of when the pause is over
    Reset(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// Environment; the engine's and all of them without
    environment: Option<String>,
    /// Format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Breaker {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Status(which) => which.show(options),
            Verb::Reset(which) => which.reset(options),
        }
    }

    /// The format that was asked for.
    pub(crate) fn output(&self) -> Option<Format> {
        match &self.verb {
            Verb::Status(which) | Verb::Reset(which) => which.output,
        }
    }
}

impl Which {
    fn show(&self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        status::say_if_alone(&state);
        let breakers = self.breakers(&state)?;
        let by_name = || -> Map<String, serde_json::Value> {
            breakers
                .iter()
                .map(|(name, breaker)| (name.clone(), json!(breaker)))
                .collect()
        };
        match self.output {
            Some(Format::Json) => output::json(&by_name())?,
            Some(Format::Yaml) => output::yaml(&by_name())?,
            Some(Format::Name) => output::data(&output::lines(breakers.into_iter().map(|(name, _)| name)))?,
            Some(Format::Table | Format::Wide) | None => {
                let rows: Vec<_> = breakers.iter().map(row).collect();
                output::data(&table::text(HEAD, &rows, output::width()))?;
            }
        }
        Ok(Exit::Done)
    }

    /// The engine's first, then those of the environments that ever counted something.
    fn breakers(&self, state: &StateDir) -> Result<Vec<(String, BreakerStatus)>, Failure> {
        let mut found = Vec::new();
        if let Some(env) = &self.environment {
            let own = status::existing(state, env)?.breaker.unwrap_or(BreakerStatus {
                scope: BreakerScope::Environment,
                ..BreakerStatus::default()
            });
            found.push((name(env, own.scope), own));
            return Ok(found);
        }
        let engine = status::controller(state)?.and_then(|controller| controller.breaker);
        found.extend(engine.map(|engine| ("engine".to_owned(), engine)));
        for env in status::names(state)? {
            let own = status::one(state, &env)?.and_then(|status| status.breaker);
            let own = own.filter(|own| own.scope == BreakerScope::Environment);
            found.extend(own.map(|own| (env, own)));
        }
        Ok(found)
    }

    fn reset(self, options: &Options) -> Result<Exit, Failure> {
        let environment = self.environment.as_deref().map(status::named).transpose()?;
        let whose = environment.as_ref().map_or_else(
            || "every breaker".to_owned(),
            |env| format!("the breaker of {env}"),
        );
        let state = StateDir::at(Settings::resolve(options, &SpecOptions::default())?.state);
        let closed = |(_, breaker): &(String, BreakerStatus)| breaker.state == BreakerState::Closed;
        let nothing_to_do = self
            .breakers(&state)
            .is_ok_and(|breakers| breakers.iter().all(closed));
        let command = Command::ResetBreaker { environment };
        let say = |_: &Answer| {
            if nothing_to_do {
                format!("{whose} is closed already\n")
            } else {
                format!("{whose} lets one call through now\n")
            }
        };
        tell::one(options, &command, self.output, say)
    }
}

/// An environment shows the engine's breaker where that is not closed.
fn name(env: &str, scope: BreakerScope) -> String {
    match scope {
        BreakerScope::Engine => "engine".to_owned(),
        BreakerScope::Environment => env.to_owned(),
    }
}

fn row((name, breaker): &(String, BreakerStatus)) -> Vec<String> {
    let state = match breaker.state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half-open",
    };
    vec![
        name.clone(),
        state.to_owned(),
        breaker.failures.to_string(),
        breaker.openings.to_string(),
        breaker.retry_at.clone().unwrap_or_default(),
        breaker.last_failure.clone().unwrap_or_default(),
    ]
}

/// Refuses what needs the engine while a controller at work leaves it alone, with the last that is known of it.
pub(crate) fn guard(state: &StateDir) -> Result<(), Failure> {
    let Some(controller) = status::controller(state).ok().flatten() else {
        return Ok(());
    };
    let Some(breaker) = controller
        .breaker
        .filter(|breaker| breaker.state != BreakerState::Closed)
    else {
        return Ok(());
    };
    if !status::is_alive(state) {
        return Ok(());
    }
    let why = breaker.last_failure.clone().unwrap_or_default();
    let message = format!("the circuit breaker of the engine is not closed: {why}");
    let mut error = StructuredError::new(Code::CircuitOpen, message).details(json!({
        "breaker": breaker,
        "stale": true,
        "asOf": controller.as_of,
    }));
    let left = breaker
        .retry_at
        .as_deref()
        .and_then(argus_core::time::Timestamp::parse)
        .map(|at| at.since(argus_reconciler::clock::now()).as_secs().max(1));
    if let Some(left) = left {
        error = error.retry_after(left);
    }
    Err(Failure::new(error).hint("`argus breaker reset` tries it at once"))
}
