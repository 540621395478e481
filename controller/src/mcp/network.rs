//! `argus_network`: who reaches whom inside an environment.

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
    /// Environment
    environment: String,
    /// Look now, instead of telling what the controller saw last
    #[serde(default)]
    verify: bool,
}

impl Tool for Network {
    const NAME: &'static str = "argus_network";
    const TITLE: &'static str = "Who reaches whom";
    const ABOUT: &'static str = "Shows for each service whether it resolves the names of the others that it names and connects to their \
ports, seen from inside its own network: nothing is needed in its image. As the controller saw it last; with `verify: true` it is \
looked at now, by short-lived helper containers. Call it when services run and do not reach each other.";
    const EFFECT: Effect = Effect::Looks;
    type Output = network::NetworkReport;

    async fn call(self, call: Call) -> Result<Output<network::NetworkReport>, Failure> {
        let env = status::named(&self.environment)?;
        let told = if self.verify {
            let settings = call.client.read(|client| Ok(client.query_settings())).await?;
            Box::pin(network::now(&settings, &env)).await?
        } else {
            network::last(call.client.find_environment(env.as_str()).await?)
        };
        let text = anstream::adapter::strip_str(&network::text(&told)).to_string();
        // What can be called is told as calls, not as commands as well.
        let lines = text.lines().filter(|line| !line.starts_with("hint:"));
        let text = crate::cli::output::lines(lines);
        let mut next = Vec::new();
        if !told.verified && !self.verify {
            let now = json!({ "environment": self.environment, "verify": true });
            next.push(NextStep::new("looks at it now", Self::NAME, now));
        }
        let calls = told.errors.iter().flat_map(steps);
        for step in calls.filter(|step| step.tool != Self::NAME) {
            if next.len() < 5 && !next.contains(&step) {
                next.push(step);
            }
        }
        Ok(Output {
            data: told,
            text,
            next,
        })
    }
}

fn steps(error: &StructuredError) -> impl Iterator<Item = NextStep> {
    let calls = error.remedies.iter();
    calls.filter_map(|remedy| Some(NextStep::of(&remedy.summary, remedy.mcp.as_ref()?)))
}
