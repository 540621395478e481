//! Figures made from names that stand in the code: what is wrong with one is wrong in every run, so none of this can fail.

use prometheus::core::{AtomicI64, AtomicU64, GenericCounterVec, GenericGaugeVec};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntGauge, Opts, Result};

/// Upper bounds in seconds for what takes no call: turns, writes.
pub const FAST: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
];
/// Upper bounds in seconds for calls on an engine or a service.
pub const CALLS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
/// Upper bounds in seconds for what people wait for.
pub const LONG: &[f64] = &[
    0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
];

/// A counter.
pub fn counter(name: &str, help: &str) -> IntCounter {
    sound(name, IntCounter::new(name, help))
}

/// Counters by labels.
pub fn counters(name: &str, help: &str, labels: &[&str]) -> GenericCounterVec<AtomicU64> {
    sound(name, GenericCounterVec::new(Opts::new(name, help), labels))
}

/// A gauge.
pub fn gauge(name: &str, help: &str) -> IntGauge {
    sound(name, IntGauge::new(name, help))
}

/// Gauges by labels.
pub fn gauges(name: &str, help: &str, labels: &[&str]) -> GenericGaugeVec<AtomicI64> {
    sound(name, GenericGaugeVec::new(Opts::new(name, help), labels))
}

/// A histogram with these upper bounds.
pub fn histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    sound(name, Histogram::with_opts(options))
}

/// Histograms by labels.
pub fn histograms(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    sound(name, HistogramVec::new(options, labels))
}

fn sound<T>(name: &str, made: Result<T>) -> T {
    made.unwrap_or_else(|error| unreachable!("figure `{name}`: {error}"))
}
