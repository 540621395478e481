//! What is counted and timed where it happens, for whoever asks how a controller does.

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

pub mod make;

/// Why the reconcile loop goes round, in a word each.
const WAKES: [&str; 10] = [
    "start",
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
/// What a probe asks by.
const PROBES: [&str; 3] = ["http", "tcp", "exec"];
/// What a probe comes to.
const ANSWERS: [&str; 4] = ["good", "bad", "silent", "missed"];
/// What acts cost the engine, in a word each.
const CLASSES: [&str; 4] = ["mutation", "long", "stop", "read"];

/// The figures of one controller; cheap to clone, and every clone counts into the same.
#[derive(Debug, Clone)]
pub struct Tally {
    pub(crate) turns: IntCounterVec,
    pub(crate) turn_seconds: Histogram,
    pub(crate) waiting: IntGaugeVec,
    pub(crate) permit_seconds: HistogramVec,
    pub(crate) gaps: IntCounter,
    pub(crate) lists: IntCounter,
    pub(crate) lag_seconds: Histogram,
    pub(crate) probes: IntCounterVec,
    pub(crate) probe_seconds: HistogramVec,
    pub(crate) journal_seconds: Histogram,
    pub(crate) journal_failures: IntCounter,
    pub(crate) journal_dropped: IntCounter,
    pub(crate) journal_bytes: IntGauge,
}

impl Default for Tally {
    fn default() -> Self {
        let tally = Self {
            turns: make::counters(
                "argus_reconcile_total",
                "Turns of the reconcile loop, by what woke it.",
                &["wake"],
            ),
            turn_seconds: make::histogram(
                "argus_reconcile_time_seconds",
                "How long a turn of the reconcile loop takes.",
                make::FAST,
            ),
            waiting: make::gauges(
                "argus_actions_queued",
                "Acts that wait for a permit, by what they cost the engine.",
                &["class"],
            ),
            permit_seconds: make::histograms(
                "argus_action_queue_seconds",
                "How long acts wait for a permit, by what they cost the engine.",
                &["class"],
                make::CALLS,
            ),
            gaps: make::counter(
                "argus_event_stream_gaps_total",
                "Times the engine's event stream was lost, or told nothing of what happened; lists show what it missed.",
            ),
            lists: make::counter(
                "argus_engine_lists_total",
                "Full lists of the engine that were completed.",
            ),
            lag_seconds: make::histogram(
                "argus_watch_lag_seconds",
                "From the start or end of a container, by the engine's clock, until it was seen.",
                make::CALLS,
            ),
            probes: make::counters(
                "argus_probes_total",
                "Probes that came back, by how they ask and what they found.",
                &["kind", "result"],
            ),
            probe_seconds: make::histograms(
                "argus_probe_duration_seconds",
                "How long probes take, by how they ask.",
                &["kind"],
                make::CALLS,
            ),
            journal_seconds: make::histogram(
                "argus_journal_write_seconds",
                "How long a write to the journal takes, with its sync where an act waits for it.",
                make::FAST,
            ),
            journal_failures: make::counter(
                "argus_journal_write_failures_total",
                "Writes to the journal that failed.",
            ),
            journal_dropped: make::counter(
                "argus_journal_dropped_total",
                "Records that were dropped because too many waited to be written.",
            ),
            journal_bytes: make::gauge(
                "argus_journal_size_bytes",
                "Size of the journal's file that is written at present.",
            ),
        };
        tally.touch();
        tally
    }
}

/// One act that waits for its permit, however the wait ends.
#[derive(Debug)]
pub(crate) struct Waiting(IntGauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Tally {
    /// Everything in it, for a registry.
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let Self {
            turns,
            turn_seconds,
            waiting,
            permit_seconds,
            gaps,
            lists,
            lag_seconds,
            probes,
            probe_seconds,
            journal_seconds,
            journal_failures,
            journal_dropped,
            journal_bytes,
        } = self.clone();
        vec![
            Box::new(turns),
            Box::new(turn_seconds),
            Box::new(waiting),
            Box::new(permit_seconds),
            Box::new(gaps),
            Box::new(lists),
            Box::new(lag_seconds),
            Box::new(probes),
            Box::new(probe_seconds),
            Box::new(journal_seconds),
            Box::new(journal_failures),
            Box::new(journal_dropped),
            Box::new(journal_bytes),
        ]
    }

    pub(crate) fn track_wait(&self, class: &str) -> Waiting {
        let waiting = self.waiting.with_label_values(&[class]);
        waiting.inc();
        Waiting(waiting)
    }

    /// What can be counted is there from the start, at zero: the first time is a change like any other.
    fn touch(&self) {
        for wake in WAKES {
            self.turns.with_label_values(&[wake]);
        }
        for class in CLASSES {
            self.waiting.with_label_values(&[class]);
            self.permit_seconds.with_label_values(&[class]);
        }
        for kind in PROBES {
            self.probe_seconds.with_label_values(&[kind]);
            for answer in ANSWERS {
                self.probes.with_label_values(&[kind, answer]);
            }
        }
    }
}
