//! Event stream `/events`: a snapshot, then journal records and changes of environments as they happen.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use argus_core::journal::{EventFilter, Record};
use argus_core::status::public_view;
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
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::AppState;
use super::guard::Trust;
use super::params::Query;
use super::problem::Problem;
use crate::api::environments::summarize;
use crate::api::events::record_for_caller;
use crate::metrics::OpenStreamGuard;
use crate::view::Statuses;

/// Maximum number of records per read. Argus buffers nothing else for a client, so one that never reads costs no more than this.
const PAGE_SIZE: usize = 64;
/// Time without an event after which a comment is sent, so that both sides detect a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Events that are not journal records.
const OTHER_EVENTS: [&str; 4] = ["snapshot", "environment", "problem", "lagged"];

/// Query of the event stream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Environments, separated by commas; default: all.
    environment: Option<String>,
    /// Names of events, separated by commas; default: all.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Id of the last received event, for clients that cannot set headers.
    #[serde(rename = "lastEventId")]
    last_event_id: Option<String>,
}

/// One client with its position in the journal and its last known statuses.
struct EventSubscriber {
    filter: EventFilter,
    feed: Feed,
    newest: watch::Receiver<u64>,
    statuses: watch::Receiver<Arc<Statuses>>,
    last: u64,
    known: Arc<Statuses>,
    /// True until the client has received a snapshot.
    fresh: bool,
    trust: Trust,
    _listening: OpenStreamGuard,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(
    State(app): State<AppState>,
    Query(query): Query<EventsQuery>,
    Extension(trust): Extension<Trust>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(parts) = app.client.in_process_parts() else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller runs in this process",
        ));
    };
    let last = last_event_id(&headers, query.last_event_id.as_deref())?;
    let newest = parts.feed.newest();
    let now = *newest.borrow();
    let client = EventSubscriber {
        filter: parse_filter(&query)?,
        trust,
        // A larger number belongs to a lost journal.
        last: last.filter(|last| *last <= now).unwrap_or(now),
        fresh: true,
        feed: parts.feed.clone(),
        newest,
        statuses: parts.statuses.clone(),
        known: Arc::default(),
        _listening: parts.metrics.http().count_open_stream(),
        _permit: app.limits.open_stream()?,
    };
    let stopped = app.stop.clone().cancelled_owned();
    let events = event_stream(client).take_until(stopped);
    Ok(stream_response(events))
}

/// Builds the response of an event stream, with heartbeats.
pub(super) fn stream_response(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    Sse::new(events).keep_alive(alive).into_response()
}

/// Returns the last event id of a client, from the header or else from the query.
pub(super) fn last_event_id(headers: &HeaderMap, query: Option<&str>) -> Result<Option<u64>, Problem> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let Some(id) = header.or(query) else {
        return Ok(None);
    };
    let number = id.parse().map_err(|_| {
        let message = format!("`{id}` is not a valid event id");
        Problem::new(StatusCode::BAD_REQUEST, message)
    })?;
    Ok(Some(number))
}

/// Returns the events of a client as a stream. The next events are read only after the client has taken the previous ones.
fn event_stream(client: EventSubscriber) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(client, |mut client| async move {
        let events = client.next().await?;
        Some((stream::iter(events.into_iter().map(Ok)), client))
    })
    .flatten()
}

