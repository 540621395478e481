//! Waiting over HTTP: an answer that comes when an environment is as it was waited for, or cannot become so.

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
use crate::cli::wait::{Goal, until};

/// Each looks at the files again and again: more at once than people and their scripts need are turned away.
static WAITS: Semaphore = Semaphore::const_new(64);
/// Longer than this no client waits.
const LONGEST: u64 = 3_600;

/// What is waited for.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum For {
    #[default]
    Ready,
    Gone,
}

/// What is waited for, and how long.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WaitQuery {
    #[serde(default, rename = "for")]
    goal: For,
    #[serde(default = "timeout")]
    timeout_seconds: u64,
}

fn timeout() -> u64 {
    120
}

pub(super) async fn wait(
    State(desk): State<AppState>,
    Path(env): Path<String>,
    Query(asked): Query<WaitQuery>,
    Extension(trust): Extension<Trust>,
) -> Result<Response, Problem> {
    let not_found = |bad| Problem::from(bad).status(StatusCode::NOT_FOUND);
    status::named(&env).map_err(not_found)?;
    let Ok(_place) = WAITS.try_acquire() else {
        let message = "too many wait already; `/events` tells any number what changes";
        return Err(Problem::asked(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    if trust == Trust::User {
        // An edit from just now counts.
        drop(desk.client.execute(Command::Sync).await);
    }
    let goal = match asked.goal {
        For::Ready => Goal::Ready,
        For::Gone => Goal::Gone,
    };
    let limit = Duration::from_secs(asked.timeout_seconds.min(LONGEST));
    let names = [env.clone()];
    let reached = tokio::select! {
        reached = until(desk.client.state(), Some(&names), goal, limit, |_| {}) => reached,
        () = desk.stop.cancelled() => {
            let message = "the controller is stopping";
            return Err(Problem::asked(StatusCode::SERVICE_UNAVAILABLE, message));
        }
    };
    match reached?.pop() {
        Some(status) => Ok(Json(status).into_response()),
        None => Ok(Json(json!({ "environment": env, "phase": "Gone" })).into_response()),
    }
}
