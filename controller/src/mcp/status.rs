//! Tool `argus_status`: summaries of the controller and of environments.

use argus_crds::status::{EnvironmentStatus, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::summary::{Summary, clip};
use super::tool::{Effect, Tool};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Maximum number of environments in one result.
const MAX_ENVIRONMENTS: usize = 50;

/// Level of detail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Detail {
    #[default]
    Summary,
    Full,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Status {
    /// Environment name [default: all]
    environment: Option<String>,
    /// `full` adds the status documents
    #[serde(default)]
    detail: Detail,
}

/// Summary of the controller.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Controller {
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
pub(super) struct StatusOutput {
    controller: Controller,
    environments: Vec<Summary>,
    /// Number of omitted environments; request them by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_environments: Option<usize>,
    /// With `detail: "full"`, the documents as described by `argus schema status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    // Their schema is longer than those of all tools together, and is already published.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    full: Option<Vec<EnvironmentStatus>>,
}

impl Tool for Status {
    const NAME: &'static str = "argus_status";
    const TITLE: &'static str = "Status of environments";
    const ABOUT: &'static str = "Returns the status of test environments: phase, ready services, addresses of published ports, waits, errors and \
remedies. Call it first. Without `environment`, it lists all; with it, it returns more details. Without a running controller, it \
returns the last known state and marks it.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = StatusOutput;

    async fn call(self, call: Call) -> Result<Output<StatusOutput>, Failure> {
        call.client
            .run_blocking(move |client| self.summarize(client))
            .await
    }
}

impl Status {
    fn summarize(&self, client: &ControllerClient) -> Result<Output<StatusOutput>, Failure> {
        let controller = read_controller(client)?;
        let statuses = match &self.environment {
            Some(env) => vec![client.read_environment(env)?],
            None => client.read_statuses()?.environments.values().cloned().collect(),
        };
        let one = self.environment.is_some() || statuses.len() == 1;
        let mut text = controller.text();
        let mut environments: Vec<Summary> = statuses
            .iter()
            .take(MAX_ENVIRONMENTS)
            .map(Summary::from_status)
            .collect();
        let mut next = Vec::new();
        if one {
            next.extend(environments.iter().flat_map(Summary::next_steps));
        } else {
            environments = environments.into_iter().map(Summary::shorten).collect();
            let unhealthy = environments.iter().filter(|summary| summary.error.is_some());
            next.extend(unhealthy.take(3).map(|summary| {
                let env = json!({ "environment": summary.environment });
                NextStep::new("details", Self::NAME, env)
            }));
        }
        if !controller.alive {
            // Without a controller, other calls change nothing.
            next.retain(|step| matches!(step.tool.as_str(), "argus_why" | "argus_evidence" | Self::NAME));
        }
        text.extend(environments.iter().map(Summary::format_text));
        if environments.is_empty() {
            text.push_str("no environments; argus_apply creates one from an e2e.yaml\n");
        }
        let more = statuses.len().saturating_sub(MAX_ENVIRONMENTS);
        let output = StatusOutput {
            controller,
            environments,
            more_environments: (more > 0).then_some(more),
            full: (self.detail == Detail::Full).then_some(statuses),
        };
        Ok(Output {
            data: output,
            text,
            next,
        })
    }
}

fn read_controller(client: &ControllerClient) -> Result<Controller, Failure> {
    let statuses = client.read_statuses()?;
    let status = &statuses.controller;
    let (alive, specs) = (client.is_alive(), client.specs_folder());
    let start = client.start_command();
    let orphans = status.orphans.len();
    Ok(Controller {
        alive,
        mode: status.mode,
        mode_reason: status.mode_reason.as_deref().map(|reason| clip(reason, 200)),
        engine_reachable: status.engine.as_ref().map(|engine| engine.reachable),
        specs: specs.display().to_string(),
        rejected: status
            .rejected
            .iter()
            .take(5)
            .map(|file| file.spec_path.clone())
            .collect(),
        orphans: (orphans > 0).then_some(orphans),
        start: (!alive).then_some(start),
    })
}

impl Controller {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        if let Some(start) = &self.start {
            lines.push(format!(
                "no controller is running, so this is the last known state and nothing is repaired; start one with `{start}`"
            ));
        } else if self.mode != Mode::Full {
            let reason = self.mode_reason.as_deref().unwrap_or_default();
            lines.push(format!("the controller is in mode {:?}: {reason}", self.mode));
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
