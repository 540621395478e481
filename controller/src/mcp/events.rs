//! `argus_events`: what happened, as it stands in the journal.

use std::collections::BTreeSet;

use argus_core::journal::{EventFilter, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::events::page::page;
use crate::cli::status;
use crate::exit::Failure;

/// Records where nobody says how many, and the most.
const EVENTS: usize = 30;
const MOST: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Events {
    /// Environment; all of them without
    environment: Option<String>,
    /// Only these, as in `phase`, `error`, `port_conflict`, `restart_attempt`, `restart_success`, `restart_exhausted`, `port_reassigned`, `circuit_open`; `intent` and `result` are the acts
    #[serde(default)]
    types: BTreeSet<String>,
    /// Only what came after this number, oldest first; the newest without
    after: Option<u64>,
    /// How many at most, up to 200
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
}

fn limit() -> usize {
    EVENTS
}

/// What happened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsOutput {
    /// Oldest first.
    items: Vec<Event>,
    /// The number to go on after.
    last: u64,
    /// How many between are kept nowhere any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

/// One thing that happened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    /// Its number; grows by one a record.
    seq: u64,
    /// When (RFC 3339).
    at: String,
    /// What, in a word.
    #[serde(rename = "event")]
    name: &'static str,
    /// What belongs to it.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Tool for Events {
    const NAME: &'static str = "argus_events";
    const TITLE: &'static str = "What happened";
    const ABOUT: &'static str = "Lists what happened, from the journal: phases, errors, restarts, recoveries, moved ports, what was given \
up, and each act with its cause. The newest `limit`, or with `after` what came since. Without a running controller it reads the \
journal's files.";
    const EFFECT: Effect = Effect::Looks;
    type Output = EventsOutput;

    async fn call(self, call: Call) -> Result<Output<EventsOutput>, Failure> {
        if let Some(env) = &self.environment {
            status::named(env)?;
        }
        for name in &self.types {
            Record::known_name(name).map_err(Failure::usage)?;
        }
        let wanted = EventFilter {
            environments: self.environment.iter().cloned().collect(),
            names: self.types.clone(),
        };
        let most = self.limit.clamp(1, MOST);
        let page = page(&call.client.feed(), &wanted, self.after, most).await;
        let (last, missed) = (page.last, page.missed);
        let events: Vec<Event> = page.records.iter().map(|record| Event::of(record)).collect();
        let mut text: String = events.iter().map(Event::line).collect();
        if events.is_empty() {
            "nothing happened\n".clone_into(&mut text);
        }
        let mut on = json!({ "after": last });
        if let Some(env) = &self.environment {
            on["environment"] = json!(env);
        }
        if !self.types.is_empty() {
            on["types"] = json!(self.types);
        }
        let told = EventsOutput {
            items: events,
            last,
            missed,
        };
        Ok(Output::new(told, text).then(NextStep::new("what comes after these", Self::NAME, on)))
    }
}

impl Event {
    fn of(record: &Record) -> Self {
        let mut rest = match serde_json::to_value(record) {
            Ok(Value::Object(rest)) => rest,
            Ok(_) | Err(_) => Map::new(),
        };
        for told in ["v", "seq", "at", "run", "kind", "event"] {
            rest.remove(told);
        }
        Self {
            seq: record.seq,
            at: record.at.clone(),
            name: record.name(),
            rest,
        }
    }

    fn line(&self) -> String {
        let one = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            other => format!(" {name}={other}"),
        };
        let rest: String = self.rest.iter().map(one).collect();
        format!("{} {} {}{rest}\n", self.seq, self.at, self.name)
    }
}
