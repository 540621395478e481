//! Tool `argus_incidents`: recovery reports of controller runs without a clean stop.

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

/// Maximum number of listed incidents.
const MAX_INCIDENTS: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Incidents {
    /// Id of an incident, or a prefix of it, for the complete report [default: list the newest]
    id: Option<String>,
}

/// A list of incidents, or one report.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentsOutput {
    /// Incidents, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Row>>,
    /// Number of older incidents.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// The complete report, as described by `argus schema incident`.
    #[serde(flatten)]
    // The schema is already published.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    incident: Option<Incident>,
}

/// Summary of an incident.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    /// Time of the recovery (RFC 3339).
    at: String,
    /// Time of the last sign of life of the dead run.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<String>,
    /// Number of unfinished actions of the dead run.
    open_intents: usize,
    /// Number of adopted containers.
    adopted: usize,
    /// Number of unusable state files.
    quarantined: usize,
}

impl Tool for Incidents {
    const NAME: &'static str = "argus_incidents";
    const TITLE: &'static str = "Recovery reports";
    const ABOUT: &'static str = "Lists recovery reports: the controller writes one when it starts after a killed or crashed run. A report has \
the unfinished actions with their outcomes, the adopted containers and the damaged files. Call it after a restart of the controller, \
or after an unexpected change of a service.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = IncidentsOutput;

    async fn call(self, call: Call) -> Result<Output<IncidentsOutput>, Failure> {
        call.client.run_blocking(move |client| self.load(client)).await
    }
}

impl Incidents {
    fn load(&self, client: &ControllerClient) -> Result<Output<IncidentsOutput>, Failure> {
        let mut all = incidents::read_incidents(client.state())?;
        if let Some(id) = &self.id {
            let one = incidents::find_incident(all, id)?;
            let text = incidents::format_incident(&one);
            let output = IncidentsOutput {
                items: None,
                more: None,
                incident: Some(one),
            };
            return Ok(Output::new(output, text));
        }
        all.reverse();
        let more = all.len().saturating_sub(MAX_INCIDENTS);
        let rows: Vec<Row> = all.iter().take(MAX_INCIDENTS).map(Row::from_incident).collect();
        let mut text: String = rows.iter().map(Row::format_line).collect();
        if rows.is_empty() {
            "no incidents: every run stopped cleanly\n".clone_into(&mut text);
        }
        let newest = rows.first().map(|row| {
            let id = json!({ "id": row.id });
            NextStep::new("the newest report in full", Self::NAME, id)
        });
        let output = IncidentsOutput {
            items: Some(rows),
            more: (more > 0).then_some(more),
            incident: None,
        };
        let output = Output::new(output, text);
        Ok(match newest {
            Some(newest) => output.with_next(newest),
            None => output,
        })
    }
}

impl Row {
    fn from_incident(incident: &Incident) -> Self {
        Self {
            id: incident.id.clone(),
            at: incident.at.clone(),
            last_seen: incident.last_seen.clone(),
            open_intents: incident.open_intents.len(),
            adopted: incident.adopted.len(),
            quarantined: incident.quarantined.len(),
        }
    }

    fn format_line(&self) -> String {
        format!(
            "{} {}: {} open, {} adopted, {} quarantined\n",
            self.id, self.at, self.open_intents, self.adopted, self.quarantined
        )
    }
}
