//! What happened: pages of the journal, incidents, and the failed runs of which something is kept.

use argus_core::journal::EventFilter;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::AppState;
use super::environments::environment;
use super::events::{names, shown};
use super::guard::Trust;
use super::params::{Path, Query};
use super::problem::Problem;
use crate::cli::events::page::{EventsPage, page};
use crate::cli::{evidence, evidence_store, incidents as cli_incidents};

/// Records where nobody says how many, and the most.
const EVENTS: usize = 100;
const MOST: usize = 1_000;

/// It may read the whole journal: one at a time, whoever asks.
static PAGES: Semaphore = Semaphore::const_new(1);

/// Which records are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// Environments, with commas between them; all without.
    environment: Option<String>,
    /// Names of records, with commas between them; all without.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only what came after this number, oldest first; the newest without.
    after: Option<u64>,
    /// How many at most.
    tail: Option<usize>,
}

/// Whose failed runs are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceQuery {
    /// One service; all of them without.
    service: Option<String>,
}

pub(super) async fn events(
    State(desk): State<AppState>,
    Query(asked): Query<HistoryQuery>,
    Extension(trust): Extension<Trust>,
) -> Result<Response, Problem> {
    let wanted = EventFilter {
        environments: names(asked.environment.as_deref()),
        names: names(asked.kind.as_deref()),
    };
    super::events::known(&wanted.names, &[])?;
    let most = asked.tail.unwrap_or(EVENTS).clamp(1, MOST);
    // Never closed.
    let _turn = PAGES.acquire().await;
    let page = page(&desk.client.feed(), &wanted, asked.after, most).await;
    let told = |record: &std::sync::Arc<argus_core::journal::Record>| {
        let mut told = shown(record, trust);
        told["event"] = json!(record.name());
        told
    };
    let told = EventsPage {
        items: page.records.iter().map(told).collect(),
        last: page.last,
        missed: page.missed,
    };
    Ok(Json(told).into_response())
}

pub(super) async fn incidents(State(desk): State<AppState>) -> Result<Response, Problem> {
    let read = desk.client.read(|client| cli_incidents::read(client.state()));
    Ok(Json(json!({ "items": read.await? })).into_response())
}

pub(super) async fn incident(
    State(desk): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let all = desk.client.read(|client| cli_incidents::read(client.state()));
    let one = cli_incidents::chosen(all.await?, &id);
    let one = one.map_err(|none| Problem::from(none).status(StatusCode::NOT_FOUND))?;
    Ok(Json(one).into_response())
}

pub(super) async fn evidence(
    State(desk): State<AppState>,
    Path(env): Path<String>,
    Query(whose): Query<ServiceQuery>,
) -> Result<Response, Problem> {
    let status = environment(&desk, &env).await?;
    // A name becomes a path: only those that there are.
    let unknown = |name: &&String| !status.services.iter().any(|row| row.name == **name);
    if let Some(name) = whose.service.as_ref().filter(unknown) {
        return Err(Problem::from(evidence_store::no_service(&status, name)).status(StatusCode::NOT_FOUND));
    }
    let read = desk.client.read(move |client| {
        let service = whose.service.as_deref();
        Ok(evidence::listed(client.state(), &env, service))
    });
    let missing = |failure| Problem::from(failure).status(StatusCode::NOT_FOUND);
    Ok(Json(read.await?.map_err(missing)?).into_response())
}
