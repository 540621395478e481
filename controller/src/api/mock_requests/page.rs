//! Requests of a mock, read from the mock itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use argus_crds::error::{Code, Reason};
use argus_crds::mock::config::RESERVED_PATH;
use argus_crds::status::{EnvironmentStatus, ServiceRole};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::http;
use crate::evidence_store;
use crate::exit::{Exit, Failure};

/// Newest requests of a mock.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MockRequestsPage {
    /// Number of requests since the start of the mock.
    pub(crate) total: u64,
    /// Newest requests, oldest first.
    pub(crate) requests: Vec<Request>,
}

/// A request with its response, from the journal of the mock: without secrets, and truncated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Sequence number, from 1.
    pub(crate) number: u64,
    /// End of the request (RFC 3339).
    pub(crate) time: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    /// Beginning of the body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// Size of the whole body in bytes.
    pub(crate) body_bytes: u64,
    /// Route or operation that matched, if any.
    pub(crate) matched: Option<String>,
    /// Status code of the response.
    pub(crate) status: u16,
    /// Time until the response in milliseconds.
    pub(crate) duration_ms: u64,
}

/// Newest requests of a mock, as reported by the mock itself.
pub(crate) async fn read_requests(
    status: &EnvironmentStatus,
    mock: &str,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    read_requests_after(status, mock, 0, tail).await
}

/// Newest requests of a mock after the given number.
pub(crate) async fn read_requests_after(
    status: &EnvironmentStatus,
    mock: &str,
    after: u64,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    let at = find_address(status, mock)?;
    let path = format!("{RESERVED_PATH}/requests?after={after}&limit={tail}");
    let response = http::get_from(at, &path)
        .await
        .map_err(|error| unavailable_failure(at, &error))?;
    serde_json::from_slice(&response).map_err(|error| {
        let error = http::ClientError::InvalidResponse(error.to_string());
        unavailable_failure(at, &error)
    })
}

/// Published address of a mock.
pub(crate) fn find_address(status: &EnvironmentStatus, mock: &str) -> Result<SocketAddr, Failure> {
    let row = status.services.iter().find(|row| row.name == mock);
    let row = row.ok_or_else(|| evidence_store::no_service_failure(status, mock))?;
    let env = &status.environment;
    if row.role != ServiceRole::Mock {
        let message = format!("`{mock}` is a service, not a mock");
        return Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(format!(
                "read the logs of a service with `argus logs {env} {mock}`"
            )));
    }
    let port = row.ports.iter().find(|port| port.actual_port != 0);
    let port = port.ok_or_else(|| {
        let message = format!("cannot reach mock `{mock}`: it has no host port yet");
        Failure::with_reason(Reason::NotReady, message)
            .with_exit(Exit::Unexpected)
            .with_hint(format!("wait for the environment with `argus wait {env}`"))
    })?;
    let host = port.host.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
    let host = host.filter(|ip| !ip.is_unspecified());
    Ok(SocketAddr::new(
        host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port.actual_port,
    ))
}

pub(crate) fn unavailable_failure(at: SocketAddr, error: &http::ClientError) -> Failure {
    let message = format!("cannot read the requests of the mock at {at}: {error}");
    Failure::with_code(Code::ConnectionLost, message)
        .with_details(serde_json::json!({ "address": at.to_string(), "reason": error.to_string() }))
        .with_exit(Exit::Unexpected)
        .with_hint("define `routes` or `openapi`, only such mocks record requests")
}
