//! Kinds of actions, with their stable names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Action;

/// Kind of an action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionKind {
    /// [`Action::CreateNetwork`].
    CreateNetwork,
    /// [`Action::RemoveNetwork`].
    RemoveNetwork,
    /// [`Action::CreateVolume`].
    CreateVolume,
    /// [`Action::RemoveVolume`].
    RemoveVolume,
    /// [`Action::PullImage`].
    PullImage,
    /// [`Action::BuildImage`].
    BuildImage,
    /// [`Action::CreateContainer`].
    CreateContainer,
    /// [`Action::StartContainer`].
    StartContainer,
    /// [`Action::StopContainer`].
    StopContainer,
    /// [`Action::UnpauseContainer`].
    UnpauseContainer,
    /// [`Action::RenameContainer`].
    RenameContainer,
    /// [`Action::RemoveContainer`].
    RemoveContainer,
    /// [`Action::CollectEvidence`].
    CollectEvidence,
    /// [`Action::CopyFile`].
    CopyFile,
    /// [`Action::ConnectNetwork`].
    ConnectNetwork,
    /// [`Action::DisconnectNetwork`].
    DisconnectNetwork,
    /// An action of another version of Argus.
    #[default]
    Other,
}

impl ActionKind {
    /// Kinds of all actions of this version.
    pub const ALL: [Self; 16] = [
        Self::CreateNetwork,
        Self::RemoveNetwork,
        Self::CreateVolume,
        Self::RemoveVolume,
        Self::PullImage,
        Self::BuildImage,
        Self::CreateContainer,
        Self::StartContainer,
        Self::StopContainer,
        Self::UnpauseContainer,
        Self::RenameContainer,
        Self::RemoveContainer,
        Self::CollectEvidence,
        Self::CopyFile,
        Self::ConnectNetwork,
        Self::DisconnectNetwork,
    ];

    /// Stable name for the journal, logs, metrics and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateNetwork => "create-network",
            Self::RemoveNetwork => "remove-network",
            Self::CreateVolume => "create-volume",
            Self::RemoveVolume => "remove-volume",
            Self::PullImage => "pull-image",
            Self::BuildImage => "build-image",
            Self::CreateContainer => "create-container",
            Self::StartContainer => "start-container",
            Self::StopContainer => "stop-container",
            Self::UnpauseContainer => "unpause-container",
            Self::RenameContainer => "rename-container",
            Self::RemoveContainer => "remove-container",
            Self::CollectEvidence => "collect-evidence",
            Self::CopyFile => "copy-file",
            Self::ConnectNetwork => "connect-network",
            Self::DisconnectNetwork => "disconnect-network",
            Self::Other => "action",
        }
    }

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

impl From<&Action> for ActionKind {
    fn from(action: &Action) -> Self {
        match action {
            Action::CreateNetwork { .. } => Self::CreateNetwork,
            Action::RemoveNetwork { .. } => Self::RemoveNetwork,
            Action::CreateVolume { .. } => Self::CreateVolume,
            Action::RemoveVolume { .. } => Self::RemoveVolume,
            Action::PullImage { .. } => Self::PullImage,
            Action::BuildImage(_) => Self::BuildImage,
            Action::CreateContainer { .. } => Self::CreateContainer,
            Action::StartContainer { .. } => Self::StartContainer,
            Action::StopContainer { .. } => Self::StopContainer,
            Action::UnpauseContainer { .. } => Self::UnpauseContainer,
            Action::RenameContainer { .. } => Self::RenameContainer,
            Action::RemoveContainer { .. } => Self::RemoveContainer,
            Action::CollectEvidence { .. } => Self::CollectEvidence,
            Action::CopyFile { .. } => Self::CopyFile,
            Action::ConnectNetwork { .. } => Self::ConnectNetwork,
            Action::DisconnectNetwork { .. } => Self::DisconnectNetwork,
        }
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
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        Ok(known.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_read_from_its_name_and_unknown_names_are_kept_apart() {
        for kind in ActionKind::ALL {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(text, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<ActionKind>(&text).unwrap(), kind);
        }
        let newer: ActionKind = serde_json::from_str("\"a verb of tomorrow\"").unwrap();
        assert_eq!(newer, ActionKind::Other);
    }
}
