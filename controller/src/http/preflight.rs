//! Preflight checks and explanations of error codes.

use argus_crds::status::CheckName;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;

use super::params::Query;
use super::problem::Problem;
use super::{AppState, actions};
use crate::cli::preflight as cli_preflight;

/// Query of a preflight.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkipQuery {
    /// Names of checks to skip, separated by commas.
    skip: Option<String>,
}

/// Body of a preflight that can fix problems.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FixRequest {
    /// Names of checks to skip.
    #[serde(default)]
    skip: Vec<String>,
    /// Remove orphans, then check again.
    #[serde(default)]
    fix: bool,
}

pub(super) async fn preflight(
    State(app): State<AppState>,
    Query(skip): Query<SkipQuery>,
) -> Result<Response, Problem> {
    let skip = skip.skip.unwrap_or_default();
    let names = skip.split(',').filter(|name| !name.is_empty());
    run_preflight(&app, parse_checks(names)?, false).await
}

pub(super) async fn fix(State(app): State<AppState>, request: Request) -> Result<Response, Problem> {
    let body = Value::Object(actions::read_body(request).await?);
    let body: FixRequest = serde_json::from_value(body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string().to_lowercase()))?;
    let skip = parse_checks(body.skip.iter().map(String::as_str))?;
    run_preflight(&app, skip, body.fix).await
}

fn parse_checks<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<CheckName>, Problem> {
    names
        .map(|name| cli_preflight::parse_check_name(name.trim()))
        .collect::<Result<_, _>>()
        .map_err(|reason| Problem::new(StatusCode::BAD_REQUEST, format!("unknown check; {reason}")))
}

async fn run_preflight(app: &AppState, skip: Vec<CheckName>, fix: bool) -> Result<Response, Problem> {
    let report = app.client.run_preflight(&skip, fix).await?;
    Ok(Json(report).into_response())
}
