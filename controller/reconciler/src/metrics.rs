//! Metrics that the tasks of this crate record where the measured events happen.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use crate::metric_set;

pub mod make;

/// Values of the label `wake`: reasons of a reconcile pass.
const WAKES: [&str; 11] = [
    "start",
    "links",
    "specs",
    "store",
    "health",
    "leases",
    "preflight",
    "timer",
    "journal",
    "action",
    "command",
];
/// Values of the label `kind` of probes.
const PROBES: [&str; 4] = ["http", "tcp", "exec", "log"];
/// Values of the label `result` of probes.
const RESULTS: [&str; 4] = ["success", "failure", "silent", "missed"];
/// Values of the label `class` of actions.
const CLASSES: [&str; 4] = ["mutation", "long", "stop", "read"];

metric_set! {
    /// Metrics of one controller; cheap to clone. All clones share the same counters.
    pub struct TaskMetrics {
        passes: IntCounterVec = counters("argus_reconcile_total", "Reconcile passes, by trigger.", &["wake"]);
        pass_seconds: Histogram = histogram("argus_reconcile_time_seconds",
            "Duration of a reconcile pass.", make::FAST);
        waiting: IntGaugeVec = gauges("argus_actions_queued",
            "Actions that wait for a permit, by class.", &["class"]);
        permit_seconds: HistogramVec = histograms("argus_action_queue_seconds",
            "Time that actions wait for a permit, by class.", &["class"], make::CALLS);
        gaps: IntCounter = counter("argus_event_stream_gaps_total",
            "Losses and stalls of the engine's event stream. Argus takes a full list after each.");
        unreadable: IntCounter = counter("argus_watch_unreadable_total",
            "Events and lists of the engine that Argus could not read.");
        lists: IntCounter = counter("argus_engine_lists_total", "Completed full lists of the engine.");
        lag_seconds: Histogram = histogram("argus_watch_lag_seconds",
            "Time from a start or end of a container (engine clock) until Argus observes it.", make::CALLS);
        probes: IntCounterVec = counters("argus_probes_total",
            "Completed probes, by kind and result.", &["kind", "result"]);
        probe_seconds: HistogramVec = histograms("argus_probe_duration_seconds",
            "Duration of probes, by kind.", &["kind"], make::CALLS);
        journal_seconds: Histogram = histogram("argus_journal_write_seconds",
            "Duration of a journal write, with its sync if an action waits for it.", make::FAST);
        journal_failures: IntCounter = counter("argus_journal_write_failures_total", "Failed writes to the journal.");
        journal_dropped: IntCounter = counter("argus_journal_dropped_total",
            "Journal records that were dropped because the queue was full.");
        journal_bytes: IntGauge = gauge("argus_journal_size_bytes", "Size of the current journal file.");
    }
}

impl Default for TaskMetrics {
    fn default() -> Self {
        let metrics = Self::create();
        metrics.init_labels();
        metrics
    }
}

/// Action that waits for a permit; its drop ends the wait.
#[derive(Debug)]
pub(crate) struct Waiting(IntGauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl TaskMetrics {
    pub(crate) fn track_wait(&self, class: &str) -> Waiting {
        let waiting = self.waiting.with_label_values(&[class]);
        waiting.inc();
        Waiting(waiting)
    }

    /// Creates every label combination with the value zero, so that the first event is visible as an increase.
    fn init_labels(&self) {
        for wake in WAKES {
            self.passes.with_label_values(&[wake]);
        }
        for class in CLASSES {
            self.waiting.with_label_values(&[class]);
            self.permit_seconds.with_label_values(&[class]);
        }
        for kind in PROBES {
            self.probe_seconds.with_label_values(&[kind]);
            for result in RESULTS {
                self.probes.with_label_values(&[kind, result]);
            }
        }
    }
}
