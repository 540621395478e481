//! Tool `argus_wait`: waits until environments are ready or gone, with progress.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::error::Reason;
use argus_reconciler::{Command, clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::context::Call;
use super::reply::Output;
use super::summary::Summary;
use super::tool::{Effect, Tool};
use crate::cli::{format_waits, status, wait};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Maximum wait, in seconds.
const MAX_TIMEOUT: u64 = 3_600;
/// Interval between checks for progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Goal of a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum WaitGoal {
    #[default]
    Ready,
    Gone,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wait {
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
#[serde(rename_all = "camelCase")]
pub(super) struct WaitOutput {
    environments: Vec<Summary>,
    waited_ms: u64,
}

impl Tool for Wait {
    const NAME: &'static str = "argus_wait";
    const TITLE: &'static str = "Wait";
    const ABOUT: &'static str = "Waits until an environment (or all) is Ready, or with `for: \"gone\"` until it is removed; reports progress. \
Fails early with the error if Argus gives up. After the timeout, it fails with TIMEOUT and the remaining waits; call it again to wait \
longer. Use it instead of repeated calls of `argus_status`.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = WaitOutput;

    async fn call(self, call: Call) -> Result<Output<WaitOutput>, Failure> {
        let client = &call.client;
        let start_if_stopped =
            |client: &ControllerClient| Ok((!client.is_alive()).then(|| client.start_command()));
        if let Some(start) = client.run_blocking(start_if_stopped).await? {
            let message = "no controller is running, so waiting has no effect";
            return Err(Failure::with_reason(Reason::NotRunning, message).with_hint(start));
        }
        let names = match &self.environment {
            Some(env) => {
                status::parse_environment(env)?;
                Some(vec![env.clone()])
            }
            None => None,
        };
        let goal = match self.goal {
            WaitGoal::Ready => wait::WaitGoal::Ready,
            WaitGoal::Gone => wait::WaitGoal::Gone,
        };
        let started = clock::now();
        // The wait takes effect after all earlier edits.
        drop(client.send(Command::Sync).await);
        let limit = Duration::from_secs(self.timeout_seconds.min(MAX_TIMEOUT));
        let reached = tokio::select! {
            reached = wait::wait_until(client.state(), names.as_deref(), goal, limit, |_| {}) => reached?,
            () = report_progress(&call, names.as_deref()), if call.has_listener() => Vec::new(),
        };
        let environments: Vec<Summary> = reached.iter().map(Summary::from_status).collect();
        let many = environments.len() > 1;
        let environments: Vec<Summary> = environments
            .into_iter()
            .map(|summary| if many { summary.shorten() } else { summary })
            .collect();
        let mut text: String = environments.iter().map(Summary::format_text).collect();
        if self.goal == WaitGoal::Gone {
            "gone\n".clone_into(&mut text);
        }
        let waited_ms = u64::try_from(clock::now().since(started).as_millis()).unwrap_or(u64::MAX);
        Ok(Output::new(
            WaitOutput {
                environments,
                waited_ms,
            },
            text,
        ))
    }
}

/// Sends a progress notification for each change of phases and waits; never returns.
async fn report_progress(call: &Call, names: Option<&[String]>) {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut sent = 0;
    loop {
        let all = call
            .client
            .run_blocking(|client| status::read_environments(client.state()));
        let all = all.await.unwrap_or_default();
        for status in all {
            let name = &status.environment;
            if names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            let waits = format_waits(&status);
            let mut message = format!("{name} is {:?}", status.phase);
            if !waits.is_empty() {
                message.push_str(": ");
                message.push_str(&waits);
            }
            if known.get(name) != Some(&message) {
                sent += 1;
                call.report_progress(sent, message.clone()).await;
                known.insert(name.clone(), message);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
