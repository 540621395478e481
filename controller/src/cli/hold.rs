//! `argus hold`, `argus resume` and `argus cancel`: leave an environment or a service unchanged, and continue.

use std::time::Duration;

use clap::Args;

use super::call;
use crate::api::commands;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::Options;

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
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Environment, or ENVIRONMENT/SERVICE [default: end mode Safe]
    target: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Environment name
    environment: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Hold {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (target, span) = (self.target, self.span);
        let operation = commands::Hold {
            environment: target.clone(),
            service: None,
            for_seconds: span.map(call::round_to_seconds),
            stops: false,
            reason: self.reason,
            holder: self.holder,
        };
        call::execute_command(options, &operation, self.output, |_| match span {
            Some(span) => format!("{target} is held for {}\n", output::format_span(span)),
            None => format!("{target} is held until `argus resume {target}`\n"),
        })
    }
}

impl Resume {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let text = format!("{} resumed\n", self.target.as_deref().unwrap_or("controller"));
        let operation = commands::Resume {
            environment: self.target,
            service: None,
        };
        call::execute_command(options, &operation, self.output, |_| text)
    }
}

impl Cancel {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let environment = self.environment;
        let text = format!("{environment} is cancelled and held until `argus resume {environment}`\n");
        call::execute_command(options, &commands::Cancel { environment }, self.output, |_| text)
    }
}
