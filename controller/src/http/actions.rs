//! What changes something: the commands of the CLI, with the same words.

use argus_reconciler::Command;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use super::asked::Path;
use super::problem::Problem;
use super::{Desk, SLOWEST_BODY};

/// A command with its verb in it.
pub(super) async fn act(State(desk): State<Desk>, request: Request) -> Result<Response, Problem> {
    let body = body(request).await?;
    obey(&desk, Value::Object(body)).await
}

/// A command whose verb is in the path.
pub(super) async fn act_by_name(
    State(desk): State<Desk>,
    Path(verb): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let mut body = body(request).await?;
    body.insert("verb".to_owned(), Value::String(verb));
    obey(&desk, Value::Object(body)).await
}

async fn obey(desk: &Desk, body: Value) -> Result<Response, Problem> {
    let command: Command = serde_json::from_value(body).map_err(|error| {
        Problem::asked(
            StatusCode::BAD_REQUEST,
            format!("this is no command: {}", error.to_string().to_lowercase()),
        )
    })?;
    let gone = match command.environment() {
        Some(env) => desk.surface.found(env.as_str()).await.is_err(),
        None => false,
    };
    match desk.surface.obey(command).await {
        Ok(answer) => Ok((StatusCode::ACCEPTED, Json(answer)).into_response()),
        Err(failure) if gone => Err(Problem::from(failure).status(StatusCode::NOT_FOUND)),
        Err(failure) => Err(Problem::from(failure)),
    }
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
        format!("the body is longer than {} bytes", super::LARGEST_BODY)
    } else {
        rejection.body_text().to_lowercase()
    };
    Problem::asked(status, message)
}
