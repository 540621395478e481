//! Commands that change something, with the verbs of the CLI.

use std::time::Duration;

use argus_reconciler::{Command, clock};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::params::Path;
use super::problem::Problem;
use super::{AppState, BODY_TIMEOUT};

/// Default maximum duration of a test.
const DEFAULT_TEST_TTL: Duration = Duration::from_secs(600);

/// Runs a command whose verb is in the body.
pub(super) async fn run_command(State(app): State<AppState>, request: Request) -> Result<Response, Problem> {
    let body = read_body(request).await?;
    post_command(&app, body).await
}

/// Runs a command whose verb is in the path.
pub(super) async fn run_named_command(
    State(app): State<AppState>,
    Path(verb): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut body = read_body(request).await?;
    body.insert("verb".to_owned(), Value::String(verb));
    post_command(&app, body).await
}

async fn post_command(app: &AppState, mut body: Map<String, Value>) -> Result<Response, Problem> {
    normalize_body(&mut body)?;
    let command: Command = serde_json::from_value(Value::Object(body))
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("invalid command: {error}")))?;
    let reply = app.client.send(command).await?;
    Ok((StatusCode::ACCEPTED, Json(reply)).into_response())
}

/// Converts CLI and MCP fields into those of [`Command`]: durations become times, and missing fields get their defaults.
fn normalize_body(body: &mut Map<String, Value>) -> Result<(), Problem> {
    match body.get("verb").and_then(Value::as_str) {
        Some("hold") => {
            let span = take_seconds(body, "forSeconds")?;
            body.extend(span.map(|span| ("until".to_owned(), json!(clock::now() + span))));
        }
        Some("beginTest") => {
            let span = take_seconds(body, "ttlSeconds")?.unwrap_or(DEFAULT_TEST_TTL);
            body.entry("ttl").or_insert_with(|| json!(span));
        }
        Some("fork") => {
            let env = body.get("environment").and_then(Value::as_str);
            let copy = env.map(|env| format!("{env}-fork")).unwrap_or_default();
            body.entry("to").or_insert_with(|| copy.into());
        }
        Some(_) | None => {}
    }
    Ok(())
}

fn take_seconds(body: &mut Map<String, Value>, name: &str) -> Result<Option<Duration>, Problem> {
    let Some(span) = body.remove(name) else {
        return Ok(None);
    };
    let seconds = span
        .as_u64()
        .filter(|seconds| (1..=u64::from(u32::MAX)).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        let message = format!("`{name}` must be a positive number of seconds, not `{span}`");
        Problem::new(StatusCode::BAD_REQUEST, message)
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

/// Reads the JSON object of the body within [`BODY_TIMEOUT`]; an empty body is an empty object.
pub(super) async fn read_body(request: Request) -> Result<Map<String, Value>, Problem> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(rejection)) => return Err(body_problem(&rejection)),
        Err(_) => {
            let message = format!(
                "timed out after {} s reading the request body",
                BODY_TIMEOUT.as_secs()
            );
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the body is not a JSON object: {error}");
        Problem::new(StatusCode::BAD_REQUEST, message)
    })
}

fn body_problem(rejection: &BytesRejection) -> Problem {
    let status = rejection.status();
    let message = if status == StatusCode::PAYLOAD_TOO_LARGE {
        "the body exceeds the size limit".to_owned()
    } else {
        rejection.body_text().to_lowercase()
    };
    Problem::new(status, message)
}
