//! `argus why`: explains a state as a chain of causes, on one screen.

use argus_reconciler::state_dir::StateDir;
use clap::Args;

use super::target::Target;
use crate::api::why::report::{explain, format_report};
use crate::cli::notes;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    target: Target,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Why {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (env, service) = self.target.parse()?;
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        notes::note_if_not_running(&state);
        let status = status::find_environment(&state, &env)?;
        let report = explain(&state, &status, service.as_deref())?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&report)?,
            Format::Yaml => output::print_yaml(&report)?,
            Format::Name => {
                let names = report.chains.iter().filter_map(|chain| chain.service.as_ref());
                output::print(&output::join_lines(names.map(|name| format!("{env}/{name}"))))?;
            }
            Format::Table | Format::Wide => output::print(&table::format_prose(
                &format_report(&report),
                output::terminal_width(),
            ))?,
        }
        Ok(Exit::Done)
    }
}
