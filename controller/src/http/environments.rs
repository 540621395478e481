//! Environments, services, logs and breakers, from the last written statuses, so that a response waits for nothing.

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
    breaker as cli_breaker, evidence as cli_evidence, evidence_store, logs as cli_logs, why as cli_why,
};
use crate::client::ControllerClient;
use crate::view::Statuses;

/// Query of the list of environments.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detail {
    /// `full` for the status documents; `summary` is the default.
    detail: Option<String>,
    /// Filter by phase.
    phase: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lines {
    /// Maximum number of lines per stream.
    tail: Option<u32>,
    /// Number of a failed run; default: the newest.
    run: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tail {
    /// Maximum number of lines per container.
    tail: Option<u32>,
}

/// Default number of lines.
const LINES: u32 = 100;
/// Maximum number of lines.
const MAX_LINES: u32 = 10_000;

pub(super) async fn controller(State(app): State<AppState>) -> Result<Response, Problem> {
    let statuses = read_statuses(&app).await?;
    Ok(Json(&statuses.controller).into_response())
}

pub(super) async fn list(
    State(app): State<AppState>,
    Query(wanted): Query<Detail>,
) -> Result<Response, Problem> {
    let statuses = read_statuses(&app).await?;
    let is_wanted = |status: &&EnvironmentStatus| {
        let phase = format!("{:?}", status.phase);
        wanted
            .phase
            .as_ref()
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(&phase))
    };
    let all = statuses.environments.values().filter(is_wanted);
    let items: Vec<Value> = match wanted.detail.as_deref() {
        Some("full") => all.map(|status| json!(status)).collect(),
        Some("summary") | None => all.map(summarize).collect(),
        Some(other) => {
            let message = format!("`detail` must be `full` or `summary`, not `{other}`");
            return Err(Problem::new(StatusCode::BAD_REQUEST, message));
        }
    };
    Ok(Json(json!({ "items": items })).into_response())
}

/// Summarizes the status of an environment.
pub(crate) fn summarize(status: &EnvironmentStatus) -> Value {
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

pub(super) async fn environment(
    State(app): State<AppState>,
    Path(env): Path<String>,
) -> Result<Response, Problem> {
    Ok(Json(find_environment(&app, &env).await?).into_response())
}

pub(super) async fn why(State(app): State<AppState>, Path(env): Path<String>) -> Result<Response, Problem> {
    let status = find_environment(&app, &env).await?;
    let read = app
        .client
        .run_blocking(move |client| cli_why::explain(client.state(), &status, None));
    Ok(Json(read.await?).into_response())
}

pub(super) async fn why_service(
    State(app): State<AppState>,
    Path((env, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    find_service(&app, &env, &name).await?;
    let status = find_environment(&app, &env).await?;
    let read = app
        .client
        .run_blocking(move |client| cli_why::explain(client.state(), &status, Some(&name)));
    Ok(Json(read.await?).into_response())
}

pub(super) async fn service(
    State(app): State<AppState>,
    Path((env, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    Ok(Json(find_service(&app, &env, &name).await?).into_response())
}

pub(super) async fn logs(
    State(app): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(lines): Query<Lines>,
) -> Result<Response, Problem> {
    find_service(&app, &env, &name).await?;
    if lines.run.is_some() {
        let message = "the output of failed runs is at `…/evidence?run=N`";
        return Err(Problem::new(StatusCode::BAD_REQUEST, message));
    }
    logs_response(&app, &env, Some(&name), lines.tail).await
}

pub(super) async fn all_logs(
    State(app): State<AppState>,
    Path(env): Path<String>,
    Query(tail): Query<Tail>,
) -> Result<Response, Problem> {
    find_environment(&app, &env).await?;
    logs_response(&app, &env, None, tail.tail).await
}

async fn logs_response(
    app: &AppState,
    env: &str,
    service: Option<&str>,
    tail: Option<u32>,
) -> Result<Response, Problem> {
    let tail = tail.unwrap_or(LINES).min(MAX_LINES);
    let output = Box::pin(cli_logs::read_tail(app.client.settings(), env, service, tail)).await?;
    Ok(Json(output).into_response())
}

pub(super) async fn evidence(
    State(app): State<AppState>,
    Path((env, name)): Path<(String, String)>,
    Query(lines): Query<Lines>,
) -> Result<Response, Problem> {
    find_service(&app, &env, &name).await?;
    let tail = lines.tail.unwrap_or(LINES).min(MAX_LINES);
    let tail = usize::try_from(tail).unwrap_or(usize::MAX);
    let read = app.client.run_blocking(move |client| {
        let state = client.state();
        match evidence_store::select_run(state, &env, &name, lines.run) {
            Ok(run) => cli_evidence::create_report(state, &run, tail).map(Ok),
            Err(missing) => Ok(Err(missing)),
        }
    });
    let missing = |failure| Problem::from(failure).with_status(StatusCode::NOT_FOUND);
    Ok(Json(read.await?.map_err(missing)?).into_response())
}

pub(super) async fn breakers(State(app): State<AppState>) -> Result<Response, Problem> {
    let statuses = read_statuses(&app).await?;
    let engine = statuses.controller.breaker.clone();
    Ok(Json(cli_breaker::BreakerReport::of(
        engine,
        statuses.environments.values(),
    ))
    .into_response())
}

pub(super) async fn orphans(State(app): State<AppState>) -> Result<Response, Problem> {
    let statuses = read_statuses(&app).await?;
    Ok(Json(json!({ "items": statuses.controller.orphans })).into_response())
}

/// Returns the statuses. Those of a controller in this process are in memory, others are read from files.
async fn read_statuses(app: &AppState) -> Result<Arc<Statuses>, Problem> {
    if app.client.in_process_parts().is_some() {
        return Ok(app.client.read_statuses()?);
    }
    Ok(app.client.run_blocking(ControllerClient::read_statuses).await?)
}

/// Returns the status of an existing environment.
pub(super) async fn find_environment(app: &AppState, env: &str) -> Result<EnvironmentStatus, Problem> {
    let found = app.client.find_environment(env).await;
    found.map_err(|failure| match Problem::from(failure) {
        // After a timeout, the environment can still exist.
        problem if problem.is_of(Code::Timeout) => problem,
        problem => problem.with_status(StatusCode::NOT_FOUND),
    })
}

async fn find_service(app: &AppState, env: &str, name: &str) -> Result<ServiceStatus, Problem> {
    let status = find_environment(app, env).await?;
    let found = status.services.iter().find(|row| row.name == name);
    found.cloned().ok_or_else(|| {
        Problem::from(evidence_store::no_service_failure(&status, name)).with_status(StatusCode::NOT_FOUND)
    })
}
