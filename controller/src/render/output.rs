//! Output: data on stdout, everything else on stderr.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use argus_core::quoting::escape_line;
use argus_crds::error::{Remedy, StructuredError};
use argus_crds::status::{Health, Phase, ServiceState, Truth};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::local_state::call_trace;
use crate::process::exit::{Exit, Failure, add_context};
use crate::render::ci_system::CiSystem;
use crate::render::foreign_text;
use crate::spec_files;

/// Units of durations, in seconds.
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Format of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table
    Table,
    /// Table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only names
    Name,
}

/// Argument of commands that print the output of an operation.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct OutputArgs {
    /// Output format [default: table]
    #[arg(id = "output", short, long = "output", value_name = "OUTPUT", value_enum)]
    pub(crate) format: Option<Format>,
}

impl OutputArgs {
    /// Returns true if people read the output.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.format, None | Some(Format::Table | Format::Wide))
    }

    /// Returns true if the table has all columns.
    pub(crate) fn is_wide(self) -> bool {
        self.format == Some(Format::Wide)
    }

    /// Writes the output of an operation to stdout: as it is in JSON and YAML, else its names or its text.
    pub(crate) fn print<T: Serialize, N: Display>(
        self,
        output: &T,
        names: impl IntoIterator<Item = N>,
        format_text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Some(Format::Json) => print_json(output),
            Some(Format::Yaml) => print_yaml(output),
            Some(Format::Name) => {
                let names = names.into_iter();
                print(&join_lines(
                    names.map(|name| escape_line(&name.to_string()).into_owned()),
                ))
            }
            Some(Format::Table | Format::Wide) | None => print(&format_text()),
        }
    }
}

/// Returns the CI system that reads the output of this process.
pub(crate) fn ci_system() -> &'static CiSystem {
    static SYSTEM: OnceLock<CiSystem> = OnceLock::new();
    SYSTEM.get_or_init(|| CiSystem::detect(&spec_files::read_process_env()))
}

/// Writes data to stdout; on a terminal, control characters are escaped, and a CI system reads no commands. A closed pipe is [`Failure::BrokenPipe`], which ends a command successfully.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let text = prepare(text, io::stdout().is_terminal());
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::operation_failed("cannot write to stdout", &error),
    })
}

/// Writes a value as JSON to stdout.
pub(crate) fn print_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let unwritten = |error| Failure::operation_failed("cannot write JSON", &error);
    let value = serde_json::to_value(value).map_err(unwritten)?;
    let text = serde_json::to_string_pretty(&value).map_err(unwritten)?;
    print(&format!("{}\n", foreign_text::escape_json(&text)))
}

/// Writes a value as YAML to stdout. If a CI system would read commands from it, it is JSON, which is YAML with escapes.
pub(crate) fn print_yaml<T: Serialize>(value: &T) -> Result<(), Failure> {
    let unwritten = |error: &dyn std::error::Error| Failure::operation_failed("cannot write YAML", error);
    let tree = serde_json::to_value(value).map_err(|error| unwritten(&error))?;
    let text = argus_crds::yaml::to_yaml(&tree).map_err(|error| unwritten(&error))?;
    if ci_system().protect(&text) != text {
        return print_json(value);
    }
    print(&text)
}

/// Text for an output of this process.
fn prepare(text: &str, is_terminal: bool) -> Cow<'_, str> {
    match ci_system() {
        CiSystem::Other => escape_on_terminal(text, is_terminal),
        system => Cow::Owned(system.protect(text)),
    }
}

