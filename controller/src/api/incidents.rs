//! Recovery reports of controller runs without a clean stop.

pub(crate) mod reports;

use argus_crds::incident::Incident;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::process::exit::Failure;

/// Maximum number of listed incidents in a summary.
const MAX_INCIDENTS: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Incidents {
    /// Id of an incident, or a prefix of it, for the complete report [default: list the newest]
    pub(crate) id: Option<String>,
}

/// All reports, or one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum IncidentReports {
    /// The requested report.
    One(Box<Incident>),
    /// All reports.
    All {
        /// Reports, oldest first.
        items: Vec<Incident>,
    },
}

/// A list of incidents, or one report.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IncidentsSummary {
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
    incident: Option<Box<Incident>>,
}

/// Summary of an incident.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    pub(crate) id: String,
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

impl Operation for Incidents {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/incidents",
            "recovery reports of controller runs without a clean stop",
        )
        .without(&["id"]),
        Route::get(
            "/api/v1/incidents/{id}",
            "one recovery report, by its id or a prefix of it",
        ),
    ];
    type Output = IncidentReports;

    async fn run(&self, context: &Context) -> Result<IncidentReports, Failure> {
        let id = self.id.clone();
        let read = context.client.run_blocking(move |client| {
            let all = reports::read_incidents(client.state())?;
            Ok(match id {
                Some(id) => IncidentReports::One(Box::new(reports::find_incident(all, &id)?)),
                None => IncidentReports::All { items: all },
            })
        });
        read.await
    }
}

impl Tool for Incidents {
    const NAME: &'static str = "argus_incidents";
    const TITLE: &'static str = "Recovery reports";
    const ABOUT: &'static str = "Lists recovery reports of controller runs that were killed or crashed: unfinished actions with their outcomes, adopted \
containers and damaged files. Call it after a restart of the controller.";
    type Data = IncidentsSummary;

    async fn summarize(&self, output: IncidentReports, _context: &Context) -> Summary<IncidentsSummary> {
        let all = match output {
            IncidentReports::All { items } => items,
            IncidentReports::One(incident) => {
                let text = reports::format_incident(&incident);
                let data = IncidentsSummary {
                    items: None,
                    more: None,
                    incident: Some(incident),
                };
                return Summary::new(data, text);
            }
        };
        let more = all.len().saturating_sub(MAX_INCIDENTS);
        let rows: Vec<Row> = all
            .iter()
            .rev()
            .take(MAX_INCIDENTS)
            .map(Row::from_incident)
            .collect();
        let mut text: String = rows.iter().map(Row::format_line).collect();
        if rows.is_empty() {
            "no incidents: every run stopped cleanly\n".clone_into(&mut text);
        }
        let newest = rows.first().map(|row| {
            let id = json!({ "id": row.id });
            NextStep::new("the newest report in full", Self::NAME, id)
        });
        let data = IncidentsSummary {
            items: Some(rows),
            more: (more > 0).then_some(more),
            incident: None,
        };
        Summary {
            data,
            text,
            next: newest.into_iter().collect(),
        }
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
