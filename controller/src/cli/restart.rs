//! `argus restart`: lets a running controller restart an environment or a service.

use clap::Args;

use super::call;
use crate::api::restart;
use crate::exit::{Exit, Failure};
use crate::output::OutputArgs;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Environments, or ENVIRONMENT/SERVICE
    #[arg(required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Restart {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        for environment in self.targets {
            let text = format!("{environment} restarts\n");
            let operation = restart::Restart {
                environment,
                service: None,
            };
            call::execute_command(options, &operation, self.output, |_| text)?;
        }
        Ok(Exit::Done)
    }
}
