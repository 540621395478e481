//! Endpoint `/mcp`: one response per request, without sessions, so that a restart of the controller loses nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Server, stdio};
use crate::client::ControllerClient;

/// Maximum size of a request body, in bytes: a spec file of the maximum length as JSON.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Maximum time to read a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Header with the revision of the protocol.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// Returns the revisions of the protocol that this server speaks, oldest first.
fn supported() -> impl Iterator<Item = &'static str> {
    ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .map(ProtocolVersion::as_str)
}

/// Response to a request with an unknown revision in its header, in the same form as for one in its metadata.
fn refused_version(body: &[u8], requested: &str) -> Response {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut error = stdio::error(
        &message["id"],
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        "Unsupported protocol version",
    );
    let supported: Vec<&str> = supported().collect();
    error["error"]["data"] = json!({ "supported": supported, "requested": requested });
    (StatusCode::BAD_REQUEST, Json(error)).into_response()
}

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
    if let Some(version) = head.headers.get(VERSION_HEADER)
        && !supported().any(|known| version == known)
    {
        return Ok(refused_version(&bytes, version.to_str().unwrap_or_default()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_lists_the_supported_revisions() {
        let page = include_str!("../../../docs/mcp.md");
        for revision in supported() {
            assert!(page.contains(&format!("`{revision}`")), "{revision}");
        }
    }

    #[tokio::test]
    async fn unknown_revision_is_refused_with_the_supported_ones() {
        let discover = json!({ "jsonrpc": "2.0", "id": 7, "method": "server/discover" });
        let call = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": { "name": "argus_status" } });
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        for (message, revision) in [
            (&discover, "2099-01-01"),
            (&call, "2024-11-04"),
            (&call, "draft"),
            (&notification, ""),
        ] {
            let response = refused_version(message.to_string().as_bytes(), revision);
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            let bytes = body::to_bytes(response.into_body(), MAX_BODY).await.unwrap();
            let error: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(
                (&error["id"], &error["error"]["code"]),
                (&message["id"], &json!(-32022))
            );
            assert_eq!(error["error"]["data"]["requested"], revision);
            let supported = error["error"]["data"]["supported"].as_array().unwrap();
            assert!(supported.contains(&json!("2026-07-28")), "{error}");
        }
    }
}
