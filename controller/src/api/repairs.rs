//! Memory of repairs: edits of spec files that ended failures.

use argus_crds::diff::{Repair, SeenBefore};
use argus_reconciler::reconciler::PersistedState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Effect, Operation, Route};
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::output;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Repairs {}

/// All repairs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RepairList {
    /// Repairs, the last one at the end.
    pub(crate) items: Vec<Repair>,
}

impl Operation for Repairs {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/repairs",
        "edits of spec files that ended failures; needs the token",
    )];
    const IS_PRIVATE: bool = true;
    type Output = RepairList;

    async fn run(&self, context: &Context) -> Result<RepairList, Failure> {
        let read = context.client.run_blocking(|client| {
            let persisted: PersistedState = status::read_or_default(&client.state().state_json());
            Ok(RepairList {
                items: persisted.overrides.repairs.repairs().to_vec(),
            })
        });
        read.await
    }
}

/// Describes the last repair of a failure, such as ``1 repair, the last at 2026-11-28T10:00:00Z: `services.web.image` from `a` to `b` ``.
pub(crate) fn format_seen(seen: &SeenBefore) -> String {
    let quote = |value: &Option<String>| value.as_ref().map(|value| format!("`{value}`"));
    let changes = seen.last_repair.diff.iter().map(|change| {
        let key = &change.key;
        match (quote(&change.before), quote(&change.after)) {
            (Some(before), Some(after)) => format!("`{key}` from {before} to {after}"),
            (None, Some(after)) => format!("`{key}` set to {after}"),
            (_, None) => format!("`{key}` removed"),
        }
    });
    format!(
        "{}, the last at {}: {}",
        output::format_count(seen.times, "repair"),
        seen.last_repair.when,
        changes.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use argus_crds::diff::{KeyChange, LastRepair};

    use super::*;

    #[test]
    fn repair_names_each_changed_key() {
        let change = |key: &str, before: Option<&str>, after: Option<&str>| KeyChange {
            key: key.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            ..KeyChange::default()
        };
        let seen = SeenBefore {
            times: 2,
            last_repair: LastRepair {
                when: "2026-11-28T10:00:00Z".to_owned(),
                diff: vec![
                    change("a", Some("1"), Some("2")),
                    change("b", None, Some("3")),
                    change("c", Some("4"), None),
                ],
                ..LastRepair::default()
            },
        };
        assert_eq!(
            format_seen(&seen),
            "2 repairs, the last at 2026-11-28T10:00:00Z: `a` from `1` to `2`, `b` set to `3`, `c` removed"
        );
    }
}