impl EventSubscriber {
    /// Waits for new events and returns them; `None` when the controller has stopped.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let mut events = Vec::new();
            if std::mem::take(&mut self.fresh) {
                events.extend(self.snapshot_events());
            } else {
                let page = self.feed.after(self.last, PAGE_SIZE).await;
                if page.missed > 0 {
                    let lagged = json!({ "missed": page.missed });
                    events.push(Event::default().event("lagged").data(lagged.to_string()));
                    events.extend(self.snapshot_events());
                }
                for record in &page.records {
                    self.last = record.seq;
                    events.extend(
                        self.filter
                            .matches(record)
                            .then(|| record_event(record, self.trust)),
                    );
                }
                events.extend(self.change_events());
                if !page.records.is_empty() && events.is_empty() {
                    // The filter rejected all records.
                    continue;
                }
            }
            if !events.is_empty() {
                return Some(events);
            }
            let last = self.last;
            tokio::select! {
                newer = self.newest.wait_for(|newest| *newest > last) => drop(newer.ok()?),
                changed = self.statuses.changed() => changed.ok()?,
            }
        }
    }

    /// Returns the current state of everything, with all errors. Records continue from here.
    fn snapshot_events(&mut self) -> Vec<Event> {
        let statuses = self.statuses.borrow_and_update().clone();
        self.known = statuses.clone();
        let filter =
            |(name, _): &(&String, &Arc<EnvironmentStatus>)| self.filter.matches_environment(Some(name));
        let environments = statuses.environments.iter().filter(filter);
        let value = json!({
            "mode": statuses.controller.mode,
            "modeReason": statuses.controller.mode_reason,
            "environments": environments.map(|(_, status)| self.summarize(status)).collect::<Vec<_>>(),
            "lastEventId": self.last.to_string(),
        });
        let event = Event::default().event("snapshot").data(value.to_string());
        // A client that reconnects resumes from this id.
        let event = Some(event.id(self.last.to_string())).filter(|_| self.filter.matches_name("snapshot"));
        let problems = self.error_events(&Statuses::default(), &statuses);
        event.into_iter().chain(problems).collect()
    }

    /// Returns the changes of environments since the last call.
    fn change_events(&mut self) -> Vec<Event> {
        let now = self.statuses.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.known, now.clone());
        if Arc::ptr_eq(&before, &now) {
            return Vec::new();
        }
        let mut events = Vec::new();
        let mut push = |value: &Value| {
            events.push(Event::default().event("environment").data(value.to_string()));
        };
        for (name, status) in &now.environments {
            let old = before.environments.get(name);
            let is_same = old.is_some_and(|old| Arc::ptr_eq(old, status) || old == status);
            if !is_same && self.filter.matches_environment(Some(name)) {
                let value = self.summarize(status);
                if old.map(|old| self.summarize(old)).as_ref() != Some(&value) {
                    push(&value);
                }
            }
        }
        let names = before.environments.keys();
        let gone = names.filter(|name| !now.environments.contains_key(*name));
        for name in gone.filter(|name| self.filter.matches_environment(Some(name))) {
            push(&json!({ "environment": name, "phase": "Gone" }));
        }
        if !self.filter.matches_name("environment") {
            events.clear();
        }
        events.extend(self.error_events(&before, &now));
        events
    }

    /// Summarizes a status as the client may see it.
    fn summarize(&self, status: &EnvironmentStatus) -> Value {
        match self.trust {
            Trust::User => summarize(status),
            Trust::Anyone => summarize(&public_view::environment(status)),
        }
    }

    /// Returns the errors that did not exist before, with all fields, so that a listener needs no further request.
    fn error_events(&self, before: &Statuses, now: &Statuses) -> Vec<Event> {
        if !self.filter.matches_name("problem") {
            return Vec::new();
        }
        let named = |(name, status): (&String, &Arc<EnvironmentStatus>)| {
            let known = before.environments.get(name);
            let known = known.map_or(&[][..], |status| &status.errors);
            let is_wanted = self.filter.matches_environment(Some(name));
            let news: Vec<_> = new_errors(known, &status.errors).cloned().collect();
            is_wanted.then_some(news)
        };
        let of_environments = now.environments.iter().filter_map(named).flatten();
        let of_controller = new_errors(&before.controller.errors, &now.controller.errors).cloned();
        let of_controller = of_controller.filter(|_| self.filter.matches_environment(None));
        of_controller
            .chain(of_environments)
            .map(|error| match self.trust {
                Trust::User => error,
                Trust::Anyone => public_view::error(&error),
            })
            .map(|error| Event::default().event("problem").data(json!(error).to_string()))
            .collect()
    }
}

/// Returns the errors of `now` that are not in `known`. An occurrence is reported once, even if its message changes.
fn new_errors<'a>(
    known: &'a [StructuredError],
    now: &'a [StructuredError],
) -> impl Iterator<Item = &'a StructuredError> {
    let is_known = |error: &StructuredError| match &error.error_id {
        Some(id) => known.iter().any(|old| old.error_id.as_ref() == Some(id)),
        None => known.contains(error),
    };
    now.iter().filter(move |error| !is_known(error))
}

/// Builds the filter of a query; its names are separated by commas.
fn parse_filter(query: &EventsQuery) -> Result<EventFilter, Problem> {
    let filter = EventFilter {
        environments: split_names(query.environment.as_deref()),
        names: split_names(query.kind.as_deref()),
    };
    check_names(&filter.names, &OTHER_EVENTS)?;
    Ok(filter)
}

/// Splits a list at its commas.
pub(super) fn split_names(list: Option<&str>) -> BTreeSet<String> {
    let words = list.unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Checks that all names are names of records or in `others`.
pub(super) fn check_names(names: &BTreeSet<String>, others: &[&str]) -> Result<(), Problem> {
    let records = names.iter().filter(|name| !others.contains(&name.as_str()));
    for name in records {
        Record::known_name(name).map_err(|reason| {
            let message = [&[reason.as_str()], others].concat().join(", ");
            Problem::new(StatusCode::BAD_REQUEST, message)
        })?;
    }
    Ok(())
}

fn record_event(record: &Record, trust: Trust) -> Event {
    Event::default()
        .id(record.seq.to_string())
        .event(record.name())
        .data(record_for_caller(record, trust == Trust::User).to_string())
}

#[cfg(test)]
mod tests;
