//! `/metrics`: for a Prometheus.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus::TEXT_FORMAT;

use super::Desk;
use super::problem::Problem;

pub(super) async fn metrics(State(desk): State<Desk>) -> Result<Response, Problem> {
    let Some(own) = desk.surface.own() else {
        return Err(Problem::asked(
            StatusCode::SERVICE_UNAVAILABLE,
            "no controller is here",
        ));
    };
    match own.metrics.text() {
        Ok(text) => Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response()),
        Err(error) => Err(Problem::asked(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot write the metrics: {error}"),
        )),
    }
}
