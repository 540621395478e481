//! Constructors of metrics with constant names. A wrong name fails in every run, so tests find it, and the
//! constructors cannot fail in production.

use prometheus::core::{AtomicI64, AtomicU64, GenericCounterVec, GenericGaugeVec};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntGauge, Opts, Result};

/// Bucket bounds in seconds for work without engine calls: passes and writes.
pub const FAST: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
];
/// Bucket bounds in seconds for calls on an engine or a service.
pub const CALLS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
/// Bucket bounds in seconds for waits of people.
pub const LONG: &[f64] = &[
    0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
];

/// Creates a counter.
pub fn counter(name: &str, help: &str) -> IntCounter {
    unwrap_metric(name, IntCounter::new(name, help))
}

/// Creates counters with labels.
pub fn counters(name: &str, help: &str, labels: &[&str]) -> GenericCounterVec<AtomicU64> {
    unwrap_metric(name, GenericCounterVec::new(Opts::new(name, help), labels))
}

/// Creates a gauge.
pub fn gauge(name: &str, help: &str) -> IntGauge {
    unwrap_metric(name, IntGauge::new(name, help))
}

/// Creates gauges with labels.
pub fn gauges(name: &str, help: &str, labels: &[&str]) -> GenericGaugeVec<AtomicI64> {
    unwrap_metric(name, GenericGaugeVec::new(Opts::new(name, help), labels))
}

/// Creates a histogram with these bucket bounds.
pub fn histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    unwrap_metric(name, Histogram::with_opts(options))
}

/// Creates histograms with labels and these bucket bounds.
pub fn histograms(name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    unwrap_metric(name, HistogramVec::new(options, labels))
}

fn unwrap_metric<T>(name: &str, metric: Result<T>) -> T {
    metric.unwrap_or_else(|error| unreachable!("metric `{name}`: {error}"))
}

/// Defines a set of metrics that is cheap to clone. A row has the field, its type, and the call of a constructor of this module. The fields
/// after `and` are not metrics; they begin with their default.
#[macro_export]
macro_rules! metric_set {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $set:ident {
            $($field:ident: $metric:ty = $make:ident($($argument:expr),+);)+
        }
        $(and { $($other:ident: $type:ty),+ })?
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $visibility struct $set {
            $(pub(crate) $field: $metric,)+
            $($($other: $type,)+)?
        }

        impl $set {
            /// Creates the metrics without series.
            fn create() -> Self {
                Self {
                    $($field: $crate::metrics::make::$make($($argument),+),)+
                    $($($other: Default::default(),)+)?
                }
            }

            /// Returns all metrics, for a registry.
            pub fn collectors(&self) -> Vec<Box<dyn ::prometheus::core::Collector>> {
                vec![$(Box::new(self.$field.clone())),+]
            }
        }
    };
}