fn escape_on_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal {
        Cow::Owned(foreign_text::escape_for_terminal(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes a line to stderr; on a terminal, control characters are escaped, and a CI system reads no commands.
pub(crate) fn print_note(text: &str) {
    let text = prepare(text, io::stderr().is_terminal());
    // A closed stderr is ignored.
    drop(writeln!(anstream::stderr().lock(), "{text}"));
}

/// Prints a failure to stderr and returns its exit code.
pub(crate) fn print_failure(failure: Failure, as_json: bool) -> Exit {
    let (error, exit, hint) = match failure {
        Failure::BrokenPipe => return Exit::Done,
        Failure::Error { exit, .. } if as_json => {
            print_note(&failure_to_json(failure));
            return exit;
        }
        Failure::Error { error, exit, hint } => (add_context(*error), exit, hint),
    };
    print_note(&format!("{} {}", red("error:"), error.message));
    for warning in list_warnings(&error) {
        print_note(&format!("warning: {warning}"));
    }
    for hint in hint.into_iter().chain(format_hints(&error)).take(3) {
        print_note(&format_hint(hint));
    }
    for call in &error.debug {
        print_note(&format!("{} {}", cyan("called:"), call_trace::format_call(call)));
    }
    exit
}

/// Warnings about the spec file in the details of an error.
pub(crate) fn list_warnings(error: &StructuredError) -> impl Iterator<Item = &str> {
    let warnings = error.details.get("warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str)
}

/// JSON text of a failure: a [`StructuredError`] with its call trace.
pub(crate) fn failure_to_json(failure: Failure) -> String {
    let error = failure.into_error();
    let text = serde_json::to_string_pretty(&error);
    text.map_or_else(|_| error.to_string(), |text| foreign_text::escape_json(&text))
}

/// Hints of an error: its remedies in words, with their commands.
pub(crate) fn format_hints(error: &StructuredError) -> Vec<String> {
    format_remedies(&error.remedies)
}

/// Remedies in words, with their commands.
pub(crate) fn format_remedies(remedies: &[Remedy]) -> Vec<String> {
    let words = |remedy: &Remedy| match (&remedy.verify, &remedy.command) {
        (Some(verify), Some(command)) => format!("{}, then {verify}: `{command}`", remedy.summary),
        (None, Some(command)) => format!("{}: `{command}`", remedy.summary),
        (_, None) => remedy.summary.clone(),
    };
    remedies.iter().map(words).collect()
}

fn style(colour: AnsiColor, text: impl Display) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

/// Columns of the terminal on stdout. `None` without a terminal: lines may have any length.
pub(crate) fn terminal_width() -> Option<usize> {
    let term = console::Term::stdout();
    // A terminal of unknown size reports 0 columns.
    let columns = term.is_term().then(|| usize::from(term.size().1));
    columns.filter(|columns| *columns > 0)
}

/// Joins items into lines.
pub(crate) fn join_lines<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let lines: Vec<String> = items.into_iter().map(|item| item.to_string() + "\n").collect();
    lines.concat()
}

/// Number with a noun, such as `1 service` or `2 services`.
pub(crate) fn format_count(number: impl Display, thing: &str) -> String {
    let number = number.to_string();
    format!("{number} {thing}{}", if number == "1" { "" } else { "s" })
}

/// Age in its largest unit, such as `2h`.
pub(crate) fn format_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..MINUTE => format!("{seconds}s"),
        seconds @ MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        seconds @ HOUR..DAY => format!("{}h", seconds / HOUR),
        seconds => format!("{}d", seconds / DAY),
    }
}

/// Duration for people. A duration above a day has days and hours.
pub(crate) fn format_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / DAY, seconds % DAY / HOUR);
    match (days, hours) {
        (0, _) => humantime::format_duration(span).to_string(),
        (_, 0) => format!("{days}d"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Error in one line.
pub(crate) fn format_error(error: &StructuredError) -> String {
    red(format!("{}: {}", error.code, error.message))
}

/// Line with a hint.
pub(crate) fn format_hint(hint: impl Display) -> String {
    format!("{} {hint}", cyan("hint:"))
}

/// Styles a text red.
pub(crate) fn red(text: impl Display) -> String {
    style(AnsiColor::Red, text)
}

/// Styles a text cyan.
pub(crate) fn cyan(text: impl Display) -> String {
    style(AnsiColor::Cyan, text)
}

/// Styles a text green.
pub(crate) fn green(text: impl Display) -> String {
    style(AnsiColor::Green, text)
}

/// Styles a text yellow.
pub(crate) fn yellow(text: impl Display) -> String {
    style(AnsiColor::Yellow, text)
}

/// Phase of an environment with its colour.
pub(crate) fn format_phase(phase: Phase) -> String {
    let word = format!("{phase:?}");
    match phase {
        Phase::Ready => green(word),
        Phase::Degraded | Phase::Held | Phase::Terminating => yellow(word),
        Phase::Failed => red(word),
        Phase::Pending | Phase::Progressing => cyan(word),
    }
}

/// State of a service with its colour.
pub(crate) fn format_state(state: ServiceState) -> String {
    let word = format!("{state:?}");
    match state {
        ServiceState::Ready | ServiceState::Completed => green(word),
        ServiceState::Failed => red(word),
        ServiceState::Restarting | ServiceState::Paused | ServiceState::Stopping => yellow(word),
        ServiceState::Unknown
        | ServiceState::Waiting
        | ServiceState::Pulling
        | ServiceState::Building
        | ServiceState::Creating
        | ServiceState::Starting
        | ServiceState::Running => cyan(word),
    }
}

/// Health of a service with its colour.
pub(crate) fn format_health(health: Health) -> String {
    match health {
        Health::Healthy => green("Healthy"),
        Health::Unhealthy => red("Unhealthy"),
        Health::Starting => cyan("Starting"),
        Health::Unknown => "Unknown".to_owned(),
        Health::None => "-".to_owned(),
    }
}

/// Status of a condition.
pub(crate) fn format_truth(truth: Truth) -> String {
    format!("{truth:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_have_no_months() {
        let of = Duration::from_secs;
        for (span, text, age) in [
            (of(0), "0s", "0s"),
            (of(59), "59s", "59s"),
            (of(150), "2m 30s", "2m"),
            (of(2 * HOUR), "2h", "2h"),
            (of(DAY), "1d", "1d"),
            (of(98 * DAY + 3 * HOUR), "98d 3h", "98d"),
        ] {
            assert_eq!(format_span(span), text);
            assert_eq!(format_age(span), age);
        }
    }

    #[test]
    fn terminal_shows_every_colour() {
        for text in [red("a"), cyan("a"), green("a"), yellow("a")] {
            assert_eq!(escape_on_terminal(&text, true), text);
        }
        assert_eq!(escape_on_terminal("\u{1b}[2J", false), "\u{1b}[2J");
    }

    #[test]
    fn hint_about_another_file_has_the_command_of_the_shell() {
        let edit = argus_crds::SpecEdit::new("web/app.conf", "", "it is empty").hint("fill it");
        let error = argus_crds::StructuredError::new(argus_crds::Code::ContainerCrash, "crash")
            .environment("shop")
            .service("web")
            .edit(edit);
        let hint = "fix web/app.conf: fill it (it is empty), then retry: `argus retry shop/web`";
        assert_eq!(format_hints(&error)[0], hint);
    }
}
