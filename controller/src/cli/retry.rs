//! `argus retry`, `argus start` and `argus restart`: let a running controller retry, start or restart services.

use std::time::Duration;

use clap::Args;

use super::commands::Commands;
use crate::api::target::{Target, resolve_target};
use crate::api::wait::goal::WaitGoal;
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
    /// Sends a command per target, and waits until all are ready within the time, if there is one. `effect` completes the sentence that
    /// begins with the target.
    fn execute<T: Operation<Output = CommandReply>>(
        self,
        options: &Options,
        effect: &str,
        wait: Option<Duration>,
        create: impl Fn(String, Option<String>) -> T,
    ) -> Result<Exit, Failure> {
        let state = Settings::resolve(options, &SpecOptions::default())?.state;
        let mut commands = Commands::default();
        for typed in self.targets {
            let (environment, service) = resolve_target(&state, Some(&typed), None)?;
            let operation = create(environment.clone(), service.clone());
            let target = Target { environment, service };
            commands.add(target, operation, format!("{typed} {effect}\n"));
        }
        let wait = wait.map(|time| (WaitGoal::Ready, time));
        commands.execute(options, wait, self.output)
    }
}

/// Wait of a command until its services are ready.
#[derive(Debug, Args)]
struct ReadyWait {
    /// Return before the services are ready
    #[arg(short, long)]
    detach: bool,
    /// Maximum time until the services are ready
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
}

impl ReadyWait {
    /// Returns the word for the effect, and the maximum time of the wait.
    fn choose(&self, requested: &'static str, done: &'static str) -> (&'static str, Option<Duration>) {
        if self.detach {
            (requested, None)
        } else {
            (done, Some(self.timeout))
        }
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
    #[command(flatten)]
    wait: ReadyWait,
}

#[derive(Debug, Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    wait: ReadyWait,
}

impl Retry {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let create = |environment, service| commands::Retry { environment, service };
        self.targets.execute(options, "is retried", None, create)
    }
}

impl Start {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        // A retry ends the stop.
        let create = |environment, service| commands::Retry { environment, service };
        let (effect, wait) = self.wait.choose("starts", "started");
        self.targets.execute(options, effect, wait, create)
    }
}

impl Restart {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let create = |environment, service| commands::Restart { environment, service };
        let (effect, wait) = self.wait.choose("restarts", "restarted");
        self.targets.execute(options, effect, wait, create)
    }
}
