//! `argus orphans`: lists or removes resources of dead controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Command, clock};
use clap::Args;

use super::client::{command_failure, send};
use super::output::{self, Format};
use super::{status, table};
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

mod offline;

const HEAD: &[&str] = &["KIND", "NAME", "PROJECT", "RESULT", "REASON"];
const WIDE: &[&str] = &["KIND", "NAME", "PROJECT", "CONTROLLER", "RESULT", "REASON"];

/// Interval of checks of the controller's status.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct Orphans {
    /// Remove orphans; without `--project`, those of projects in the specs folder
    #[arg(long)]
    clean: bool,
    /// List or remove only orphans of these projects [default of lists: all]
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
        let clean = self.clean.then_some(self.timeout);
        let mut found = super::block_on(list_or_clean(&settings, &self.project, clean))?;
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

/// Lists the orphans, from the controller's status or from the engine. With `clean`, removes them within this time.
pub(crate) async fn list_or_clean(
    settings: &Settings,
    projects: &[String],
    clean: Option<Duration>,
) -> Result<Vec<Orphan>, Failure> {
    let state = StateDir::at(settings.state.clone());
    let there = state.clone();
    match (
        blocking_io::read(move || Ok(status::is_alive(&there))).await?,
        clean,
    ) {
        (true, None) => read_orphans(&state).await,
        (true, Some(limit)) => remove_orphans(&state, projects, limit).await,
        (false, clean) => offline::list_or_clean(settings, projects, clean).await,
    }
}

/// Returns true if the removal of an orphan was requested and is not complete.
pub(crate) fn is_removal_pending(orphan: &Orphan) -> bool {
    matches!(orphan.result.as_str(), "failed" | "removing" | "waiting")
}

/// Orphans in the controller's status.
async fn read_orphans(state: &StateDir) -> Result<Vec<Orphan>, Failure> {
    let state = state.clone();
    let status = blocking_io::read(move || status::read_controller(&state)).await?;
    Ok(status.map(|status| status.orphans).unwrap_or_default())
}

/// Removes orphans through the running controller.
async fn remove_orphans(
    state: &StateDir,
    projects: &[String],
    timeout: Duration,
) -> Result<Vec<Orphan>, Failure> {
    let before = read_orphans(state).await?;
    let there = state.clone();
    let requested: BTreeSet<String> = if projects.is_empty() {
        blocking_io::read(move || status::read_environments(&there))
            .await?
            .into_iter()
            .map(|status| status.project)
            .collect()
    } else {
        projects.iter().cloned().collect()
    };
    let is_requested = |orphan: &Orphan| orphan.project.as_ref().is_some_and(|of| requested.contains(of));
    let command = Command::CleanOrphans {
        projects: projects.to_vec(),
    };
    send(state, &command).await.map_err(command_failure)?;
    let deadline = clock::now() + timeout;
    loop {
        let now = read_orphans(state).await?;
        let mut open = now.iter().filter(|orphan| is_requested(orphan));
        if open.all(is_decided) || clock::now() >= deadline {
            return Ok(removal_results(before, now));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns true if the result is final: the removal failed, or the orphan is a volume, which Argus only reports.
fn is_decided(orphan: &Orphan) -> bool {
    match orphan.result.as_str() {
        "failed" => true,
        "reported" => orphan.kind == "volume",
        _ => false,
    }
}

/// Orphans that disappeared get the result `removed`. The others have their current result.
fn removal_results(before: Vec<Orphan>, now: Vec<Orphan>) -> Vec<Orphan> {
    let there: BTreeSet<(String, String)> = now.iter().map(|o| (o.kind.clone(), o.id.clone())).collect();
    let mut all: Vec<Orphan> = before
        .into_iter()
        .filter(|orphan| !there.contains(&(orphan.kind.clone(), orphan.id.clone())))
        .map(|orphan| Orphan {
            result: "removed".to_owned(),
            message: None,
            ..orphan
        })
        .collect();
    all.extend(now);
    all
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
