//! `argus breaker`: how the circuit breakers stand, and the engine tried at once.

use std::collections::BTreeMap;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{BreakerScope, BreakerState, BreakerStatus, EnvironmentStatus};
use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::output::{self, Format};
use super::{client, status, table};
use crate::command_reply::CommandReply;
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
        let told = self.breakers(&state)?;
        let breakers = told.rows();
        match self.output {
            Some(Format::Json) => output::json(&told)?,
            Some(Format::Yaml) => output::yaml(&told)?,
            Some(Format::Name) => output::data(&output::lines(breakers.iter().map(|(name, _)| name)))?,
            Some(Format::Table | Format::Wide) | None => {
                let rows: Vec<_> = breakers.iter().map(row).collect();
                output::data(&table::text(HEAD, &rows, output::width()))?;
            }
        }
        Ok(Exit::Done)
    }

    fn breakers(&self, state: &StateDir) -> Result<BreakerReport, Failure> {
        let Some(env) = &self.environment else {
            let engine = status::controller(state)?.and_then(|controller| controller.breaker);
            return Ok(BreakerReport::of(engine, &status::all(state)?));
        };
        let own = status::existing(state, env)?.breaker.unwrap_or(BreakerStatus {
            scope: BreakerScope::Environment,
            ..BreakerStatus::default()
        });
        // An environment shows the engine's breaker where that is not closed.
        Ok(match own.scope {
            BreakerScope::Engine => BreakerReport {
                engine: Some(own),
                environments: BTreeMap::new(),
            },
            BreakerScope::Environment => BreakerReport {
                engine: None,
                environments: BTreeMap::from([(env.clone(), own)]),
            },
        })
    }

    fn reset(self, options: &Options) -> Result<Exit, Failure> {
        let environment = self.environment.as_deref().map(status::named).transpose()?;
        let whose = environment.as_ref().map_or_else(
            || "every breaker".to_owned(),
            |env| format!("the breaker of {env}"),
        );
        let command = Command::ResetBreaker { environment };
        let say = |taken: &CommandReply| {
            let reset = taken.circuit();
            if reset.was_closed() {
                format!("{whose} is closed already\n")
            } else if reset.changed {
                format!("{whose} lets one call through now\n")
            } else {
                format!(
                    "the breaker of {} is still as it was; the engine is looked for\n",
                    reset.breaker
                )
            }
        };
        client::one(options, &command, self.output, say)
    }
}

/// How the breakers stand, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BreakerReport {
    /// The engine's; none where it is not asked for, or no controller ever ran.
    engine: Option<BreakerStatus>,
    /// Those of the environments that ever counted something, by name.
    environments: BTreeMap<String, BreakerStatus>,
}

impl BreakerReport {
    /// All there are.
    pub(crate) fn of<'a>(
        engine: Option<BreakerStatus>,
        statuses: impl IntoIterator<Item = &'a EnvironmentStatus>,
    ) -> Self {
        let own = |status: &EnvironmentStatus| {
            let own = status.breaker.clone();
            let own = own.filter(|own| own.scope == BreakerScope::Environment);
            Some((status.environment.clone(), own?))
        };
        Self {
            engine,
            environments: statuses.into_iter().filter_map(own).collect(),
        }
    }

    /// The engine's first.
    fn rows(&self) -> Vec<(&str, &BreakerStatus)> {
        let engine = self.engine.iter().map(|engine| ("engine", engine));
        let environments = self.environments.iter();
        let environments = environments.map(|(name, breaker)| (name.as_str(), breaker));
        engine.chain(environments).collect()
    }
}

fn row((name, breaker): &(&str, &BreakerStatus)) -> Vec<String> {
    let state = match breaker.state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half-open",
    };
    vec![
        (*name).to_owned(),
        state.to_owned(),
        breaker.failures.to_string(),
        breaker.times_opened.to_string(),
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
