//! Connection to a mock: reads its requests one after the other, responds, and records them in the request journal.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::Code;
use argus_mock::{Decision, MockReply, Request, is_reserved};
use argus_reconciler::clock;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::state::Shared;
use super::{admin, header_texts, proxy};

/// Maximum size of a body, in bytes.
const MAX_BODY: usize = 10 << 20;
/// Maximum size of the head of a request, in bytes; a larger one leads to 431.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum time to read the head of a request, from the end of the previous request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time to read a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time that a client can leave sent bytes unacknowledged, in milliseconds.
const UNACKNOWLEDGED_MS: u32 = 30_000;

/// Serves a client until either side closes the connection.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    // Some systems lack these options; a connection works without them.
    let _slower = stream.set_nodelay(true);
    let _longer = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS);
    serve_requests(stream, shared, stop).await;
}

/// Serves the requests of a stream until either side closes it. After `stop`, the request in progress is the last one.
pub(super) async fn serve_requests<S>(stream: S, shared: Arc<Shared>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(request, &shared).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection error");
    }
}

async fn respond(request: hyper::Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let started = clock::now();
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await;
    let (body, refusal) = match read {
        Ok(Ok(body)) => (body.to_bytes(), None),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            (Bytes::new(), Some((413, "the body exceeds 10 MiB")))
        }
        Ok(Err(_)) => (Bytes::new(), Some((400, "cannot read the body"))),
        Err(_) => (Bytes::new(), Some((408, "timed out after 30 s reading the body"))),
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::new(head.method.as_str(), target, header_texts(&head.headers), body);
    shared.reload(false).await;
    let reply = match refusal {
        Some((status, reason)) => {
            let mut reply = MockReply::refusal(status, Code::MockNoAnswer, reason, &json!({}));
            // The rest of the body is not read.
            reply
                .headers
                .push((CONNECTION.as_str().to_owned(), "close".to_owned()));
            reply
        }
        None if is_reserved(&request) => return convert_reply(admin::respond(&request, shared).await),
        None => {
            let current = shared.current();
            match current.served.decide(&request, shared.current_moment()) {
                Decision::Reply(reply) => reply,
                Decision::Forward(to) => proxy::forward(&request, target, to, &current.folder).await,
            }
        }
    };
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    let now = clock::now();
    shared
        .lock_journal()
        .record(&request, &reply, started, now.since(started));
    convert_reply(reply)
}

fn convert_reply(reply: MockReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        // Headers of a file are valid, because they were validated on load; invalid ones of a recording are omitted.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
