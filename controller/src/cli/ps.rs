//! `argus ps`: lists the services of one environment, as `docker compose ps` does.

use clap::Args;

use super::get::Get;
use crate::api::target::find_only_environment;
use crate::process::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Environment, or ENVIRONMENT/SERVICE [default: the only one]
    target: Option<String>,
}

impl Ps {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let state = Settings::resolve(options, &SpecOptions::default())?.state;
        let target = self.target.map_or_else(|| find_only_environment(&state), Ok)?;
        Get::of_target(target).execute(options)
    }
}
