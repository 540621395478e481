//! Tool `argus_network`: connectivity check of an environment.

use argus_crds::error::StructuredError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::{network, status};
use crate::exit::Failure;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Network {
    /// Environment name
    environment: String,
    /// Check now, instead of the last result of the controller
    #[serde(default)]
    verify: bool,
}

impl Tool for Network {
    const NAME: &'static str = "argus_network";
    const TITLE: &'static str = "Connectivity check";
    const ABOUT: &'static str = "Returns for each service whether it can resolve the names of the services that it uses and connect to their \
ports, checked inside its network without tools in its image. By default, it returns the last check of the controller; `verify: true` \
checks now with short-lived helper containers. Call it if running services cannot reach each other.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = network::NetworkReport;

    async fn call(self, call: Call) -> Result<Output<network::NetworkReport>, Failure> {
        let env = status::named(&self.environment)?;
        let report = if self.verify {
            let settings = call.client.read(|client| Ok(client.query_settings())).await?;
            Box::pin(network::now(&settings, &env)).await?
        } else {
            network::last(call.client.find_environment(env.as_str()).await?)
        };
        let text = anstream::adapter::strip_str(&network::text(&report)).to_string();
        // The calls of hints are in `nextSteps`, so their commands are omitted.
        let lines = text.lines().filter(|line| !line.starts_with("hint:"));
        let text = crate::cli::output::lines(lines);
        let mut next = Vec::new();
        if !report.verified && !self.verify {
            let now = json!({ "environment": self.environment, "verify": true });
            next.push(NextStep::new("check now", Self::NAME, now));
        }
        let calls = report.errors.iter().flat_map(steps);
        for step in calls.filter(|step| step.tool != Self::NAME) {
            if next.len() < 5 && !next.contains(&step) {
                next.push(step);
            }
        }
        Ok(Output {
            data: report,
            text,
            next,
        })
    }
}

fn steps(error: &StructuredError) -> impl Iterator<Item = NextStep> {
    let calls = error.remedies.iter();
    calls.filter_map(|remedy| Some(NextStep::of(&remedy.summary, remedy.mcp.as_ref()?)))
}
