//! An HTTP probe: GET, good on 2xx and 3xx, no redirect is followed.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::probe_history::ProbeReply;

/// Asks once; the caller sets the deadline for the whole.
pub(super) async fn probe(address: SocketAddr, path: &str) -> ProbeReply {
    match ask(address, path).await {
        Ok(status) if status.is_success() || status.is_redirection() => {
            ProbeReply::good(format!("GET {path} on {address}: {status}"))
        }
        Ok(status) => ProbeReply::bad(format!("GET {path} on {address}: {status}")),
        Err(why) => ProbeReply::none(format!("GET {path} on {address}: {why}")),
    }
}

async fn ask(address: SocketAddr, path: &str) -> Result<StatusCode, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| chain(&error))?;
    // Many servers refuse a host that they do not know; all know this one.
    let request = Request::get(path)
        .header(HOST, format!("localhost:{}", address.port()))
        .header(USER_AGENT, "argus-probe")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request);
    tokio::pin!(connection, answer);
    // The connection is driven here; when it ends first, the answer has its result, or never will.
    tokio::select! {
        response = &mut answer => response.map(|response| response.status()).map_err(|error| chain(&error)),
        ended = &mut connection => match ended {
            Err(error) => Err(chain(&error)),
            Ok(()) => answer.await.map(|response| response.status()).map_err(|error| chain(&error)),
        },
    }
}

fn chain(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
