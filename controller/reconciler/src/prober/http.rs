//! HTTP probe: one request, successful with an expected status. Redirects are not followed.

use std::net::SocketAddr;

use argus_backend::http1::{exchange, format_chain};
use argus_core::desired::HttpOptions;
use argus_crds::{ProbeMethod, ProbeScheme};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;

use super::probe_history::ProbeResult;
use super::tcp::describe_failure;
use super::tls;

/// Sends one request; the caller sets the deadline.
pub(super) async fn probe(address: SocketAddr, path: &str, options: &HttpOptions) -> ProbeResult {
    match send(address, path, options).await {
        Ok(status) if options.is_success(status.as_u16()) => ProbeResult::success(status.to_string()),
        Ok(status) => ProbeResult::failure(match options.expected() {
            Some(expected) => format!("{status}, expected {expected}"),
            None => status.to_string(),
        }),
        Err(why) => ProbeResult::no_reply(why),
    }
}

async fn send(address: SocketAddr, path: &str, options: &HttpOptions) -> Result<StatusCode, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| describe_failure(&error))?;
    // Many servers refuse unknown hosts; all accept this one.
    let default_host = format!("localhost:{}", address.port());
    let host = options.header("host").unwrap_or(&default_host);
    let request = build_request(host, path, options)?;
    let response = match options.scheme {
        ProbeScheme::Http => exchange(stream, request, None).await,
        ProbeScheme::Https => exchange(tls::connect(stream, host).await?, request, None).await,
    };
    response
        .map(|response| response.status())
        .map_err(|error| format_chain(&*error))
}

fn build_request(host: &str, path: &str, options: &HttpOptions) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::builder()
        .method(options.method.as_str())
        .uri(path)
        .header(HOST, host)
        .header(USER_AGENT, "argus-probe")
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    match options.method {
        ProbeMethod::Get | ProbeMethod::Head | ProbeMethod::Options | ProbeMethod::Delete => {}
        // Some servers refuse a request without the length of its body.
        ProbeMethod::Post | ProbeMethod::Put | ProbeMethod::Patch => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    }
    for (name, value) in &options.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
        headers.insert(name, value);
    }
    Ok(request)
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
