//! Summaries of the controller and of environments.

use argus_crds::status::{EnvironmentStatus, Mode, Truth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::environment_summary::EnvironmentSummary;
use super::environments::Detail;
use super::summary::clip;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::render::foreign_text;
use crate::view::FILES_WATCHED;

/// Maximum number of environments in one result.
const MAX_ENVIRONMENTS: usize = 50;
/// Maximum number of listed rejected files.
const MAX_REJECTED: usize = 5;
/// Maximum length of the reason of a mode, in characters.
const MAX_REASON: usize = 200;
/// Maximum length of the reason of late edits, in characters.
const MAX_LIMIT: usize = 400;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Status {
    /// Environment name [default: all]
    environment: Option<String>,
    /// `full` adds the status documents
    #[serde(default)]
    detail: Detail,
}

/// Summary of the controller.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ControllerSummary {
    /// True if a controller runs; otherwise everything is the last known state.
    alive: bool,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_reason: Option<String>,
    /// True if the engine responds.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_reachable: Option<bool>,
    /// Watched specs folder.
    specs: String,
    /// Reason why edits take effect late, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    watch_limit: Option<String>,
    /// Rejected files in this folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// Number of orphans.
    #[serde(skip_serializing_if = "Option::is_none")]
    orphans: Option<usize>,
    /// Command that starts a controller, if none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

/// Summaries of the controller and of environments.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusSummary {
    controller: ControllerSummary,
    environments: Vec<EnvironmentSummary>,
    /// Number of omitted environments; request them by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_environments: Option<usize>,
    /// With `detail: "full"`, the documents as described by `argus schema status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    // Their schema is longer than those of all tools together, and is already published.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    full: Option<Vec<EnvironmentStatus>>,
}

impl Operation for Status {
    const EFFECT: Effect = Effect::ReadOnly;
    // Programs read the documents of the environments instead.
    const ROUTES: &'static [Route] = &[];
    type Output = StatusSummary;

    async fn run(&self, context: &Context) -> Result<StatusSummary, Failure> {
        let client = &context.client;
        let controller = client.run_blocking(ControllerSummary::read).await?;
        let statuses = if let Some(env) = &self.environment {
            vec![client.find_environment(env).await?]
        } else {
            let statuses = client.statuses().await?;
            statuses
                .environments
                .values()
                .map(|status| EnvironmentStatus::clone(status))
                .collect()
        };
        let mut environments: Vec<EnvironmentSummary> = statuses
            .iter()
            .take(MAX_ENVIRONMENTS)
            .map(EnvironmentSummary::from_status)
            .collect();
        if statuses.len() > 1 {
            environments = environments
                .into_iter()
                .map(EnvironmentSummary::shorten)
                .collect();
        }
        let more = statuses.len().saturating_sub(MAX_ENVIRONMENTS);
        Ok(StatusSummary {
            controller,
            environments,
            more_environments: (more > 0).then_some(more),
            full: (self.detail == Detail::Full).then_some(statuses),
        })
    }
}

impl Tool for Status {
    const NAME: &'static str = "argus_status";
    const TITLE: &'static str = "Status of environments";
    const ABOUT: &'static str = "Returns the status of test environments: phase, ready services, addresses of published ports, waits, errors and \
remedies. Call it first. Without `environment`, it lists all; with it, it returns more details. Without a running controller, it \
returns the last known state and marks it.";
    type Data = StatusSummary;

    async fn summarize(&self, output: StatusSummary, _context: &Context) -> Summary<StatusSummary> {
        let environments = &output.environments;
        let mut text = output.controller.format_text();
        text.extend(environments.iter().map(EnvironmentSummary::format_text));
        if environments.is_empty() {
            text.push_str("no environments; argus_apply creates one from an e2e.yaml\n");
        }
        let mut next: Vec<NextStep> = if let [one] = environments.as_slice() {
            one.next_steps()
        } else {
            let unhealthy = environments.iter().filter(|summary| summary.error.is_some());
            let details = unhealthy.take(3).map(|summary| {
                let env = json!({ "environment": summary.environment });
                NextStep::new("details", Self::NAME, env)
            });
            details.collect()
        };
        if !output.controller.alive {
            // Without a controller, other calls change nothing.
            next.retain(|step| matches!(step.tool.as_str(), "argus_why" | "argus_evidence" | Self::NAME));
        }
        Summary {
            data: output,
            text,
            next,
        }
    }
}

impl ControllerSummary {
    fn read(client: &ControllerClient) -> Result<Self, Failure> {
        let statuses = client.read_statuses()?;
        let status = &statuses.controller;
        let (alive, specs) = (client.is_alive(), client.specs_folder());
        let mut conditions = status.conditions.iter();
        let limit = conditions.find(|it| it.kind == FILES_WATCHED && it.status == Truth::False);
        let orphans = status.orphans.iter().filter(|it| !it.is_kept()).count();
        Ok(Self {
            alive,
            mode: status.mode,
            mode_reason: status
                .mode_reason
                .as_deref()
                .map(|reason| clip(reason, MAX_REASON)),
            engine_reachable: status.engine.as_ref().map(|engine| engine.reachable),
            specs: specs.display().to_string(),
            watch_limit: limit.map(|limit| clip(&limit.message, MAX_LIMIT)),
            rejected: status
                .rejected
                .iter()
                .take(MAX_REJECTED)
                .map(|file| file.spec_path.clone())
                .collect(),
            orphans: (orphans > 0).then_some(orphans),
            start: (!alive).then(|| client.start_command()),
        })
    }

    fn format_text(&self) -> String {
        let mut lines = Vec::new();
        if let Some(start) = &self.start {
            lines.push(format!(
                "no controller is running, so this is the last known state and nothing is repaired; start one with `{start}`"
            ));
        } else if self.mode != Mode::Full {
            let reason = self.mode_reason.as_deref().unwrap_or_default();
            lines.push(format!("the controller is in mode {:?}: {reason}", self.mode));
        }
        if let Some(limit) = &self.watch_limit {
            lines.push(foreign_text::mark_further_lines(limit));
        }
        if !self.rejected.is_empty() {
            lines.push(format!(
                "rejected files: {}; see argus_validate",
                self.rejected.join(", ")
            ));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}
