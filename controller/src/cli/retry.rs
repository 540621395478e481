//! `argus retry`: lets a running controller retry given-up services.

use argus_reconciler::Command;
use argus_reconciler::state_dir::StateDir;
use clap::Args;

use super::client::print_reply;
use crate::client::remote::{command_failure, send};
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Environment names
    #[arg(required = true)]
    environments: Vec<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Retry {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        for env in &self.environments {
            let environment = status::parse_environment(env)?;
            let command = Command::Retry { environment };
            let reply = runtime::block_on(async { send(&state, &command).await.map_err(command_failure) })?;
            let message = |_: &CommandReply| format!("{env} is retried\n");
            print_reply(&command, &reply, self.output, message)?;
        }
        Ok(Exit::Done)
    }
}
