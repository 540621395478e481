//! What is asked over HTTP, how often, and how long an answer takes.

use argus_reconciler::clock::Stopwatch;
use argus_reconciler::metrics::make;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::core::Collector;
use prometheus::{HistogramVec, IntCounterVec, IntGauge};

/// The counters; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HttpMetrics {
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    streams: IntGauge,
}

/// Somebody who listens to events, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening(IntGauge);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            requests: make::counters(
                "argus_http_requests_total",
                "Requests that were answered, by the path as the documentation has it.",
                &["path", "method", "code"],
            ),
            request_seconds: make::histograms(
                "argus_http_request_duration_seconds",
                "From the head of a request to the head of its answer.",
                &["path"],
                make::FAST,
            ),
            streams: make::gauge("argus_event_streams", "Clients that listen to events at present."),
        }
    }
}

impl HttpMetrics {
    /// Everything in it, for a registry.
    pub(super) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let all = self.clone();
        vec![
            Box::new(all.requests),
            Box::new(all.request_seconds),
            Box::new(all.streams),
        ]
    }

    /// Somebody listens to events now.
    pub(crate) fn listening(&self) -> Listening {
        self.streams.inc();
        Listening(self.streams.clone())
    }

    /// Counts a request with its answer. What was asked for in vain has one name: the world has many.
    pub(crate) async fn count(State(traffic): State<Self>, request: Request, next: Next) -> Response {
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
        let method = match *request.method() {
            Method::GET => "get",
            Method::HEAD => "head",
            Method::POST => "post",
            _ => "other",
        };
        let watch = Stopwatch::start();
        let answer = next.run(request).await;
        let status = answer.status();
        traffic.answered([&path, method, status.as_str()], watch);
        answer
    }

    fn answered(&self, labels: [&str; 3], watch: Stopwatch) {
        self.requests.with_label_values(&labels).inc();
        let took = self.request_seconds.with_label_values(&labels[..1]);
        took.observe(watch.seconds());
    }
}
