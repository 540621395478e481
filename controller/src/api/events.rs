//! Events of the journal.

mod page;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use argus_core::journal::{Entry, Event, EventFilter, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_further_lines;
use page::read_page;

/// Default and maximum number of events.
const DEFAULT_EVENTS: usize = 30;
const MAX_EVENTS: usize = 1_000;
/// Maximum number of events in a summary.
const MAX_SUMMARY: usize = 200;
/// Fields that are equal in all events of a run, or that only the journal needs.
const OMITTED: [&str; 3] = ["v", "run", "kind"];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Events {
    /// Names of environments, separated by commas [default: all]
    environment: Option<String>,
    /// Filter by type, such as `phase`, `error`, `port_conflict`, `restart_attempt`, `restart_success`, `restart_exhausted`, `port_reassigned`, `circuit_open`; `intent` and `result` are actions
    #[serde(default, rename = "type")]
    types: BTreeSet<String>,
    /// Only events after this number, oldest first [default: the newest events]
    after: Option<u64>,
    /// Maximum number of events, up to 1000; agents get at most 200
    #[serde(default = "default_tail")]
    #[schemars(range(min = 1, max = 1000))]
    tail: usize,
}

fn default_tail() -> usize {
    DEFAULT_EVENTS
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsPage {
    /// Events, oldest first. `event` is the public name of the record, `journalEvent` its name in the journal.
    pub(crate) items: Vec<Map<String, Value>>,
    /// Number for the next `after`.
    pub(crate) last: u64,
    /// Number of records in between that are no longer stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<u64>,
}

impl Operation for Events {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/events",
        "newest events of the journal, or with `after` the following ones",
    )
    // A call can read the whole journal.
    .serial()];
    type Output = EventsPage;

    async fn run(&self, context: &Context) -> Result<EventsPage, Failure> {
        let names = self.environment.iter().flat_map(|names| names.split(','));
        let environments: BTreeSet<String> = names.map(|name| name.trim().to_owned()).collect();
        for env in &environments {
            status::parse_environment(env)?;
        }
        for name in &self.types {
            Record::known_name(name).map_err(Failure::usage)?;
        }
        let filter = EventFilter {
            environments,
            names: self.types.clone(),
        };
        let most = self.tail.clamp(1, MAX_EVENTS);
        let page = read_page(&context.client.open_feed(), &filter, self.after, most).await;
        Ok(EventsPage {
            items: page
                .records
                .iter()
                .map(|record| public_record(record, context.client.is_trusted()))
                .collect(),
            last: page.last,
            missed: page.missed,
        })
    }
}

impl Tool for Events {
    const NAME: &'static str = "argus_events";
    const TITLE: &'static str = "Recent events";
    const ABOUT: &'static str = "Lists events from the journal: phases, errors, restarts, recoveries, moved ports, given-up services, and \
each action with its cause. Returns the newest `tail` events, or with `after` the following ones.";
    type Data = EventsPage;

    async fn summarize(&self, mut page: EventsPage, _context: &Context) -> Summary<EventsPage> {
        if self.after.is_some() {
            page.items.truncate(MAX_SUMMARY);
            let last = page.items.last().and_then(|item| item["seq"].as_u64());
            page.last = last.unwrap_or(page.last);
        } else {
            page.items.drain(..page.items.len().saturating_sub(MAX_SUMMARY));
        }
        for item in &mut page.items {
            for name in OMITTED {
                item.remove(name);
            }
        }
        let mut text: String = page.items.iter().map(format_line).collect();
        if page.items.is_empty() {
            "no events\n".clone_into(&mut text);
        }
        let mut arguments = json!({ "after": page.last });
        if let Some(env) = &self.environment {
            arguments["environment"] = json!(env);
        }
        if !self.types.is_empty() {
            arguments["type"] = json!(self.types);
        }
        Summary::new(page, text).with_next(NextStep::new("later events", Self::NAME, arguments))
    }
}

/// Converts a record to JSON with its public name as `event`. An event keeps its name in the journal as `journalEvent`.
pub(crate) fn public_record(record: &Record, is_trusted: bool) -> Map<String, Value> {
    let Value::Object(mut fields) = record_for_caller(record, is_trusted) else {
        return Map::new();
    };
    if let Some(name) = fields.insert("event".to_owned(), json!(record.name())) {
        fields.insert("journalEvent".to_owned(), name);
    }
    fields
}

/// Converts a record to JSON for a caller. Names and images can contain values of environment variables, so only the controller's user sees
/// the details of actions.
pub(crate) fn record_for_caller(record: &Record, is_trusted: bool) -> Value {
    let mut value = json!(record);
    if let Entry::Event(Event::WatchDegraded(_) | Event::LeaseEnded { .. }) = &record.entry
        && !is_trusted
    {
        for quoted in ["cause", "text", "case", "holder"] {
            value.as_object_mut().and_then(|value| value.remove(quoted));
        }
    }
    if !is_trusted && matches!(record.entry, Entry::Intent(_)) {
        let verb = value["action"]["verb"].clone();
        value["action"] = json!({ "verb": verb });
        for private in ["subject", "cause"] {
            value.as_object_mut().and_then(|value| value.remove(private));
        }
    }
    value
}

/// Formats an event as one line.
fn format_line(event: &Map<String, Value>) -> String {
    let word = |name: &str| event.get(name).map(plain).unwrap_or_default();
    let mut line = format!("{} {} {}", word("seq"), word("at"), word("event"));
    let is_head = |name: &str| matches!(name, "seq" | "at" | "event" | "journalEvent");
    for (name, value) in event.iter().filter(|(name, _)| !is_head(name)) {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={}", plain(value));
    }
    mark_further_lines(&line) + "\n"
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_an_action_has_only_its_verb_for_others() {
        let record = json!({
            "v": 1, "seq": 2, "at": "2026-01-01T00:00:00.000Z", "run": "R", "kind": "intent", "environment": "shop",
            "subject": { "kind": "service", "environment": "shop", "service": "web" },
            "action": { "verb": "start-container", "id": "0123456789abcdef0123" }, "cause": "ready",
        });
        let record: Record = serde_json::from_value(record).unwrap();
        let shown = |is_trusted| {
            let value = record_for_caller(&record, is_trusted);
            let has = |name: &str| value.get(name).is_some();
            (has("subject"), has("cause"), value["action"]["id"].is_string())
        };
        assert_eq!(shown(true), (true, true, true));
        assert_eq!(shown(false), (false, false, false));
        assert_eq!(
            record_for_caller(&record, false)["action"]["verb"],
            "start-container"
        );
    }
}
