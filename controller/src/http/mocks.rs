//! What mocks were asked, as they tell it themselves: the last requests, or each as it comes.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;

use super::AppState;
use super::events::last_heard;
use super::params::{Path, Query};
use super::problem::Problem;
use crate::cli::{evidence_store, mock};

/// Requests where nobody says how many, and the most: a mock keeps no more.
const REQUESTS: usize = 20;
const MOST: usize = 1_000;
/// How often a mock is asked what is new, as long as somebody listens.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tail {
    /// The last requests.
    tail: Option<usize>,
    /// And then each as it comes, as server-sent events.
    #[serde(default)]
    follow: bool,
}

/// Somebody who hears of each request.
struct Listener {
    desk: AppState,
    env: String,
    mock: String,
    /// The last one that was told.
    after: u64,
    /// What was asked for already, and is to be told first.
    page: Option<mock::MockRequestsPage>,
}

pub(super) async fn requests(
    State(desk): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(asked): Query<Tail>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let not_found = |failure| Problem::from(failure).status(StatusCode::NOT_FOUND);
    let status = desk.client.find_environment(&env).await.map_err(not_found)?;
    if !status.services.iter().any(|row| row.name == name) {
        return Err(not_found(evidence_store::no_service(&status, &name)));
    }
    let tail = asked.tail.unwrap_or(REQUESTS).min(MOST);
    let heard = if asked.follow {
        last_heard(&headers, None)?
    } else {
        None
    };
    let (after, tail) = heard.map_or((0, tail), |heard| (heard, MOST));
    let page = Box::pin(mock::asked_after(&status, &name, after, tail)).await?;
    if !asked.follow {
        return Ok(Json(page).into_response());
    }
    let listener = Listener {
        desk: desk.clone(),
        env,
        mock: name,
        after,
        page: Some(page),
    };
    let told = listener.told().take_until(desk.stop.clone().cancelled_owned());
    let alive = KeepAlive::new().interval(super::events::HEARTBEAT).text("alive");
    Ok(Sse::new(told).keep_alive(alive).into_response())
}

impl Listener {
    /// Events as they are taken: a mock is asked for the next when the last were taken.
    fn told(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut listener| async move {
            let events = listener.next().await?;
            Some((stream::iter(events.into_iter().map(Ok)), listener))
        })
        .flatten()
    }

    /// What is new, once something is; `None` when the environment is gone.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            let page = if let Some(page) = self.page.take() {
                Some(page)
            } else {
                let status = self.desk.client.find_environment(&self.env).await.ok()?;
                // One that is being restarted, or moved to another port, tells later.
                mock::asked_after(&status, &self.mock, self.after, MOST)
                    .await
                    .ok()
            };
            if let Some(page) = page {
                if page.total < self.after {
                    // It was started anew, and counts from 1 again.
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
                    .chain(page.requests.iter().map(event))
                    .collect();
                self.after = page.total;
                if !events.is_empty() {
                    return Some(events);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn event(request: &mock::Request) -> Event {
    let event = Event::default().event("request").id(request.number.to_string());
    // Our own type has text keys only: it can always be written.
    event.data(serde_json::to_string(request).unwrap_or_default())
}
