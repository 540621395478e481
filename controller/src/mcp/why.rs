//! `argus_why`: the chain of causes.

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
    /// Service; all that are not ready without
    service: Option<String>,
}

impl Tool for Why {
    const NAME: &'static str = "argus_why";
    const TITLE: &'static str = "Why something is as it is";
    const ABOUT: &'static str = "Tells why an environment or a service is not ready, or was restarted, as one chain of causes: what is, \
what it waits for, what failed, how that run ended and what it wrote last; and what to do. Call it when `argus_status` or `argus_wait` \
shows anything but Ready.";
    const EFFECT: Effect = Effect::Looks;
    type Output = why::WhyReport;

    async fn call(self, call: Call) -> Result<Output<why::WhyReport>, Failure> {
        let (env, service) = target::parts(&self.environment, self.service.as_deref())?;
        let named = env.clone();
        let read = call.client.read(move |client| {
            let status = client.environment(&named)?;
            why::told(client.state(), &status, service.as_deref())
        });
        let told = read.await?;
        let text = anstream::adapter::strip_str(&why::text(&told)).to_string();
        // What can be called is told as calls, not as commands as well.
        let is_command = |line: &&str| line.trim_start().starts_with("hint:") && line.contains("`argus ");
        let lines = text.lines().filter(|line| !is_command(line));
        let text = output::lines(lines);
        let mut next: Vec<NextStep> = Vec::new();
        if let Some((service, run)) = told.run() {
            let run = json!({ "environment": env, "service": service, "run": run });
            next.push(NextStep::new("all that this run left", Evidence::NAME, run));
        }
        for remedy in told.remedies() {
            let Some(mcp) = &remedy.mcp else { continue };
            let step = NextStep::of(&remedy.summary, mcp);
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
