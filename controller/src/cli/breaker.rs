//! `argus breaker`: shows circuit breakers, and resets them.

use std::collections::BTreeMap;

use argus_crds::status::{BreakerScope, BreakerState, BreakerStatus};
use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;
use clap::{Args, Subcommand};

use super::client;
use crate::api::breaker::BreakerReport;
use crate::cli::notes;
use crate::command_reply::{CommandReply, CommandResult};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::table;

const HEAD: &[&str] = &[
    "BREAKER",
    "STATE",
    "FAILURES",
    "OPENED",
    "RETRY AT",
    "LAST FAILURE",
];

#[derive(Debug, Args)]
pub(crate) struct Breaker {
    #[command(subcommand)]
    command: BreakerCommand,
}

#[derive(Debug, Subcommand)]
enum BreakerCommand {
    /// Show the state of the breakers, with the last failure
    Status(BreakerArgs),
    /// Test the engine immediately instead of after the cooldown
    Reset(BreakerArgs),
}

#[derive(Debug, Args)]
struct BreakerArgs {
    /// Environment name [default: the engine and all environments]
    environment: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Breaker {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        match self.command {
            BreakerCommand::Status(which) => which.show(options),
            BreakerCommand::Reset(which) => which.reset(options),
        }
    }

    /// Requested output format.
    pub(crate) fn output(&self) -> Option<Format> {
        match &self.command {
            BreakerCommand::Status(which) | BreakerCommand::Reset(which) => which.output,
        }
    }
}

impl BreakerArgs {
    fn show(&self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        notes::note_if_not_running(&state);
        let report = self.read_breakers(&state)?;
        let breakers = report.rows();
        match self.output {
            Some(Format::Json) => output::print_json(&report)?,
            Some(Format::Yaml) => output::print_yaml(&report)?,
            Some(Format::Name) => output::print(&output::join_lines(breakers.iter().map(|(name, _)| name)))?,
            Some(Format::Table | Format::Wide) | None => {
                let rows: Vec<_> = breakers.iter().map(format_row).collect();
                output::print(&table::format_table(HEAD, &rows, output::terminal_width()))?;
            }
        }
        Ok(Exit::Done)
    }

    fn read_breakers(&self, state: &StateDir) -> Result<BreakerReport, Failure> {
        let Some(env) = &self.environment else {
            let engine = status::read_controller(state)?.and_then(|controller| controller.breaker);
            return Ok(BreakerReport::of(engine, &status::read_environments(state)?));
        };
        let own = status::find_environment(state, env)?
            .breaker
            .unwrap_or(BreakerStatus {
                scope: BreakerScope::Environment,
                ..BreakerStatus::default()
            });
        // The status of an environment contains the engine's breaker if that one is not closed.
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
        let environment = self
            .environment
            .as_deref()
            .map(status::parse_environment)
            .transpose()?;
        let name = environment.as_ref().map_or_else(
            || "every breaker".to_owned(),
            |env| format!("the breaker of {env}"),
        );
        let command = Command::ResetBreaker { environment };
        let message = |reply: &CommandReply| {
            let CommandResult::Circuit(reset) = &reply.result else {
                return String::new();
            };
            if reset.was_closed() {
                format!("{name} is already closed\n")
            } else if reset.changed {
                format!("{name} allows one test call now\n")
            } else {
                format!(
                    "the breaker of {} is unchanged; Argus is reconnecting to the engine\n",
                    reset.breaker
                )
            }
        };
        client::execute_command(options, &command, self.output, message)
    }
}

fn format_row((name, breaker): &(&str, &BreakerStatus)) -> Vec<String> {
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
