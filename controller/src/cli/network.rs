//! `argus network`: shows the last results of the connectivity checks of an environment, or repeats the checks.

use clap::Args;

use super::{call, notes};
use crate::api::network;
use crate::api::network::report::{NetworkReport, format_report};
use crate::process::exit::{Exit, Failure};
use crate::render::output::OutputArgs;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Network {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    #[command(flatten)]
    specs: SpecOptions,
    /// Check now instead of showing the controller's last results
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Network {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &self.specs)?;
        if !self.verify {
            notes::note_if_not_running(context.client.state());
        }
        let operation = network::Network {
            environment: self.target,
            service: None,
            verify: self.verify,
        };
        let report = call::run(&context, &operation)?;
        let links = report.connectivity.iter().flat_map(|matrix| &matrix.links);
        let broken = links.filter(|link| link.error.is_some() || link.unverified.is_some());
        let names = broken.map(|link| format!("{}/{}", link.from, link.to));
        self.output.print(&report, names, || format_report(&report))?;
        Ok(exit_for_report(&report))
    }
}

/// A broken link ends with the exit code of its error. An incomplete check without broken links ends with [`Exit::TimedOut`].
fn exit_for_report(report: &NetworkReport) -> Exit {
    match report.errors.first() {
        Some(error) => Exit::from_code(error.code),
        None if report.verified => Exit::Done,
        None => Exit::TimedOut,
    }
}
