//! `argus retry`: lets a running controller retry given-up services.

use clap::Args;

use super::call;
use crate::api::retry;
use crate::exit::{Exit, Failure};
use crate::output::OutputArgs;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Environments, or ENVIRONMENT/SERVICE
    #[arg(required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Retry {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        for environment in self.targets {
            let text = format!("{environment} is retried\n");
            let operation = retry::Retry {
                environment,
                service: None,
            };
            call::execute_command(options, &operation, self.output, |_| text)?;
        }
        Ok(Exit::Done)
    }
}
