//! What changes something: the commands of the CLI, with the same words.

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
use super::{AppState, SLOWEST_BODY};

/// How long a test may take where nobody says.
const TEST: Duration = Duration::from_secs(600);

/// A command with its verb in it.
pub(super) async fn act(State(desk): State<AppState>, request: Request) -> Result<Response, Problem> {
    let body = body(request).await?;
    post_command(&desk, body).await
}

/// A command whose verb is in the path.
pub(super) async fn act_by_name(
    State(desk): State<AppState>,
    Path(verb): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut body = body(request).await?;
    body.insert("verb".to_owned(), Value::String(verb));
    post_command(&desk, body).await
}

async fn post_command(desk: &AppState, mut body: Map<String, Value>) -> Result<Response, Problem> {
    words(&mut body)?;
    let command: Command = serde_json::from_value(Value::Object(body)).map_err(|error| {
        Problem::asked(
            StatusCode::BAD_REQUEST,
            format!("this is no command: {}", error.to_string().to_lowercase()),
        )
    })?;
    let gone = match command.environment() {
        Some(env) => desk.client.find_environment(env.as_str()).await.is_err(),
        None => false,
    };
    match desk.client.execute(command).await {
        Ok(answer) => Ok((StatusCode::ACCEPTED, Json(answer)).into_response()),
        Err(failure) if gone => Err(Problem::from(failure).status(StatusCode::NOT_FOUND)),
        Err(failure) => Err(Problem::from(failure)),
    }
}

/// The words of the CLI and of MCP in those of the controller: spans for times, and what stands where something is left out.
fn words(body: &mut Map<String, Value>) -> Result<(), Problem> {
    match body.get("verb").and_then(Value::as_str) {
        Some("hold") => {
            let span = seconds(body, "forSeconds")?;
            body.extend(span.map(|span| ("until".to_owned(), json!(clock::now() + span))));
        }
        Some("beginTest") => {
            let span = seconds(body, "ttlSeconds")?.unwrap_or(TEST);
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

/// A span, where one is named.
fn seconds(body: &mut Map<String, Value>, name: &str) -> Result<Option<Duration>, Problem> {
    let Some(span) = body.remove(name) else {
        return Ok(None);
    };
    let seconds = span
        .as_u64()
        .filter(|seconds| (1..=u64::from(u32::MAX)).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        let message = format!("`{name}` is a number of seconds, and not `{span}`");
        Problem::asked(StatusCode::BAD_REQUEST, message)
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

/// An object in the body, or none; in its time.
pub(super) async fn body(request: Request) -> Result<Map<String, Value>, Problem> {
    let read = tokio::time::timeout(SLOWEST_BODY, Bytes::from_request(request, &())).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(rejection)) => return Err(refused(&rejection)),
        Err(_) => {
            let message = format!("the body did not come within {} s", SLOWEST_BODY.as_secs());
            return Err(Problem::asked(StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the body is no JSON object: {error}");
        Problem::asked(StatusCode::BAD_REQUEST, message)
    })
}

fn refused(rejection: &BytesRejection) -> Problem {
    let status = rejection.status();
    let message = if status == StatusCode::PAYLOAD_TOO_LARGE {
        "the body is longer than is taken here".to_owned()
    } else {
        rejection.body_text().to_lowercase()
    };
    Problem::asked(status, message)
}
