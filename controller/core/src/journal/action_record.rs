//! Journal form of an action.

use serde::{Deserialize, Serialize};

use crate::action::{Action, ActionKind};

/// Journal form of an action, without variables and file contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionRecord {
    /// Kind of the action.
    pub verb: ActionKind,
    /// Id of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Current or new name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Image reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Name or id of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

impl ActionRecord {
    /// Creates the journal form of an action, from the arguments of its call.
    pub fn of(act: &Action) -> Self {
        let arguments = act.arguments();
        let first = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| arguments.get(*name)?.as_str());
            found.next().map(str::to_owned)
        };
        Self {
            verb: act.kind(),
            id: first(&["id", "container"]),
            name: first(&["name", "to"]),
            image: first(&["image", "tag"]),
            network: first(&["network"]),
        }
    }
}
