//! Incomplete registry: after a loss of `specs.json`, the previous contents of unread files are unknown.

use super::registry::{FileState, SpecRegistry};

impl SpecRegistry {
    /// Reports whether environments outside the registry may still be desired. A rejected or unread file may have
    /// contained them.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Marks the registry as complete once every existing file has an accepted revision.
    pub(crate) fn complete_registry(&mut self) {
        let unknown = self.files.values().any(|entry| {
            let is_accepted = match entry.state {
                FileState::Accepted => true,
                FileState::Unread | FileState::Rejected | FileState::Conflict { .. } => false,
            };
            !is_accepted && entry.accepted.is_none() && entry.gone_since.is_none()
        });
        if self.scanned && self.unavailable.is_none() && !unknown {
            self.incomplete = false;
        }
    }
}
