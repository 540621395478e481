//! `argus run`: runs a controller until it is stopped.

use std::path::PathBuf;

use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;
use clap::Args;

use super::usage::ONE_OFF;
use crate::app;
use crate::app::telemetry;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::live::screen::LiveBlock;
use crate::settings::times::TimeOptions;
use crate::settings::{Listen, Options, ServeOptions, Settings, SpecOptions, StatusGroup};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Spec file, Compose file or folder to watch [default: the specs folder, else e2e.yaml, else the Compose file]
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(super) specs: SpecOptions,
    #[command(flatten)]
    times: TimeOptions,
    /// HTTP address, or a port on loopback, or `off` [default: 127.0.0.1:9470]
    #[arg(long, env = "ARGUS_LISTEN", value_name = "ADDRESS")]
    listen: Option<Listen>,
    /// Group whose members may read the status files [default: none, only this user]
    #[arg(long, env = "ARGUS_STATUS_GROUP", value_name = "NAME")]
    status_group: Option<StatusGroup>,
    #[command(flatten)]
    serve: ServeOptions,
}

impl Run {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let mut settings = Settings::resolve(options, &self.specs)?.with_project_file();
        settings.state.clone_from(&settings.own_state);
        if let Some(path) = self.path {
            settings.specs = existing(path)?;
        }
        if let Some(listen) = self.listen {
            settings.listen = listen.address();
        }
        settings.set_status_group(self.status_group);
        settings.allow_test_commands |= self.serve.allow_test_commands;
        settings.times = settings.times.under(&self.times);
        let screen = LiveBlock::for_terminal();
        // The live table shows progress already, so the log contains only warnings.
        let default_filter = if screen.is_some() { "warn" } else { "info" };
        telemetry::start(settings.log_format, default_filter, screen.as_ref());
        runtime::block_on(app::run(settings, screen))
    }
}

/// Refuses a path that does not exist. Later, the file can be missing for a while.
fn existing(path: PathBuf) -> Result<PathBuf, Failure> {
    if path.exists() {
        return Ok(path);
    }
    let message = format!("cannot watch `{}`: it does not exist", path.shown());
    Err(Failure::with_reason(Reason::NotFound, message)
        .with_exit(Exit::Usage)
        .with_hint(format!(
            "pass an existing spec file, or write a first one with `argus init`; {ONE_OFF}"
        )))
}
