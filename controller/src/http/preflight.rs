//! What is found out when it is asked for: the preflight, and what codes mean.

use argus_crds::error::Code;
use argus_crds::status::CheckName;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;

use super::params::{Path, Query};
use super::problem::Problem;
use super::{AppState, actions};
use crate::cli::{explain, preflight as cli_preflight};

/// What is left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkipQuery {
    /// Checks, with commas between them.
    skip: Option<String>,
}

/// The same in a body.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FixRequest {
    /// Checks that are not made.
    #[serde(default)]
    skip: Vec<String>,
    /// Remove what dead runs left, then look again.
    #[serde(default)]
    fix: bool,
}

pub(super) async fn preflight(
    State(desk): State<AppState>,
    Query(skip): Query<SkipQuery>,
) -> Result<Response, Problem> {
    let skip = skip.skip.unwrap_or_default();
    let names = skip.split(',').filter(|name| !name.is_empty());
    look(&desk, checks(names)?, false).await
}

pub(super) async fn mend(State(desk): State<AppState>, request: Request) -> Result<Response, Problem> {
    let body = Value::Object(actions::body(request).await?);
    let wanted: FixRequest = serde_json::from_value(body)
        .map_err(|error| Problem::asked(StatusCode::BAD_REQUEST, error.to_string().to_lowercase()))?;
    let skip = checks(wanted.skip.iter().map(String::as_str))?;
    look(&desk, skip, wanted.fix).await
}

fn checks<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<CheckName>, Problem> {
    names
        .map(|name| cli_preflight::check_name(name.trim()))
        .collect::<Result<_, _>>()
        .map_err(|why| Problem::asked(StatusCode::BAD_REQUEST, format!("no such check; {why}")))
}

async fn look(desk: &AppState, skip: Vec<CheckName>, mend: bool) -> Result<Response, Problem> {
    let report = desk.client.preflight(&skip, mend).await?;
    Ok(Json(report).into_response())
}

pub(super) async fn codes() -> Json<Value> {
    Json(explain::all())
}

pub(super) async fn code(Path(code): Path<String>) -> Result<Json<Value>, Problem> {
    let code: Code = code.parse().map_err(|error: argus_crds::error::UnknownCode| {
        Problem::asked(StatusCode::NOT_FOUND, error.to_string())
    })?;
    Ok(Json(explain::value(code)))
}
