//! Asking a running controller over its socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use argus_crds::error::StructuredError;
use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A controller answers at once or is in trouble.
const DEADLINE: Duration = Duration::from_secs(10);
/// Who answers with more than this is no controller and no mock of ours.
const LARGEST: usize = 64 << 20;

/// Why there is no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody listens.
    #[error("controller is not running")]
    Away(#[source] io::Error),
    /// The controller refuses.
    #[error(transparent)]
    Refused(Box<StructuredError>),
    /// The conversation broke.
    #[error("controller does not answer: {0}")]
    Broken(String),
}

/// Asks.
pub(crate) async fn get(socket: &Path, path: &str) -> Result<Bytes, ClientError> {
    talk(socket, Method::GET, path, Bytes::new()).await
}

/// Tells.
pub(crate) async fn post(
    socket: &Path,
    path: &str,
    body: &impl serde::Serialize,
) -> Result<Bytes, ClientError> {
    post_within(DEADLINE, socket, path, body).await
}

/// Tells something that takes longer than an answer should.
pub(crate) async fn post_within(
    limit: Duration,
    socket: &Path,
    path: &str,
    body: &impl serde::Serialize,
) -> Result<Bytes, ClientError> {
    let body = serde_json::to_vec(body).map_err(|error| ClientError::Broken(error.to_string()))?;
    within(limit, exchange(socket, Method::POST, path, body.into())).await
}

async fn talk(socket: &Path, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
    within(DEADLINE, exchange(socket, method, path, body)).await
}

async fn within(
    limit: Duration,
    said: impl Future<Output = Result<Bytes, ClientError>>,
) -> Result<Bytes, ClientError> {
    tokio::time::timeout(limit, said).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", limit.as_secs());
        Err(ClientError::Broken(message))
    })
}

async fn exchange(socket: &Path, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
    let stream = UnixStream::connect(socket).await.map_err(ClientError::Away)?;
    over(stream, "argus", method, path, body).await
}

/// Asks somebody who listens on an address.
pub(crate) async fn ask(at: SocketAddr, path: &str) -> Result<Bytes, ClientError> {
    let asked = async {
        let stream = TcpStream::connect(at).await.map_err(ClientError::Away)?;
        over(stream, &at.to_string(), Method::GET, path, Bytes::new()).await
    };
    within(DEADLINE, asked).await
}

async fn over<S>(stream: S, host: &str, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: &dyn std::error::Error| ClientError::Broken(crate::exit::chain(error));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .header("content-type", "application/json")
        .body(Full::new(body))
        .map_err(|error| broken(&error))?;
    let answer = pin!(async move {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        body.map(|body| (status, body.to_bytes()))
            .map_err(|error| ClientError::Broken(error.to_string()))
    });
    // The connection works only while somebody drives it.
    let answered = match select(answer, pin!(connection)).await {
        Either::Left((answered, _)) => answered,
        Either::Right((_, answer)) => answer.await,
    };
    let (status, body) = answered?;
    if status.is_success() {
        return Ok(body);
    }
    match serde_json::from_slice(&body) {
        Ok(error) => Err(ClientError::Refused(error)),
        Err(_) => Err(ClientError::Broken(format!("status {status}"))),
    }
}
