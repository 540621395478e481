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
    /// Names of environments, separated by commas [default: all]
    pub(crate) environment: Option<String>,
    /// `ready`: Ready at the desired revision; `gone`: removed
    #[serde(default, rename = "for")]
    pub(crate) goal: WaitGoal,
    /// Maximum wait
    #[serde(default = "default_timeout")]
    #[schemars(range(max = 3600))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    120
}

/// Environments that reached the goal: the requested one, or a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WaitOutput {
    One(Reached),
    All(Vec<Reached>),
}

/// An environment that reached the goal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Reached {
    /// A ready environment.
    Ready(Box<EnvironmentStatus>),
    /// A removed environment.
    Gone {
        /// Environment name.
        environment: String,
        /// `Gone`.
        phase: &'static str,
    },
}

impl WaitOutput {
    /// Returns the environments.
    pub(crate) fn environments(&self) -> &[Reached] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::All(all) => all,
        }
    }

    /// Returns the statuses of the environments that still exist.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = &EnvironmentStatus> {
        self.environments().iter().filter_map(|reached| match reached {
            Reached::Ready(status) => Some(&**status),
            Reached::Gone { .. } => None,
        })
    }
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
        if let Some(start) = context.client.missing_controller().await? {
            let message = "no controller is running, so waiting has no effect";
            return Err(Failure::with_reason(Reason::NotRunning, message).with_hint(start));
        }
        let limit = Duration::from_secs(self.timeout_seconds.min(MAX_TIMEOUT));
        let mut progress = Progress::default();
        let report = |seen: &[NamedStatus]| progress.report(seen, context);
        self.wait_within(limit, context, report).await
    }
}

impl Wait {
    /// Creates the wait of a command, which has its own limit.
    pub(crate) fn new(environment: Option<String>, goal: WaitGoal) -> Self {
        Self {
            environment,
            goal,
            timeout_seconds: default_timeout(),
        }
    }

    /// Waits for at most `limit`, and calls `report` on changes. A controller can also start during the wait.
    pub(crate) async fn wait_within(
        &self,
        limit: Duration,
        context: &Context,
        report: impl FnMut(&[NamedStatus]),
    ) -> Result<WaitOutput, Failure> {
        let names = self.environment.as_ref();
        let names: Option<Vec<String>> =
            names.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect());
        for env in names.iter().flatten() {
            status::parse_environment(env)?;
        }
        if context.is_trusted {
            // The wait takes effect after all earlier edits. Without a controller, only the files are used.
            drop(context.client.send(Command::Sync).await);
        }
        let reached = goal::wait_until(&context.client, names.as_deref(), self.goal, limit, report).await?;
        let mut reached: Vec<Reached> = match (self.goal, &names) {
            (WaitGoal::Gone, Some(names)) => names.iter().cloned().map(Reached::gone).collect(),
            (WaitGoal::Gone, None) => Vec::new(),
            (WaitGoal::Ready, _) => reached
                .into_iter()
                .map(|status| Reached::Ready(Box::new(status)))
                .collect(),
        };
        Ok(match (names.map(|names| names.len()), reached.pop()) {
            (Some(1), Some(one)) => WaitOutput::One(one),
            (_, last) => WaitOutput::All(reached.into_iter().chain(last).collect()),
        })
    }
}

impl Reached {
    fn gone(environment: String) -> Self {
        Self::Gone {
            environment,
            phase: "Gone",
        }
    }

    /// Returns the name of the environment.
    pub(crate) fn environment(&self) -> &str {
        match self {
            Self::Ready(status) => &status.environment,
            Self::Gone { environment, .. } => environment,
        }
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
        let many = output.environments().len() > 1;
        let summaries = output.statuses().map(EnvironmentSummary::from_status);
        let shorten = |summary: EnvironmentSummary| if many { summary.shorten() } else { summary };
        let environments: Vec<EnvironmentSummary> = summaries.map(shorten).collect();
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
