//! `argus orphans`: lists or removes resources of dead controllers.

use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan;
use clap::Args;

use crate::api::orphans::{is_removal_pending, list_or_clean};
use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::table;

const HEAD: &[&str] = &["KIND", "NAME", "PROJECT", "RESULT", "REASON"];
const WIDE: &[&str] = &["KIND", "NAME", "PROJECT", "CONTROLLER", "RESULT", "REASON"];

#[derive(Debug, Args)]
pub(crate) struct Orphans {
    /// Remove orphans [default: of projects in the specs folder]
    #[arg(long)]
    clean: bool,
    /// Only orphans of these projects [default without `--clean`: all]
    #[arg(long, value_name = "NAME")]
    project: Vec<String>,
    /// Maximum time until the orphans are gone
    #[arg(long, default_value = "60s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Orphans {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let client = ControllerClient::remote(settings);
        let clean = self.clean.then_some(self.timeout);
        let mut found = runtime::block_on(list_or_clean(&client, &self.project, clean))?;
        found.retain(|orphan| self.selects(orphan));
        print_orphans(&found, self.output)?;
        let remaining: Vec<&Orphan> = found.iter().filter(|orphan| is_removal_pending(orphan)).collect();
        if self.clean && !remaining.is_empty() {
            let message = format!(
                "cannot remove {}",
                output::format_count(remaining.len(), "orphan")
            );
            let error = StructuredError::new(Code::CleanupFailed, message);
            return Err(Failure::new(
                error.details(serde_json::json!({ "orphans": remaining })),
            ));
        }
        Ok(Exit::Done)
    }

    fn selects(&self, orphan: &Orphan) -> bool {
        self.project.is_empty()
            || orphan
                .project
                .as_ref()
                .is_some_and(|of| self.project.contains(of))
    }
}

fn print_orphans(found: &[Orphan], format: Option<Format>) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => output::print_json(&serde_json::json!({ "items": found })),
        Some(Format::Yaml) => output::print_yaml(&serde_json::json!({ "items": found })),
        Some(Format::Name) => output::print(&output::join_lines(found.iter().map(|orphan| &orphan.name))),
        Some(Format::Table | Format::Wide) | None if found.is_empty() => {
            output::print_note("no orphans");
            Ok(())
        }
        Some(Format::Table | Format::Wide) | None => {
            let wide = format == Some(Format::Wide);
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let row = |orphan: &Orphan| {
                let mut cells = vec![orphan.kind.clone(), orphan.name.clone(), text(&orphan.project)];
                cells.extend(wide.then(|| text(&orphan.controller)));
                cells.extend([orphan.result.clone(), text(&orphan.message)]);
                cells
            };
            let rows: Vec<_> = found.iter().map(row).collect();
            let width = output::terminal_width().filter(|_| !wide);
            output::print(&table::format_table(if wide { WIDE } else { HEAD }, &rows, width))
        }
    }
}
