//! `/mcp`: one request, one answer; no sessions, so that nothing is lost when the controller starts anew.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::Server;
use crate::client::ControllerClient;

/// A spec file of the greatest length, as JSON.
const LARGEST: usize = 4 * 1024 * 1024;
/// A body that is not here after this is not waited for.
const SLOWEST: Duration = Duration::from_secs(10);

/// Answers one request; whoever came this far may ask. A body that cannot be taken is told with its status and why.
pub(crate) async fn serve(
    client: ControllerClient,
    stop: CancellationToken,
    request: Request,
) -> Result<Response, (StatusCode, String)> {
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(SLOWEST, body::to_bytes(body, LARGEST)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("the body is longer than {LARGEST} bytes, or ended early");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => {
            let message = format!("the body did not come within {} s", SLOWEST.as_secs());
            return Err((StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    // Host and origin are looked at before anything comes here.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(LARGEST)
        .with_cancellation_token(stop.child_token());
    let service = StreamableHttpService::new(
        move || Ok(Server::new(client.clone())),
        Arc::new(NeverSessionManager::default()),
        settings,
    );
    let answer = service.handle(Request::from_parts(head, Body::from(bytes))).await;
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, Body::new(body)))
}
