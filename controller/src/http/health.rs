//! Liveness and readiness of the controller.

use argus_crds::status::Mode;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::AppState;

/// Response of the liveness check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok`, or `stalled` if the reconcile loop does not reply to its watchdog.
    pub(crate) status: String,
    /// Mode of the controller.
    pub(crate) mode: Mode,
    /// Reason of the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_reason: Option<String>,
}

pub(super) async fn healthz(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    let (mode, mode_reason) = current_mode(&app);
    let parts = app.client.in_process_parts();
    let (status, word) = if parts.is_some_and(|parts| parts.handle.heartbeat().is_stuck()) {
        (StatusCode::SERVICE_UNAVAILABLE, "stalled")
    } else {
        (StatusCode::OK, "ok")
    };
    let health = Health {
        status: word.to_owned(),
        mode,
        mode_reason,
    };
    (status, Json(health))
}

/// Responds like the Kubernetes API server: one line per check, and 503 if a check fails.
pub(super) async fn readyz(State(app): State<AppState>) -> Response {
    let Some(parts) = app.client.in_process_parts() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let snapshot = parts.handle.snapshot();
    let checks = [
        ("engine", snapshot.store.is_reachable()),
        ("list", snapshot.store.last_complete() > 0),
        (
            "specs",
            snapshot.specs.scanned && snapshot.specs.unavailable.is_none(),
        ),
        ("journal", snapshot.problems.safe.is_none()),
        ("loop", !parts.handle.heartbeat().is_late()),
    ];
    let line = |(name, holds): &(&str, bool)| {
        let (mark, word) = if *holds { ('+', "ok") } else { ('-', "failed") };
        format!("[{mark}]{name} {word}\n")
    };
    let all = checks.iter().all(|(_, holds)| *holds);
    let (status, end) = if all {
        (StatusCode::OK, "readyz check passed\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "readyz check failed\n")
    };
    let mut text: String = checks.iter().map(line).collect();
    text.push_str(end);
    (status, text).into_response()
}

/// Returns the mode from memory, not from the status files, which stay outdated on a full disk.
fn current_mode(app: &AppState) -> (Mode, Option<String>) {
    match app.client.in_process_parts() {
        Some(parts) => {
            let snapshot = parts.handle.snapshot();
            (snapshot.mode, snapshot.mode_reason())
        }
        None => (Mode::default(), None),
    }
}
