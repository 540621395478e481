//! `argus validate`: checks spec files and reports all errors, without an engine.

use std::path::PathBuf;

use argus_crds::diagnostic::{self};
use clap::Args;

use crate::api::validate::report::{check_paths, create_report, is_rejected};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::spec_files::SpecFile;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Spec files or folders [default: the specs folder]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Validate {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let paths = if self.paths.is_empty() {
            vec![settings.specs.clone()]
        } else {
            self.paths
        };
        let all = check_paths(&settings, &paths)?;
        let rejected = all.iter().filter(|file| is_rejected(file)).count();
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&create_report(&all))?,
            Format::Yaml => output::print_yaml(&create_report(&all))?,
            Format::Name => {
                let good = all.iter().filter_map(|file| file.desired.as_ref());
                output::print(&output::join_lines(good.map(|desired| &desired.env)))?;
            }
            Format::Table | Format::Wide => print_files(&all)?,
        }
        if all.is_empty() {
            output::print_note("no spec files; their names are `e2e.yaml` or `NAME.e2e.yaml`");
        }
        Ok(if rejected > 0 {
            Exit::SpecRejected
        } else {
            Exit::Done
        })
    }
}

fn print_files(all: &[SpecFile]) -> Result<(), Failure> {
    for file in all {
        let name = file.path.display().to_string();
        if !file.diagnostics.is_empty() {
            output::print_note(&diagnostic::render(&name, &file.text, &file.diagnostics));
        }
        let line = if let Some(desired) = &file.desired {
            let services = output::format_count(desired.services.len(), "service");
            let revision: String = desired.revision.as_str().chars().take(12).collect();
            let ok = output::green("ok");
            format!(
                "{name}: {ok} environment `{}`, {services}, revision {revision}\n",
                desired.env
            )
        } else {
            let errors = file
                .diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.is_error())
                .count();
            format!(
                "{name}: {} ({})\n",
                output::red("rejected"),
                output::format_count(errors, "error")
            )
        };
        output::print(&table::format_prose(&line, output::terminal_width()))?;
    }
    Ok(())
}
