//! Accepted revision of an environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::desired::key_lines::KeyLines;
use crate::desired::mounted_file::MountedFile;
use crate::desired::{Desired, Mount, Service};
use crate::ident::Hash;
use crate::labels::{self, Maker};
use crate::time::Timestamp;

/// Accepted environment: its desired state, and facts about its spec file that do not change the revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Desired state.
    pub desired: Desired,
    /// Path of the spec file, for display.
    pub spec_path: String,
    /// Positions of the keys in the spec file.
    #[serde(default)]
    pub lines: KeyLines,
    /// Time of acceptance. Two seconds later, Argus removes the objects that this revision no longer declares.
    pub accepted_at: Timestamp,
    /// True if newer content of the file is rejected or still being written. Argus then removes nothing because of it.
    #[serde(default)]
    pub has_pending_edit: bool,
    /// True if a person allowed the project of the file: its containers may write above bind sources of allowed projects. Not
    /// stored, so it is false until the file is read.
    #[serde(skip)]
    pub allowed: bool,
    /// True if the file defines another environment now: Argus is about to remove this one.
    #[serde(skip)]
    pub is_ending: bool,
    /// Hash of the bytes of the spec file, and of the other Compose files that it names. An edit changes it; `.env`, variables, build
    /// contexts and documents do not. `None` in the state of an earlier version, until the file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_hash: Option<Hash>,
    /// Files of the host at the sources of bind mounts, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mounted_files: BTreeMap<String, MountedFile>,
}

impl Accepted {
    /// Returns whether a volume belongs to the project in another folder. This file gets its data only after a person allowed the project of
    /// the file.
    pub fn is_foreign(&self, (controller, folder): Maker<'_>, own_controller: &str) -> bool {
        let own = self.desired.folder.as_deref();
        let is_elsewhere = own.is_some() && folder.is_some() && own != folder;
        is_elsewhere && !self.allowed && controller != own_controller
    }

    /// Returns whether the container of another controller with these labels becomes that of a service of this file.
    pub(crate) fn takes_over(&self, labels: &BTreeMap<String, String>, own_controller: &str) -> bool {
        let service = labels.get(labels::SERVICE);
        let (controller, _) = labels::maker(labels);
        service.is_some_and(|service| self.desired.services.contains_key(service.as_str()))
            && controller != own_controller
    }

    /// Returns the mounted files of a service with their paths on the host, and whether the container cannot write to each.
    pub fn files_of<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = (&'a str, &'a MountedFile, bool)> {
        service.mounts.iter().filter_map(|mount| match mount {
            Mount::Bind {
                source, read_only, ..
            } => Some((source.as_str(), self.mounted_files.get(source)?, *read_only)),
            Mount::Volume { .. } => None,
        })
    }

    /// Time at which Argus noticed the last change of a file that the service mounts and cannot write.
    pub fn files_changed_at(&self, service: &Service) -> Option<Timestamp> {
        let files = self.files_of(service).filter(|(_, _, read_only)| *read_only);
        files.filter_map(|(_, file, _)| file.noticed_at).max()
    }
}
