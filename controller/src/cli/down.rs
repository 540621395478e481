//! `argus down`: removes environments, with or without a controller.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use clap::Args;

use super::call;
use crate::api::target::Target;
use crate::api::wait::goal;
use crate::api::wait::goal::WaitGoal;
use crate::api::{Context, Operation as _, commands};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::runtime;
use crate::settings::{Options, SpecOptions};
use crate::status;

mod offline;

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Environment names
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    environments: Vec<String>,
    /// Remove all environments of this state directory
    #[arg(long)]
    all: bool,
    /// Maximum time until the environments are gone
    #[arg(long, default_value = "120s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

impl Down {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let client = &context.client;
        let names = if self.all {
            status::list_names(client.state())?
        } else {
            self.environments
        };
        let envs = names.iter().map(|name| commands::Down::parse_environment(name));
        let envs = envs.collect::<Result<Vec<_>, _>>()?;
        runtime::block_on(async {
            if client.is_alive() {
                remove_environments(&context, &names, self.timeout).await
            } else {
                let envs = if self.all { Vec::new() } else { envs };
                offline::remove_environments(client.settings(), envs, self.timeout).await
            }
        })?;
        let gone = serde_json::json!({ "gone": names });
        self.output.print(&gone, &names, || {
            output::join_lines(names.iter().map(|name| format!("{name} gone")))
        })?;
        Ok(Exit::Done)
    }
}

/// Removes environments through the running controller.
async fn remove_environments(context: &Context, names: &[String], timeout: Duration) -> Result<(), Failure> {
    for environment in names.iter().cloned() {
        commands::Down { environment }.run(context).await?;
    }
    let client = &context.client;
    let known = status::read_controller(client.state())?.unwrap_or_default();
    if known.engine.is_some_and(|engine| !engine.reachable) {
        let mut errors = known.errors.into_iter();
        if let Some(refusal) = errors
            .clone()
            .find(|error| error.code == Code::DockerPermissionDenied)
        {
            return Err(Failure::new(refusal));
        }
        let outage = errors.find(|error| error.code == Code::DockerUnavailable);
        let message = "the engine does not answer; Argus removes the environments when it is back";
        // The status error contains the reconnect attempts and the time of the next one.
        return Err(Failure::new(StructuredError {
            message: message.to_owned(),
            ..outage.unwrap_or_else(|| StructuredError::new(Code::DockerUnavailable, message))
        }));
    }
    let targets: Vec<Target> = names.iter().map(Target::environment).collect();
    goal::wait_until(client, Some(&targets), WaitGoal::Gone, timeout, |_| {})
        .await
        .map(drop)
}
