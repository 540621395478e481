//! `/events`: a snapshot, then what happens, as it stands in the journal, and how environments change.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use argus_core::journal::{Entry, EventFilter, Record};
use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::journal::Feed;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::AppState;
use super::environments::summary;
use super::guard::Trust;
use super::params::Query;
use super::problem::Problem;
use crate::metrics::Listening;
use crate::view::StatusDocuments;

/// Records that are taken up at once: nothing else is kept for a client, so one that never reads costs no more than this.
const PAGE: usize = 64;
/// A comment is sent after this long without an event, so that both sides see that the other is there.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events that are no records.
const OTHERS: [&str; 4] = ["snapshot", "environment", "problem", "lagged"];

/// What a client wants to hear.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Environments, with commas between them; all without.
    environment: Option<String>,
    /// Names of events, with commas between them; all without.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The last event that was heard, where a client cannot set headers.
    #[serde(rename = "lastEventId")]
    last_event_id: Option<String>,
}

/// One client: where it is in the journal, and what it knows.
struct Client {
    wanted: EventFilter,
    feed: Feed,
    newest: watch::Receiver<u64>,
    shown: watch::Receiver<Arc<StatusDocuments>>,
    last: u64,
    known: Arc<StatusDocuments>,
    /// It was not told yet how things are.
    fresh: bool,
    trust: Trust,
    _listening: Listening,
}

pub(super) async fn events(
    State(desk): State<AppState>,
    Query(asked): Query<EventsQuery>,
    Extension(trust): Extension<Trust>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(own) = desk.client.in_process_parts() else {
        return Err(Problem::asked(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller is here",
        ));
    };
    let last = last_heard(&headers, asked.last_event_id.as_deref())?;
    let newest = own.feed.newest();
    let now = *newest.borrow();
    let client = Client {
        wanted: wanted(&asked)?,
        trust,
        // One that is ahead speaks of another journal, which was lost.
        last: last.filter(|last| *last <= now).unwrap_or(now),
        fresh: true,
        feed: own.feed.clone(),
        newest,
        shown: own.shown.clone(),
        known: Arc::default(),
        _listening: own.metrics.traffic().listening(),
    };
    let stopped = desk.stop.clone().cancelled_owned();
    let told = told(client).take_until(stopped);
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    Ok(Sse::new(told).keep_alive(alive).into_response())
}

/// The last event that a client heard, by its header or else by its query.
pub(super) fn last_heard(headers: &HeaderMap, asked: Option<&str>) -> Result<Option<u64>, Problem> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let Some(id) = header.or(asked) else {
        return Ok(None);
    };
    let number = id.parse().map_err(|_| {
        let message = format!("`{id}` is no event id");
        Problem::asked(StatusCode::BAD_REQUEST, message)
    })?;
    Ok(Some(number))
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
                    events.extend(self.wanted.matches(record).then(|| event(record, self.trust)));
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

    /// How everything is, and what is wrong: from here records tell what happens.
    fn snapshot(&mut self) -> Vec<Event> {
        let shown = self.shown.borrow_and_update().clone();
        self.known = shown.clone();
        let wanted = |(name, _): &(&String, &EnvironmentStatus)| self.wanted.matches_environment(Some(name));
        let environments = shown.environments.iter().filter(wanted);
        let told = json!({
            "mode": shown.controller.mode,
            "modeReason": shown.controller.mode_reason,
            "environments": environments.map(|(_, status)| summary(status)).collect::<Vec<_>>(),
            "lastEventId": self.last.to_string(),
        });
        let event = Event::default().event("snapshot").data(told.to_string());
        // From here a client that comes back goes on.
        let event = Some(event.id(self.last.to_string())).filter(|_| self.wanted.matches_name("snapshot"));
        let problems = problems(&self.wanted, &StatusDocuments::default(), &shown);
        event.into_iter().chain(problems).collect()
    }

    /// How environments changed since they were told.
    fn changes(&mut self) -> Vec<Event> {
        let now = self.shown.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.known, now.clone());
        if Arc::ptr_eq(&before, &now) {
            return Vec::new();
        }
        let mut events = Vec::new();
        let mut tell = |value: &Value| {
            events.push(Event::default().event("environment").data(value.to_string()));
        };
        for (name, status) in &now.environments {
            let old = before.environments.get(name);
            if old != Some(status) && self.wanted.matches_environment(Some(name)) {
                let told = summary(status);
                if old.map(summary).as_ref() != Some(&told) {
                    tell(&told);
                }
            }
        }
        let names = before.environments.keys();
        let gone = names.filter(|name| !now.environments.contains_key(*name));
        for name in gone.filter(|name| self.wanted.matches_environment(Some(name))) {
            tell(&json!({ "environment": name, "phase": "Gone" }));
        }
        if !self.wanted.matches_name("environment") {
            events.clear();
        }
        events.extend(problems(&self.wanted, &before, &now));
        events
    }
}

