//! `argus mcp`: serves MCP on stdin and stdout, for the controller of a state directory.

use clap::Args;

use crate::client::ControllerClient;
use crate::mcp;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::settings::{Options, ServeOptions, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    serve: ServeOptions,
}

impl Mcp {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let mut settings = Settings::resolve(options, &self.specs)?;
        settings.allow_test_commands |= self.serve.allow_test_commands;
        // Stdout belongs to the protocol. MCP clients show stderr as the server's log.
        crate::app::telemetry::start(settings.log_format, "warn", None);
        runtime::block_on(mcp::serve_stdio(ControllerClient::remote(settings)))?;
        Ok(Exit::Done)
    }
}
