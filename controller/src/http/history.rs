//! Pages of the journal, incidents, and failed runs with stored evidence.

use argus_core::journal::EventFilter;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::AppState;
use super::environments::find_environment;
use super::events::{record_to_json, split_names};
use super::guard::Trust;
use super::params::{Path, Query};
use super::problem::Problem;
use crate::cli::events::page::{EventsPage, read_page, set_public_name};
use crate::cli::{evidence, evidence_store, incidents as cli_incidents};

/// Default and maximum number of records.
const DEFAULT_EVENTS: usize = 100;
const MAX_EVENTS: usize = 1_000;

/// Allows one request at a time, because it can read the whole journal.
static PAGES: Semaphore = Semaphore::const_new(1);

/// Query of the recorded events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// Environments, separated by commas; default: all.
    environment: Option<String>,
    /// Names of records, separated by commas; default: all.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only records after this number, oldest first; default: the newest records.
    after: Option<u64>,
    /// Maximum number of records.
    tail: Option<usize>,
}

/// Query of the failed runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceQuery {
    /// Service name; default: all.
    service: Option<String>,
}

pub(super) async fn events(
    State(app): State<AppState>,
    Query(query): Query<HistoryQuery>,
    Extension(trust): Extension<Trust>,
) -> Result<Response, Problem> {
    let filter = EventFilter {
        environments: split_names(query.environment.as_deref()),
        names: split_names(query.kind.as_deref()),
    };
    super::events::check_names(&filter.names, &[])?;
    let most = query.tail.unwrap_or(DEFAULT_EVENTS).clamp(1, MAX_EVENTS);
    // The semaphore is never closed.
    let _turn = PAGES.acquire().await;
    let page = read_page(&app.client.open_feed(), &filter, query.after, most).await;
    let to_json = |record: &std::sync::Arc<argus_core::journal::Record>| {
        let mut value = record_to_json(record, trust);
        set_public_name(&mut value, record);
        value
    };
    let response = EventsPage {
        items: page.records.iter().map(to_json).collect(),
        last: page.last,
        missed: page.missed,
    };
    Ok(Json(response).into_response())
}

pub(super) async fn incidents(State(app): State<AppState>) -> Result<Response, Problem> {
    let read = app
        .client
        .run_blocking(|client| cli_incidents::read_incidents(client.state()));
    Ok(Json(json!({ "items": read.await? })).into_response())
}

pub(super) async fn incident(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let all = app
        .client
        .run_blocking(|client| cli_incidents::read_incidents(client.state()));
    let one = cli_incidents::find_incident(all.await?, &id);
    let one = one.map_err(|unknown_id| Problem::from(unknown_id).with_status(StatusCode::NOT_FOUND))?;
    Ok(Json(one).into_response())
}

pub(super) async fn evidence(
    State(app): State<AppState>,
    Path(env): Path<String>,
    Query(query): Query<ServiceQuery>,
) -> Result<Response, Problem> {
    let status = find_environment(&app, &env).await?;
    // A name becomes part of a path, so only existing names are allowed.
    let unknown = |name: &&String| !status.services.iter().any(|row| row.name == **name);
    if let Some(name) = query.service.as_ref().filter(unknown) {
        return Err(Problem::from(evidence_store::no_service_failure(&status, name))
            .with_status(StatusCode::NOT_FOUND));
    }
    let read = app.client.run_blocking(move |client| {
        let service = query.service.as_deref();
        Ok(evidence::list_runs(client.state(), &env, service))
    });
    let missing = |failure| Problem::from(failure).with_status(StatusCode::NOT_FOUND);
    Ok(Json(read.await?.map_err(missing)?).into_response())
}
