//! `argus orphans`: lists or removes resources of dead controllers.

use std::time::Duration;

use argus_crds::status::Orphan;
use clap::Args;

use super::call;
use crate::api::orphans;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, SpecOptions};
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
    output: Option<Format>,
}

impl Orphans {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = orphans::Orphans::new(self.clean, self.project);
        let found = runtime::block_on(operation.list(self.timeout, &context))?;
        let names = found.items.iter().map(|orphan| &orphan.name);
        let wide = self.output == Some(Format::Wide);
        output::print_output(self.output, &found, names, || format_orphans(&found.items, wide))?;
        operation.check_removed(&found)?;
        Ok(Exit::Done)
    }
}

fn format_orphans(found: &[Orphan], wide: bool) -> String {
    if found.is_empty() {
        output::print_note("no orphans");
        return String::new();
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let row = |orphan: &Orphan| {
        let mut cells = vec![orphan.kind.clone(), orphan.name.clone(), text(&orphan.project)];
        cells.extend(wide.then(|| text(&orphan.controller)));
        cells.extend([orphan.result.clone(), text(&orphan.message)]);
        cells
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    let width = output::terminal_width().filter(|_| !wide);
    table::format_table(if wide { WIDE } else { HEAD }, &rows, width)
}
