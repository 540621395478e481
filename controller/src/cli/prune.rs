//! `argus prune`: frees disk space, after it has listed the images that it removes.

use std::io::{BufRead as _, IsTerminal as _};

use argus_core::preflight::size;
use clap::Args;

use crate::api::prune::report::{PruneReport, Row, create_report, remove_images};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::table;
use crate::table::Column;

const IMAGES: &[Column<Row>] = &[
    ("IMAGE", |row| {
        format!("{:.12}", row.id.trim_start_matches("sha256:"))
    }),
    ("BUILT AS", |row| row.built_as.clone()),
    ("CREATED", |row| row.created_at.clone()),
];

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    specs: SpecOptions,
    /// Only list what would be removed
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Remove without a prompt
    #[arg(long)]
    yes: bool,
    /// Keep the build cache, which all users of the engine share
    #[arg(long)]
    images_only: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Prune {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let mut found = runtime::block_on(create_report(&settings, self.images_only))?;
        let is_text = self.output.is_text();
        if is_text {
            output::print(&format_report(&found))?;
        }
        let anything = !found.images.is_empty() || found.build_cache_bytes > 0;
        if anything && (self.yes || (is_text && !self.dry_run && confirm_removal()?)) {
            runtime::block_on(remove_images(&settings, self.images_only, &mut found))?;
        } else if anything && is_text {
            output::print_note("nothing was removed; remove without a prompt with `argus prune --yes`");
        }
        let failed = found.applied && found.images.iter().any(|row| !row.removed);
        let ids = found.images.iter().map(|row| &row.id);
        self.output.print(&found, ids, || {
            if found.applied {
                format_result(&found)
            } else {
                String::new()
            }
        })?;
        Ok(if failed { Exit::Unexpected } else { Exit::Done })
    }
}

fn format_report(found: &PruneReport) -> String {
    let images = if found.images.is_empty() {
        String::new()
    } else {
        table::format_columns(IMAGES, &found.images, output::terminal_width()) + "\n"
    };
    format!(
        "{images}{} replaced by newer builds: {}\nunused build cache: {}\n",
        output::format_count(found.images.len(), "image"),
        size(found.images_bytes),
        size(found.build_cache_bytes)
    )
}

fn format_result(found: &PruneReport) -> String {
    let gone = found.images.iter().filter(|row| row.removed).count();
    let failed = found
        .images
        .iter()
        .filter_map(|row| Some((row, row.message.as_ref()?)));
    let failed = failed.map(|(row, error)| format!("{} {}: {error}", output::red("not removed:"), row.id));
    format!(
        "{}removed {} and {} of build cache\n",
        output::join_lines(failed),
        output::format_count(gone, "image"),
        size(found.build_cache_bytes)
    )
}

/// Prompts for confirmation on a terminal. Without a terminal the answer is no.
fn confirm_removal() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    output::print_note("remove this? [y/N]");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::operation_failed("cannot read the answer", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
