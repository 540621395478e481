//! `argus describe`: all details of one environment, for people.

use std::fmt::Write as _;

use argus_crds::error::StructuredError;
use argus_crds::status::{EnvironmentStatus, ServiceStatus, Truth};
use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::call_trace;
use crate::cli::notes;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::status_text;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Environment name
    environment: String,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Describe {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        notes::note_if_not_running(&state);
        let status = call_trace::add_calls_to_status(status::find_environment(&state, &self.environment)?);
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&status)?,
            Format::Yaml => output::print_yaml(&status)?,
            Format::Name => output::print(&format!("{}\n", status.environment))?,
            Format::Table | Format::Wide => output::print(&table::format_prose(
                &format_environment(&status),
                output::terminal_width(),
            ))?,
        }
        Ok(Exit::Done)
    }
}

fn format_environment(status: &EnvironmentStatus) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{:<18}{value}", format!("{name}:"));
        }
    };
    field("Name", &status.environment);
    field("Project", &status.project);
    field("Phase", &output::format_phase(status.phase));
    field("Waits for", &status_text::format_waits(status));
    field("Spec", &status.spec_path);
    field("Revision", status.revision.as_deref().unwrap_or_default());
    field(
        "Observed",
        status.observed_revision.as_deref().unwrap_or_default(),
    );
    field(
        "Last good",
        status.last_good_revision.as_deref().unwrap_or_default(),
    );
    field("Mode", &format!("{:?}", status.mode));
    field(
        "As of",
        &format!("{}{}", status.as_of, if status.stale { " (stale)" } else { "" }),
    );
    let claims = status.tests.iter().map(status_text::format_running_test);
    let claims = claims.chain(status.holds.iter().map(status_text::format_hold));
    add_section(&mut text, "Used by", &output::join_lines(claims));
    add_section(&mut text, "Conditions", &format_conditions(status));
    add_section(&mut text, "Services", &format_services(&status.services));
    add_section(&mut text, "Ports", &format_ports(status));
    let diagnostics = status
        .diagnostics
        .iter()
        .filter(|diagnostic| !diagnostic.is_error());
    let notes = output::join_lines(
        diagnostics
            .map(|diagnostic| &diagnostic.message)
            .chain(&status.notes),
    );
    add_section(&mut text, "Notes", &notes);
    add_section(
        &mut text,
        "Errors",
        &status.errors.iter().map(format_error).collect::<String>(),
    );
    text
}

/// Columns of the terminal inside an indented section.
fn inner_width() -> Option<usize> {
    output::terminal_width().map(|width| width.saturating_sub(2))
}

fn add_section(text: &mut String, name: &str, body: &str) {
    if body.is_empty() {
        return;
    }
    let _ = writeln!(text, "{name}:");
    for line in body.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn format_conditions(status: &EnvironmentStatus) -> String {
    let row = |condition: &argus_crds::status::Condition| {
        let bad = condition.status != Truth::True;
        let good_when_false = matches!(condition.kind.as_str(), "Progressing" | "Degraded" | "Blocked");
        let word = output::format_truth(condition.status);
        vec![
            condition.kind.clone(),
            if bad == good_when_false {
                word
            } else {
                output::yellow(word)
            },
            condition.reason.clone(),
            status::truncate_to_second(&condition.last_transition_time),
            condition.message.clone(),
        ]
    };
    let rows: Vec<_> = status.conditions.iter().map(row).collect();
    table::format_table(
        &["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"],
        &rows,
        inner_width(),
    )
}

fn format_services(services: &[ServiceStatus]) -> String {
    if services.is_empty() {
        return String::new();
    }
    let row = |row: &ServiceStatus| {
        vec![
            row.name.clone(),
            output::format_state(row.state),
            output::format_health(row.health),
            row.restarts.to_string(),
            row.image.clone().unwrap_or_default(),
            row.container_id
                .as_deref()
                .unwrap_or_default()
                .chars()
                .take(12)
                .collect(),
            row.waiting_on
                .as_ref()
                .map(|on| on.message.clone())
                .unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = services.iter().map(row).collect();
    table::format_table(
        &[
            "NAME",
            "STATE",
            "HEALTH",
            "RESTARTS",
            "IMAGE",
            "CONTAINER",
            "WAITS FOR",
        ],
        &rows,
        inner_width(),
    )
}

fn format_ports(status: &EnvironmentStatus) -> String {
    let row = |mapping: &argus_crds::status::PortMapping| {
        format!(
            "{}: {}\n",
            mapping.service,
            status_text::format_ports(std::slice::from_ref(mapping))
        )
    };
    status.port_mappings.iter().map(row).collect()
}

fn format_error(error: &StructuredError) -> String {
    let of = error
        .service
        .as_ref()
        .map_or_else(String::new, |service| format!("{service}: "));
    let mut text = format!("{} {of}{}\n", output::red(error.code), error.message);
    if let Some(at) = &error.timestamp {
        let _ = writeln!(text, "  at: {at}");
    }
    let detail = |name: &str| error.details.get(name).and_then(serde_json::Value::as_str);
    let (hint, log) = (detail("hint"), detail("log"));
    for line in log.into_iter().flat_map(str::lines) {
        let _ = writeln!(text, "  | {line}");
    }
    for hint in hint
        .map(str::to_owned)
        .into_iter()
        .chain(output::format_hints(error))
    {
        let _ = writeln!(text, "  {} {hint}", output::cyan("hint:"));
    }
    for call in &error.debug {
        let _ = writeln!(
            text,
            "  {} {}",
            output::cyan("called:"),
            call_trace::format_call(call)
        );
    }
    text
}
