//! `argus network`: shows the last results of the connectivity checks of an environment, or repeats the checks.

use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::api::network::report::{NetworkReport, check_now, format_report, last_report};
use crate::cli::notes;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;

#[derive(Debug, Args)]
pub(crate) struct Network {
    /// Environment name
    environment: String,
    #[command(flatten)]
    specs: SpecOptions,
    /// Check now instead of showing the controller's last results
    #[arg(long)]
    verify: bool,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Network {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let env = status::parse_environment(&self.environment)?;
        let report = if self.verify {
            runtime::block_on(Box::pin(check_now(&settings, &env)))?
        } else {
            let state = StateDir::at(settings.state);
            notes::note_if_not_running(&state);
            last_report(status::find_environment(&state, env.as_str())?)
        };
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&report)?,
            Format::Yaml => output::print_yaml(&report)?,
            Format::Name => {
                let links = report.connectivity.iter().flat_map(|matrix| &matrix.links);
                let broken = links.filter(|link| link.error.is_some());
                output::print(&output::join_lines(
                    broken.map(|link| format!("{}/{}", link.from, link.to)),
                ))?;
            }
            Format::Table | Format::Wide => output::print(&format_report(&report))?,
        }
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
