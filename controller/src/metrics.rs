//! `/metrics`: what a Prometheus reads of this controller.

use std::sync::Arc;

use argus_reconciler::journal::Feed;
use argus_reconciler::{Snapshot, Tally};
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Registry, TextEncoder};
use tokio::sync::watch;

use crate::view::StatusDocuments;

mod counters;
mod gauges;
mod http;
mod journal_consumer;

use counters::Counters;
use gauges::Gauges;
pub(crate) use http::{HttpMetrics, Listening};
pub(crate) use journal_consumer::JournalConsumer;

/// All figures of one controller; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Registry,
    counters: Counters,
    http: HttpMetrics,
    shown: watch::Receiver<Arc<StatusDocuments>>,
}

impl Metrics {
    /// Shows how things are whenever it is asked, and what its meter counts.
    pub(crate) fn new(
        tally: &Tally,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        shown: watch::Receiver<Arc<StatusDocuments>>,
    ) -> Self {
        let metrics = Self {
            registry: Registry::new(),
            counters: Counters::default(),
            http: HttpMetrics::default(),
            shown: shown.clone(),
        };
        for collector in metrics.collectors(tally, Gauges::new(snapshots, shown)) {
            let name = collector.desc().first().map(|desc| desc.fq_name.clone());
            let registered = metrics.registry.register(collector);
            registered.unwrap_or_else(|error| unreachable!("figure {name:?}: {error}"));
        }
        metrics
    }

    /// Counts what the feed tells after this record.
    pub(crate) fn meter(&self, feed: Feed, begun: u64) -> JournalConsumer {
        JournalConsumer::new(feed, begun, self.counters.clone())
    }

    fn collectors(&self, tally: &Tally, scene: Gauges) -> Vec<Box<dyn Collector>> {
        let mut all = tally.collectors();
        all.extend(self.counters.collectors());
        all.extend(self.http.collectors());
        all.push(Box::new(scene));
        all.push(Box::new(ProcessCollector::for_self()));
        all
    }

    /// Everything in Prometheus' text format.
    pub(crate) fn text(&self) -> prometheus::Result<String> {
        // What is gone is not served any more, whatever was told of it last.
        self.counters.forget_all_but(&self.shown.borrow().clone());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// What is asked over HTTP.
    pub(crate) fn traffic(&self) -> &HttpMetrics {
        &self.http
    }
}

#[cfg(test)]
mod tests;
