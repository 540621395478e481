//! Connectivity check of an environment.

pub(crate) mod report;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::exit::Failure;
use crate::status;
use report::NetworkReport;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Network {
    /// Environment name
    pub(crate) environment: String,
    /// Check now, instead of the last result of the controller
    #[serde(default)]
    pub(crate) verify: bool,
}

impl Operation for Network {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/network",
            "last connectivity check of an environment",
        )
        .fixed(&[("verify", "false")]),
        Route::post(
            "/api/v1/environments/{environment}/network",
            "checks now, with a helper container in the network of each service",
        )
        .fixed(&[("verify", "true")])
        .serial(),
    ];
    type Output = NetworkReport;

    async fn run(&self, context: &Context) -> Result<NetworkReport, Failure> {
        let env = status::parse_environment(&self.environment)?;
        let client = &context.client;
        if !self.verify {
            return Ok(report::last_report(client.find_environment(env.as_str()).await?));
        }
        let settings = client.run_blocking(|client| Ok(client.query_settings())).await?;
        Box::pin(report::check_now(&settings, &env)).await
    }
}

impl Tool for Network {
    const NAME: &'static str = "argus_network";
    const TITLE: &'static str = "Connectivity check";
    const ABOUT: &'static str = "Returns for each service whether it can resolve the names of the services that it uses and connect to their \
ports, checked inside its network without tools in its image. By default, it returns the last check of the controller; `verify: true` \
checks now with short-lived helper containers. Call it if running services cannot reach each other.";
    type Data = NetworkReport;

    async fn summarize(&self, report: NetworkReport, _context: &Context) -> Summary<NetworkReport> {
        let text = anstream::adapter::strip_str(&report::format_report(&report)).to_string();
        // The calls of hints are in `nextSteps`, so their commands are omitted.
        let lines = text.lines().filter(|line| !line.starts_with("hint:"));
        let text = crate::output::join_lines(lines);
        let check = (!report.verified && !self.verify).then(|| {
            let now = json!({ "environment": self.environment, "verify": true });
            NextStep::new("check now", Self::NAME, now)
        });
        let remedies = report.errors.iter().flat_map(|error| &error.remedies);
        let steps = remedies
            .filter_map(NextStep::from_remedy)
            .filter(|step| step.tool != Self::NAME);
        let steps: Vec<NextStep> = check.into_iter().chain(steps).collect();
        Summary::new(report, text).with_steps(steps)
    }
}
