//! What is known of environments: as it was written last, so that no answer waits for anything.

use std::sync::Arc;

use argus_crds::error::Code;
use argus_crds::status::{EnvironmentStatus, ServiceState, ServiceStatus};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::params::{Path, Query};
use super::problem::Problem;
use crate::cli::{
    breaker as cli_breaker, evidence as kept_evidence, evidence_store, logs as cli_logs, why as cli_why,
};
use crate::client::ControllerClient;
use crate::view::StatusDocuments;

/// How much of something is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detail {
    /// `full`: whole statuses.
    detail: Option<String>,
    /// Only those in this phase.
    phase: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lines {
    /// The last lines of each stream.
    tail: Option<u32>,
    /// Of failed runs, which; the newest without.
    run: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tail {
    /// The last lines of each container.
    tail: Option<u32>,
}

/// Lines where nobody says how many.
const LINES: u32 = 100;
/// More at once help nobody.
const MOST_LINES: u32 = 10_000;

pub(super) async fn controller(State(desk): State<AppState>) -> Result<Response, Problem> {
    let shown = shown(&desk).await?;
    Ok(Json(&shown.controller).into_response())
}

pub(super) async fn list(
    State(desk): State<AppState>,
    Query(wanted): Query<Detail>,
) -> Result<Response, Problem> {
    let shown = shown(&desk).await?;
    let is_wanted = |status: &&EnvironmentStatus| {
        let phase = format!("{:?}", status.phase);
        wanted
            .phase
            .as_ref()
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(&phase))
    };
    let all = shown.environments.values().filter(is_wanted);
    let items: Vec<Value> = match wanted.detail.as_deref() {
        Some("full") => all.map(|status| json!(status)).collect(),
        Some("summary") | None => all.map(summary).collect(),
        Some(other) => {
            let message = format!("`detail` is `full` or `summary`, and not `{other}`");
            return Err(Problem::asked(StatusCode::BAD_REQUEST, message));
        }
    };
    Ok(Json(json!({ "items": items })).into_response())
}

/// An environment in a few words.
pub(crate) fn summary(status: &EnvironmentStatus) -> Value {
    let good = |row: &&ServiceStatus| matches!(row.state, ServiceState::Ready | ServiceState::Completed);
    let ready = status.services.iter().filter(good).count();
    let mut value = json!({
        "environment": status.environment,
        "project": status.project,
        "phase": status.phase,
        "revision": status.revision,
        "ready": ready,
        "services": status.services.len(),
        "restarts": status.services.iter().map(|row| row.restarts).sum::<u32>(),
        "mode": status.mode,
        "asOf": status.as_of,
    });
    if status.stale {
        value["stale"] = json!(true);
    }
    if !status.tests.is_empty() {
        value["tests"] = json!(status.tests);
    }
    if !status.holds.is_empty() {
        value["holds"] = json!(status.holds);
    }
    if let Some(error) = status.errors.first() {
        value["error"] = json!({
            "code": error.code, "errorId": error.error_id, "service": error.service, "message": error.message,
        });
    }
    value
}

pub(super) async fn one(State(desk): State<AppState>, Path(env): Path<String>) -> Result<Response, Problem> {
    Ok(Json(environment(&desk, &env).await?).into_response())
}

pub(super) async fn why(State(desk): State<AppState>, Path(env): Path<String>) -> Result<Response, Problem> {
    let status = environment(&desk, &env).await?;
    let read = desk
        .client
        .read(move |client| cli_why::told(client.state(), &status, None));
    Ok(Json(read.await?).into_response())
}

pub(super) async fn why_service(
    State(desk): State<AppState>,
    Path((env, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    row(&desk, &env, &name).await?;
    let status = environment(&desk, &env).await?;
    let read = desk
        .client
        .read(move |client| cli_why::told(client.state(), &status, Some(&name)));
    Ok(Json(read.await?).into_response())
}

pub(super) async fn service(
    State(desk): State<AppState>,
    Path((env, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    Ok(Json(row(&desk, &env, &name).await?).into_response())
}

pub(super) async fn logs(
    State(desk): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(lines): Query<Lines>,
) -> Result<Response, Problem> {
    row(&desk, &env, &name).await?;
    if lines.run.is_some() {
        let message = "a failed run's lines are at `…/evidence?run=N`";
        return Err(Problem::asked(StatusCode::BAD_REQUEST, message));
    }
    written(&desk, &env, Some(&name), lines.tail).await
}

pub(super) async fn all_logs(
    State(desk): State<AppState>,
    Path(env): Path<String>,
    Query(tail): Query<Tail>,
) -> Result<Response, Problem> {
    environment(&desk, &env).await?;
    written(&desk, &env, None, tail.tail).await
}

async fn written(
    desk: &AppState,
    env: &str,
    service: Option<&str>,
    tail: Option<u32>,
) -> Result<Response, Problem> {
    let tail = tail.unwrap_or(LINES).min(MOST_LINES);
    let told = Box::pin(cli_logs::tail(desk.client.settings(), env, service, tail)).await?;
    Ok(Json(told).into_response())
}

pub(super) async fn evidence(
    State(desk): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(lines): Query<Lines>,
) -> Result<Response, Problem> {
    row(&desk, &env, &name).await?;
    let tail = lines.tail.unwrap_or(LINES).min(MOST_LINES);
    let tail = usize::try_from(tail).unwrap_or(usize::MAX);
    let read = desk.client.read(move |client| {
        let state = client.state();
        match evidence_store::chosen(state, &env, &name, lines.run) {
            Ok(run) => kept_evidence::told(state, &run, tail).map(Ok),
            Err(missing) => Ok(Err(missing)),
        }
    });
    let missing = |failure| Problem::from(failure).status(StatusCode::NOT_FOUND);
    Ok(Json(read.await?.map_err(missing)?).into_response())
}

pub(super) async fn breakers(State(desk): State<AppState>) -> Result<Response, Problem> {
    let shown = shown(&desk).await?;
    let engine = shown.controller.breaker.clone();
    Ok(Json(cli_breaker::BreakerReport::of(
        engine,
        shown.environments.values(),
    ))
    .into_response())
}

pub(super) async fn orphans(State(desk): State<AppState>) -> Result<Response, Problem> {
    let shown = shown(&desk).await?;
    Ok(Json(json!({ "items": shown.controller.orphans })).into_response())
}

/// Of the controller in this process it is in memory already.
async fn shown(desk: &AppState) -> Result<Arc<StatusDocuments>, Problem> {
    if desk.client.in_process_parts().is_some() {
        return Ok(desk.client.shown()?);
    }
    Ok(desk.client.read(ControllerClient::shown).await?)
}

/// The status of an environment that has to be there.
pub(super) async fn environment(desk: &AppState, env: &str) -> Result<EnvironmentStatus, Problem> {
    let found = desk.client.find_environment(env).await;
    found.map_err(|failure| match Problem::from(failure) {
        // That it could not be looked for does not say that it is not there.
        problem if problem.is_of(Code::Timeout) => problem,
        problem => problem.status(StatusCode::NOT_FOUND),
    })
}

async fn row(desk: &AppState, env: &str, name: &str) -> Result<ServiceStatus, Problem> {
    let status = environment(desk, env).await?;
    let found = status.services.iter().find(|row| row.name == name);
    found
        .cloned()
        .ok_or_else(|| Problem::from(evidence_store::no_service(&status, name)).status(StatusCode::NOT_FOUND))
}
