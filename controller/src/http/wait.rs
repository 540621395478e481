//! Waiting over HTTP: responds when an environment has reached the goal, or cannot reach it.

use std::time::Duration;

use argus_reconciler::Command;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::AppState;
use super::guard::Trust;
use super::params::{Path, Query};
use super::problem::Problem;
use crate::cli::status;
use crate::cli::wait::{WaitGoal, wait_until};

/// Limits concurrent waits, because each one polls the status files.
static WAITS: Semaphore = Semaphore::const_new(64);
/// Maximum wait, in seconds.
const MAX_TIMEOUT: u64 = 3_600;

/// Goal of a wait.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WaitFor {
    #[default]
    Ready,
    Gone,
}

/// Query of a wait.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WaitQuery {
    #[serde(default, rename = "for")]
    goal: WaitFor,
    #[serde(default = "default_timeout")]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    120
}

pub(super) async fn wait(
    State(app): State<AppState>,
    Path(env): Path<String>,
    Query(query): Query<WaitQuery>,
    Extension(trust): Extension<Trust>,
) -> Result<Response, Problem> {
    let not_found = |failure| Problem::from(failure).with_status(StatusCode::NOT_FOUND);
    status::parse_environment(&env).map_err(not_found)?;
    let Ok(_permit) = WAITS.try_acquire() else {
        let message = "too many waiting requests; use `/events` instead";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    if trust == Trust::User {
        // The wait takes effect after all earlier edits.
        drop(app.client.send(Command::Sync).await);
    }
    let goal = match query.goal {
        WaitFor::Ready => WaitGoal::Ready,
        WaitFor::Gone => WaitGoal::Gone,
    };
    let limit = Duration::from_secs(query.timeout_seconds.min(MAX_TIMEOUT));
    let names = [env.clone()];
    let reached = tokio::select! {
        reached = wait_until(app.client.state(), Some(&names), goal, limit, |_| {}) => reached,
        () = app.stop.cancelled() => {
            let message = "the controller is stopping";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
    };
    match reached?.pop() {
        Some(status) => Ok(Json(status).into_response()),
        None => Ok(Json(json!({ "environment": env, "phase": "Gone" })).into_response()),
    }
}
