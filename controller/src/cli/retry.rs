//! `argus retry`: lets a running controller try again what it gave up.

use argus_reconciler::Command;
use argus_reconciler::state::StateDir;
use clap::Args;

use super::output::{self, Format};
use super::status;
use super::tell::{failure, tell};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Environments
    #[arg(required = true)]
    environments: Vec<String>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Retry {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        super::block_on(async {
            for env in &self.environments {
                let environment = status::named(env)?;
                tell(&state, &Command::Retry { environment })
                    .await
                    .map_err(failure)?;
            }
            Ok(())
        })?;
        output::data(&output::lines(
            self.environments
                .iter()
                .map(|env| format!("{env} is tried again")),
        ))?;
        Ok(Exit::Done)
    }
}
