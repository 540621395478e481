//! `argus breaker`: shows circuit breakers, and resets them.

use argus_crds::status::{BreakerState, BreakerStatus};
use clap::{Args, Subcommand};

use super::{call, notes};
use crate::api::breaker::{Breakers, ResetBreaker};
use crate::client::command_reply::CommandResult;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

const BREAKERS: &[Column<(String, BreakerStatus)>] = &[
    ("BREAKER", |(name, _)| name.clone()),
    ("STATE", |(_, breaker)| format_state(breaker)),
    ("FAILURES", |(_, breaker)| breaker.failures.to_string()),
    ("OPENED", |(_, breaker)| breaker.times_opened.to_string()),
    ("RETRY AT", |(_, breaker)| {
        breaker.retry_at.clone().unwrap_or_default()
    }),
    ("LAST FAILURE", |(_, breaker)| {
        breaker.last_failure.clone().unwrap_or_default()
    }),
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
    #[command(flatten)]
    output: OutputArgs,
}

impl Breaker {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        match self.command {
            BreakerCommand::Status(which) => which.show(options),
            BreakerCommand::Reset(which) => which.reset(options),
        }
    }
}

impl BreakerArgs {
    fn show(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        notes::note_if_not_running(context.client.state());
        let environment = self.environment;
        let report = call::run(&context, &Breakers { environment })?;
        let breakers = report.rows();
        let names = breakers.iter().map(|(name, _)| name);
        self.output.print(&report, names, || {
            table::format_columns(BREAKERS, &breakers, output::terminal_width())
        })?;
        Ok(Exit::Done)
    }

    fn reset(self, options: &Options) -> Result<Exit, Failure> {
        let operation = ResetBreaker {
            environment: self.environment,
        };
        call::execute_command(options, &operation, self.output, |reply| {
            let CommandResult::Circuit(reset) = &reply.result else {
                return String::new();
            };
            reset.describe()
        })
    }
}

fn format_state(breaker: &BreakerStatus) -> String {
    let state = match breaker.state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half-open",
    };
    state.to_owned()
}
