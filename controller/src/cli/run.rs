//! `argus run`: runs a controller until it is stopped.

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::live::screen::LiveBlock;
use crate::runtime;
use crate::settings::times::TimeOptions;
use crate::settings::{Listen, Options, Settings, SpecOptions};
use crate::{app, telemetry};

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    times: TimeOptions,
    /// HTTP address, or a port on loopback, or `off` [default: 127.0.0.1:9470]
    #[arg(long, env = "ARGUS_LISTEN", value_name = "ADDRESS")]
    listen: Option<Listen>,
}

impl Run {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let mut settings = Settings::resolve(options, &self.specs)?;
        if let Some(listen) = self.listen {
            settings.listen = listen.address();
        }
        settings.times = settings.times.under(&self.times);
        let screen = LiveBlock::for_terminal();
        // The live table shows progress already, so the log contains only warnings.
        let default_filter = if screen.is_some() { "warn" } else { "info" };
        telemetry::start(settings.log_format, default_filter, screen.as_ref());
        runtime::block_on(app::run(settings, screen))
    }
}
