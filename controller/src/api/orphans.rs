//! Resources of dead controllers.

mod offline;

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_core::user_requests::VolumeRemoval;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan;
use argus_reconciler::{Command, clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::ControllerClient;
use crate::client::command_reply::CommandReply;
use crate::process::exit::Failure;
use crate::render::output;

/// Default and maximum wait for a removal, in seconds.
const DEFAULT_TIMEOUT: u64 = 60;
const MAX_TIMEOUT: u64 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Orphans {
    /// Remove the orphans [default projects: those with a spec in this controller]
    #[serde(default)]
    clean: bool,
    /// Names of projects [default: all]
    #[serde(default)]
    projects: Vec<String>,
    /// Also remove own kept volumes, with data
    #[serde(default)]
    volumes: bool,
    /// Not an argument of programs and agents.
    #[serde(skip)]
    all_folders: bool,
    /// Maximum wait for the removal
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

/// Resources of dead controllers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrphanList {
    pub(crate) items: Vec<Orphan>,
}

/// Removes the orphans of dead controllers, even if the specs only report them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CleanOrphans {
    /// Names of projects [default: all projects with a loaded spec]
    #[serde(default)]
    projects: Vec<String>,
    /// Also remove own kept volumes, with data
    #[serde(default)]
    volumes: bool,
}

/// Removal of orphans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clean {
    /// Maximum time.
    pub(crate) limit: Duration,
    /// Kept volumes to remove as well.
    pub(crate) volumes: VolumeRemoval,
}

impl Clean {
    /// Removal of orphans without kept volumes.
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            limit,
            volumes: VolumeRemoval::None,
        }
    }
}

impl Operation for CleanOrphans {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/cleanOrphans",
        "removes orphans; responds before they are gone",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let command = Command::CleanOrphans {
            projects: self.projects.clone(),
            volumes: self.volumes,
            all_folders: false,
        };
        context.client.send(command).await
    }
}

impl Operation for Orphans {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[Route::get("/api/v1/orphans", "resources of dead controllers")
        .fixed(&[("clean", "false")])
        .without(&["projects", "volumes", "timeoutSeconds"])];
    type Output = OrphanList;

    async fn run(&self, context: &Context) -> Result<OrphanList, Failure> {
        let limit = Duration::from_secs(self.timeout_seconds.clamp(1, MAX_TIMEOUT));
        let found = self.list(limit, context).await?;
        self.check_removed(&found)?;
        Ok(found)
    }
}

impl Orphans {
    /// Creates the call of a command of a person, which has its own limit and reaches the volumes of all folders.
    pub(crate) fn new(clean: bool, projects: Vec<String>, volumes: bool) -> Self {
        Self {
            clean,
            projects,
            volumes,
            all_folders: true,
            timeout_seconds: DEFAULT_TIMEOUT,
        }
    }

    /// Lists the requested orphans, or removes them within `limit`.
    pub(crate) async fn list(&self, limit: Duration, context: &Context) -> Result<OrphanList, Failure> {
        let clean = self.clean.then_some(Clean {
            limit,
            volumes: VolumeRemoval::new(self.volumes, self.all_folders),
        });
        let mut items = list_or_clean(&context.client, &self.projects, clean).await?;
        let is_requested = |orphan: &Orphan| {
            let project = orphan.project.as_ref();
            project.is_some_and(|project| self.projects.contains(project))
        };
        items.retain(|orphan| self.projects.is_empty() || is_requested(orphan));
        Ok(OrphanList { items })
    }

    /// Fails if orphans remain after their removal.
    pub(crate) fn check_removed(&self, found: &OrphanList) -> Result<(), Failure> {
        let remaining: Vec<&Orphan> = found
            .items
            .iter()
            .filter(|orphan| is_removal_pending(orphan))
            .collect();
        if !self.clean || remaining.is_empty() {
            return Ok(());
        }
        let message = format!(
            "cannot remove {}",
            output::format_count(remaining.len(), "orphan")
        );
        let error = StructuredError::new(Code::CleanupFailed, message);
        Err(Failure::new(error.details(json!({ "orphans": remaining }))))
    }
}

