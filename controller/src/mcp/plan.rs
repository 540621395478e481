//! `argus_plan`: what would be done now, and why.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::plan::{self, EnvironmentPlan};
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Environments that are told at once, and steps and waits of each.
const MOST: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Plan {
    /// Environment; all of them without
    environment: Option<String>,
}

/// What lies ahead.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanOutput {
    environments: Vec<EnvironmentPlan>,
    /// How many more there are; ask for each by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_environments: Option<usize>,
}

impl Tool for Plan {
    const NAME: &'static str = "argus_plan";
    const TITLE: &'static str = "What would be done";
    const ABOUT: &'static str = "Shows what would be done to bring environments to what their files say, step by step with the cause of \
each, and what has to wait and why. It reads the specs folder and asks the engine, and changes nothing; it needs no running controller. \
Call it to see what an edit will do, or why nothing moves.";
    const EFFECT: Effect = Effect::Looks;
    type Output = PlanOutput;

    async fn call(self, call: Call) -> Result<Output<PlanOutput>, Failure> {
        let of_controller = |client: &ControllerClient| Ok((client.query_settings(), client.is_alive()));
        let (settings, alive) = call.client.read(of_controller).await?;
        let all = Box::pin(plan::plan_report(&settings, self.environment.as_deref()))
            .await?
            .environments;
        let more = all.len().saturating_sub(MOST);
        let environments: Vec<EnvironmentPlan> =
            all.into_iter().take(MOST).map(|ahead| ahead.cut(MOST)).collect();
        let mut text: String = environments.iter().map(words).collect();
        if environments.is_empty() {
            "there is no environment, and nothing to do\n".clone_into(&mut text);
        }
        let moving = environments.iter().filter(|ahead| alive && !ahead.settled);
        let next = moving.take(3).map(|ahead| {
            let env = json!({ "environment": ahead.environment });
            if ahead.down {
                NextStep::new("brings it back", "argus_retry", env)
            } else {
                NextStep::new("returns when it is ready or given up", "argus_wait", env)
            }
        });
        let next = next.collect();
        let told = PlanOutput {
            environments,
            more_environments: (more > 0).then_some(more),
        };
        Ok(Output {
            data: told,
            text,
            next,
        })
    }
}

fn words(ahead: &EnvironmentPlan) -> String {
    let mut text = format!("{}:", ahead.environment);
    // A string takes whatever is written.
    let _ = match (ahead.down, ahead.settled) {
        (true, _) => writeln!(
            text,
            " taken down; an edit of its file or argus_retry brings it back"
        ),
        (false, true) => writeln!(text, " nothing to do"),
        (false, false) => writeln!(text),
    };
    for step in &ahead.steps {
        let when = if step.now { "now" } else { "then" };
        let _ = writeln!(text, "  {when} {} {} ({})", step.verb, step.text, step.why);
    }
    if let Some(more) = ahead.more_steps {
        let _ = writeln!(text, "  and {more} more");
    }
    for wait in &ahead.waits {
        let _ = writeln!(text, "  waits: {}: {}", wait.text, wait.waiting_on.message);
    }
    text
}
