//! HTTP probe: a GET request, successful on 2xx and 3xx. Redirects are not followed.

use std::net::SocketAddr;

use argus_backend::http1::{exchange, format_chain};
use http_body_util::Full;
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;

use super::probe_history::ProbeResult;
use super::tcp::describe_failure;

/// Sends one request; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr, path: &str) -> ProbeResult {
    match get(address, path).await {
        Ok(status) if status.is_success() || status.is_redirection() => {
            ProbeResult::success(status.to_string())
        }
        Ok(status) => ProbeResult::failure(status.to_string()),
        Err(why) => ProbeResult::no_reply(why),
    }
}

async fn get(address: SocketAddr, path: &str) -> Result<StatusCode, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| describe_failure(&error))?;
    // Many servers refuse unknown hosts; all accept this one.
    let request = Request::get(path)
        .header(HOST, format!("localhost:{}", address.port()))
        .header(USER_AGENT, "argus-probe")
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let response = exchange(stream, request, None).await;
    response
        .map(|response| response.status())
        .map_err(|error| format_chain(&*error))
}
