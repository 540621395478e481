//! `argus mock`: serves one mock from its file, until it is stopped.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::settings::{LogFormat, Options};
use crate::{mock, telemetry};

#[derive(Debug, Args)]
pub(crate) struct Mock {
    /// The file with the mock, as JSON; it is read again when it is replaced, and on SIGHUP
    #[arg(long, env = "ARGUS_MOCK_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// Where it listens [default: the mock's containerPort on all addresses]
    #[arg(long, env = "ARGUS_MOCK_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl Mock {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        telemetry::start(options.log_format.unwrap_or(LogFormat::Human), "info", None);
        super::block_on(mock::run(self.config, self.listen))
    }
}
