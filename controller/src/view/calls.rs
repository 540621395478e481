//! The calls that are kept beside a status.

use argus_crds::status::{Calls, Phase};

/// So many of errors that are told no more are kept: whoever read of one a moment ago may ask now.
const EARLIER: usize = 16;

/// The calls of the errors that are told now, with the newest of those before; none of an environment that is well.
pub(super) fn with_earlier(now: Calls, before: Option<&Calls>, phase: Phase) -> Calls {
    if now.is_empty() && phase == Phase::Ready {
        return now;
    }
    // An id begins with its time.
    let earlier = before.into_iter().flatten().rev();
    let earlier = earlier.filter(|(id, _)| !now.contains_key(*id)).take(EARLIER);
    let mut calls: Calls = earlier.map(|(id, calls)| (id.clone(), calls.clone())).collect();
    calls.extend(now);
    calls
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Call;
    use serde_json::Map;

    use super::*;

    fn calls(ids: impl IntoIterator<Item = u32>) -> Calls {
        let call = |id: u32| (format!("{id:03}"), vec![Call::new("probe", Map::new())]);
        ids.into_iter().map(call).collect()
    }

    #[test]
    fn what_was_told_a_moment_ago_is_still_found_and_not_for_ever() {
        let before = calls(0..40);
        let kept = with_earlier(calls([40]), Some(&before), Phase::Degraded);
        assert_eq!(kept, calls(24..=40));
        assert_eq!(
            with_earlier(calls([40]), Some(&kept), Phase::Degraded),
            kept,
            "and nothing is written for that"
        );
        assert_eq!(
            with_earlier(calls([]), Some(&kept), Phase::Progressing),
            calls(25..=40)
        );
        assert_eq!(with_earlier(calls([]), Some(&kept), Phase::Ready), calls([]));
    }
}
