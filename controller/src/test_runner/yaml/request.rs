//! Requests of suites over HTTP/1.1. TLS and compressed bodies are not supported.

use std::net::SocketAddr;
use std::time::Duration;

use argus_backend::http1::{exchange_observed, format_chain};
use argus_reconciler::clock::Stopwatch;
use argus_suite::{Failure, Host, PublishedPort, Reply, Request, Response};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, USER_AGENT};
use tokio::net::TcpStream;
use url::{Position, Url};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 20;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 64 << 20;

/// Addresses of a host that the suite may connect to.
type Found = Result<Vec<SocketAddr>, Failure>;

/// Published ports, and true if the engine runs on another host.
pub(super) type Published<'a> = (&'a [PublishedPort], bool);

/// Sends a request and follows its redirects. Requested host ports are replaced by actual ones. `find` returns the addresses of each host,
/// and refuses hosts that the suite may not reach.
pub(super) async fn send(
    request: Request,
    published: Published<'_>,
    find: &impl AsyncFn(&Host, u16) -> Found,
    limit: Duration,
) -> Reply {
    match tokio::time::timeout(limit, follow(request, published, find)).await {
        Ok(Ok(response)) => match response.unsupported() {
            Some(reason) => Reply::Unsupported(reason),
            None => Reply::Response(response),
        },
        Ok(Err(reply)) => reply,
        Err(_) => {
            let limit = humantime::format_duration(limit);
            Reply::Failed(Failure::new(
                "request",
                format!("no complete response within {limit}"),
            ))
        }
    }
}

async fn follow(
    mut request: Request,
    (ports, is_remote): Published<'_>,
    find: &impl AsyncFn(&Host, u16) -> Found,
) -> Result<Response, Reply> {
    let watch = Stopwatch::start();
    let mut redirected_by: Option<Url> = None;
    for _ in 0..=MAX_REDIRECTS {
        request.use_actual_address(ports, is_remote);
        let (host, port) = request.address()?;
        let found = find(&host, port).await;
        let addresses = found.map_err(|failure| {
            let message = match &redirected_by {
                None => failure.message,
                Some(from) => format!("`{from}` redirects to `{}`: {}", request.url, failure.message),
            };
            Reply::Failed(Failure {
                at: "request".to_owned(),
                message,
                ..failure
            })
        })?;
        let response = send_once(&request, &addresses, watch).await?;
        match request.redirect(&response).map_err(Reply::Failed)? {
            Some(next) => redirected_by = Some(std::mem::replace(&mut request, next).url),
            None => return Ok(response),
        }
    }
    let message = format!("the response has more than {MAX_REDIRECTS} redirects");
    Err(Reply::Failed(Failure::new("request", message)))
}

async fn send_once(request: &Request, addresses: &[SocketAddr], watch: Stopwatch) -> Result<Response, Reply> {
    let fail = |message: String| Reply::Failed(Failure::new("request", message));
    let target = &request.url[Position::BeforeHost..Position::AfterPort];
    // The name is not resolved again, because another result would not be checked.
    let stream = TcpStream::connect(addresses)
        .await
        .map_err(|error| fail(format!("cannot connect to `{target}`: {error}")))?;
    let message = build(request).map_err(|error| fail(format!("cannot build the request: {error}")))?;
    let mut elapsed = 0.0;
    let response = exchange_observed(stream, message, Some(MAX_RESPONSE), || elapsed = watch.seconds()).await;
    let response = response.map_err(|error| {
        fail(format!(
            "no valid response from `{target}`: {}",
            format_chain(&*error)
        ))
    })?;
    let (head, body) = response.into_parts();
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        // Each byte of a header is one character, as in JavaScript.
        let value = value.as_bytes().iter().copied().map(char::from).collect();
        (name.to_string(), value)
    };
    Ok(Response {
        status: head.status.as_u16(),
        headers: head.headers.iter().map(header).collect(),
        body: body.to_vec(),
        elapsed: Duration::try_from_secs_f64(elapsed).unwrap_or_default(),
    })
}

fn build(request: &Request) -> Result<hyper::Request<Full<Bytes>>, hyper::http::Error> {
    let path = &request.url[Position::BeforePath..Position::AfterQuery];
    let authority = &request.url[Position::BeforeHost..Position::AfterPort];
    let mut builder = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(path);
    let has = |name: HeaderName| {
        let mut names = request.headers.iter().map(|(name, _)| name);
        names.any(|given| given.eq_ignore_ascii_case(name.as_str()))
    };
    for (name, value) in [(HOST, authority), (ACCEPT, "*/*"), (USER_AGENT, "argus")] {
        if !has(name.clone()) {
            builder = builder.header(name, value);
        }
    }
    // As the Node tool sends them: some servers refuse such a request without a length.
    if request.body.is_none() && ["POST", "PUT", "PATCH"].contains(&request.method.as_str()) {
        builder = builder.header(CONTENT_LENGTH, 0);
    }
    let is_length = |name: &str| name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str());
    // A written length could differ from that of the body, which then never ends.
    for (name, value) in request.headers.iter().filter(|(name, _)| !is_length(name)) {
        // The crate accepts no character above U+00FF.
        let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect();
        builder = builder.header(name, bytes);
    }
    builder.body(Full::from(request.body.clone().unwrap_or_default()))
}
