//! HTTP probe: a GET request, successful on 2xx and 3xx. Redirects are not followed.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::probe_history::ProbeReply;

/// Sends one request; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr, path: &str) -> ProbeReply {
    match get(address, path).await {
        Ok(status) if status.is_success() || status.is_redirection() => {
            ProbeReply::success(format!("GET {path} on {address}: {status}"))
        }
        Ok(status) => ProbeReply::failure(format!("GET {path} on {address}: {status}")),
        Err(why) => ProbeReply::no_reply(format!("GET {path} on {address}: {why}")),
    }
}

async fn get(address: SocketAddr, path: &str) -> Result<StatusCode, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| chain(&error))?;
    // Many servers refuse unknown hosts; all accept this one.
    let request = Request::get(path)
        .header(HOST, format!("localhost:{}", address.port()))
        .header(USER_AGENT, "argus-probe")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request);
    tokio::pin!(connection, response);
    // The connection is polled here. If it ends first, the response is available or will never be.
    tokio::select! {
        response = &mut response => response.map(|response| response.status()).map_err(|error| chain(&error)),
        ended = &mut connection => match ended {
            Err(error) => Err(chain(&error)),
            Ok(()) => response.await.map(|response| response.status()).map_err(|error| chain(&error)),
        },
    }
}

fn chain(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
