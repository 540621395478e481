//! Connections to an engine that continue as HTTP/2: the session of a build, and the calls to its `BuildKit`.

use std::io;
use std::pin::pin;

use argus_backend::http1::format_chain;
use bollard::errors::Error;
use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::{Endpoint, open};

/// Maximum size of the message of a refusal, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Opens a connection with `POST path`, these headers and an upgrade to HTTP/2.
///
/// # Errors
/// The engine is unreachable, or does not upgrade the connection.
pub(crate) async fn upgrade(
    endpoint: &Endpoint,
    path: &str,
    headers: &[(&str, String)],
) -> Result<Upgraded, Error> {
    let mut request = Request::post(path)
        .header(HOST, "docker")
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "h2c");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Full::<Bytes>::default())?;
    let stream = open(endpoint).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let upgraded = pin!(async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(hyper::upgrade::on(response).await?);
        }
        let body = Limited::new(response.into_body(), MAX_MESSAGE_BYTES).collect();
        let body = body
            .await
            .map_err(|error| io::Error::other(format_chain(&*error)))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).trim().to_owned();
        Err(Error::DockerResponseServerError {
            status_code: status.as_u16(),
            message: format!("the engine refuses `POST {path}`: {text}"),
        })
    });
    // The connection makes progress only while its future is polled. It ends with the upgrade.
    match select(upgraded, pin!(connection.with_upgrades())).await {
        Either::Left((upgraded, _)) => upgraded,
        Either::Right((_, upgraded)) => upgraded.await,
    }
}
