//! `argus down`: removes environments, with or without a controller.

use std::time::Duration;

use clap::Args;

use super::call;
use crate::api::commands;
use crate::api::target::find_only_environment;
use crate::api::wait::removal::remove_environments;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::runtime;
use crate::settings::{Options, SpecOptions};
use crate::status;

mod offline;

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Environment names [default: the only environment]
    #[arg(conflicts_with = "all")]
    environments: Vec<String>,
    /// Remove all environments of this state directory
    #[arg(long)]
    all: bool,
    /// Also remove their named volumes, without the external ones
    #[arg(long)]
    volumes: bool,
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
        let settings = client.settings();
        if self.volumes && self.environments.is_empty() && !self.all {
            return Err(
                Failure::usage("`--volumes` deletes data, so it needs the names of environments")
                    .with_hint("name the environments, or use `--all`"),
            );
        }
        if self.environments.is_empty() && settings.state != settings.own_state {
            let message = "without names, `argus down` would also remove the environments of other folders, which this \
                           controller serves";
            return Err(Failure::usage(message)
                .with_hint("name the environments, or the state directory with `--state`"));
        }
        let names = if self.all {
            status::list_names(client.state())?
        } else if self.environments.is_empty() {
            vec![find_only_environment(client.state())?]
        } else {
            self.environments
        };
        let envs = names.iter().map(|name| commands::Down::parse_environment(name));
        let envs = envs.collect::<Result<Vec<_>, _>>()?;
        runtime::block_on(async {
            if client.is_alive() {
                remove_environments(&context, &names, self.volumes, self.timeout, output::print_note).await
            } else {
                let envs = if self.all { Vec::new() } else { envs };
                offline::remove_environments(&client.query_settings(), envs, self.volumes, self.timeout).await
            }
        })?;
        let gone = serde_json::json!({ "gone": names });
        self.output.print(&gone, &names, || {
            output::join_lines(names.iter().map(|name| format!("{name} gone")))
        })?;
        Ok(Exit::Done)
    }
}
