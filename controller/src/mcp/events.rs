//! Tool `argus_events`: events from the journal.

use std::collections::BTreeSet;

use argus_core::journal::{EventFilter, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::events::page::read_page;
use crate::cli::status;
use crate::exit::Failure;

/// Default and maximum number of records.
const DEFAULT_EVENTS: usize = 30;
const MAX_EVENTS: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Events {
    /// Environment name [default: all]
    environment: Option<String>,
    /// Filter by type, such as `phase`, `error`, `port_conflict`, `restart_attempt`, `restart_success`, `restart_exhausted`, `port_reassigned`, `circuit_open`; `intent` and `result` are actions
    #[serde(default)]
    types: BTreeSet<String>,
    /// Only events after this number, oldest first [default: the newest events]
    after: Option<u64>,
    /// Maximum number of events, up to 200
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
}

fn default_limit() -> usize {
    DEFAULT_EVENTS
}

/// Events of the journal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsOutput {
    /// Events, oldest first.
    items: Vec<Event>,
    /// Number for the next `after`.
    last: u64,
    /// Number of records in between that are no longer stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

/// One event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    /// Record number; increases by one per record.
    seq: u64,
    /// Time of the record (RFC 3339).
    at: String,
    /// Name of the event.
    #[serde(rename = "event")]
    name: &'static str,
    /// Name of the event in the journal. Absent for an intent and a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal_event: Option<String>,
    /// Fields of the event.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Tool for Events {
    const NAME: &'static str = "argus_events";
    const TITLE: &'static str = "Recent events";
    const ABOUT: &'static str = "Lists events from the journal: phases, errors, restarts, recoveries, moved ports, given-up services, and \
each action with its cause. Returns the newest `limit` events, or with `after` the following ones. Without a running controller, it \
reads the journal files.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = EventsOutput;

    async fn call(self, call: Call) -> Result<Output<EventsOutput>, Failure> {
        if let Some(env) = &self.environment {
            status::parse_environment(env)?;
        }
        for name in &self.types {
            Record::known_name(name).map_err(Failure::usage)?;
        }
        let filter = EventFilter {
            environments: self.environment.iter().cloned().collect(),
            names: self.types.clone(),
        };
        let most = self.limit.clamp(1, MAX_EVENTS);
        let page = read_page(&call.client.open_feed(), &filter, self.after, most).await;
        let (last, missed) = (page.last, page.missed);
        let events: Vec<Event> = page
            .records
            .iter()
            .map(|record| Event::from_record(record))
            .collect();
        let mut text: String = events.iter().map(Event::format_line).collect();
        if events.is_empty() {
            "no events\n".clone_into(&mut text);
        }
        let mut arguments = json!({ "after": last });
        if let Some(env) = &self.environment {
            arguments["environment"] = json!(env);
        }
        if !self.types.is_empty() {
            arguments["types"] = json!(self.types);
        }
        let output = EventsOutput {
            items: events,
            last,
            missed,
        };
        Ok(Output::new(output, text).with_next(NextStep::new("later events", Self::NAME, arguments)))
    }
}

impl Event {
    fn from_record(record: &Record) -> Self {
        let mut rest = match serde_json::to_value(record) {
            Ok(Value::Object(rest)) => rest,
            Ok(_) | Err(_) => Map::new(),
        };
        let journal_event = rest
            .remove("event")
            .and_then(|name| name.as_str().map(str::to_owned));
        for name in ["v", "seq", "at", "run", "kind"] {
            rest.remove(name);
        }
        Self {
            seq: record.seq,
            at: record.at.clone(),
            name: record.name(),
            journal_event,
            rest,
        }
    }

    fn format_line(&self) -> String {
        let one = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            other => format!(" {name}={other}"),
        };
        let rest: String = self.rest.iter().map(one).collect();
        format!("{} {} {}{rest}\n", self.seq, self.at, self.name)
    }
}
