//! Whether the controller lives, and whether it can do its work.

use argus_crds::status::Mode;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::AppState;

/// How a controller is: it answers, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok`, for it answers.
    pub(crate) status: String,
    /// What it may do at present.
    pub(crate) mode: Mode,
    /// Why it is in that mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_reason: Option<String>,
}

pub(super) async fn healthz(State(desk): State<AppState>) -> Json<Health> {
    let (mode, mode_reason) = mode(&desk);
    Json(Health {
        status: "ok".to_owned(),
        mode,
        mode_reason,
    })
}

/// As the Kubernetes API server answers: a line a check, and 503 where one does not hold.
pub(super) async fn readyz(State(desk): State<AppState>) -> Response {
    let Some(own) = desk.client.in_process_parts() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let snapshot = own.handle.snapshot();
    let checks = [
        ("engine", snapshot.store.reachable()),
        ("list", snapshot.store.last_complete() > 0),
        (
            "specs",
            snapshot.specs.scanned && snapshot.specs.unavailable.is_none(),
        ),
        ("journal", snapshot.problems.safe.is_none()),
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

/// Of the controller itself and not of its files: on a full disk those stay as they were.
fn mode(desk: &AppState) -> (Mode, Option<String>) {
    match desk.client.in_process_parts() {
        Some(own) => {
            let snapshot = own.handle.snapshot();
            (snapshot.mode, snapshot.mode_reason())
        }
        None => (Mode::default(), None),
    }
}
