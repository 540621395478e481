//! `argus rollback` and `argus fork`: return to the last good revision, or run a copy of an environment.

use clap::Args;

use super::call;
use crate::api::commands;
use crate::client::command_reply::CommandResult;
use crate::process::exit::{Exit, Failure};
use crate::render::output::OutputArgs;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Environment name
    environment: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Environment name
    environment: String,
    /// Name of the copy [default: ENVIRONMENT-fork]
    to: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Rollback {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let operation = commands::Rollback {
            environment: self.environment.clone(),
        };
        call::execute_command(options, &operation, self.output, |reply| {
            let revision = match &reply.result {
                CommandResult::Revision(revision) => revision,
                _ => "",
            };
            let name = self.environment;
            format!("{name} returns to revision {revision}, until its file changes\n")
        })
    }
}

impl Fork {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let operation = commands::Fork {
            environment: self.environment,
            to: self.to,
        };
        let (name, to) = (&operation.environment, operation.copy());
        let text = format!("{to} is a copy of {name}; remove it with `argus down {to}`\n");
        call::execute_command(options, &operation, self.output, |_| text)
    }
}
