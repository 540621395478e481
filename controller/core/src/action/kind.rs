//! Kinds of actions, with their stable names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Action;

macro_rules! action_kinds {
    ($($kind:ident = $name:literal,)*) => {
        /// Kind of an action.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ActionKind {
            $(#[doc = concat!("[`Action::", stringify!($kind), "`].")] $kind,)*
            /// An action of another version of Argus.
            #[default]
            Other,
        }

        impl ActionKind {
            /// Kinds of all actions of this version.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Stable name for the journal, logs, metrics and errors.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                    Self::Other => "action",
                }
            }
        }

        impl From<&Action> for ActionKind {
            fn from(action: &Action) -> Self {
                match action {
                    $(Action::$kind { .. } => Self::$kind,)*
                }
            }
        }
    };
}

action_kinds! {
    CreateNetwork = "create-network",
    RemoveNetwork = "remove-network",
    CreateVolume = "create-volume",
    RemoveVolume = "remove-volume",
    PullImage = "pull-image",
    BuildImage = "build-image",
    CreateContainer = "create-container",
    StartContainer = "start-container",
    StopContainer = "stop-container",
    UnpauseContainer = "unpause-container",
    RenameContainer = "rename-container",
    RemoveContainer = "remove-container",
    CollectEvidence = "collect-evidence",
    CopyFile = "copy-file",
    ConnectNetwork = "connect-network",
    DisconnectNetwork = "disconnect-network",
}

impl ActionKind {
    /// Returns true for an action that removes an object.
    pub fn is_removal(self) -> bool {
        matches!(
            self,
            Self::RemoveNetwork | Self::RemoveVolume | Self::RemoveContainer
        )
    }

    /// Returns true for an action that ends the run of its container.
    pub fn ends_run(self) -> bool {
        matches!(self, Self::StopContainer | Self::RemoveContainer)
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ActionKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ActionKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let known = Self::ALL.iter().find(|kind| kind.as_str() == name);
        Ok(known.copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_read_from_its_name_and_unknown_names_are_kept_apart() {
        for &kind in ActionKind::ALL {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(text, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<ActionKind>(&text).unwrap(), kind);
        }
        let newer: ActionKind = serde_json::from_str("\"a verb of tomorrow\"").unwrap();
        assert_eq!(newer, ActionKind::Other);
    }
}
