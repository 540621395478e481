//! `argus retry`, `argus start` and `argus restart`: let a running controller retry, start or restart services.

use clap::Args;

use super::call;
use crate::api::target::resolve_target;
use crate::api::{Operation, commands};
use crate::client::command_reply::CommandReply;
use crate::process::exit::{Exit, Failure};
use crate::render::output::OutputArgs;
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
struct Targets {
    /// Environments, or ENVIRONMENT/SERVICE [default environment: the only one]
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
        create: impl Fn(String, Option<String>) -> T,
    ) -> Result<Exit, Failure> {
        let state = Settings::resolve(options, &SpecOptions::default())?.state;
        for target in self.targets {
            let (environment, service) = resolve_target(&state, Some(&target), None)?;
            let text = format!("{target} {effect}\n");
            call::execute_command(options, &create(environment, service), self.output, |_| text)?;
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
pub(crate) struct Start {
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
        let create = |environment, service| commands::Retry { environment, service };
        self.targets.execute(options, "is retried", create)
    }
}

impl Start {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        // A retry ends the stop.
        let create = |environment, service| commands::Retry { environment, service };
        self.targets.execute(options, "starts", create)
    }
}

impl Restart {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let create = |environment, service| commands::Restart { environment, service };
        self.targets.execute(options, "restarts", create)
    }
}
