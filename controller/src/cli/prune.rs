//! `argus prune`: frees disk space, after it has listed the images that it removes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};

use argus_core::preflight::size;
use argus_core::prune::{BuiltImage, freed_bytes, unused_images};
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::preflight::FactCollector;
use crate::app::{self, engine_failure};
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status::read_or_default;
use crate::table;

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
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// Removable images and cache, and the result of the removal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PruneReport {
    images: Vec<Row>,
    images_bytes: u64,
    build_cache_bytes: u64,
    total_bytes: u64,
    /// True after the removal.
    applied: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    built_as: String,
    created_at: String,
    /// True if the image was removed.
    removed: bool,
    /// Error of the removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Prune {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let mut found = super::block_on(create_report(&settings, self.images_only))?;
        let is_text = matches!(self.output, None | Some(Format::Table | Format::Wide));
        if is_text {
            output::print(&format_report(&found))?;
        }
        let anything = !found.images.is_empty() || found.build_cache_bytes > 0;
        if anything && (self.yes || (is_text && !self.dry_run && confirm_removal()?)) {
            super::block_on(remove_images(&settings, self.images_only, &mut found))?;
        } else if anything && is_text {
            output::print_note("nothing was removed; remove without a prompt with `argus prune --yes`");
        }
        let failed = found.applied && found.images.iter().any(|row| !row.removed);
        match self.output {
            Some(Format::Json) => output::print_json(&found)?,
            Some(Format::Yaml) => output::print_yaml(&found)?,
            Some(Format::Name) => output::print(&output::join_lines(found.images.iter().map(|row| &row.id)))?,
            Some(Format::Table | Format::Wide) | None if found.applied => {
                output::print(&format_result(&found))?;
            }
            Some(Format::Table | Format::Wide) | None => {}
        }
        Ok(if failed { Exit::Unexpected } else { Exit::Done })
    }
}

/// Finds replaced images and measures the build cache.
pub(crate) async fn create_report(settings: &Settings, images_only: bool) -> Result<PruneReport, Failure> {
    let own = settings.clone();
    let collector = blocking_io::read(move || FactCollector::new(&own)).await?;
    let docker = collector.docker();
    let images = docker
        .built_images()
        .await
        .map_err(|error| engine_failure("cannot list the images", &error))?;
    let cache = if images_only {
        0
    } else {
        docker
            .build_cache()
            .await
            .map_err(|error| engine_failure("cannot measure the build cache", &error))?
    };
    let (wanted, known) = list_used_images(&collector, settings).await?;
    let mut unused = unused_images(&images, &wanted);
    // An unreadable spec may use any tagged image, so only untagged images are removed.
    unused.retain(|image| known || image.tags.is_empty());
    let freed = freed_bytes(&images, &unused);
    Ok(PruneReport {
        images: unused.into_iter().map(create_row).collect(),
        images_bytes: freed,
        build_cache_bytes: cache,
        total_bytes: freed.saturating_add(cache),
        applied: false,
    })
}

/// Removes the images and the build cache of a report, and records the results in it.
pub(crate) async fn remove_images(
    settings: &Settings,
    images_only: bool,
    found: &mut PruneReport,
) -> Result<(), Failure> {
    let docker = app::connect_docker(settings)?;
    // Newest first, because layers are removed together with the last image that contains them.
    for row in &mut found.images {
        row.message = docker
            .remove_image(&row.id)
            .await
            .err()
            .map(|error| error.to_string());
        row.removed = row.message.is_none();
    }
    if !images_only {
        let pruned = docker.prune_build_cache().await;
        found.build_cache_bytes =
            pruned.map_err(|error| engine_failure("cannot remove the build cache", &error))?;
    }
    found.applied = true;
    Ok(())
}

/// References of all images in accepted specs and in rollback revisions. The flag is true if the specs are readable.
async fn list_used_images(
    collector: &FactCollector,
    settings: &Settings,
) -> Result<(BTreeSet<String>, bool), Failure> {
    let path = StateDir::at(settings.state.clone()).state_json();
    let persisted: PersistedState = blocking_io::read(move || Ok(read_or_default(&path))).await?;
    let desired = collector.read_desired().await;
    let known = desired.is_ok();
    let desired = desired.unwrap_or_default();
    let rollbacks = persisted
        .overrides
        .rollbacks
        .values()
        .map(|rollback| &rollback.to);
    let all = desired
        .values()
        .chain(persisted.overrides.known_good.values().flatten())
        .chain(rollbacks);
    let wanted = all
        .flat_map(|accepted| accepted.desired.services.values())
        .map(|service| service.image.reference().to_owned());
    Ok((wanted.collect(), known))
}

fn create_row(image: &BuiltImage) -> Row {
    Row {
        id: image.id.clone(),
        built_as: image.built_as.clone(),
        created_at: image.created_at.to_string(),
        removed: false,
        message: None,
    }
}

fn format_report(found: &PruneReport) -> String {
    let rows: Vec<Vec<String>> = found
        .images
        .iter()
        .map(|row| {
            let id: String = row.id.trim_start_matches("sha256:").chars().take(12).collect();
            vec![id, row.built_as.clone(), row.created_at.clone()]
        })
        .collect();
    let images = if rows.is_empty() {
        String::new()
    } else {
        table::format_table(&["IMAGE", "BUILT AS", "CREATED"], &rows, output::terminal_width()) + "\n"
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
