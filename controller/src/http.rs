//! HTTP interface of a running controller, for programs and commands: on a unix socket, and optionally on a TCP address.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{any, get, post};
use tokio_util::sync::CancellationToken;

use crate::client::ControllerClient;
use crate::client::remote::COMMANDS;
use crate::metrics::HttpMetrics;

#[cfg(test)]
mod access_tests;
pub(crate) mod address;
mod call_trace;
mod commands;
#[cfg(test)]
mod docs_test;
#[cfg(test)]
mod error_tests;
mod events;
mod guard;
mod health;
mod limits;
pub(crate) mod listen;
#[cfg(test)]
mod message_tests;
mod metrics;
mod mocks;
mod openapi;
mod operations;
mod params;
mod problem;
mod request_id;
#[cfg(test)]
mod state_file_tests;
mod token;
mod write_timeout;

pub(crate) use guard::Guard;
pub(crate) use health::Health;

/// Path of the liveness check.
pub(crate) const HEALTH: &str = "/healthz";
/// Path of the readiness check.
const READY: &str = "/readyz";
/// Path of MCP for agents.
const MCP: &str = "/mcp";
/// Maximum size of a request body, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// Maximum time to read a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// State of the handlers.
#[derive(Debug, Clone)]
pub(crate) struct AppState {
    client: ControllerClient,
    stop: CancellationToken,
    limits: limits::Limits,
}

async fn mcp(State(app): State<AppState>, request: Request) -> Result<Response, problem::Problem> {
    let response = crate::mcp::serve(app.client, app.stop, request).await;
    response.map_err(|(status, message)| problem::Problem::new(status, message))
}

/// Forbids browsers to read a response as another type, such as a script. Without this, a page of another site could include it.
async fn forbid_sniffing(mut response: Response) -> Response {
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Converts a failure into its response, for tests of other modules.
#[cfg(test)]
pub(crate) fn failure_response(failure: crate::process::exit::Failure) -> Response {
    axum::response::IntoResponse::into_response(problem::Problem::from(failure))
}

/// Asserts that a virtual clock from zero shows this time.
#[cfg(test)]
fn assert_passed(clock: argus_reconciler::clock::Clock, expected: Duration) {
    let passed = clock.now().since(argus_core::time::Timestamp(0));
    assert!(
        passed >= expected && passed < expected + Duration::from_millis(10),
        "{passed:?}"
    );
}

/// Builds the router with all paths, behind `guard`.
pub(crate) fn routes(client: ControllerClient, guard: Guard, stop: CancellationToken) -> Router {
    let traffic = client.in_process_parts().map(|own| own.metrics.http().clone());
    let traffic = traffic.unwrap_or_default();
    let limits = limits::Limits::new(traffic.clone());
    operations::add(Router::new())
        .route(HEALTH, get(health::healthz))
        .route(READY, get(health::readyz))
        .route(crate::metrics::PATH, get(metrics::metrics))
        .route("/events", get(events::events))
        .route(
            "/api/v1/environments/{environment}/mocks/{mock}/requests",
            get(mocks::requests),
        )
        .route("/api/v1/openapi.json", get(openapi::document))
        .route(COMMANDS, post(commands::run_command))
        .route(MCP, any(mcp))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(
            limits.clone(),
            limits::admit_request,
        ))
        .layer(middleware::from_fn_with_state(guard, guard::authorize_request))
        .layer(middleware::from_fn_with_state(
            client.clone(),
            request_id::scope_request,
        ))
        .layer(middleware::from_fn_with_state(
            traffic,
            HttpMetrics::count_request,
        ))
        .layer(middleware::map_response(forbid_sniffing))
        .with_state(AppState { client, stop, limits })
}
