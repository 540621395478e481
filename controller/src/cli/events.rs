//! `argus events`: lists the events of the journal, follows them, and runs a command for them. It needs no controller.

use std::path::Path;
use std::time::Duration;

use argus_core::journal::{EventFilter, Record};
use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;
use argus_reconciler::clock;
use argus_reconciler::journal::Tail;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::state_file;
use clap::Args;
use serde_json::Value;

use crate::api::events::{EventsPage, public_record};
use crate::api::target::parse_target;
use crate::cli::notes;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::foreign_text;
use crate::render::output;
use crate::render::output::{Format, OutputArgs};
use crate::render::table::Columns;
use crate::settings::{Options, Settings, SpecOptions};

mod record_formatter;
mod settled;

use record_formatter::RecordFormatter;
use settled::Changes;

/// Interval of reads of the journal with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Columns of the table. A subject begins with the name of its environment.
const HEAD: &[&str] = &["AT", "EVENT", "SUBJECT", "WHAT"];
const WIDE: &[&str] = &["AT", "ENVIRONMENT", "EVENT", "SUBJECT", "NUMBER", "RUN", "WHAT"];

#[derive(Debug, Default, Args)]
pub(crate) struct Events {
    /// Environment, or ENVIRONMENT/SERVICE [default: all events]
    target: Option<String>,
    /// Wait for further events
    #[arg(short, long)]
    follow: bool,
    /// Command to run in a shell once per settled change; the event is on its stdin
    #[arg(long, value_name = "CMD", conflicts_with_all = ["follow", "since", "tail", "no_headers"])]
    exec: Option<String>,
    /// Only events of the last TIME, such as `10m`
    #[arg(long, value_name = "TIME", value_parser = crate::settings::parse_duration)]
    since: Option<Duration>,
    /// Only events with these names, such as `restart_attempt,error`
    #[arg(long = "type", value_name = "NAME", value_delimiter = ',', value_parser = Record::known_name)]
    types: Vec<&'static str>,
    /// Only events after this sequence number (`last` in JSON)
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Only the last N events before now
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// Omit the header line
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Formats the newest events of an environment or of a service, without a header. There are none without permission to read the journal.
pub(super) fn format_newest(
    state: &StateDir,
    target: String,
    count: usize,
    width: Option<usize>,
) -> Result<String, Failure> {
    let journal = state.journal();
    if check_permission(&journal).is_err() {
        return Ok(String::new());
    }
    let events = Events {
        target: Some(target),
        tail: Some(count),
        ..Events::default()
    };
    let mut tail = Tail::new(journal.clone());
    let (events, _) = events.read_past(&mut tail, &journal, &mut RecordFormatter::default())?;
    let rows: Vec<_> = events.iter().map(|event| format_row(event, false)).collect();
    Ok(output::join_lines(Columns::default().format_rows(&rows, width)))
}

/// A record with its subject and its description. Both may depend on earlier records.
struct Event {
    record: Record,
    subject: String,
    what: String,
}

impl Events {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        if let Some(target) = &self.target {
            parse_target(target, None)?;
        }
        let state = settings.state;
        let journal = state.journal();
        check_permission(&journal)?;
        notes::note_if_not_running(&state);
        let (mut tail, mut formatter) = (Tail::new(journal.clone()), RecordFormatter::default());
        let (events, last) = self.read_past(&mut tail, &journal, &mut formatter)?;
        if let Some(command) = &self.exec {
            // Without a number, only changes from now on count.
            let mut events = if self.after.is_some() { events } else { Vec::new() };
            let mut changes = Changes::default();
            return runtime::block_on(async {
                loop {
                    changes.add(events.into_iter().map(|event| event.record), clock::now());
                    for record in changes.take_settled(clock::now()) {
                        settled::call(command, &record).await?;
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                    events = self.select_events(read_more(&mut tail, &journal)?, &mut formatter, false);
                }
            });
        }
        let mut screen = EventPrinter {
            format: self.output.format.unwrap_or(Format::Table),
            columns: Columns::default(),
            headed: self.no_headers,
            last,
        };
        if !self.follow {
            screen.show_all(&events)?;
            return Ok(Exit::Done);
        }
        screen.append(&events)?;
        runtime::block_on(async {
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                let events = self.select_events(read_more(&mut tail, &journal)?, &mut formatter, false);
                screen.append(&events)?;
            }
        })
    }

    /// Reads the requested events before now, and the number of the newest record.
    fn read_past(
        &self,
        tail: &mut Tail,
        journal: &Path,
        formatter: &mut RecordFormatter,
    ) -> Result<(Vec<Event>, u64), Failure> {
        let records = read_more(tail, journal)?;
        let last = records.last().map_or(0, |record| record.seq);
        let mut events = self.select_events(records, formatter, true);
        let surplus = self.tail.map_or(0, |tail| events.len().saturating_sub(tail));
        events.drain(..surplus);
        Ok((events, last))
    }

