//! `argus describe`: all details of one environment, for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use argus_core::failed_run::{self, REPORTED_LINES};
use argus_crds::error::StructuredError;
use argus_crds::status::{Condition, EnvironmentStatus, ServiceStatus, Truth};
use clap::Args;

use super::get::SERVICES;
use super::target::Target;
use super::{call, events, notes};
use crate::api::environments::GetEnvironment;
use crate::api::target::select_service;
use crate::local_state::call_trace;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::run_summary;
use crate::render::status_text;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

/// Number of events at the end.
const NEWEST_EVENTS: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct Describe {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    output: OutputArgs,
}

impl Describe {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let state = context.client.state();
        let (environment, service) = self.target.resolve(state)?;
        notes::note_if_not_running(state);
        let target = match &service {
            Some(service) => format!("{environment}/{service}"),
            None => environment.clone(),
        };
        let status = call::run(&context, &GetEnvironment { environment })?;
        let status = select_service(status, service.as_deref())?;
        let events = if self.output.is_text() {
            events::format_newest(state, target.clone(), NEWEST_EVENTS, inner_width())?
        } else {
            String::new()
        };
        self.output.print(&status, [target], || {
            let mut text = format_environment(&status);
            add_section(&mut text, "Events", &events);
            table::format_prose(&text, output::terminal_width())
        })?;
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
    let results = status.test_results.iter().map(status_text::format_suite);
    add_section(&mut text, "Tests", &output::join_lines(results));
    add_section(
        &mut text,
        "Conditions",
        &table::format_columns(CONDITIONS, &status.conditions, inner_width()),
    );
    add_section(&mut text, "Services", &format_services(status));
    add_section(&mut text, "Host", &format_host(status));
    add_section(&mut text, "Memory", &format_memory(status));
    add_section(&mut text, "Ports", &format_ports(status));
    let diagnostics = status
        .diagnostics
        .iter()
        .filter(|diagnostic| !diagnostic.is_error());
    let notes = diagnostics.map(|diagnostic| &diagnostic.message);
    let mut known = BTreeSet::new();
    let notes = notes.chain(&status.notes).filter(|note| known.insert(*note));
    let notes = output::join_lines(notes);
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

const CONDITIONS: &[Column<Condition>] = &[
    ("TYPE", |condition| condition.kind.clone()),
    ("STATUS", |condition| {
        let bad = condition.status != Truth::True;
        let good_when_false = matches!(condition.kind.as_str(), "Progressing" | "Degraded" | "Blocked");
        let word = output::format_truth(condition.status);
        if bad == good_when_false {
            word
        } else {
            output::yellow(word)
        }
    }),
    ("REASON", |condition| condition.reason.clone()),
    ("SINCE", |condition| {
        status::truncate_to_second(&condition.last_transition_time)
    }),
    ("MESSAGE", |condition| condition.message.clone()),
];

fn format_services(status: &EnvironmentStatus) -> String {
    if status.services.is_empty() {
        return String::new();
    }
    let [name, state, health, restarts, _, waits, image, container] = SERVICES;
    let columns = [("NAME", name.1), state, health, restarts, image, container, waits];
    table::format_columns(&columns, &status.services, inner_width())
}

/// One line per service whose failed health check does not count yet.
fn format_host(status: &EnvironmentStatus) -> String {
    let line = |row: &ServiceStatus| {
        let percent = row.host_pressure?;
        let text = format!(
            "health check fails, and tasks on this host wait {percent} % of the time: two more failures decide"
        );
        Some(format!("{}: {}\n", row.name, output::yellow(text)))
    };
    status.services.iter().filter_map(line).collect()
}

/// One line per service whose memory use is near its limit.
fn format_memory(status: &EnvironmentStatus) -> String {
    let line = |row: &ServiceStatus| {
        let high = row.memory_warning.as_ref()?;
        let share = run_summary::format_share(high.used_bytes, high.limit_bytes);
        let text = format!("uses {share}, since {}", high.since);
        Some(format!("{}: {}\n", row.name, output::yellow(text)))
    };
    status.services.iter().filter_map(line).collect()
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
    for line in last_lines(error) {
        let _ = writeln!(text, "  | {line}");
    }
    for hint in hint
        .map(str::to_owned)
        .into_iter()
        .chain(output::format_hints(error))
    {
        let _ = writeln!(text, "  {}", output::format_hint(hint));
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

/// Last lines of the container's stderr.
fn last_lines(error: &StructuredError) -> Vec<String> {
    let tail = error.stderr_tail.as_deref().unwrap_or_default();
    failed_run::last_lines(tail.lines(), REPORTED_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_pressure_of_a_failing_check_is_described() {
        let row = |name: &str, host_pressure| ServiceStatus {
            name: name.to_owned(),
            host_pressure,
            ..ServiceStatus::default()
        };
        let status = EnvironmentStatus {
            services: vec![row("db", None), row("web", Some(81))],
            ..EnvironmentStatus::default()
        };
        let text = output::yellow(
            "health check fails, and tasks on this host wait 81 % of the time: two more failures decide",
        );
        let described = format_environment(&status);
        assert!(
            described.contains(&format!("Host:\n  web: {text}\n")),
            "{described}"
        );
        let calm = EnvironmentStatus {
            services: vec![row("db", None)],
            ..EnvironmentStatus::default()
        };
        assert_eq!(format_host(&calm), "");
    }
}
