//! `argus incidents`: lists the reports that the controller writes after an unclean stop.

use argus_crds::diff::Repair;
use argus_crds::incident::Incident;
use clap::Args;

use super::call;
use crate::api::incidents;
use crate::api::incidents::IncidentReports;
use crate::api::incidents::reports::format_incident;
use crate::api::repairs::{Repairs, format_seen};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

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

const REPAIRS: &[Column<Repair>] = &[
    ("SERVICE", |repair| {
        format!("{}/{}", repair.seen.last_repair.environment, repair.service)
    }),
    ("REPAIRS", |repair| format_seen(&repair.seen)),
];

#[derive(Debug, Args)]
pub(crate) struct Incidents {
    /// ID of an incident, or a prefix of it [default: all]
    id: Option<String>,
    /// List the edits of spec files that ended failures, instead of incidents
    #[arg(long, conflicts_with = "id")]
    repairs: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Incidents {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        if self.repairs {
            let found = call::run(&context, &Repairs {})?;
            let names = found.items.iter().map(|repair| &repair.failure);
            self.output
                .print(&found, names, || format_list(REPAIRS, &found.items, "no repairs"))?;
            return Ok(Exit::Done);
        }
        let found = call::run(&context, &incidents::Incidents { id: self.id })?;
        let incidents = match &found {
            IncidentReports::One(incident) => std::slice::from_ref(&**incident),
            IncidentReports::All { items } => items,
        };
        let names = incidents.iter().map(|incident| &incident.id);
        self.output.print(&found, names, || match &found {
            IncidentReports::One(incident) => format_incident(incident),
            IncidentReports::All { items } => format_list(INCIDENTS, items, "no incidents"),
        })?;
        Ok(Exit::Done)
    }
}

fn format_list<T>(columns: &[Column<T>], all: &[T], none: &str) -> String {
    if all.is_empty() {
        output::print_note(none);
        return String::new();
    }
    table::format_columns(columns, all, output::terminal_width())
}
