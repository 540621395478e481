//! One connection to a mock: its requests one after the other, each read whole, answered and kept in the journal.

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
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::state::Shared;
use super::{admin, proxy};

/// The largest body that is taken, in bytes.
const LARGEST: usize = 10 << 20;
/// The largest head of a request, in bytes; a larger one gets 431.
const HEAD: usize = 64 * 1024;
/// How long the head of a request may take, from the end of the one before it.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a client may leave sent bytes unread.
const UNREAD_MS: u32 = 30_000;

/// Answers the requests of a connection until either side ends it.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    // Neither is there on every system; a connection without them works as well.
    let _slower = stream.set_nodelay(true);
    let _longer = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_MS);
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(request, &shared).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
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
        tracing::debug!(%error, "a connection broke");
    }
}

async fn respond(request: hyper::Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let began = clock::now();
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIME, Limited::new(body, LARGEST).collect()).await;
    let (body, refusal) = match read {
        Ok(Ok(body)) => (body.to_bytes(), None),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            (Bytes::new(), Some((413, "the body is larger than 10 MiB")))
        }
        Ok(Err(_)) => (Bytes::new(), Some((400, "the body cannot be read"))),
        Err(_) => (Bytes::new(), Some((408, "the body was not complete within 30 s"))),
    };
    let headers = head.headers.iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::new(head.method.as_str(), target, headers.collect(), body);
    shared.look(false).await;
    let answer = match refusal {
        Some((status, why)) => {
            let mut answer = MockReply::refusal(status, Code::MockNoAnswer, why, &json!({}));
            // What is left of the body is not waited for.
            answer
                .headers
                .push((CONNECTION.as_str().to_owned(), "close".to_owned()));
            answer
        }
        None if is_reserved(&request) => return response(admin::answer(&request, shared).await),
        None => {
            let current = shared.current();
            match current.served.decide(&request, shared.moment()) {
                Decision::Reply(answer) => answer,
                Decision::Forward(to) => proxy::pass_on(&request, target, to, &current.folder).await,
            }
        }
    };
    if !answer.delay.is_zero() {
        tokio::time::sleep(answer.delay).await;
    }
    let now = clock::now();
    shared.journal().keep(&request, &answer, began, now.since(began));
    response(answer)
}

fn response(answer: MockReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        // Names and values of a file were looked at when it was read; those of a recording are left out.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
