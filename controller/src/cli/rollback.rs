//! `argus rollback` and `fork`: the last good revision instead of this one, or this one beside itself.

use argus_reconciler::Command;
use clap::Args;

use super::output::Format;
use super::{client, status};
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Environment
    environment: String,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Environment
    environment: String,
    /// Name of the copy; without it, the environment's with `-fork` behind it
    to: Option<String>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Rollback {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let environment = status::named(&self.environment)?;
        let name = self.environment;
        let say = |taken: &CommandReply| {
            let revision = taken.value.as_ref().and_then(|value| value.as_str());
            let revision = revision.unwrap_or_default();
            format!("{name} goes back to revision {revision}, until its file changes\n")
        };
        client::one(options, &Command::Rollback { environment }, self.output, say)
    }
}

impl Fork {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let to = self.to.unwrap_or_else(|| format!("{}-fork", self.environment));
        let command = Command::Fork {
            environment: status::named(&self.environment)?,
            to: status::named(&to)?,
        };
        let name = self.environment;
        let say = |_: &CommandReply| format!("{to} is a copy of {name}, until `argus down {to}`\n");
        client::one(options, &command, self.output, say)
    }
}
