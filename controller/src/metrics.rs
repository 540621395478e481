//! `/metrics`: what a Prometheus reads of this controller.

use std::sync::Arc;

use argus_reconciler::history::Feed;
use argus_reconciler::{Outlook, Tally};
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Registry, TextEncoder};
use tokio::sync::watch;

use crate::view::Shown;

mod ledger;
mod meter;
mod scene;
mod traffic;

use ledger::Ledger;
pub(crate) use meter::Meter;
use scene::Scene;
pub(crate) use traffic::{Listening, Traffic};

/// All figures of one controller; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Registry,
    ledger: Ledger,
    traffic: Traffic,
    shown: watch::Receiver<Arc<Shown>>,
}

impl Metrics {
    /// Shows how things are whenever it is asked, and what its meter counts.
    pub(crate) fn new(
        tally: &Tally,
        outlooks: watch::Receiver<Arc<Outlook>>,
        shown: watch::Receiver<Arc<Shown>>,
    ) -> Self {
        let metrics = Self {
            registry: Registry::new(),
            ledger: Ledger::default(),
            traffic: Traffic::default(),
            shown: shown.clone(),
        };
        for collector in metrics.collectors(tally, Scene::new(outlooks, shown)) {
            let name = collector.desc().first().map(|desc| desc.fq_name.clone());
            let registered = metrics.registry.register(collector);
            registered.unwrap_or_else(|error| unreachable!("figure {name:?}: {error}"));
        }
        metrics
    }

    /// Counts what the feed tells after this record.
    pub(crate) fn meter(&self, feed: Feed, begun: u64) -> Meter {
        Meter::new(feed, begun, self.ledger.clone())
    }

    fn collectors(&self, tally: &Tally, scene: Scene) -> Vec<Box<dyn Collector>> {
        let mut all = tally.collectors();
        all.extend(self.ledger.collectors());
        all.extend(self.traffic.collectors());
        all.push(Box::new(scene));
        all.push(Box::new(ProcessCollector::for_self()));
        all
    }

    /// Everything in Prometheus' text format.
    pub(crate) fn text(&self) -> prometheus::Result<String> {
        // What is gone is not served any more, whatever was told of it last.
        self.ledger.forget_all_but(&self.shown.borrow().clone());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// What is asked over HTTP.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

#[cfg(test)]
mod tests;
