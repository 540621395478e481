//! `argus_status`: how everything is, in few words.

use argus_crds::status::{EnvironmentStatus, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::summary::{Summary, clipped};
use super::tool::{Effect, Tool};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Environments that are told at once.
const MOST: usize = 50;

/// How much is told.
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
    /// Environment; all of them without
    environment: Option<String>,
    /// `full`: the whole status document beside the summary
    #[serde(default)]
    detail: Detail,
}

/// How the controller is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Controller {
    /// A controller is at work; if not, all of this is the last that is known.
    alive: bool,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_reason: Option<String>,
    /// The engine answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_reachable: Option<bool>,
    /// The folder that it watches.
    specs: String,
    /// Files in it that are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// How many resources of dead runs were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    orphans: Option<usize>,
    /// The command that starts one, where none is at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

/// How everything is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusOutput {
    controller: Controller,
    environments: Vec<Summary>,
    /// How many more there are; ask for each by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_environments: Option<usize>,
    /// With `detail: "full"`, the whole documents, as `argus schema status` describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    // Their schema is longer than that of all tools together, and is published already.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    full: Option<Vec<EnvironmentStatus>>,
}

impl Tool for Status {
    const NAME: &'static str = "argus_status";
    const TITLE: &'static str = "How environments are";
    const ABOUT: &'static str = "Shows how test environments are: phase, ready services, where published ports are reached, what is \
waited for, what is wrong and what to do about it. Call it first. Without `environment` it lists all, with it it tells more about one. \
Works without a running controller: it then shows the last that is known, and says so.";
    const EFFECT: Effect = Effect::Looks;
    type Output = StatusOutput;

    async fn call(self, call: Call) -> Result<Output<StatusOutput>, Failure> {
        call.client.read(move |client| self.told(client)).await
    }
}

impl Status {
    fn told(&self, client: &ControllerClient) -> Result<Output<StatusOutput>, Failure> {
        let controller = controller(client)?;
        let statuses = match &self.environment {
            Some(env) => vec![client.environment(env)?],
            None => client.shown()?.environments.values().cloned().collect(),
        };
        let one = self.environment.is_some() || statuses.len() == 1;
        let mut text = controller.text();
        let mut environments: Vec<Summary> = statuses.iter().take(MOST).map(Summary::of).collect();
        let mut next = Vec::new();
        if one {
            next.extend(environments.iter().flat_map(Summary::next));
        } else {
            environments = environments.into_iter().map(Summary::in_short).collect();
            let unhealthy = environments.iter().filter(|brief| brief.error.is_some());
            next.extend(unhealthy.take(3).map(|brief| {
                let env = json!({ "environment": brief.environment });
                NextStep::new("tells more about it", Self::NAME, env)
            }));
        }
        if !controller.alive {
            // Nothing of this changes anything until somebody starts one.
            next.retain(|step| matches!(step.tool.as_str(), "argus_why" | "argus_evidence" | Self::NAME));
        }
        text.extend(environments.iter().map(Summary::text));
        if environments.is_empty() {
            text.push_str("there is no environment; argus_apply makes one from an e2e.yaml\n");
        }
        let more = statuses.len().saturating_sub(MOST);
        let told = StatusOutput {
            controller,
            environments,
            more_environments: (more > 0).then_some(more),
            full: (self.detail == Detail::Full).then_some(statuses),
        };
        Ok(Output {
            data: told,
            text,
            next,
        })
    }
}

fn controller(client: &ControllerClient) -> Result<Controller, Failure> {
    let shown = client.shown()?;
    let status = &shown.controller;
    let (alive, specs) = (client.is_alive(), client.specs());
    let start = client.start_command();
    let orphans = status.orphans.len();
    Ok(Controller {
        alive,
        mode: status.mode,
        mode_reason: status.mode_reason.as_deref().map(|why| clipped(why, 200)),
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
                "no controller is running, so this is the last that is known and nothing is repaired; start it: {start}"
            ));
        } else if self.mode != Mode::Full {
            let why = self.mode_reason.as_deref().unwrap_or_default();
            lines.push(format!("the controller is in mode {:?}: {why}", self.mode));
        }
        if !self.rejected.is_empty() {
            lines.push(format!(
                "refused files: {}; argus_validate says why",
                self.rejected.join(", ")
            ));
        }
        lines.into_iter().map(|line| line + "\n").collect()
    }
}
