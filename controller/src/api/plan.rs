//! Planned actions with causes, and waits.

pub(crate) mod forecasts;
mod health;
pub(crate) mod report;

use std::fmt::Write as _;

use argus_core::secrets::render_diagnostics;
use argus_crds::diagnostic::Diagnostic;
use argus_reconciler::specs::SpecRegistry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::target::Target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_further_lines;
use report::{EnvironmentPlan, PlanReport};

/// Maximum number of environments, and of actions and waits per environment, in a summary.
const MAX_ITEMS: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Plan {
    /// Environment, or ENVIRONMENT/SERVICE [default: all]
    pub(crate) environment: Option<String>,
    /// Service name [default: all services]
    pub(crate) service: Option<String>,
}

/// Plans of the environments.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanSummary {
    environments: Vec<EnvironmentPlan>,
    /// Number of omitted environments; request them by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_environments: Option<usize>,
}

impl Operation for Plan {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/plan",
        "planned actions with causes, and waits; needs the token",
    )
    .serial()];
    const IS_PRIVATE: bool = true;
    type Output = PlanReport;

    async fn run(&self, context: &Context) -> Result<PlanReport, Failure> {
        let target = match (&self.environment, self.service.as_deref()) {
            (None, Some(_)) => return Err(Failure::usage("`service` needs `environment`")),
            (target, service) => target.as_deref().map(|env| Target::parse(env, service)),
        };
        let target = target.transpose()?;
        let read = |client: &ControllerClient, stop: &CancellationToken| {
            let settings = client.query_settings();
            Ok((forecasts::read_folder(&settings, stop)?, settings))
        };
        let ((registry, rejected), settings) = context.client.run_blocking_until(read).await?;
        report_rejected(&registry, context);
        Box::pin(report::create_report(
            &settings,
            &registry,
            target.as_ref(),
            rejected,
        ))
        .await
    }
}

/// Reports the diagnostics of rejected files.
fn report_rejected(registry: &SpecRegistry, context: &Context) {
    for (path, entry) in &registry.files {
        if entry.diagnostics.iter().any(Diagnostic::is_error) {
            let text = entry
                .text
                .as_ref()
                .map(|text| String::from_utf8_lossy(&text.bytes));
            let name = path.display().to_string();
            context.report(render_diagnostics(
                &name,
                &text.unwrap_or_default(),
                &entry.diagnostics,
            ));
        }
    }
}

impl Tool for Plan {
    const NAME: &'static str = "argus_plan";
    const TITLE: &'static str = "Planned actions";
    const ABOUT: &'static str = "Returns the actions that would bring environments to the state of their files, each with its cause, and the \
waits with their reasons. It reads the specs folder and queries the engine, changes nothing, and needs no running controller. Call it \
to preview an edit, or if nothing progresses. With `service`, it returns only the actions and waits of that service and its image.";
    type Data = PlanSummary;

    async fn summarize(&self, report: PlanReport, context: &Context) -> Summary<PlanSummary> {
        let is_alive = |client: &ControllerClient| Ok(client.is_alive());
        let is_alive = context.client.run_blocking(is_alive).await.unwrap_or_default();
        let all = report.environments;
        let more = all.len().saturating_sub(MAX_ITEMS);
        let environments: Vec<EnvironmentPlan> = all
            .into_iter()
            .take(MAX_ITEMS)
            .map(|forecast| forecast.truncate(MAX_ITEMS))
            .collect();
        let mut text: String = environments.iter().map(text_of).collect();
        if environments.is_empty() {
            "no environments and no planned actions\n".clone_into(&mut text);
        }
        let moving = environments
            .iter()
            .filter(|forecast| is_alive && !forecast.settled);
        let next = moving.take(3).map(|forecast| {
            let env = json!({ "environment": forecast.environment });
            if forecast.down {
                NextStep::new("restore the environment", "argus_retry", env)
            } else {
                NextStep::new("wait until it is ready or fails", "argus_wait", env)
            }
        });
        let next = next.collect();
        let data = PlanSummary {
            environments,
            more_environments: (more > 0).then_some(more),
        };
        Summary { data, text, next }
    }
}

fn text_of(forecast: &EnvironmentPlan) -> String {
    let mut text = format!("{}:", forecast.target());
    // Writing to a string cannot fail.
    let _ = match (forecast.down, forecast.settled) {
        (true, _) => writeln!(text, " removed; an edit of its file or argus_retry restores it"),
        (false, true) => writeln!(text, " no actions"),
        (false, false) => writeln!(text),
    };
    for step in &forecast.steps {
        let when = if step.now { "now" } else { "then" };
        let _ = writeln!(text, "  {when} {} {} ({})", step.verb, step.text, step.why);
    }
    if let Some(more) = forecast.more_steps {
        let _ = writeln!(text, "  and {more} more");
    }
    for wait in &forecast.waits {
        let message = mark_further_lines(&wait.waiting_on.message);
        let _ = writeln!(text, "  waits: {}: {message}", wait.text);
    }
    text
}
