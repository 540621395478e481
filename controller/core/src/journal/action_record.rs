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
    /// Creates the journal form of an action.
    pub fn of(act: &Action) -> Self {
        let bare = Self {
            verb: act.kind(),
            ..Self::default()
        };
        let id = |id: &dyn ToString| Some(id.to_string());
        match act {
            Action::CreateNetwork { name, .. }
            | Action::CreateVolume { name, .. }
            | Action::RemoveVolume { name } => Self {
                name: id(name),
                ..bare
            },
            Action::RemoveNetwork { id: net, name } => Self {
                id: id(net),
                name: Some(name.clone()),
                ..bare
            },
            Action::PullImage { reference, .. } => Self {
                image: Some(reference.clone()),
                ..bare
            },
            Action::BuildImage(build) => Self {
                image: Some(build.tag.clone()),
                ..bare
            },
            Action::CreateContainer { name, spec } => Self {
                name: id(name),
                image: Some(spec.image.clone()),
                network: Some(spec.network_mode()),
                ..bare
            },
            Action::StartContainer { id: it }
            | Action::StopContainer { id: it, .. }
            | Action::UnpauseContainer { id: it }
            | Action::CopyFile { id: it, .. } => Self { id: id(it), ..bare },
            Action::CollectEvidence { run, .. } => Self {
                id: id(&run.container),
                ..bare
            },
            Action::RenameContainer { id: it, to } => Self {
                id: id(it),
                name: id(to),
                ..bare
            },
            Action::RemoveContainer { id: it, name } => Self {
                id: id(it),
                name: Some(name.clone()),
                ..bare
            },
            Action::ConnectNetwork {
                network, container, ..
            } => Self {
                id: id(container),
                network: Some(network.clone()),
                ..bare
            },
            Action::DisconnectNetwork { network, container } => Self {
                id: Some(container.clone()),
                network: Some(network.clone()),
                ..bare
            },
        }
    }
}
