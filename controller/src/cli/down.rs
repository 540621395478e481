//! `argus down`: removes environments, with or without a controller.

use std::time::Duration;

use argus_core::labels::orphan_removal;
use argus_crds::status::Orphan;
use clap::Args;

use super::call;
use crate::api::commands;
use crate::api::target::find_only_environment;
use crate::api::wait::removal::remove_environments;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::{Options, SpecOptions};

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
                remove_environments(&context, &names, self.volumes, self.timeout, output::print_note).await?;
                if self.volumes {
                    let statuses = client.statuses().await?;
                    let kept = describe_kept_volumes(&statuses.controller.orphans, &names);
                    kept.for_each(|note| output::print_note(&note));
                }
                Ok(())
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

/// Describes the volumes of removed environments that stay, because they belong to the project in another folder.
fn describe_kept_volumes(orphans: &[Orphan], names: &[String]) -> impl Iterator<Item = String> {
    let is_removed = move |orphan: &Orphan| {
        let env = orphan.environment.as_ref();
        env.is_some_and(|env| names.contains(env))
    };
    let kept = orphans
        .iter()
        .filter(move |orphan| orphan.is_kept() && is_removed(orphan));
    kept.map(|orphan| {
        let command = orphan_removal(orphan.project.as_deref().unwrap_or_default(), true);
        let name = &orphan.name;
        format!("volume `{name}` belongs to the project in another folder and stays; `{command}` removes it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_volume_is_described_with_the_command_that_removes_it() {
        let volume = |env: &str, result: &str| Orphan {
            name: format!("argusai-{env}_data"),
            environment: Some(env.to_owned()),
            project: Some("shop".to_owned()),
            result: result.to_owned(),
            ..Orphan::default()
        };
        let all = [
            volume("shop", Orphan::KEPT),
            volume("shop", "removing"),
            volume("other", Orphan::KEPT),
        ];
        let notes: Vec<_> = describe_kept_volumes(&all, &["shop".to_owned()]).collect();
        assert_eq!(
            notes,
            [
                "volume `argusai-shop_data` belongs to the project in another folder and stays; \
              `argus orphans --clean --project shop --volumes` removes it"
            ]
        );
    }
}
