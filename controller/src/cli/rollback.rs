//! `argus rollback` and `fork`: the last good revision instead of this one, or this one beside itself.

use argus_reconciler::{Answer, Command};
use clap::Args;

use super::output::Format;
use super::{status, tell};
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
        let say = |answer: &Answer| match answer {
            Answer::Revision(revision) => {
                format!("{name} goes back to revision {revision}, until its file changes\n")
            }
            Answer::Done | Answer::Lease(_) | Answer::Test(_) | Answer::Forked(_) => String::new(),
        };
        tell::one(options, &Command::Rollback { environment }, self.output, say)
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
        let say = |_: &Answer| format!("{to} is a copy of {name}, until `argus down {to}`\n");
        tell::one(options, &command, self.output, say)
    }
}
