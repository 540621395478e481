//! `/metrics`: for a Prometheus.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus::TEXT_FORMAT;

use super::AppState;
use super::problem::Problem;
use crate::exit::Failure;

pub(super) async fn metrics(State(desk): State<AppState>) -> Result<Response, Problem> {
    let Some(own) = desk.client.in_process_parts() else {
        return Err(Problem::asked(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller is here",
        ));
    };
    let metrics = own.metrics.clone();
    // Hundreds of environments are tens of thousands of lines: nobody else waits for them to be written.
    let text = tokio::task::spawn_blocking(move || metrics.text()).await;
    let failed =
        |error: &dyn std::error::Error| Problem::from(Failure::fault("cannot write the metrics", error));
    let text = text
        .map_err(|error| failed(&error))?
        .map_err(|error| failed(&error))?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
