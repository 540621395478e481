//! Tool `argus_why`: the chain of causes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::context::Call;
use super::output::Evidence;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::{output, target, why};
use crate::exit::Failure;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Why {
    /// Environment, or ENVIRONMENT/SERVICE
    environment: String,
    /// Service name [default: all that are not ready]
    service: Option<String>,
}

impl Tool for Why {
    const NAME: &'static str = "argus_why";
    const TITLE: &'static str = "Chain of causes";
    const ABOUT: &'static str = "Returns why an environment or a service is not ready or was restarted, as a chain of causes: its state, its \
waits, the failure, the end and the last output of that run; and the remedies. Call it if `argus_status` or `argus_wait` returns a \
phase other than Ready.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = why::WhyReport;

    async fn call(self, call: Call) -> Result<Output<why::WhyReport>, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let named = env.clone();
        let read = call.client.run_blocking(move |client| {
            let status = client.read_environment(&named)?;
            why::explain(client.state(), &status, service.as_deref())
        });
        let report = read.await?;
        let text = anstream::adapter::strip_str(&why::format_report(&report)).to_string();
        // The calls of hints are in `nextSteps`, so their commands are omitted.
        let is_command = |line: &&str| line.trim_start().starts_with("hint:") && line.contains("`argus ");
        let lines = text.lines().filter(|line| !is_command(line));
        let text = output::join_lines(lines);
        let mut next: Vec<NextStep> = Vec::new();
        if let Some((service, run)) = report.run() {
            let run = json!({ "environment": env, "service": service, "run": run });
            next.push(NextStep::new("evidence of this run", Evidence::NAME, run));
        }
        for remedy in report.remedies() {
            let Some(mcp) = &remedy.mcp else { continue };
            let step = NextStep::from_tool_call(&remedy.summary, mcp);
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