impl Tool for Orphans {
    const NAME: &'static str = "argus_orphans";
    const TITLE: &'static str = "List or remove orphans";
    const ABOUT: &'static str = "Lists containers, networks and volumes of dead controllers on the engine, each with its planned treatment. \
`clean: true` removes them and returns each result. Volumes that removed environments kept are listed as `kept`, and stay without `volumes: true`; those of other folders always stay. Never changes resources without Argus labels or with a live controller.";
    type Data = OrphanList;

    async fn summarize(&self, found: OrphanList, _context: &Context) -> Summary<OrphanList> {
        let mut text: String = found.items.iter().map(format_line).collect();
        if found.items.is_empty() {
            "no orphans\n".clone_into(&mut text);
        }
        let has_orphans = !found.items.iter().all(Orphan::is_kept);
        let summary = Summary::new(found, text);
        if self.clean || !has_orphans {
            return summary;
        }
        let mut arguments = json!({ "clean": true });
        if !self.projects.is_empty() {
            arguments["projects"] = json!(self.projects);
        }
        let reason = "remove those of this controller's projects";
        summary.with_next(NextStep::new(reason, Self::NAME, arguments))
    }
}

fn format_line(orphan: &Orphan) -> String {
    let message = orphan.message.as_deref();
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    let facts = [
        orphan.run_id.as_ref().map(|run| format!("run {run}")),
        Some(format_age(orphan))
            .filter(|age| !age.is_empty())
            .map(|age| format!("age {age}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join(", "))
    };
    format!(
        "{} {} {}{facts}{message}\n",
        orphan.result, orphan.kind, orphan.name
    )
}

/// Time since the creation of an orphan, such as `3h`; empty if it is unknown.
pub(crate) fn format_age(orphan: &Orphan) -> String {
    let at = orphan.created_at.as_deref().and_then(Timestamp::parse);
    at.map(|at| output::format_age(clock::now().since(at)))
        .unwrap_or_default()
}

/// Lists the orphans, from the controller's status or from the engine. With `clean`, removes them.
pub(crate) async fn list_or_clean(
    client: &ControllerClient,
    projects: &[String],
    clean: Option<Clean>,
) -> Result<Vec<Orphan>, Failure> {
    match (client.missing_controller().await?, clean) {
        (None, None) => Ok(client.statuses().await?.controller.orphans.clone()),
        (None, Some(clean)) => remove_orphans(client, projects, clean).await,
        (Some(_), clean) => offline::list_or_clean(client.settings(), projects, clean).await,
    }
}

/// Returns true if the removal of an orphan was requested and is not complete.
fn is_removal_pending(orphan: &Orphan) -> bool {
    matches!(orphan.result.as_str(), "failed" | "removing" | "waiting")
}

/// Removes orphans through the running controller.
async fn remove_orphans(
    client: &ControllerClient,
    projects: &[String],
    clean: Clean,
) -> Result<Vec<Orphan>, Failure> {
    let statuses = client.statuses().await?;
    let before = statuses.controller.orphans.clone();
    let requested: BTreeSet<String> = if projects.is_empty() {
        let all = statuses.environments.values();
        all.map(|status| status.project.clone()).collect()
    } else {
        projects.iter().cloned().collect()
    };
    let is_open = |orphan: &Orphan| {
        let project = orphan.project.as_ref();
        let is_requested = project.is_some_and(|project| requested.contains(project));
        let is_included = !orphan.is_kept() || clean.volumes.includes(orphan.other_folder);
        is_requested && orphan.result != "failed" && is_included
    };
    let command = Command::CleanOrphans {
        projects: projects.to_vec(),
        volumes: clean.volumes != VolumeRemoval::None,
        all_folders: clean.volumes == VolumeRemoval::AllFolders,
    };
    client.send(command).await?;
    let cleaned = client.wait_for(clean.limit, |statuses| {
        let now = &statuses.controller.orphans;
        (!now.iter().any(is_open)).then(|| now.clone())
    });
    let now = match cleaned.await? {
        Some(now) => now,
        None => client.statuses().await?.controller.orphans.clone(),
    };
    Ok(removal_results(before, now))
}

/// Orphans that disappeared get the result `removed`. The others have their current result.
pub(crate) fn removal_results(before: Vec<Orphan>, now: Vec<Orphan>) -> Vec<Orphan> {
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
