//! What mocks were asked, as they tell it themselves.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::Desk;
use super::asked::{Path, Query};
use super::problem::Problem;
use crate::cli::{kept, mock};

/// Requests where nobody says how many, and the most: a mock keeps no more.
const REQUESTS: usize = 20;
const MOST: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tail {
    /// The last requests.
    tail: Option<usize>,
}

pub(super) async fn requests(
    State(desk): State<Desk>,
    Path((env, name)): Path<(String, String)>,
    Query(tail): Query<Tail>,
) -> Result<Response, Problem> {
    let not_found = |failure| Problem::from(failure).status(StatusCode::NOT_FOUND);
    let status = desk.surface.found(&env).await.map_err(not_found)?;
    if !status.services.iter().any(|row| row.name == name) {
        return Err(not_found(kept::no_service(&status, &name)));
    }
    let tail = tail.tail.unwrap_or(REQUESTS).min(MOST);
    let asked = Box::pin(mock::asked(&status, &name, tail)).await?;
    Ok(Json(asked).into_response())
}
