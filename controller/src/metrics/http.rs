//! Metrics of the HTTP interface: number of requests, response times, event streams.

use argus_reconciler::clock::Stopwatch;
use argus_reconciler::metric_set;
use argus_reconciler::metrics::make;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{HistogramVec, IntCounterVec, IntGauge};

metric_set! {
    /// The metrics.
    pub(crate) struct HttpMetrics {
        requests: IntCounterVec = counters("argus_http_requests_total",
            "HTTP requests, by path template, method and status code.", &["path", "method", "code"]);
        request_seconds: HistogramVec = histograms("argus_http_request_duration_seconds",
            "Time from the head of a request to the head of its response.", &["path"], make::FAST);
        streams: IntGauge = gauge("argus_event_streams", "Open event streams.");
        refusals: IntCounterVec = counters(REFUSALS,
            "Refused HTTP requests, by the limit that was reached: connections, public (requests without the token) or streams.",
            &["reason"]);
    }
}

/// Limit because of which a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestLimit {
    /// Connections that are not reserved for health checks.
    Connections,
    /// Requests without the token.
    Public,
    /// Streams.
    Streams,
}

impl RequestLimit {
    const ALL: [Self; 3] = [Self::Connections, Self::Public, Self::Streams];

    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Public => "public",
            Self::Streams => "streams",
        }
    }
}

/// Name of the counter of refused requests.
pub(crate) const REFUSALS: &str = "argus_http_refused_requests_total";

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
        let metrics = Self::create();
        for limit in RequestLimit::ALL {
            metrics.refusals.with_label_values(&[limit.name()]);
        }
        metrics
    }
}

impl HttpMetrics {
    /// Counts a new event stream.
    pub(crate) fn count_open_stream(&self) -> OpenStreamGuard {
        self.streams.inc();
        OpenStreamGuard(self.streams.clone())
    }

    /// Counts a refused request.
    pub(crate) fn count_refusal(&self, limit: RequestLimit) {
        self.refusals.with_label_values(&[limit.name()]).inc();
    }

    /// Returns the number of refused requests.
    #[cfg(test)]
    pub(crate) fn refusals(&self, limit: RequestLimit) -> u64 {
        self.refusals.with_label_values(&[limit.name()]).get()
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
