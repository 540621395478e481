//! Metrics of the controller, for Prometheus.

use std::sync::Arc;

use argus_reconciler::journal::Feed;
use argus_reconciler::{Snapshot, TaskMetrics};
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Registry, TextEncoder};
use tokio::sync::watch;

use crate::view::Statuses;

mod counters;
mod gauges;
mod http;
mod journal_consumer;

use counters::Counters;
use gauges::Gauges;
pub(crate) use http::{HttpMetrics, OpenStreamGuard, REFUSALS, RequestLimit};
pub(crate) use journal_consumer::JournalConsumer;

/// HTTP path of the metrics.
pub(crate) const PATH: &str = "/metrics";

/// All metrics of one controller; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Registry,
    counters: Counters,
    http: HttpMetrics,
    statuses: watch::Receiver<Arc<Statuses>>,
}

impl Metrics {
    /// Creates the metrics. Gauges read the current state on each scrape; counters come from the consumer of [`journal_consumer`](Self::journal_consumer).
    pub(crate) fn new(
        task_metrics: &TaskMetrics,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        statuses: watch::Receiver<Arc<Statuses>>,
    ) -> Self {
        let metrics = Self {
            registry: Registry::new(),
            counters: Counters::default(),
            http: HttpMetrics::default(),
            statuses: statuses.clone(),
        };
        for collector in metrics.collectors(task_metrics, Gauges::new(snapshots, statuses)) {
            let name = collector.desc().first().map(|desc| desc.fq_name.clone());
            let registered = metrics.registry.register(collector);
            registered.unwrap_or_else(|error| unreachable!("metric {name:?}: {error}"));
        }
        metrics
    }

    /// Creates the consumer that counts the records after record `previous_newest`.
    pub(crate) fn journal_consumer(&self, feed: Feed, previous_newest: u64) -> JournalConsumer {
        JournalConsumer::new(feed, previous_newest, self.counters.clone())
    }

    fn collectors(&self, task_metrics: &TaskMetrics, gauges: Gauges) -> Vec<Box<dyn Collector>> {
        let mut all = task_metrics.collectors();
        all.extend(self.counters.collectors());
        all.extend(self.http.collectors());
        all.push(Box::new(gauges));
        all.push(Box::new(ProcessCollector::for_self()));
        all
    }

    /// Returns all metrics in Prometheus' text format.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        // Remove the series of removed services, even if a record updated them recently.
        self.counters.retain_existing(&self.statuses.borrow().clone());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Returns the metrics of the HTTP interface.
    pub(crate) fn http(&self) -> &HttpMetrics {
        &self.http
    }
}

#[cfg(test)]
mod tests;
