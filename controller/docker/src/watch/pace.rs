//! How often an engine is listed when nothing asks for it.

use std::time::Duration;

const LIST_EVERY: Duration = Duration::from_secs(10);
const LIST_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// A list that costs more is made less often.
const CHEAP_LIST_MS: u32 = 30;

/// Ten seconds, and in proportion to its cost up to thirty where a list costs more than it should.
pub(super) fn interval(cost: Duration) -> Duration {
    let cost = u32::try_from(cost.as_millis()).unwrap_or(u32::MAX);
    if cost <= CHEAP_LIST_MS {
        return LIST_EVERY;
    }
    (LIST_EVERY.saturating_mul(cost) / CHEAP_LIST_MS).min(LIST_AT_LEAST_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_list_is_made_less_often() {
        let every = |ms| interval(Duration::from_millis(ms)).as_secs();
        assert_eq!(
            [every(0), every(30), every(60), every(90), every(5000)],
            [10, 10, 20, 30, 30]
        );
    }
}
