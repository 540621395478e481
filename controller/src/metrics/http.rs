//! Metrics of the HTTP interface: number of requests, response times, event streams.

use argus_reconciler::clock::Stopwatch;
use argus_reconciler::metrics::make;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::core::Collector;
use prometheus::{HistogramVec, IntCounterVec, IntGauge};

/// The metrics; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct HttpMetrics {
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    streams: IntGauge,
}

/// Counts an event stream as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStreamGuard(IntGauge);

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            requests: make::counters(
                "argus_http_requests_total",
                "HTTP requests, by path template, method and status code.",
                &["path", "method", "code"],
            ),
            request_seconds: make::histograms(
                "argus_http_request_duration_seconds",
                "Time from the head of a request to the head of its response.",
                &["path"],
                make::FAST,
            ),
            streams: make::gauge("argus_event_streams", "Open event streams."),
        }
    }
}

impl HttpMetrics {
    /// Returns all metrics, for a registry.
    pub(super) fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let all = self.clone();
        vec![
            Box::new(all.requests),
            Box::new(all.request_seconds),
            Box::new(all.streams),
        ]
    }

    /// Counts a new event stream.
    pub(crate) fn count_open_stream(&self) -> OpenStreamGuard {
        self.streams.inc();
        OpenStreamGuard(self.streams.clone())
    }

    /// Middleware that counts a request. All unknown paths share one label value, because their number is unlimited.
    pub(crate) async fn count_request(State(metrics): State<Self>, request: Request, next: Next) -> Response {
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
        let method = match *request.method() {
            Method::GET => "get",
            Method::HEAD => "head",
            Method::POST => "post",
            _ => "other",
        };
        let watch = Stopwatch::start();
        let response = next.run(request).await;
        let status = response.status();
        metrics.observe_request([&path, method, status.as_str()], watch);
        response
    }

    fn observe_request(&self, labels: [&str; 3], watch: Stopwatch) {
        self.requests.with_label_values(&labels).inc();
        let seconds = self.request_seconds.with_label_values(&labels[..1]);
        seconds.observe(watch.seconds());
    }
}
