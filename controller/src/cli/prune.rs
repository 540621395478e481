//! `argus prune`: gives disk space back, and says what goes before it goes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};

use argus_core::preflight::size;
use argus_core::prune::{BuiltImage, bytes, dead};
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use serde::Serialize;

use super::output::{self, Format};
use super::preflight::Place;
use super::status::peek;
use super::table;
use crate::app::{self, engine_failure};
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    specs: SpecOptions,
    /// Only say what would go
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// Leave the builder's cache, which is everybody's on that engine
    #[arg(long)]
    images_only: bool,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// What can go, and what went.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PruneReport {
    images: Vec<Row>,
    images_bytes: u64,
    build_cache_bytes: u64,
    total_bytes: u64,
    /// Whether it was done.
    applied: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    built_as: String,
    created_at: String,
    /// Whether it is gone.
    removed: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Prune {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let mut found = super::block_on(look(&settings, self.images_only))?;
        let is_text = matches!(self.output, None | Some(Format::Table | Format::Wide));
        if is_text {
            output::data(&text(&found))?;
        }
        let anything = !found.images.is_empty() || found.build_cache_bytes > 0;
        if anything && (self.yes || (is_text && !self.dry_run && asked()?)) {
            super::block_on(remove(&settings, self.images_only, &mut found))?;
        } else if anything && is_text {
            output::note("nothing was removed; `argus prune --yes` does it");
        }
        let failed = found.applied && found.images.iter().any(|row| !row.removed);
        match self.output {
            Some(Format::Json) => output::json(&found)?,
            Some(Format::Yaml) => output::yaml(&found)?,
            Some(Format::Name) => output::data(&output::lines(found.images.iter().map(|row| &row.id)))?,
            Some(Format::Table | Format::Wide) | None if found.applied => output::data(&result(&found))?,
            Some(Format::Table | Format::Wide) | None => {}
        }
        Ok(if failed { Exit::Unexpected } else { Exit::Done })
    }
}

/// What can go.
pub(crate) async fn look(settings: &Settings, images_only: bool) -> Result<PruneReport, Failure> {
    let own = settings.clone();
    let place = blocking_io::read(move || Place::of(&own)).await?;
    let docker = place.docker();
    let images = docker
        .built_images()
        .await
        .map_err(|error| engine_failure("cannot look at the images", &error))?;
    let cache = if images_only {
        0
    } else {
        docker
            .build_cache()
            .await
            .map_err(|error| engine_failure("cannot look at the builder's cache", &error))?
    };
    let (wanted, known) = wanted(&place, settings).await?;
    let mut dead = dead(&images, &wanted);
    // A file that cannot be read may want any image that has a name.
    dead.retain(|image| known || image.tags.is_empty());
    let freed = bytes(&images, &dead);
    Ok(PruneReport {
        images: dead.into_iter().map(row).collect(),
        images_bytes: freed,
        build_cache_bytes: cache,
        total_bytes: freed.saturating_add(cache),
        applied: false,
    })
}

/// Removes what was found.
pub(crate) async fn remove(
    settings: &Settings,
    images_only: bool,
    found: &mut PruneReport,
) -> Result<(), Failure> {
    let docker = app::docker(settings)?;
    // The newest first: a build's steps go with the last build that has them.
    for row in &mut found.images {
        row.message = docker
            .remove_image(&row.id)
            .await
            .err()
            .map(|why| why.to_string());
        row.removed = row.message.is_none();
    }
    if !images_only {
        let pruned = docker.prune_build_cache().await;
        found.build_cache_bytes =
            pruned.map_err(|error| engine_failure("cannot empty the builder's cache", &error))?;
    }
    found.applied = true;
    Ok(())
}

/// Everything that some accepted spec runs, or that a rollback would run; and whether the specs could be read.
async fn wanted(place: &Place, settings: &Settings) -> Result<(BTreeSet<String>, bool), Failure> {
    let memory = StateDir::at(settings.state.clone()).state_json();
    let persisted: PersistedState = blocking_io::read(move || Ok(peek(&memory))).await?;
    let standing = place.wanted().await;
    let known = standing.is_ok();
    let standing = standing.unwrap_or_default();
    let rollbacks = persisted
        .overrides
        .rollbacks
        .values()
        .map(|rollback| &rollback.to);
    let all = standing
        .values()
        .chain(persisted.overrides.known_good.values().flatten())
        .chain(rollbacks);
    let wanted = all
        .flat_map(|accepted| accepted.desired.services.values())
        .map(|service| service.image.reference().to_owned());
    Ok((wanted.collect(), known))
}

fn row(image: &BuiltImage) -> Row {
    Row {
        id: image.id.clone(),
        built_as: image.built_as.clone(),
        created_at: image.created_at.to_string(),
        removed: false,
        message: None,
    }
}

fn text(found: &PruneReport) -> String {
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
        table::text(&["IMAGE", "BUILT AS", "CREATED"], &rows, output::width()) + "\n"
    };
    format!(
        "{images}{} that newer builds followed: {}\nbuilder's cache that nothing uses: {}\n",
        output::count(found.images.len(), "image"),
        size(found.images_bytes),
        size(found.build_cache_bytes)
    )
}

fn result(found: &PruneReport) -> String {
    let gone = found.images.iter().filter(|row| row.removed).count();
    let failed = found
        .images
        .iter()
        .filter_map(|row| Some((row, row.message.as_ref()?)));
    let failed = failed.map(|(row, why)| format!("{} {}: {why}", output::red("not removed:"), row.id));
    format!(
        "{}{} removed, {} of the builder's cache\n",
        output::lines(failed),
        output::count(gone, "image"),
        size(found.build_cache_bytes)
    )
}

/// Asks a person, where there is one.
fn asked() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    output::note("remove this? [y/N]");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::fault("cannot read the answer", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
