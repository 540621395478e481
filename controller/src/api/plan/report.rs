//! Plans for programs, over all interfaces.

use argus_core::action;
use argus_core::action::Subject;
use argus_core::status::describe_wait;
use argus_core::wait;
use argus_crds::status::WaitingOn;
use argus_reconciler::specs::SpecRegistry;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::forecasts::{Forecast, create_forecasts_for};
use crate::api::target::Target;
use crate::process::exit::Failure;
use crate::render::output;
use crate::settings::Settings;

/// Plans of environments.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    pub(crate) environments: Vec<EnvironmentPlan>,
    /// True if a spec file is rejected.
    #[serde(skip)]
    pub(crate) rejected: bool,
}

/// Plan of one environment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentPlan {
    pub(crate) environment: String,
    /// Service of the steps and waits, if one is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    /// Planned revision.
    pub(crate) revision: Option<String>,
    /// True after `argus down`, or after the `argus.ttl` expired. An edit of the file or a retry starts it again.
    pub(crate) down: bool,
    /// True if the environment expired after its `argus.ttl`.
    #[serde(skip)]
    pub(crate) expired: bool,
    /// True if there is nothing to do.
    pub(crate) settled: bool,
    /// Steps until the environment is settled, in order.
    pub(crate) steps: Vec<PlannedStep>,
    /// Number of omitted steps, if the list is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_steps: Option<usize>,
    /// Resources that cannot proceed now, with the reason.
    pub(crate) waits: Vec<PlannedWait>,
    /// Number of omitted waits, if the list is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_waits: Option<usize>,
}

/// A planned action.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedStep {
    /// Subject: its `kind`, and its name or id.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) subject: Value,
    /// Subject as text.
    #[serde(skip)]
    pub(crate) text: String,
    /// Verb of the action, such as `create-container`.
    pub(crate) verb: &'static str,
    /// Cause for programs: its `cause`, and further fields.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) cause: Value,
    /// Cause as text.
    pub(crate) why: String,
    /// True if the step is possible now, false if it depends on earlier steps.
    pub(crate) now: bool,
}

/// A resource that cannot proceed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedWait {
    /// Subject: its `kind`, and its name or id.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) subject: Value,
    /// Subject as text.
    #[serde(skip)]
    pub(crate) text: String,
    /// Reason of the wait.
    pub(crate) waiting_on: WaitingOn,
}

/// Plans the given environment or service, or all environments.
pub(crate) async fn create_report(
    settings: &Settings,
    registry: &SpecRegistry,
    wanted: Option<&Target>,
    rejected: bool,
) -> Result<PlanReport, Failure> {
    let forecasts = create_forecasts_for(settings, registry, wanted, rejected).await?;
    let one = |(env, forecast): (&argus_core::ident::EnvName, &Forecast)| {
        let target = Target {
            environment: env.to_string(),
            service: wanted.and_then(|wanted| wanted.service.clone()),
        };
        convert_forecast(target, forecast)
    };
    Ok(PlanReport {
        environments: forecasts.iter().map(one).collect(),
        rejected,
    })
}

impl PlanReport {
    /// Returns the report as text for people.
    pub(crate) fn format_text(&self) -> String {
        if self.environments.is_empty() {
            return "nothing to do\n".to_owned();
        }
        output::join_lines(self.environments.iter().flat_map(EnvironmentPlan::format_lines))
    }
}

impl EnvironmentPlan {
    /// Environment or service that the plan describes.
    pub(crate) fn target(&self) -> Target {
        Target {
            environment: self.environment.clone(),
            service: self.service.clone(),
        }
    }

    fn format_lines(&self) -> Vec<String> {
        let (env, target) = (&self.environment, self.target());
        let mut lines = Vec::new();
        if self.down {
            let by = if self.expired {
                "expired after its `argus.ttl`"
            } else {
                "removed by a command such as `argus down`"
            };
            lines.push(format!(
                "{env}: {by}; start it again by editing its file or with `argus retry {env}`"
            ));
        } else if self.settled {
            lines.push(format!("{target}: nothing to do"));
        }
        if self.settled {
            return lines;
        }
        lines.push(format!(
            "{target}: {}",
            output::format_count(self.steps.len(), "step")
        ));
        lines.extend(self.steps.iter().map(|step| {
            let verb = output::green(step.verb);
            format!("  {verb} {} ({})", step.text, step.why)
        }));
        lines.extend(self.waits.iter().map(|wait| {
            let word = output::yellow("waiting");
            format!("  {word} {}: {}", wait.text, wait.waiting_on.message)
        }));
        lines
    }

    /// Truncates steps and waits to `most` entries each, and counts the omitted ones.
    pub(crate) fn truncate(mut self, most: usize) -> Self {
        let more = |all: usize| Some(all.saturating_sub(most)).filter(|more| *more > 0);
        self.more_steps = more(self.steps.len());
        self.more_waits = more(self.waits.len());
        self.steps.truncate(most);
        self.waits.truncate(most);
        self
    }
}

fn convert_forecast(target: Target, forecast: &Forecast) -> EnvironmentPlan {
    let Forecast {
        plan,
        steps,
        down,
        expired,
        secrets,
        ..
    } = forecast;
    let subject = |subject: &Subject| secrets.redacted_json(json!(subject), &["kind"]);
    let name = |subject: &Subject| secrets.redacted(&subject.to_string());
    let is_now = |it: &action::Step| {
        let mut now = plan.steps.iter();
        now.any(|now| now.subject == it.subject && now.cause == it.cause)
    };
    let step = |it: &action::Step| PlannedStep {
        subject: subject(&it.subject),
        text: name(&it.subject),
        verb: it.action.verb(),
        cause: json!(it.cause),
        why: it.cause.to_string(),
        now: is_now(it),
    };
    let wait = |wait: &wait::Wait| {
        let mut on = describe_wait(&wait.on);
        on.message = secrets.redacted(&on.message);
        PlannedWait {
            subject: subject(&wait.subject),
            text: name(&wait.subject),
            waiting_on: on,
        }
    };
    EnvironmentPlan {
        environment: target.environment,
        service: target.service,
        revision: plan.revision.as_ref().map(ToString::to_string),
        down: *down,
        expired: *expired,
        settled: steps.is_empty() && plan.is_settled(),
        steps: steps.iter().map(step).collect(),
        more_steps: None,
        waits: plan.waits.iter().map(wait).collect(),
        more_waits: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_environment_is_marked() {
        let text = |expired| {
            let forecast = Forecast {
                down: true,
                expired,
                ..Forecast::default()
            };
            let report = PlanReport {
                environments: vec![convert_forecast(Target::environment("shop"), &forecast)],
                rejected: false,
            };
            report.format_text()
        };
        assert_eq!(
            text(false),
            "shop: removed by a command such as `argus down`; start it again by editing its file or with `argus retry shop`\n"
        );
        assert_eq!(
            text(true),
            "shop: expired after its `argus.ttl`; start it again by editing its file or with `argus retry shop`\n"
        );
    }
}
