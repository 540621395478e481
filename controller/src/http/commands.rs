//! Commands of a client in another process: `argus` sends its [`Command`] as JSON over the socket.

use argus_reconciler::Command;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::{AppState, BODY_TIMEOUT};

/// Runs a [`Command`] in the form in which the clients of this program send it. Programs use the route of the operation.
pub(super) async fn run_command(State(app): State<AppState>, request: Request) -> Result<Response, Problem> {
    let body = read_body(request).await?;
    let command: Command = serde_json::from_value(Value::Object(body))
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("invalid command: {error}")))?;
    let reply = app.client.send(command).await?;
    Ok((StatusCode::ACCEPTED, Json(reply)).into_response())
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
