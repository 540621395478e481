//! Stored calls behind the errors of a status.

use argus_crds::status::{Calls, Phase};

/// Maximum number of resolved errors whose calls are kept, because a client may still hold a status that contains
/// them.
const MAX_EARLIER_ERRORS: usize = 16;

/// Adds the newest earlier calls to the current ones. A ready environment without errors has none.
pub(super) fn merge_calls(now: Calls, before: Option<&Calls>, phase: Phase) -> Calls {
    if now.is_empty() && phase == Phase::Ready {
        return now;
    }
    // An error id begins with its time.
    let earlier = before.into_iter().flatten().rev();
    let earlier = earlier
        .filter(|(id, _)| !now.contains_key(*id))
        .take(MAX_EARLIER_ERRORS);
    let mut calls: Calls = earlier.map(|(id, calls)| (id.clone(), calls.clone())).collect();
    calls.extend(now);
    calls
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Call;
    use serde_json::Map;

    use super::*;

    fn create_calls(ids: impl IntoIterator<Item = u32>) -> Calls {
        let call = |id: u32| (format!("{id:03}"), vec![Call::new("probe", Map::new())]);
        ids.into_iter().map(call).collect()
    }

    #[test]
    fn earlier_calls_are_kept_up_to_a_limit() {
        let before = create_calls(0..40);
        let merged = merge_calls(create_calls([40]), Some(&before), Phase::Degraded);
        assert_eq!(merged, create_calls(24..=40));
        assert_eq!(
            merge_calls(create_calls([40]), Some(&merged), Phase::Degraded),
            merged,
            "the file stays unchanged"
        );
        assert_eq!(
            merge_calls(create_calls([]), Some(&merged), Phase::Progressing),
            create_calls(25..=40)
        );
        assert_eq!(
            merge_calls(create_calls([]), Some(&merged), Phase::Ready),
            create_calls([])
        );
    }
}
