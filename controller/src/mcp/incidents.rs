//! `argus_incidents`: what was found after runs of the controller that did not end well.

use argus_crds::incident::Incident;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::incidents;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Incidents that are told at once.
const MOST: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Incidents {
    /// One of them, whole, by its id or the beginning of it; the newest in a line each without
    id: Option<String>,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentsOutput {
    /// The newest first, in a line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Row>>,
    /// How many older ones there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// All of one, as `argus schema incident` describes it.
    #[serde(flatten)]
    // Its schema is published already.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    incident: Option<Incident>,
}

/// One in a line.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    /// When it was settled (RFC 3339).
    at: String,
    /// When the run that died was heard of last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heard: Option<String>,
    /// Acts that it had begun and not ended.
    open_intents: usize,
    /// Containers that it left and that go on.
    adopted: usize,
    /// Files of the state directory that could not be used.
    set_aside: usize,
}

impl Tool for Incidents {
    const NAME: &'static str = "argus_incidents";
    const TITLE: &'static str = "How the controller recovered";
    const ABOUT: &'static str = "Lists what was found when the controller started after a run that was killed or crashed: the acts that \
were under way and how each was settled, the containers that were gone on with, damaged files. Call it when the controller restarted \
under you, or a service was touched that nobody asked for.";
    const EFFECT: Effect = Effect::Looks;
    type Output = IncidentsOutput;

    async fn call(self, call: Call) -> Result<Output<IncidentsOutput>, Failure> {
        call.client.read(move |client| self.told(client)).await
    }
}

impl Incidents {
    fn told(&self, client: &ControllerClient) -> Result<Output<IncidentsOutput>, Failure> {
        let mut all = incidents::read(client.state())?;
        if let Some(id) = &self.id {
            let one = incidents::chosen(all, id)?;
            let text = incidents::told(&one);
            let told = IncidentsOutput {
                items: None,
                more: None,
                incident: Some(one),
            };
            return Ok(Output::new(told, text));
        }
        all.reverse();
        let more = all.len().saturating_sub(MOST);
        let rows: Vec<Row> = all.iter().take(MOST).map(Row::of).collect();
        let mut text: String = rows.iter().map(Row::line).collect();
        if rows.is_empty() {
            "no incidents: every run ended well\n".clone_into(&mut text);
        }
        let newest = rows.first().map(|row| {
            let id = json!({ "id": row.id });
            NextStep::new("all of the newest", Self::NAME, id)
        });
        let told = IncidentsOutput {
            items: Some(rows),
            more: (more > 0).then_some(more),
            incident: None,
        };
        let said = Output::new(told, text);
        Ok(match newest {
            Some(newest) => said.then(newest),
            None => said,
        })
    }
}

impl Row {
    fn of(incident: &Incident) -> Self {
        Self {
            id: incident.id.clone(),
            at: incident.at.clone(),
            last_heard: incident.last_seen.clone(),
            open_intents: incident.open_intents.len(),
            adopted: incident.adopted.len(),
            set_aside: incident.set_aside.len(),
        }
    }

    fn line(&self) -> String {
        format!(
            "{} {}: {} open, {} adopted, {} set aside\n",
            self.id, self.at, self.open_intents, self.adopted, self.set_aside
        )
    }
}
