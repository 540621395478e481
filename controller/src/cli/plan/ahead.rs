//! What lies ahead, in as few words as tell it: for agents, which ask often.

use argus_core::plan as core;
use argus_core::status::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Road, Roads, ahead_of, folder};
use crate::cli::status;
use crate::exit::Failure;
use crate::files;
use crate::settings::Settings;

/// Steps and waits of one environment that are told; the rest is counted.
const MOST: usize = 20;

/// What lies ahead of one environment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ahead {
    pub(crate) environment: String,
    /// There is nothing to do.
    pub(crate) settled: bool,
    /// `argus down` took it down; an edit of its file or a retry brings it back.
    pub(crate) down: bool,
    /// What would be done from here to rest, in that order.
    pub(crate) steps: Vec<Step>,
    /// How many more steps there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_steps: Option<usize>,
    /// What cannot be done at this moment, and why.
    pub(crate) waits: Vec<Wait>,
}

/// One thing that would be done.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// What is done, in a word.
    pub(crate) verb: &'static str,
    /// To what.
    pub(crate) subject: String,
    /// Why.
    pub(crate) why: String,
    /// At this moment, and not only when others are done.
    pub(crate) now: bool,
}

/// One thing that waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wait {
    pub(crate) subject: String,
    /// Why, in a word.
    pub(crate) reason: String,
    /// Why.
    pub(crate) message: String,
}

/// What a controller would do now, and why; of one environment or of all.
pub(crate) async fn ahead(settings: &Settings, wanted: Option<&str>) -> Result<Vec<Ahead>, Failure> {
    wanted.map(status::named).transpose()?;
    let own = settings.clone();
    let (book, refused) = files::read(move || folder(&own)).await?;
    let roads: Roads = Box::pin(ahead_of(settings, &book, wanted, refused)).await?;
    Ok(roads
        .iter()
        .map(|(env, road)| of(env.to_string(), road))
        .collect())
}

fn of(environment: String, road: &Road) -> Ahead {
    let said = |subject: &core::Subject| road.secrets.redacted(&subject.to_string());
    let is_now = |it: &core::Step| {
        let mut now = road.plan.steps.iter();
        now.any(|now| now.subject == it.subject && now.because == it.because)
    };
    let step = |it: &core::Step| Step {
        verb: it.act.verb(),
        subject: said(&it.subject),
        why: it.because.to_string(),
        now: is_now(it),
    };
    let wait = |wait: &core::Wait| {
        let on = words(&wait.on);
        Wait {
            subject: said(&wait.subject),
            reason: on.reason,
            message: road.secrets.redacted(&on.message),
        }
    };
    let more = road.steps.len().saturating_sub(MOST);
    Ahead {
        environment,
        settled: road.steps.is_empty() && road.plan.is_settled(),
        down: road.down,
        steps: road.steps.iter().take(MOST).map(step).collect(),
        more_steps: (more > 0).then_some(more),
        waits: road.plan.waits.iter().take(MOST).map(wait).collect(),
    }
}
