//! `/events`: a snapshot, then what happens, as it stands in the journal, and how environments change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use argus_core::record::Record;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::history::Feed;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Desk;
use super::environments::summary;
use super::problem::Problem;
use crate::metrics::Listening;
use crate::view::Shown;

/// Records that are taken up at once: nothing else is kept for a client, so one that never reads costs no more than this.
const PAGE: usize = 64;
/// A comment is sent after this long without an event, so that both sides see that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a client wants to hear.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Environments, with commas between them; all without.
    environment: Option<String>,
    /// Names of events, with commas between them; all without.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The last event that was heard, where a client cannot set headers.
    #[serde(rename = "lastEventId")]
    last_event_id: Option<String>,
}

/// The same, ready to ask.
struct Filter {
    environments: Option<BTreeSet<String>>,
    kinds: Option<BTreeSet<String>>,
}

/// One client: where it is in the journal, and what it knows.
struct Client {
    filter: Filter,
    feed: Feed,
    newest: watch::Receiver<u64>,
    shown: watch::Receiver<Arc<Shown>>,
    last: u64,
    known: BTreeMap<String, EnvironmentStatus>,
    /// It was never told how things are.
    fresh: bool,
    _listening: Listening,
}

pub(super) async fn events(
    State(desk): State<Desk>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(own) = desk.surface.own() else {
        return Err(Problem::asked(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller is here",
        ));
    };
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = match header.or(wanted.last_event_id.as_deref()) {
        None => None,
        Some(id) => Some(id.parse::<u64>().map_err(|_| {
            let message = format!("`{id}` is no event id");
            Problem::asked(StatusCode::BAD_REQUEST, message)
        })?),
    };
    let newest = own.feed.newest();
    let now = *newest.borrow();
    let client = Client {
        filter: Filter::of(&wanted),
        // One that is ahead speaks of another journal, which was lost.
        last: last.filter(|last| *last <= now).unwrap_or(now),
        fresh: last.is_none_or(|last| last > now),
        feed: own.feed.clone(),
        newest,
        shown: own.shown.clone(),
        known: BTreeMap::new(),
        _listening: own.metrics.traffic().listening(),
    };
    let stopped = desk.stop.clone().cancelled_owned();
    let told = told(client).take_until(stopped);
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    Ok(Sse::new(told).keep_alive(alive).into_response())
}

/// Events as the client takes them: the next are looked for when the last were taken.
fn told(client: Client) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(client, |mut client| async move {
        let events = client.next().await?;
        Some((stream::iter(events.into_iter().map(Ok)), client))
    })
    .flatten()
}

impl Client {
    /// What is new, once something is; `None` when the controller is gone.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let mut events = Vec::new();
            if std::mem::take(&mut self.fresh) {
                events.extend(self.snapshot());
            } else {
                let page = self.feed.after(self.last, PAGE).await;
                if page.missed > 0 {
                    let lagged = json!({ "missed": page.missed });
                    events.push(Event::default().event("lagged").data(lagged.to_string()));
                    events.extend(self.snapshot());
                }
                for record in &page.records {
                    self.last = record.seq;
                    events.extend(self.filter.passes(record).then(|| event(record)));
                }
                events.extend(self.changes());
                if !page.records.is_empty() && events.is_empty() {
                    // All of it was for others.
                    continue;
                }
            }
            if !events.is_empty() {
                return Some(events);
            }
            let last = self.last;
            tokio::select! {
                newer = self.newest.wait_for(|newest| *newest > last) => drop(newer.ok()?),
                changed = self.shown.changed() => changed.ok()?,
            }
        }
    }

    /// How everything is: without an id, for what comes after it is told by records.
    fn snapshot(&mut self) -> Option<Event> {
        let shown = self.shown.borrow_and_update().clone();
        let wanted = |(name, _): &(&String, &EnvironmentStatus)| self.filter.takes_environment(Some(name));
        self.known = shown
            .environments
            .iter()
            .filter(wanted)
            .map(|(name, status)| (name.clone(), status.clone()))
            .collect();
        let told = json!({
            "mode": shown.controller.mode,
            "modeReason": shown.controller.mode_reason,
            "environments": self.known.values().map(summary).collect::<Vec<_>>(),
            "lastEventId": self.last.to_string(),
        });
        let event = Event::default().event("snapshot").data(told.to_string());
        // From here a client that comes back goes on.
        Some(event.id(self.last.to_string())).filter(|_| self.filter.takes_kind("snapshot"))
    }

    /// How environments changed since they were told.
    fn changes(&mut self) -> Vec<Event> {
        let shown = self.shown.borrow_and_update().clone();
        let mut events = Vec::new();
        let mut tell = |value: &Value| {
            events.push(Event::default().event("environment").data(value.to_string()));
        };
        for (name, status) in &shown.environments {
            if !self.filter.takes_environment(Some(name)) || self.known.get(name) == Some(status) {
                continue;
            }
            let told = summary(status);
            if self.known.get(name).map(summary).as_ref() != Some(&told) {
                tell(&told);
            }
            self.known.insert(name.clone(), status.clone());
        }
        self.known.retain(|name, _| {
            let there = shown.environments.contains_key(name);
            if !there {
                tell(&json!({ "environment": name, "phase": "Gone" }));
            }
            there
        });
        if self.filter.takes_kind("environment") {
            events
        } else {
            Vec::new()
        }
    }
}

impl Filter {
    fn of(wanted: &Wanted) -> Self {
        let set = |list: &Option<String>| {
            let words = list.as_deref()?.split(',').map(str::trim);
            Some(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
        };
        Self {
            environments: set(&wanted.environment),
            kinds: set(&wanted.kind),
        }
    }

    fn passes(&self, record: &Record) -> bool {
        let of = record.environment().map(ToString::to_string);
        self.takes_kind(record.name()) && self.takes_environment(of.as_deref())
    }

    fn takes_kind(&self, kind: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    fn takes_environment(&self, env: Option<&str>) -> bool {
        let Some(wanted) = &self.environments else {
            return true;
        };
        env.is_some_and(|env| wanted.contains(env))
    }
}

fn event(record: &Record) -> Event {
    // Our own types have text keys and no foreign serializers: they can always be written.
    let text = serde_json::to_string(record).unwrap_or_default();
    Event::default()
        .id(record.seq.to_string())
        .event(record.name())
        .data(text)
}
