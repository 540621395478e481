//! `argus retry`: lets a running controller retry given-up services.

use clap::Args;

use super::call;
use crate::api::retry;
use crate::exit::{Exit, Failure};
use crate::output::OutputArgs;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Environment names
    #[arg(required = true)]
    environments: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Retry {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        for environment in self.environments {
            let text = format!("{environment} is retried\n");
            call::execute_command(options, &retry::Retry { environment }, self.output, |_| text)?;
        }
        Ok(Exit::Done)
    }
}
