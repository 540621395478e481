//! Networks of the engine with the labels of Argus.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Observed;
use crate::ident::{NetworkId, ResourceName};
use crate::labels::{self, ObjectLabels};
use crate::time::Timestamp;

/// Network with the labels of Argus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Id that the engine assigned.
    pub id: NetworkId,
    /// Name on the engine.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// True if its bridge no longer exists. Its containers reach nothing, and none can start.
    #[serde(default)]
    pub is_broken: bool,
}

impl Network {
    /// Returns whether this controller created it.
    pub fn is_made_by(&self, controller: &str) -> bool {
        self.labels.get(labels::CONTROLLER).map_or("", String::as_str) == controller
    }

    /// Returns the ownership; `None` for an object that Argus does not manage.
    pub fn owner(&self) -> Option<ObjectLabels> {
        ObjectLabels::read(&self.labels)
    }
}

impl Observed {
    /// Returns the network with this name. An engine may have several; the oldest counts.
    pub fn find_network(&self, name: &ResourceName) -> Option<&Arc<Network>> {
        self.networks
            .values()
            .filter(|network| network.name == name.as_str())
            .min_by_key(|network| (network.created_at, network.id.clone()))
    }
}