    /// Selects the requested records. `formatter` sees all of them, because later descriptions need them.
    fn select_events(&self, records: Vec<Record>, formatter: &mut RecordFormatter, past: bool) -> Vec<Event> {
        let target = self.target.as_deref();
        let environment = target.and_then(|target| target.split('/').next());
        let service = target.filter(|target| target.contains('/'));
        // Without names, a command runs for changed phases.
        let phases = (self.exec.is_some() && self.types.is_empty()).then_some("phase");
        let wanted = EventFilter {
            environments: environment.map(str::to_owned).into_iter().collect(),
            names: self
                .types
                .iter()
                .copied()
                .chain(phases)
                .map(str::to_owned)
                .collect(),
        };
        let since = self.since.filter(|_| past).map(|since| clock::now() - since);
        let mut chosen = Vec::new();
        for record in records {
            let (subject, what) = formatter.format_record(&record);
            let at = argus_core::time::Timestamp::parse(&record.at);
            let is_later = self.after.is_none_or(|after| record.seq > after);
            if is_later
                && wanted.matches(&record)
                && service.is_none_or(|service| subject == service)
                && since.is_none_or(|since| at.is_some_and(|at| at >= since))
            {
                chosen.push(Event {
                    record,
                    subject,
                    what,
                });
            }
        }
        chosen
    }
}

/// Checks read permission, so that a missing permission is not reported as an empty journal.
fn check_permission(journal: &Path) -> Result<(), Failure> {
    match state_file::open(journal) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let message = format!("cannot read `{}`: it belongs to another user", journal.shown());
            Err(Failure::with_reason(Reason::Forbidden, message)
                .with_exit(Exit::Unexpected)
                .with_hint("run this as the controller's user, or read `/events` over HTTP"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn read_more(tail: &mut Tail, journal: &Path) -> Result<Vec<Record>, Failure> {
    let doing = || format!("cannot read `{}`", journal.shown());
    tail.read_new()
        .map_err(|error| Failure::operation_failed(&doing(), &error))
}

/// Printer of events.
struct EventPrinter {
    format: Format,
    columns: Columns,
    /// True if the header is printed already, or not wanted.
    headed: bool,
    /// Sequence number of the newest record.
    last: u64,
}

impl EventPrinter {
    /// Prints a complete list.
    fn show_all(&mut self, events: &[Event]) -> Result<(), Failure> {
        let page = || EventsPage {
            items: events
                .iter()
                .map(|event| public_record(&event.record, true))
                .collect(),
            last: self.last,
            missed: None,
        };
        match self.format {
            Format::Json => output::print_json(&page()),
            Format::Yaml => output::print_yaml(&page()),
            Format::Table | Format::Wide if events.is_empty() => {
                output::print_note("no events");
                Ok(())
            }
            Format::Table | Format::Wide | Format::Name => self.append(events),
        }
    }

    /// Prints further events, one line each.
    fn append(&mut self, events: &[Event]) -> Result<(), Failure> {
        if events.is_empty() {
            return Ok(());
        }
        match self.format {
            Format::Json => {
                let lines = output::join_lines(events.iter().map(event_to_json));
                output::print(&foreign_text::escape_json(&lines))
            }
            Format::Yaml => events.iter().try_for_each(|event| {
                output::print("---\n")?;
                output::print_yaml(&event_to_json(event))
            }),
            Format::Name => output::print(&output::join_lines(
                events.iter().map(|event| event.record.name()),
            )),
            Format::Table | Format::Wide => {
                let wide = self.format == Format::Wide;
                let head = if wide { WIDE } else { HEAD };
                let mut rows: Vec<_> = events.iter().map(|event| format_row(event, wide)).collect();
                if !std::mem::replace(&mut self.headed, true) {
                    rows.insert(0, head.iter().map(|&text| text.to_owned()).collect());
                }
                output::print(&output::join_lines(
                    self.columns
                        .format_rows(&rows, output::terminal_width().filter(|_| !wide)),
                ))
            }
        }
    }
}

fn format_row(event: &Event, wide: bool) -> Vec<String> {
    let record = &event.record;
    let (name, subject, what) = (
        record_formatter::color_name(record),
        event.subject.clone(),
        event.what.clone(),
    );
    if !wide {
        return vec![status::truncate_to_second(&record.at), name, subject, what];
    }
    let of = record.environment().map(ToString::to_string).unwrap_or_default();
    let (number, run) = (record.seq.to_string(), record.run.clone());
    vec![record.at.clone(), of, name, subject, number, run, what]
}

fn event_to_json(event: &Event) -> Value {
    Value::Object(public_record(&event.record, true))
}
