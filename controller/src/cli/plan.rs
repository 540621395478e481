//! `argus plan`: shows the planned actions with their causes.

use argus_crds::diagnostic;
use argus_reconciler::specs::SpecRegistry;
use clap::Args;

use crate::api::plan::forecasts::{create_forecasts_for, format_forecasts, read_folder};
use crate::api::plan::report;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Environment name [default: all]
    environment: Option<String>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Plan {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        if let Some(wanted) = &self.environment {
            status::parse_environment(wanted)?;
        }
        let (registry, rejected) = read_folder(&settings)?;
        print_rejected(&registry);
        let forecasts = runtime::block_on(create_forecasts_for(
            &settings,
            &registry,
            self.environment.as_deref(),
            rejected,
        ))?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&report::convert_forecasts(&forecasts))?,
            Format::Yaml => output::print_yaml(&report::convert_forecasts(&forecasts))?,
            Format::Name => output::print(&output::join_lines(forecasts.keys()))?,
            Format::Table | Format::Wide => output::print(&table::format_prose(
                &format_forecasts(&forecasts),
                output::terminal_width(),
            ))?,
        }
        Ok(if rejected { Exit::SpecRejected } else { Exit::Done })
    }
}

fn print_rejected(registry: &SpecRegistry) {
    for (path, entry) in &registry.files {
        if entry.diagnostics.iter().any(argus_crds::Diagnostic::is_error) {
            let text = entry
                .text
                .as_ref()
                .map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
            let name = path.display().to_string();
            output::print_note(&diagnostic::render(
                &name,
                &text.unwrap_or_default(),
                &entry.diagnostics,
            ));
        }
    }
}
