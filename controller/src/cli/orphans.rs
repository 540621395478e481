//! `argus orphans`: lists or removes resources of dead controllers.

use std::time::Duration;

use argus_crds::status::Orphan;
use clap::Args;

use super::call;
use crate::api::orphans;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

const ORPHANS: [Column<Orphan>; 8] = [
    ("KIND", |orphan| orphan.kind.clone()),
    ("NAME", |orphan| orphan.name.clone()),
    ("PROJECT", |orphan| orphan.project.clone().unwrap_or_default()),
    ("CONTROLLER", |orphan| {
        orphan.controller.clone().unwrap_or_default()
    }),
    ("RUN", |orphan| orphan.run_id.clone().unwrap_or_default()),
    ("AGE", orphans::format_age),
    ("RESULT", |orphan| orphan.result.clone()),
    ("REASON", |orphan| orphan.message.clone().unwrap_or_default()),
];

#[derive(Debug, Args)]
pub(crate) struct Orphans {
    /// Remove the orphans instead of listing them
    #[arg(long)]
    clean: bool,
    /// Limit to these projects [default: all; with `--clean`: those of the specs folder]
    #[arg(long, value_name = "NAME")]
    project: Vec<String>,
    /// With `--clean`, also remove the volumes that removed environments kept
    #[arg(long, requires = "clean")]
    volumes: bool,
    /// Maximum time until the orphans are gone
    #[arg(long, default_value = "60s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

impl Orphans {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = orphans::Orphans::new(self.clean, self.project, self.volumes);
        let found = runtime::block_on(operation.list(self.timeout, &context))?;
        let names = found.items.iter().map(|orphan| &orphan.name);
        let wide = self.output.is_wide();
        self.output
            .print(&found, names, || format_orphans(&found.items, wide))?;
        operation.check_removed(&found)?;
        Ok(Exit::Done)
    }
}

fn format_orphans(found: &[Orphan], wide: bool) -> String {
    if found.is_empty() {
        output::print_note("no orphans");
        return String::new();
    }
    let [kind, name, project, _, run, age, result, reason] = ORPHANS;
    let columns: &[Column<Orphan>] = if wide {
        &ORPHANS
    } else {
        &[kind, name, project, run, age, result, reason]
    };
    let width = output::terminal_width().filter(|_| !wide);
    table::format_columns(columns, found, width)
}
