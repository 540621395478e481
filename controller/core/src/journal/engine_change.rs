//! Changes of the engine that no plan contains: leases, helpers, the image of this program, and `argus prune`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Change of the engine that no plan contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineChange {
    /// Kind of the object.
    pub what: ChangedObject,
    /// Name or id on the engine.
    pub name: String,
    /// True if the object was removed, false if it was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Environments of a lease, or command of a helper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// True if the change failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Kind of an object that no plan contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangedObject {
    /// Lease of a controller.
    Lease,
    /// Helper container.
    Helper,
    /// Image of this program, for helpers and mocks.
    OwnImage,
    /// Image that Argus built.
    Image,
    /// Unused build cache.
    BuildCache,
}

impl EngineChange {
    /// Creation of an object.
    pub fn created(what: ChangedObject, name: impl Into<String>) -> Self {
        Self {
            what,
            name: name.into(),
            removed: false,
            purpose: None,
            failed: false,
        }
    }

    /// Removal of an object.
    pub fn removed(what: ChangedObject, name: impl Into<String>) -> Self {
        Self {
            removed: true,
            ..Self::created(what, name)
        }
    }

    /// Adds the purpose of the object.
    #[must_use]
    pub fn purpose(self, purpose: impl Into<String>) -> Self {
        Self {
            purpose: Some(purpose.into()),
            ..self
        }
    }

    /// Marks a failed change.
    #[must_use]
    pub fn failed(self, failed: bool) -> Self {
        Self { failed, ..self }
    }
}

impl fmt::Display for ChangedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lease => "lease",
            Self::Helper => "helper",
            Self::OwnImage => "own image",
            Self::Image => "image",
            Self::BuildCache => "build cache",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Event};
    use super::*;

    #[test]
    fn change_is_a_flat_event_without_empty_fields() {
        let removed = EngineChange::removed(ChangedObject::OwnImage, "argus/own:1").failed(true);
        let entry = Entry::Event(Event::EngineChange(removed));
        let json = serde_json::to_value(&entry).unwrap();
        let expected = serde_json::json!({
            "kind": "event", "event": "engineChange", "what": "ownImage", "name": "argus/own:1", "removed": true, "failed": true
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Entry>(json).unwrap(), entry);
        let created = EngineChange::created(ChangedObject::Lease, "l").purpose("shop");
        let json = serde_json::to_value(&created).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "what": "lease", "name": "l", "purpose": "shop" })
        );
    }
}
