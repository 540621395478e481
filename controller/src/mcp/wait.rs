//! `argus_wait`: until environments are ready or gone, telling how it goes.

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
use crate::cli::{status, wait, waits};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Longer than this no client waits.
const LONGEST: u64 = 3_600;
/// How often it is looked whether there is something to tell.
const LOOK: Duration = Duration::from_millis(100);

/// What is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Goal {
    #[default]
    Ready,
    Gone,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wait {
    /// Environment; all of them without
    environment: Option<String>,
    /// `ready`: Ready at the revision that is wanted; `gone`: removed
    #[serde(default, rename = "for")]
    goal: Goal,
    /// How long at most
    #[serde(default = "timeout")]
    #[schemars(range(max = 3600))]
    timeout_seconds: u64,
}

fn timeout() -> u64 {
    120
}

/// It is as it was waited for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitOutput {
    environments: Vec<Summary>,
    waited_ms: u64,
}

impl Tool for Wait {
    const NAME: &'static str = "argus_wait";
    const TITLE: &'static str = "Wait until it is ready";
    const ABOUT: &'static str = "Waits until an environment (or all) is Ready, or with `for: \"gone\"` until it is removed; tells progress. \
Ends early with the error where it is given up: waiting longer would not help. Too late is the error TIMEOUT, with what is still waited \
for; calling it again goes on waiting. Better than asking `argus_status` again and again.";
    const EFFECT: Effect = Effect::Looks;
    type Output = WaitOutput;

    async fn call(self, call: Call) -> Result<Output<WaitOutput>, Failure> {
        let client = &call.client;
        let away = |client: &ControllerClient| Ok((!client.is_alive()).then(|| client.start_command()));
        if let Some(start) = client.read(away).await? {
            let message = "no controller is running, so nothing changes by waiting";
            return Err(Failure::missing(Reason::NotRunning, message).hint(start));
        }
        let names = match &self.environment {
            Some(env) => {
                status::named(env)?;
                Some(vec![env.clone()])
            }
            None => None,
        };
        let goal = match self.goal {
            Goal::Ready => wait::Goal::Ready,
            Goal::Gone => wait::Goal::Gone,
        };
        let begun = clock::now();
        // An edit from just now counts.
        drop(client.execute(Command::Sync).await);
        let limit = Duration::from_secs(self.timeout_seconds.min(LONGEST));
        let reached = tokio::select! {
            reached = wait::until(client.state(), names.as_deref(), goal, limit, |_| {}) => reached?,
            () = tell(&call, names.as_deref()), if call.is_heard() => Vec::new(),
        };
        let environments: Vec<Summary> = reached.iter().map(Summary::of).collect();
        let many = environments.len() > 1;
        let environments: Vec<Summary> = environments
            .into_iter()
            .map(|brief| if many { brief.in_short() } else { brief })
            .collect();
        let mut text: String = environments.iter().map(Summary::text).collect();
        if self.goal == Goal::Gone {
            "gone\n".clone_into(&mut text);
        }
        let waited_ms = u64::try_from(clock::now().since(begun).as_millis()).unwrap_or(u64::MAX);
        Ok(Output::new(
            WaitOutput {
                environments,
                waited_ms,
            },
            text,
        ))
    }
}

/// Tells each change of phases and of what is waited for; for ever.
async fn tell(call: &Call, names: Option<&[String]>) {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut told = 0;
    loop {
        let all = call.client.read(|client| status::all(client.state()));
        let all = all.await.unwrap_or_default();
        for status in all {
            let name = &status.environment;
            if names.is_some_and(|names| !names.contains(name)) {
                continue;
            }
            let waits = waits(&status);
            let mut message = format!("{name} is {:?}", status.phase);
            if !waits.is_empty() {
                message.push_str(": ");
                message.push_str(&waits);
            }
            if known.get(name) != Some(&message) {
                told += 1;
                call.progress(told, message.clone()).await;
                known.insert(name.clone(), message);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
