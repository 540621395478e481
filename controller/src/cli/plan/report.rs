//! What lies ahead, for programs: the same over every surface.

use argus_core::plan as core;
use argus_core::status::words;
use argus_crds::status::WaitingOn;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Forecast, Forecasts, ahead_of, folder};
use crate::blocking_io;
use crate::cli::status;
use crate::exit::Failure;
use crate::settings::Settings;

/// What lies ahead of environments.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    pub(crate) environments: Vec<EnvironmentPlan>,
}

/// What lies ahead of one environment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentPlan {
    pub(crate) environment: String,
    /// The revision that is planned for.
    pub(crate) revision: Option<String>,
    /// It was taken down, or its `argus.ttl` is over; an edit of its file or a retry brings it back.
    pub(crate) down: bool,
    /// There is nothing to do.
    pub(crate) settled: bool,
    /// What would be done from here to rest, in that order.
    pub(crate) steps: Vec<Step>,
    /// How many more steps there are, where not all are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_steps: Option<usize>,
    /// What cannot be done at this moment, and why.
    pub(crate) waits: Vec<Wait>,
    /// How many more waits there are, where not all are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_waits: Option<usize>,
}

/// One thing that would be done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// To what: its `kind`, and what names it.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) subject: Value,
    /// The same in a word.
    #[serde(skip)]
    pub(crate) text: String,
    /// What is done, in a word.
    pub(crate) verb: &'static str,
    /// Why, for programs: its `cause`, and what belongs to it.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) cause: Value,
    /// Why.
    pub(crate) why: String,
    /// At this moment, and not only when others are done.
    pub(crate) now: bool,
}

/// One thing that waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wait {
    /// What waits: its `kind`, and what names it.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(crate) subject: Value,
    /// The same in a word.
    #[serde(skip)]
    pub(crate) text: String,
    /// Why.
    pub(crate) waiting_on: WaitingOn,
}

/// What a controller would do now, and why; of one environment or of all.
pub(crate) async fn plan_report(settings: &Settings, wanted: Option<&str>) -> Result<PlanReport, Failure> {
    wanted.map(status::named).transpose()?;
    let own = settings.clone();
    let (book, refused) = blocking_io::read(move || folder(&own)).await?;
    let roads: Forecasts = Box::pin(ahead_of(settings, &book, wanted, refused)).await?;
    Ok(told(&roads))
}

/// All of it.
pub(super) fn told(roads: &Forecasts) -> PlanReport {
    let one = |(env, road): (&argus_core::ident::EnvName, &Forecast)| of(env.to_string(), road);
    PlanReport {
        environments: roads.iter().map(one).collect(),
    }
}

impl EnvironmentPlan {
    /// With no more than so many steps and waits; the rest is counted.
    pub(crate) fn cut(mut self, most: usize) -> Self {
        let more = |all: usize| Some(all.saturating_sub(most)).filter(|more| *more > 0);
        self.more_steps = more(self.steps.len());
        self.more_waits = more(self.waits.len());
        self.steps.truncate(most);
        self.waits.truncate(most);
        self
    }
}

fn of(environment: String, road: &Forecast) -> EnvironmentPlan {
    let Forecast {
        plan,
        steps,
        down,
        expired: _,
        secrets,
    } = road;
    let subject = |subject: &core::Subject| secrets.redacted_json(json!(subject), &["kind"]);
    let said = |subject: &core::Subject| secrets.redacted(&subject.to_string());
    let is_now = |it: &core::Step| {
        let mut now = plan.steps.iter();
        now.any(|now| now.subject == it.subject && now.cause == it.cause)
    };
    let step = |it: &core::Step| Step {
        subject: subject(&it.subject),
        text: said(&it.subject),
        verb: it.action.verb(),
        cause: json!(it.cause),
        why: it.cause.to_string(),
        now: is_now(it),
    };
    let wait = |wait: &core::Wait| {
        let mut on = words(&wait.on);
        on.message = secrets.redacted(&on.message);
        Wait {
            subject: subject(&wait.subject),
            text: said(&wait.subject),
            waiting_on: on,
        }
    };
    EnvironmentPlan {
        environment,
        revision: plan.revision.as_ref().map(ToString::to_string),
        down: *down,
        settled: steps.is_empty() && plan.is_settled(),
        steps: steps.iter().map(step).collect(),
        more_steps: None,
        waits: plan.waits.iter().map(wait).collect(),
        more_waits: None,
    }
}
