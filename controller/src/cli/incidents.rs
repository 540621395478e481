//! `argus incidents`: lists the reports that the controller writes after an unclean stop.

use argus_crds::incident::Incident;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use serde_json::json;

use crate::api::incidents::reports::{find_incident, format_incident, read_incidents};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::table;

const HEAD: &[&str] = &["ID", "AT", "LAST SEEN", "OPEN", "ADOPTED", "QUARANTINED"];

#[derive(Debug, Args)]
pub(crate) struct Incidents {
    /// ID of an incident, or a prefix of it [default: all]
    id: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Incidents {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        let all = read_incidents(&state)?;
        match &self.id {
            None => print_list(&all, self.output)?,
            Some(id) => {
                print_incident(&find_incident(all, id)?, self.output)?;
            }
        }
        Ok(Exit::Done)
    }
}

fn print_list(all: &[Incident], format: Option<Format>) -> Result<(), Failure> {
    match format.unwrap_or(Format::Table) {
        Format::Json => output::print_json(&json!({ "items": all })),
        Format::Yaml => output::print_yaml(&json!({ "items": all })),
        Format::Name => output::print(&output::join_lines(all.iter().map(|incident| &incident.id))),
        Format::Table | Format::Wide if all.is_empty() => {
            output::print_note("no incidents");
            Ok(())
        }
        Format::Table | Format::Wide => {
            let row = |incident: &Incident| {
                vec![
                    incident.id.clone(),
                    incident.at.clone(),
                    incident.last_seen.clone().unwrap_or_default(),
                    incident.open_intents.len().to_string(),
                    incident.adopted.len().to_string(),
                    incident.quarantined.len().to_string(),
                ]
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            output::print(&output::join_lines(table::format_fitted(
                HEAD,
                &rows,
                output::terminal_width(),
            )))
        }
    }
}

fn print_incident(incident: &Incident, format: Option<Format>) -> Result<(), Failure> {
    match format.unwrap_or(Format::Table) {
        Format::Json => output::print_json(incident),
        Format::Yaml => output::print_yaml(incident),
        Format::Name => output::print(&format!("{}\n", incident.id)),
        Format::Table | Format::Wide => output::print(&format_incident(incident)),
    }
}
