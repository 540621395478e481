//! `argus mcp`: agents over stdin and stdout, in front of the controller of a state directory.

use clap::Args;

use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::mcp;
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(flatten)]
    specs: SpecOptions,
}

impl Mcp {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        // Stdout belongs to the protocol; stderr is shown by clients as our log.
        crate::telemetry::start(settings.log_format, "warn", None);
        super::block_on(mcp::stdio(ControllerClient::remote(settings)))?;
        Ok(Exit::Done)
    }
}
