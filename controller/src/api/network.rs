//! Connectivity check of an environment.

pub(crate) mod report;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::target::{Target, check_service};
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::local_state::status;
use crate::process::exit::Failure;
use report::NetworkReport;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Network {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: all services]
    pub(crate) service: Option<String>,
    /// Check now, instead of the last result of the controller
    #[serde(default)]
    pub(crate) verify: bool,
}

impl Operation for Network {
    // A check creates and removes helper containers.
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/network",
            "last connectivity check of an environment",
        )
        .fixed(&[("verify", "false")])
        .without(&["service"]),
        Route::get(
            "/api/v1/environments/{environment}/services/{service}/network",
            "links of a service in the last connectivity check",
        )
        .fixed(&[("verify", "false")]),
        Route::post(
            "/api/v1/environments/{environment}/network",
            "checks now, with a helper container in the network of each service",
        )
        .fixed(&[("verify", "true")])
        .without(&["service"])
        .serial(),
        Route::post(
            "/api/v1/environments/{environment}/services/{service}/network",
            "checks now, and responds with the links of a service",
        )
        .fixed(&[("verify", "true")])
        .serial(),
    ];
    type Output = NetworkReport;

    async fn run(&self, context: &Context) -> Result<NetworkReport, Failure> {
        let target = Target::parse(&self.environment, self.service.as_deref())?;
        let env = status::parse_environment(&target.environment)?;
        let client = &context.client;
        let report = if self.verify {
            let settings = client.run_blocking(|client| Ok(client.query_settings())).await?;
            Box::pin(report::check_now(&settings, &env, target.service.as_deref())).await?
        } else {
            let status = client.find_environment(env.as_str()).await?;
            if let Some(service) = &target.service {
                check_service(&status, service)?;
            }
            report::last_report(status)
        };
        Ok(match &target.service {
            Some(service) => report.select_service(service),
            None => report,
        })
    }
}

impl Tool for Network {
    const NAME: &'static str = "argus_network";
    const TITLE: &'static str = "Connectivity check";
    const ABOUT: &'static str = "Returns for each service whether it can resolve the names of the services that it uses and connect to their \
ports, checked inside its network without tools in its image. By default, it returns the last check of the controller; `verify: true` \
checks now with short-lived helper containers. With `service`, it returns only the links from and to that service. Call it if running services cannot reach each other.";
    type Data = NetworkReport;

    async fn summarize(&self, report: NetworkReport, _context: &Context) -> Summary<NetworkReport> {
        let text = anstream::adapter::strip_str(&report::format_report(&report)).to_string();
        // The calls of hints are in `nextSteps`, so their commands are omitted.
        let lines = text.lines().filter(|line| !line.starts_with("hint:"));
        let text = crate::render::output::join_lines(lines);
        let check = (!report.verified && !self.verify).then(|| {
            let mut now = json!({ "environment": self.environment, "verify": true });
            if let Some(service) = &self.service {
                now["service"] = json!(service);
            }
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
