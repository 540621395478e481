//! Endpoint `/mcp`: one response per request, without sessions, so that a restart of the controller loses nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Server, stdio};
use crate::client::ControllerClient;

/// Maximum size of a request body, in bytes: a spec file of the maximum length as JSON.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Maximum time to read a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Handles one request, which the guard has already authorized. An unreadable body leads to a status and a message.
pub(crate) async fn serve(
    client: ControllerClient,
    stop: CancellationToken,
    request: Request,
) -> Result<Response, (StatusCode, String)> {
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIMEOUT, body::to_bytes(body, MAX_BODY)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("the body exceeds {MAX_BODY} bytes, or ended early");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => {
            let message = format!(
                "timed out after {} s reading the request body",
                BODY_TIMEOUT.as_secs()
            );
            return Err((StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    if head.method == Method::POST && serde_json::from_slice::<IgnoredAny>(&bytes).is_err() {
        let error = stdio::error(&Value::Null, ErrorCode::PARSE_ERROR, "the body is not JSON");
        return Ok((StatusCode::BAD_REQUEST, Json(error)).into_response());
    }
    // The guard has already checked `Host` and `Origin`.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(stop.child_token());
    let service = StreamableHttpService::new(
        move || Ok(Server::new(client.clone())),
        Arc::new(NeverSessionManager::default()),
        settings,
    );
    let response = service.handle(Request::from_parts(head, Body::from(bytes))).await;
    let (head, body) = response.into_parts();
    Ok(Response::from_parts(head, Body::new(body)))
}