/// Errors that were not there before, each whole: who listens need not ask what to do about them.
fn problems(wanted: &EventFilter, before: &StatusDocuments, now: &StatusDocuments) -> Vec<Event> {
    if !wanted.matches_name("problem") {
        return Vec::new();
    }
    let named = |(name, status): (&String, &EnvironmentStatus)| {
        let known = before.environments.get(name);
        let known = known.map_or(&[][..], |status| &status.errors);
        let is_wanted = wanted.matches_environment(Some(name));
        let news: Vec<_> = fresh(known, &status.errors).cloned().collect();
        is_wanted.then_some(news)
    };
    let of_environments = now.environments.iter().filter_map(named).flatten();
    let of_controller = fresh(&before.controller.errors, &now.controller.errors).cloned();
    let of_controller = of_controller.filter(|_| wanted.matches_environment(None));
    of_controller
        .chain(of_environments)
        .map(|error| Event::default().event("problem").data(json!(error).to_string()))
        .collect()
}

/// Those of `now` that are not among `known`: an occurrence is told once, however its words change.
fn fresh<'a>(
    known: &'a [StructuredError],
    now: &'a [StructuredError],
) -> impl Iterator<Item = &'a StructuredError> {
    let is_known = |error: &StructuredError| match &error.error_id {
        Some(id) => known.iter().any(|old| old.error_id.as_ref() == Some(id)),
        None => known.contains(error),
    };
    now.iter().filter(move |error| !is_known(error))
}

/// What is asked for, with commas between the names.
fn wanted(asked: &EventsQuery) -> Result<EventFilter, Problem> {
    let wanted = EventFilter {
        environments: names(asked.environment.as_deref()),
        names: names(asked.kind.as_deref()),
    };
    known(&wanted.names, &OTHERS)?;
    Ok(wanted)
}

/// A list with commas between its words.
pub(super) fn names(list: Option<&str>) -> BTreeSet<String> {
    let words = list.unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether there are events of all these names: records, and those `others`.
pub(super) fn known(names: &BTreeSet<String>, others: &[&str]) -> Result<(), Problem> {
    let records = names.iter().filter(|name| !others.contains(&name.as_str()));
    for name in records {
        Record::known_name(name).map_err(|why| {
            let message = [&[why.as_str()], others].concat().join(", ");
            Problem::asked(StatusCode::BAD_REQUEST, message)
        })?;
    }
    Ok(())
}

/// Names and images may hold what a file reads from outside: what is done to what is told to the controller's user only.
pub(super) fn shown(record: &Record, trust: Trust) -> Value {
    let mut told = json!(record);
    if trust == Trust::Nobody && matches!(record.entry, Entry::Intent(_)) {
        let verb = told["action"]["verb"].clone();
        told["action"] = json!({ "verb": verb });
        for private in ["subject", "cause"] {
            told.as_object_mut().and_then(|told| told.remove(private));
        }
    }
    told
}

fn event(record: &Record, trust: Trust) -> Event {
    Event::default()
        .id(record.seq.to_string())
        .event(record.name())
        .data(shown(record, trust).to_string())
}

#[cfg(test)]
mod tests;
