//! Requests that mocks received, as the mocks report them: the latest ones, or a stream of new ones.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::AppState;
use super::events::{last_event_id, stream_response};
use super::params::{Path, Query};
use super::problem::Problem;
use crate::api::evidence_store;
use crate::api::mock_requests::page;

/// Default and maximum number of requests; a mock stores no more than the maximum.
const DEFAULT_REQUESTS: usize = 20;
const MAX_REQUESTS: usize = 1_000;
/// Interval between queries of a mock while a client follows its requests.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestsQuery {
    /// Number of the latest requests.
    tail: Option<usize>,
    /// Also stream new requests, as server-sent events.
    #[serde(default)]
    follow: bool,
}

/// Client that follows the requests of a mock.
struct MockRequestSubscriber {
    app: AppState,
    env: String,
    mock: String,
    /// Number of the last sent request.
    after: u64,
    /// First page, which was already queried.
    page: Option<page::MockRequestsPage>,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn requests(
    State(app): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(query): Query<RequestsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let not_found = |failure| Problem::from(failure).with_status(StatusCode::NOT_FOUND);
    let status = app.client.find_environment(&env).await.map_err(not_found)?;
    if !status.services.iter().any(|row| row.name == name) {
        return Err(not_found(evidence_store::no_service_failure(&status, &name)));
    }
    let tail = query.tail.unwrap_or(DEFAULT_REQUESTS).min(MAX_REQUESTS);
    let last_event = if query.follow {
        last_event_id(&headers, None)?
    } else {
        None
    };
    let (after, tail) = last_event.map_or((0, tail), |last_event| (last_event, MAX_REQUESTS));
    let page = Box::pin(page::read_requests_after(
        app.client.state(),
        &status,
        &name,
        after,
        tail,
    ))
    .await?;
    if !query.follow {
        return Ok(Json(page).into_response());
    }
    let listener = MockRequestSubscriber {
        app: app.clone(),
        env,
        mock: name,
        after,
        page: Some(page),
        _permit: app.limits.open_stream()?,
    };
    let events = listener.events().take_until(app.stop.clone().cancelled_owned());
    Ok(stream_response(events))
}

impl MockRequestSubscriber {
    /// Returns events as a stream. The mock is queried again only after the client has taken the previous events.
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut listener| async move {
            let events = listener.next().await?;
            Some((stream::iter(events.into_iter().map(Ok)), listener))
        })
        .flatten()
    }

    /// Waits for new requests and returns them; `None` when the environment is gone.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let page = if let Some(page) = self.page.take() {
                Some(page)
            } else {
                let status = self.app.client.find_environment(&self.env).await.ok()?;
                // A mock that restarts or moves to another port responds later.
                page::read_requests_after(
                    self.app.client.state(),
                    &status,
                    &self.mock,
                    self.after,
                    MAX_REQUESTS,
                )
                .await
                .ok()
            };
            if let Some(page) = page {
                if page.total < self.after {
                    // A restarted mock counts from 1 again.
                    self.after = 0;
                    continue;
                }
                let first = page.requests.first().map(|request| request.number);
                let missed = first.map_or(0, |first| first - self.after - 1);
                let lagged = (self.after > 0 && missed > 0).then(|| {
                    Event::default()
                        .event("lagged")
                        .data(json!({ "missed": missed }).to_string())
                });
                let events: Vec<Event> = lagged
                    .into_iter()
                    .chain(page.requests.iter().map(request_event))
                    .collect();
                self.after = page.total;
                if !events.is_empty() {
                    return Some(events);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn request_event(request: &page::Request) -> Event {
    let event = Event::default().event("request").id(request.number.to_string());
    // Our own type has only text keys, so it always serializes.
    event.data(serde_json::to_string(request).unwrap_or_default())
}
