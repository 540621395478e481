//! `argus down`: removes environments, with or without a controller.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_reconciler::Command;
use clap::Args;

use crate::api::wait::goal;
use crate::api::wait::goal::WaitGoal;
use crate::client::ControllerClient;
use crate::client::http::ClientError;
use crate::client::remote::{command_failure, send};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
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
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Down {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let client = ControllerClient::remote(settings);
        let state = client.state();
        let names = if self.all {
            status::list_names(state)?
        } else {
            self.environments.clone()
        };
        let envs = names
            .iter()
            .map(|name| status::parse_environment(name))
            .collect::<Result<Vec<_>, _>>()?;
        runtime::block_on(async {
            if client.is_alive() {
                remove_environments(&client, &names, self.timeout).await
            } else {
                offline::remove_environments(
                    client.settings(),
                    if self.all { Vec::new() } else { envs },
                    self.timeout,
                )
                .await
            }
        })?;
        match self.output {
            Some(Format::Json) => output::print_json(&serde_json::json!({ "gone": names }))?,
            Some(Format::Yaml) => output::print_yaml(&serde_json::json!({ "gone": names }))?,
            Some(Format::Name) => output::print(&output::join_lines(&names))?,
            Some(Format::Table | Format::Wide) | None => {
                output::print(&output::join_lines(
                    names.iter().map(|name| format!("{name} gone")),
                ))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Removes environments through the running controller.
async fn remove_environments(
    client: &ControllerClient,
    names: &[String],
    timeout: Duration,
) -> Result<(), Failure> {
    let state = client.state();
    for name in names {
        let environment = status::parse_environment(name)?;
        let status = status::read_environment(state, name)?;
        let lease_error = status.as_ref().and_then(goal::find_lease_error).cloned();
        if let Some(lease_error) = lease_error {
            return Err(Failure::new(lease_error));
        }
        match send(state, &Command::Down { environment }).await {
            Ok(_) => {}
            // The controller does not know the environment, but remains of it exist: its removal is in progress.
            Err(ClientError::Refused(_))
                if status::read_environment(state, name)?.is_some_and(|left| left.revision.is_none()) => {}
            Err(error) => return Err(command_failure(error)),
        }
    }
    let known = status::read_controller(state)?.unwrap_or_default();
    if known.engine.is_some_and(|engine| !engine.reachable) {
        let mut errors = known.errors.into_iter();
        let outage = errors.find(|error| error.code == Code::DockerUnavailable);
        let message = "the engine does not answer; Argus removes the environments when it is back";
        // The status error contains the reconnect attempts and the time of the next one.
        return Err(Failure::new(StructuredError {
            message: message.to_owned(),
            ..outage.unwrap_or_else(|| StructuredError::new(Code::DockerUnavailable, message))
        }));
    }
    goal::wait_until(client, Some(names), WaitGoal::Gone, timeout, |_| {})
        .await
        .map(drop)
}
