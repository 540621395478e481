//! Chain of causes of a state.

pub(crate) mod chain;
pub(crate) mod report;

use argus_crds::error::{ActionId, Remedy};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::evidence::Evidence;
use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::process::exit::Failure;
use crate::render::foreign_text::MARK;
use crate::render::output;
use report::WhyReport;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Why {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: all that are not ready]
    pub(crate) service: Option<String>,
}

impl Operation for Why {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/why",
            "chain of causes of services that are not ready; needs the token",
        )
        .without(&["service"]),
        Route::get(
            "/api/v1/environments/{environment}/services/{service}/why",
            "chain of causes of the state of a service; needs the token",
        ),
    ];
    const IS_PRIVATE: bool = true;
    type Output = WhyReport;

    async fn run(&self, context: &Context) -> Result<WhyReport, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let status = context.client.find_environment(&env).await?;
        let read = context
            .client
            .run_blocking(move |client| report::explain(client.state(), &status, service.as_deref()));
        read.await
    }
}

/// Moves the quoted last line of a run to a marked line of its own.
fn mark_last_line(line: &str) -> String {
    for stream in ["stderr", "stdout"] {
        let lead = format!("  <- evidence: last line on {stream}");
        if let Some(quoted) = line.strip_prefix(&lead).and_then(|rest| rest.strip_prefix(": ")) {
            return format!("{lead}:\n{MARK}{quoted}");
        }
    }
    line.to_owned()
}

impl Tool for Why {
    const NAME: &'static str = "argus_why";
    const TITLE: &'static str = "Chain of causes";
    const ABOUT: &'static str = "Returns why an environment or a service is not ready or was restarted, as a chain of causes: its state, its \
waits, the failure, the end and the last output of that run; and the remedies. Call it if `argus_status` or `argus_wait` returns a \
phase other than Ready.";
    type Data = WhyReport;

    async fn summarize(&self, report: WhyReport, _context: &Context) -> Summary<WhyReport> {
        let text = anstream::adapter::strip_str(&report::format_report(&report)).to_string();
        // The calls of hints are in `nextSteps`, so their commands are omitted.
        let is_command = |line: &&str| line.trim_start().starts_with("hint:") && line.contains("`argus ");
        let lines = text.lines().filter(|line| !is_command(line));
        let text = output::join_lines(lines.map(mark_last_line));
        let remedies: Vec<_> = report.remedies().collect();
        // Changes of files come first.
        let (edits, others): (Vec<_>, Vec<_>) = remedies
            .into_iter()
            .partition(|remedy| remedy.edit.is_some() || remedy.action == ActionId::FixBuild);
        let steps = |remedies: Vec<&Remedy>| -> Vec<NextStep> {
            remedies.into_iter().filter_map(NextStep::from_remedy).collect()
        };
        let others = steps(others);
        let is_work = |step: &NextStep| step.first.is_some();
        let wait = NextStep::wait_after_work(&report.environment);
        let (wait, last_wait) = if edits.is_empty() {
            (None, others.iter().any(is_work).then_some(wait))
        } else {
            (Some(wait), None)
        };
        let shows_run = |step: &NextStep, service: &str| {
            step.tool == Evidence::NAME && step.arguments.get("service").is_some_and(|of| of == service)
        };
        // A remedy with the same call also has its purpose.
        let run = report
            .run()
            .filter(|(service, _)| !others.iter().any(|step| shows_run(step, service)));
        let evidence = run.map(|(service, run)| {
            let run = json!({ "environment": report.environment, "service": service, "run": run });
            NextStep::new("evidence of this run", Evidence::NAME, run)
        });
        let steps: Vec<NextStep> = steps(edits)
            .into_iter()
            .chain(wait)
            .chain(evidence)
            .chain(others)
            .chain(last_wait)
            .collect();
        Summary::new(report, text).with_steps(steps)
    }
}
