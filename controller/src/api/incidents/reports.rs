//! Incident reports of a state directory.

use std::fmt::Write;

use argus_crds::error::Reason;
use argus_crds::incident::{Incident, OpenIntent};
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::state_file;

use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::table;
use crate::render::table::Column;

const INTENTS: &[Column<OpenIntent>] = &[
    ("AT", |open| open.at.clone()),
    ("ACTION", |open| open.verb.clone()),
    ("SUBJECT", |open| open.subject.clone()),
    ("RESOLUTION", |open| open.resolution.clone()),
    ("REASON", |open| open.how.clone()),
];

/// Reads all incidents, oldest first. Files that are not incidents are ignored.
pub(crate) fn read_incidents(state: &StateDir) -> Result<Vec<Incident>, Failure> {
    let folder = state.incidents();
    let names = status::list_folder(&folder).map_err(|error| status::unreadable_failure(&folder, &error))?;
    let read = |name: &String| {
        let path = folder.join(name);
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let bytes = is_json.then(|| state_file::read(&path, state_file::MAX_BYTES).ok())??;
        serde_json::from_slice(&bytes).ok()
    };
    let mut all: Vec<Incident> = names.iter().filter_map(read).collect();
    all.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(all)
}

/// Returns the incident whose id begins with `id`. It is an error if there is none, or more than one.
pub(crate) fn find_incident(mut all: Vec<Incident>, id: &str) -> Result<Incident, Failure> {
    all.retain(|incident| incident.id.starts_with(id));
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (found, more) => {
            let message = match found {
                None => format!("no incident `{id}`"),
                Some(_) => format!("{} incidents begin with `{id}`", more + 1),
            };
            Err(Failure::with_reason(Reason::NotFound, message)
                .with_exit(Exit::Unexpected)
                .with_hint("list all incidents with `argus incidents`"))
        }
    }
}

/// Text of an incident for people.
pub(crate) fn format_incident(incident: &Incident) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _always = writeln!(text, "{name:<15}{value}");
    };
    line("incident", &incident.id);
    line("at", &incident.at);
    line(
        "previous run",
        if incident.clean {
            "ended cleanly"
        } else {
            "crashed"
        },
    );
    if let (Some(died), Some(at)) = (&incident.died, &incident.last_seen) {
        line("last seen", &format!("{at} (run {died})"));
    }
    let journal = &incident.journal;
    let found = format!(
        "{} records, {} damaged, {} of a newer version, {} incomplete bytes",
        journal.records, journal.damaged, journal.newer, journal.torn
    );
    line("journal", &found);
    for file in &incident.quarantined {
        let to = file.to.as_deref().unwrap_or("could not be moved");
        line("quarantined", &format!("{}: {} -> {to}", file.path, file.why));
    }
    for (service, restarts) in &incident.restarts {
        line("restarts", &format!("{service}: {restarts}"));
    }
    for adopted in &incident.adopted {
        let of = format!("{}/{}", adopted.environment, adopted.service);
        line(
            "adopted",
            &format!("{of}: `{}` is {}", adopted.container, adopted.state),
        );
    }
    if incident.open_intents.is_empty() {
        line("open intents", "none");
        return text;
    }
    text.push('\n');
    text.push_str(&table::format_columns(
        INTENTS,
        &incident.open_intents,
        output::terminal_width(),
    ));
    text
}
