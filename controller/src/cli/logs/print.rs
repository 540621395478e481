//! Output of log lines: as the containers wrote them, or as documents.

use std::collections::BTreeSet;

use argus_backend::{LogLine, LogQuery};
use argus_core::outcome::ActionError;
use argus_docker::Docker;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use serde_json::json;

use crate::api::logs::sources::{LogEntry, LogSource, LogsResponse, Sources};
use crate::api::logs::time_range::TimeRange;
use crate::engine;
use crate::process::exit::Failure;
use crate::render::foreign_text;
use crate::render::output;
use crate::render::output::Format;

/// Result of printing the logs of containers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Printed {
    All,
    /// A container no longer existed, and nothing was printed.
    ContainerReplaced,
}

/// Prints the lines of all containers as they arrive.
pub(super) async fn print_sources(
    docker: &Docker,
    sources: &Sources,
    query: &LogQuery,
    range: TimeRange,
) -> Result<Printed, Failure> {
    let width = sources.all.iter().map(|(name, _)| name.len()).max();
    let width = width.filter(|_| sources.all.len() > 1);
    let stream = |(name, id): &LogSource| -> BoxStream<'static, (String, Result<LogLine, ActionError>)> {
        let name = name.clone();
        let lines = range.read(docker, id, query);
        lines.map(move |line| (name.clone(), line)).boxed()
    };
    let mut lines = select_all(sources.all.iter().map(stream));
    let mut streams = BTreeSet::new();
    while let Some((name, line)) = lines.next().await {
        let line = match line {
            Ok(line) => {
                let is_first = streams.insert((name.clone(), line.stderr));
                sources.redact(line, is_first)
            }
            Err(ActionError::Gone) if streams.is_empty() => return Ok(Printed::ContainerReplaced),
            Err(error) => return Err(engine::engine_failure("cannot read logs", &error)),
        };
        print_line(&name, width, line, None)?;
    }
    Ok(Printed::All)
}

/// Prints a line as it is, as a document, or after the name of its container in a column of a width.
pub(super) fn print_line(
    name: &str,
    width: Option<usize>,
    line: LogLine,
    format: Option<Format>,
) -> Result<(), Failure> {
    if format.is_some() {
        return print_entry(&LogEntry::new(name, line));
    }
    let prefix = width.map(|width| format!("{name:width$} | "));
    print(&prefix.unwrap_or_default(), line.stderr, &line.text)
}

/// Returns true for formats that wrap each line. All others print the lines as the containers wrote them.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "`Option::filter` passes a reference"
)]
pub(super) fn is_for_programs(format: &Format) -> bool {
    match format {
        Format::Json | Format::Yaml => true,
        Format::Table | Format::Wide | Format::Name => false,
    }
}

/// Prints a line to the stream on which the container wrote it.
pub(super) fn print(prefix: &str, stderr: bool, text: &str) -> Result<(), Failure> {
    let text = format!("{prefix}{text}");
    if stderr {
        output::print_note(&text);
        return Ok(());
    }
    output::print(&format!("{text}\n"))
}

/// Prints a line as a document of its own.
pub(super) fn print_entry(line: &LogEntry) -> Result<(), Failure> {
    output::print(&foreign_text::escape_json(&format!("{}\n", json!(line))))
}

/// Prints the logs in a format for programs.
pub(super) fn print_document(logs: &LogsResponse, format: Format) -> Result<(), Failure> {
    match format {
        Format::Yaml => output::print_yaml(logs),
        Format::Json | Format::Table | Format::Wide | Format::Name => output::print_json(logs),
    }
}
