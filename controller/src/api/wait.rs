//! Waits until environments are ready or gone, with progress.

pub(crate) mod goal;

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::error::Reason;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment_summary::EnvironmentSummary;
use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::exit::Failure;
use crate::status;
use crate::status_text::format_waits;
use goal::{NamedStatus, WaitGoal};

/// Maximum number of waiting clients over HTTP.
const MAX_WAITS: usize = 64;
/// Maximum wait, in seconds.
const MAX_TIMEOUT: u64 = 3_600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Wait {
    /// Environment name [default: all]
    environment: Option<String>,
    /// `ready`: Ready at the desired revision; `gone`: removed
    #[serde(default, rename = "for")]
    goal: WaitGoal,
    /// Maximum wait
    #[serde(default = "default_timeout")]
    #[schemars(range(max = 3600))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    120
}

/// Environments that reached the goal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WaitOutput {
    /// The requested environment.
    One(Box<EnvironmentStatus>),
    /// The requested environment is removed.
    Gone {
        /// Environment name.
        environment: String,
        /// `Gone`.
        phase: &'static str,
    },
    /// All environments.
    All(Vec<EnvironmentStatus>),
}

/// Environments that reached the goal, for a model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitSummary {
    environments: Vec<EnvironmentSummary>,
}

impl Operation for Wait {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments/{environment}/wait",
        "responds when the environment is Ready at the desired revision, or with `for=gone` when it is removed; with the error when Argus gives up",
    )
    .max_calls(MAX_WAITS)];
    type Output = WaitOutput;

    async fn run(&self, context: &Context) -> Result<WaitOutput, Failure> {
        let client = &context.client;
        if let Some(env) = &self.environment {
            status::parse_environment(env)?;
        }
        if let Some(start) = client.missing_controller().await? {
            let message = "no controller is running, so waiting has no effect";
            return Err(Failure::with_reason(Reason::NotRunning, message).with_hint(start));
        }
        if context.is_trusted {
            // The wait takes effect after all earlier edits.
            drop(client.send(Command::Sync).await);
        }
        let limit = Duration::from_secs(self.timeout_seconds.min(MAX_TIMEOUT));
        let names: Option<Vec<String>> = self.environment.as_ref().map(|env| vec![env.clone()]);
        let mut progress = Progress::default();
        let report = |seen: &[NamedStatus]| progress.report(seen, context);
        let mut reached = goal::wait_until(client, names.as_deref(), self.goal, limit, report).await?;
        Ok(match (&self.environment, reached.pop()) {
            (Some(_), Some(status)) => WaitOutput::One(Box::new(status)),
            (Some(env), None) => WaitOutput::Gone {
                environment: env.clone(),
                phase: "Gone",
            },
            (None, last) => WaitOutput::All(reached.into_iter().chain(last).collect()),
        })
    }
}

impl Tool for Wait {
    const NAME: &'static str = "argus_wait";
    const TITLE: &'static str = "Wait";
    const ABOUT: &'static str = "Waits until an environment (or all) is Ready, or with `for: \"gone\"` until it is removed; reports progress. \
Fails early with the error if Argus gives up. After the timeout, it fails with TIMEOUT and the remaining waits; call it again to wait \
longer. Use it instead of repeated calls of `argus_status`.";
    type Data = WaitSummary;

    async fn summarize(&self, output: WaitOutput, _context: &Context) -> Summary<WaitSummary> {
        let environments = match output {
            WaitOutput::One(status) => vec![EnvironmentSummary::from_status(&status)],
            WaitOutput::Gone { .. } => Vec::new(),
            WaitOutput::All(statuses) => {
                let many = statuses.len() > 1;
                let summaries = statuses.iter().map(EnvironmentSummary::from_status);
                let shorten = |summary: EnvironmentSummary| if many { summary.shorten() } else { summary };
                summaries.map(shorten).collect()
            }
        };
        let mut text: String = environments.iter().map(EnvironmentSummary::format_text).collect();
        if self.goal == WaitGoal::Gone {
            "gone\n".clone_into(&mut text);
        }
        Summary::new(WaitSummary { environments }, text)
    }
}

/// Reporter of changed phases and waits.
#[derive(Default)]
struct Progress {
    /// Last message, by environment.
    reported: BTreeMap<String, String>,
}

impl Progress {
    fn report(&mut self, seen: &[NamedStatus], context: &Context) {
        for (name, status) in seen {
            let Some(status) = status else { continue };
            let mut message = format!("{name} is {:?}", status.phase);
            let waits = format_waits(status);
            if !waits.is_empty() {
                message.push_str(": ");
                message.push_str(&waits);
            }
            if self.reported.get(name) != Some(&message) {
                context.report(message.clone());
                self.reported.insert(name.clone(), message);
            }
        }
    }
}
