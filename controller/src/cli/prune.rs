//! `argus prune`: frees disk space, after it has listed the images that it removes.

use std::io::{BufRead as _, IsTerminal as _};

use argus_core::preflight::size;
use argus_core::quoting::PathText as _;
use clap::Args;
use serde::Serialize;

use crate::api::prune::remove;
use crate::api::prune::report::{PruneReport, Row, create_report};
use crate::client::ControllerClient;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::abandoned::{self, Abandoned};
use crate::settings::{Options, Settings, SpecOptions};

const IMAGES: &[Column<Row>] = &[
    ("IMAGE", |row| {
        format!("{:.12}", row.id.trim_start_matches("sha256:"))
    }),
    ("BUILT AS", |row| row.built_as.clone()),
    ("CREATED", |row| row.created_at.clone()),
];

/// Removable resources of the engine and of this user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    #[serde(flatten)]
    report: PruneReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    private_folders: Vec<Abandoned>,
}

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
        let private_folders = if settings.state.has_outer_private() {
            abandoned::list()
        } else {
            Vec::new()
        };
        let mut found = Found {
            report: runtime::block_on(create_report(&settings, self.images_only, None))?,
            private_folders,
        };
        let is_text = self.output.is_text();
        if is_text {
            output::print(&format_report(&found))?;
        }
        let anything = !found.report.images.is_empty()
            || found.report.build_cache_bytes > 0
            || !found.private_folders.is_empty();
        if anything && (self.yes || (is_text && !self.dry_run && confirm_removal()?)) {
            let client = ControllerClient::for_command(settings.clone());
            let report = &mut found.report;
            runtime::block_on(remove(&client, &settings, self.images_only, report))?;
            abandoned::remove(&mut found.private_folders);
        } else if anything && is_text {
            output::print_note("nothing was removed; remove without a prompt with `argus prune --yes`");
        }
        let Found {
            report,
            private_folders,
        } = &found;
        let is_left = report.images.iter().any(|row| !row.removed)
            || private_folders.iter().any(|folder| !folder.removed);
        let failed = report.applied && is_left;
        let ids = report.images.iter().map(|row| row.id.clone());
        let folders = private_folders.iter();
        let ids = ids.chain(folders.map(|one| one.folder.display().to_string()));
        self.output.print(&found, ids, || {
            if report.applied {
                format_result(&found)
            } else {
                String::new()
            }
        })?;
        Ok(if failed { Exit::Unexpected } else { Exit::Done })
    }
}

fn format_report(found: &Found) -> String {
    let Found {
        report: found,
        private_folders,
    } = found;
    let folders = private_folders.iter().map(|one| {
        let (folder, project) = (one.folder.shown(), one.project.shown());
        format!("state of `{project}`, which is removed or replaced: {folder}")
    });
    let images = if found.images.is_empty() {
        String::new()
    } else {
        table::format_columns(IMAGES, &found.images, output::terminal_width()) + "\n"
    };
    format!(
        "{images}{} replaced by newer builds: {}\nunused build cache: {}\n{}",
        output::format_count(found.images.len(), "image"),
        size(found.images_bytes),
        size(found.build_cache_bytes),
        output::join_lines(folders)
    )
}

fn format_result(found: &Found) -> String {
    let Found {
        report: found,
        private_folders,
    } = found;
    let gone = found.images.iter().filter(|row| row.removed).count();
    let failed = found
        .images
        .iter()
        .filter_map(|row| Some((row, row.message.as_ref()?)));
    let failed = failed.map(|(row, error)| (row.id.clone(), error));
    let left = private_folders
        .iter()
        .filter_map(|one| Some((one.folder.display().to_string(), one.message.as_ref()?)));
    let failed = failed
        .chain(left)
        .map(|(name, error)| format!("{} {name}: {error}", output::red("not removed:")));
    let removed = private_folders.iter().filter(|one| one.removed);
    format!(
        "{}{}removed {} and {} of build cache\n",
        output::join_lines(failed),
        output::join_lines(removed.map(|one| format!("removed {}", one.folder.shown()))),
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
