//! `argus incidents`: lists the reports that the controller writes after an unclean stop.

use argus_crds::incident::Incident;
use clap::Args;

use super::call;
use crate::api::incidents;
use crate::api::incidents::IncidentReports;
use crate::api::incidents::reports::format_incident;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::settings::{Options, SpecOptions};
use crate::table;
use crate::table::Column;

const INCIDENTS: &[Column<Incident>] = &[
    ("ID", |incident| incident.id.clone()),
    ("AT", |incident| incident.at.clone()),
    ("LAST SEEN", |incident| {
        incident.last_seen.clone().unwrap_or_default()
    }),
    ("OPEN", |incident| incident.open_intents.len().to_string()),
    ("ADOPTED", |incident| incident.adopted.len().to_string()),
    ("QUARANTINED", |incident| incident.quarantined.len().to_string()),
];

#[derive(Debug, Args)]
pub(crate) struct Incidents {
    /// ID of an incident, or a prefix of it [default: all]
    id: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Incidents {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let found = call::run(&context, &incidents::Incidents { id: self.id })?;
        let incidents = match &found {
            IncidentReports::One(incident) => std::slice::from_ref(&**incident),
            IncidentReports::All { items } => items,
        };
        let names = incidents.iter().map(|incident| &incident.id);
        self.output.print(&found, names, || match &found {
            IncidentReports::One(incident) => format_incident(incident),
            IncidentReports::All { items } => format_list(items),
        })?;
        Ok(Exit::Done)
    }
}

fn format_list(all: &[Incident]) -> String {
    if all.is_empty() {
        output::print_note("no incidents");
        return String::new();
    }
    table::format_columns(INCIDENTS, all, output::terminal_width())
}
