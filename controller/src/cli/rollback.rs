//! `argus rollback` and `argus fork`: return to the last good revision, or run a copy of an environment.

use argus_reconciler::Command;
use clap::Args;

use super::client;
use crate::command_reply::{CommandReply, CommandResult};
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::settings::Options;
use crate::status;

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Environment name
    environment: String,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Environment name
    environment: String,
    /// Name of the copy [default: ENVIRONMENT-fork]
    to: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Rollback {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let name = self.environment;
        let message = |reply: &CommandReply| {
            let revision = match &reply.result {
                CommandResult::Revision(revision) => revision,
                _ => "",
            };
            format!("{name} returns to revision {revision}, until its file changes\n")
        };
        client::execute_command(options, &Command::Rollback { environment }, self.output, message)
    }
}

impl Fork {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let to = self.to.unwrap_or_else(|| format!("{}-fork", self.environment));
        let command = Command::Fork {
            environment: status::parse_environment(&self.environment)?,
            to: status::parse_environment(&to)?,
        };
        let name = self.environment;
        let message =
            |_: &CommandReply| format!("{to} is a copy of {name}; remove it with `argus down {to}`\n");
        client::execute_command(options, &command, self.output, message)
    }
}
