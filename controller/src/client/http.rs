//! HTTP client for a running controller over its socket, and for mocks over TCP.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use argus_backend::http1::{self, format_chain};
use argus_crds::error::StructuredError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::process::correlation;

/// Maximum time of a request. A healthy controller responds immediately.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes. No controller and no mock of ours sends more.
const MAX_RESPONSE: usize = 64 << 20;

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing listens.
    #[error("controller is not running")]
    Unreachable(#[source] io::Error),
    /// The controller rejected the request.
    #[error(transparent)]
    Refused(Box<StructuredError>),
    /// The response is missing, incomplete or invalid.
    #[error("no valid response from the controller: {0}")]
    InvalidResponse(String),
}

/// Sends a GET request.
pub(crate) async fn get(socket: &Path, path: &str) -> Result<Bytes, ClientError> {
    exchange_with_timeout(socket, Method::GET, path, Bytes::new()).await
}

/// Sends a POST request with a JSON body, which can take longer than [`DEADLINE`].
pub(crate) async fn post_within(
    limit: Duration,
    socket: &Path,
    path: &str,
    body: &impl serde::Serialize,
) -> Result<Bytes, ClientError> {
    let body = serde_json::to_vec(body).map_err(|error| ClientError::InvalidResponse(error.to_string()))?;
    run_within(limit, exchange(socket, Method::POST, path, body.into())).await
}

async fn exchange_with_timeout(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Bytes, ClientError> {
    run_within(DEADLINE, exchange(socket, method, path, body)).await
}

async fn run_within(
    limit: Duration,
    exchange: impl Future<Output = Result<Bytes, ClientError>>,
) -> Result<Bytes, ClientError> {
    tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
        let message = format!("no response within {} s", limit.as_secs());
        Err(ClientError::InvalidResponse(message))
    })
}

async fn exchange(socket: &Path, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(ClientError::Unreachable)?;
    send_over(stream, "argus", method, path, body).await
}

/// Sends a GET request to a TCP address.
pub(crate) async fn get_from(at: SocketAddr, path: &str) -> Result<Bytes, ClientError> {
    let exchange = async {
        let stream = TcpStream::connect(at).await.map_err(ClientError::Unreachable)?;
        send_over(stream, &at.to_string(), Method::GET, path, Bytes::new()).await
    };
    run_within(DEADLINE, exchange).await
}

async fn send_over<S>(
    stream: S,
    host: &str,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Bytes, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: &dyn std::error::Error| ClientError::InvalidResponse(format_chain(error));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .header("content-type", "application/json")
        .header(correlation::HEADER, correlation::current().id)
        .body(Full::new(body))
        .map_err(|error| broken(&error))?;
    let response = http1::exchange(stream, request, Some(MAX_RESPONSE)).await;
    let (head, body) = response.map_err(|error| broken(&*error))?.into_parts();
    let status = head.status;
    if status.is_success() {
        return Ok(body);
    }
    match serde_json::from_slice(&body) {
        Ok(error) => Err(ClientError::Refused(error)),
        Err(_) => Err(ClientError::InvalidResponse(format!("status {status}"))),
    }
}
