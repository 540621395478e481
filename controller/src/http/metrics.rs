//! `/metrics`, for Prometheus.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus::TEXT_FORMAT;

use super::AppState;
use super::problem::Problem;
use crate::process::exit::Failure;

pub(super) async fn metrics(State(app): State<AppState>) -> Result<Response, Problem> {
    let Some(parts) = app.client.in_process_parts() else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller runs in this process",
        ));
    };
    let metrics = parts.metrics.clone();
    // Hundreds of environments are tens of thousands of lines, so the text is written on another thread.
    let text = tokio::task::spawn_blocking(move || metrics.render()).await;
    let failed = |error: &dyn std::error::Error| {
        Problem::from(Failure::operation_failed("cannot write the metrics", error))
    };
    let text = text
        .map_err(|error| failed(&error))?
        .map_err(|error| failed(&error))?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
