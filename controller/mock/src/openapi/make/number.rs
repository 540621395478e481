//! Generator of numbers.

use serde_json::{Map, Number, Value};

use super::Maker;

impl Maker<'_> {
    /// Generates a number within its bounds, small and positive by default.
    pub(super) fn number(&self, map: &Map<String, Value>, whole: bool) -> Option<Value> {
        let bound = |key: &str| map.get(key).and_then(Value::as_f64);
        let step = bound("multipleOf").filter(|step| *step > 0.0);
        let unit = step.unwrap_or(if whole { 1.0 } else { 0.01 });
        // The bounds are in multiples of the unit, so every drawn number is a valid multiple.
        let low = [
            bound("minimum").map(|low| (low / unit).ceil()),
            bound("exclusiveMinimum").map(|low| (low / unit).floor() + 1.0),
        ];
        let high = [
            bound("maximum").map(|high| (high / unit).floor()),
            bound("exclusiveMaximum").map(|high| (high / unit).ceil() - 1.0),
        ];
        let low = low.into_iter().flatten().reduce(f64::max);
        let high = high.into_iter().flatten().reduce(f64::min);
        let default_range = if whole { 100.0 } else { 10_000.0 };
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) if low <= 1.0 && high >= default_range => (1.0, default_range),
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low + default_range),
            (None, Some(high)) if high >= 1.0 => (1.0, high.min(default_range)),
            (None, Some(high)) => (high - default_range, high),
            (None, None) => (1.0, default_range),
        };
        if low > high {
            // Without `multipleOf`, numbers between two hundredths are valid.
            return (step.is_none() && !whole).then(|| between(map)).flatten();
        }
        let span = (high - low).min(1e15);
        #[allow(
            clippy::cast_precision_loss,
            reason = "a share of the span needs no more digits than a float has"
        )]
        let share = (self.rng.of(&self.at, self.retries()) >> 12) as f64 / (1_u64 << 52) as f64;
        let times = (low + (share * (span + 1.0)).floor()).min(high);
        let value = times * unit;
        if whole && value.fract() == 0.0 && value.abs() < 9e15 {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value is an integer below 2^53"
            )]
            return Some(Value::from(value as i64));
        }
        // Rounding turns 7 × 0.01 into 0.07.
        let rounded = format!("{value:.9}").parse().unwrap_or(value);
        Number::from_f64(if step.is_none_or(|step| step >= 1e-9) {
            rounded
        } else {
            value
        })
        .map(Value::Number)
    }
}

fn between(map: &Map<String, Value>) -> Option<Value> {
    let bound = |one: &str, other: &str| map.get(one).or_else(|| map.get(other)).and_then(Value::as_f64);
    let (low, high) = (
        bound("minimum", "exclusiveMinimum")?,
        bound("maximum", "exclusiveMaximum")?,
    );
    (low <= high).then(|| Number::from_f64(f64::midpoint(low, high)).map(Value::Number))?
}
