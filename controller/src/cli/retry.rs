//! `argus retry` and `argus restart`: let a running controller retry or restart services.

use clap::Args;

use super::call;
use crate::api::{Operation, commands};
use crate::command_reply::CommandReply;
use crate::exit::{Exit, Failure};
use crate::output::OutputArgs;
use crate::settings::Options;

#[derive(Debug, Args)]
struct Targets {
    /// Environments, or ENVIRONMENT/SERVICE
    #[arg(required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Targets {
    /// Sends a command per target. `effect` completes the sentence that begins with the target.
    fn execute<T: Operation<Output = CommandReply>>(
        self,
        options: &Options,
        effect: &str,
        create: impl Fn(String) -> T,
    ) -> Result<Exit, Failure> {
        for target in self.targets {
            let text = format!("{target} {effect}\n");
            call::execute_command(options, &create(target), self.output, |_| text)?;
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    targets: Targets,
}

#[derive(Debug, Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    targets: Targets,
}

impl Retry {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let create = |environment| commands::Retry {
            environment,
            service: None,
        };
        self.targets.execute(options, "is retried", create)
    }
}

impl Restart {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let create = |environment| commands::Restart {
            environment,
            service: None,
        };
        self.targets.execute(options, "restarts", create)
    }
}
