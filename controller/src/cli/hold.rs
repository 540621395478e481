//! `argus hold`, `argus resume` and `argus cancel`: leave an environment or a service unchanged, and continue.

use std::time::Duration;

use argus_core::ident::{EnvName, ServiceName};
use argus_reconciler::{Command, clock};
use clap::Args;

use super::client;
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::settings::Options;
use crate::status;

#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Duration of the hold [default: until `argus resume`]
    #[arg(long = "for", value_name = "TIME", value_parser = crate::settings::parse_duration)]
    span: Option<Duration>,
    /// Reason, shown in the status
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// Name of the holder, shown to other users
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Environment, or ENVIRONMENT/SERVICE [default: end mode Safe]
    target: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Environment name
    environment: String,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Hold {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (environment, service) = parse_target(&self.target)?;
        let command = Command::Hold {
            environment,
            service,
            until: self.span.map(|span| clock::now() + span),
            reason: self.reason,
            holder: self.holder,
        };
        let (target, span) = (self.target, self.span);
        client::execute_command(options, &command, self.output, |_| match span {
            Some(span) => format!("{target} is held for {}\n", humantime::format_duration(span)),
            None => format!("{target} is held until `argus resume {target}`\n"),
        })
    }
}

impl Resume {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let Some(target) = self.target else {
            let message = |_: &CommandReply| "controller resumed\n".to_owned();
            return client::execute_command(options, &Command::ResumeController, self.output, message);
        };
        let (environment, service) = parse_target(&target)?;
        let command = Command::Resume { environment, service };
        client::execute_command(options, &command, self.output, |_| format!("{target} resumed\n"))
    }
}

impl Cancel {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let name = self.environment;
        let message =
            |_: &CommandReply| format!("{name} is cancelled and held until `argus resume {name}`\n");
        client::execute_command(options, &Command::Cancel { environment }, self.output, message)
    }
}

/// Parses `ENVIRONMENT` or `ENVIRONMENT/SERVICE`.
fn parse_target(text: &str) -> Result<(EnvName, Option<ServiceName>), Failure> {
    match text.split_once('/') {
        None => Ok((status::parse_environment(text)?, None)),
        Some((env, service)) => {
            let named = ServiceName::new(service).map_err(|error| Failure::usage(error.to_string()))?;
            Ok((status::parse_environment(env)?, Some(named)))
        }
    }
}
