//! Limits on requests: streams and clients without the token have their own, so that they cannot use up the capacity of others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::guard::Trust;
use super::problem::Problem;
use super::{HEALTH, READY};
use crate::metrics::{self, HttpMetrics, RequestLimit};

/// Maximum number of open streams.
pub(super) const MAX_STREAMS: usize = 768;
/// Maximum number of concurrent requests without the token, including their streams.
pub(super) const MAX_PUBLIC: usize = 640;
/// Time after which a refused client should try again, in seconds.
const RETRY_AFTER: u64 = 5;

/// Limits of a listener; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    streams: Arc<Semaphore>,
    public: Arc<Semaphore>,
    metrics: HttpMetrics,
}

/// Mark of a request on a connection from the reserved capacity.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReservedConnection;

impl Limits {
    pub(super) fn new(metrics: HttpMetrics) -> Self {
        Self {
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            public: Arc::new(Semaphore::new(MAX_PUBLIC)),
            metrics,
        }
    }

    /// Reserves one stream until the permit is dropped.
    pub(super) fn open_stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = self.streams.clone().try_acquire_owned();
        permit.map_err(|_| self.refuse(RequestLimit::Streams, &format!("{MAX_STREAMS} streams are open")))
    }

    /// Counts a refusal and creates its response.
    fn refuse(&self, limit: RequestLimit, cause: &str) -> Problem {
        self.metrics.count_refusal(limit);
        let message = format!("too many requests: {cause}; try again later");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(RETRY_AFTER)
    }
}

/// Middleware that passes a request on within its limit. Checks of liveness, readiness and metrics have none.
pub(super) async fn admit_request(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    if [HEALTH, READY, metrics::PATH].contains(&request.uri().path()) {
        return next.run(request).await;
    }
    if request.extensions().get::<ReservedConnection>().is_some() {
        let refused = limits.refuse(
            RequestLimit::Connections,
            "the rest of the connections is for health checks",
        );
        let mut response = refused.into_response();
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        return response;
    }
    if request.extensions().get::<Trust>() == Some(&Trust::User) {
        return next.run(request).await;
    }
    let Ok(permit) = limits.public.clone().try_acquire_owned() else {
        let cause = format!("{MAX_PUBLIC} requests without the token are in progress");
        return limits.refuse(RequestLimit::Public, &cause).into_response();
    };
    next.run(request).await.map(|body| {
        Body::new(LimitedBody {
            body,
            _permit: permit,
        })
    })
}

/// Body of a response that counts against a limit until its end.
struct LimitedBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use futures::stream;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    /// A router whose `/` never ends its response.
    fn app(limits: &Limits) -> Router {
        let endless = || async { Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()) };
        Router::new()
            .route("/", get(endless))
            .route(HEALTH, get(|| async { "ok" }))
            .layer(from_fn_with_state(limits.clone(), admit_request))
    }

    async fn send(app: &Router, path: &str, trust: Trust) -> Response {
        let request = Request::get(path).extension(trust).body(Body::empty()).unwrap();
        TowerToHyperService::new(app.clone()).call(request).await.unwrap()
    }

    #[tokio::test]
    async fn public_requests_have_their_own_limit() {
        let limits = Limits::new(HttpMetrics::default());
        let app = app(&limits);
        let mut open = Vec::new();
        for _ in 0..MAX_PUBLIC {
            let response = send(&app, "/", Trust::Anyone).await;
            assert_eq!(response.status(), 200);
            open.push(response);
        }
        let refused = send(&app, "/", Trust::Anyone).await;
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
        let body = axum::body::to_bytes(refused.into_body(), usize::MAX)
            .await
            .unwrap();
        let error: argus_crds::StructuredError = serde_json::from_slice(&body).unwrap();
        assert_eq!(error.retry_after, Some(5));
        assert_eq!(limits.metrics.refusals(RequestLimit::Public), 1);
        assert_eq!(send(&app, "/", Trust::User).await.status(), 200);
        assert_eq!(send(&app, HEALTH, Trust::Anyone).await.status(), 200);
        // An ended response frees its place.
        open.pop();
        assert_eq!(send(&app, "/", Trust::Anyone).await.status(), 200);
    }

    #[tokio::test]
    async fn streams_have_their_own_limit() {
        let limits = Limits::new(HttpMetrics::default());
        let open: Vec<_> = (0..MAX_STREAMS).map(|_| limits.open_stream().unwrap()).collect();
        let refused = limits.open_stream().unwrap_err().into_response();
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[header::RETRY_AFTER]),
            (503, &"5".parse().unwrap())
        );
        assert_eq!(limits.metrics.refusals(RequestLimit::Streams), 1);
        drop(open);
        assert!(limits.open_stream().is_ok());
    }
}
