//! A book that was lost: what its files held is not known before each of them is read.

use super::registry::{FileState, SpecRegistry};

impl SpecRegistry {
    /// Nobody can tell what is desired of environments that are not in here: a file that does not count as it stands may
    /// have held them.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Ends the doubt when every file that is there holds something.
    pub(crate) fn complete_registry(&mut self) {
        let unknown = self.files.values().any(|entry| {
            let counts = match entry.state {
                FileState::Accepted => true,
                FileState::Unread | FileState::Rejected | FileState::Conflict { .. } => false,
            };
            !counts && entry.holds.is_none() && entry.gone_since.is_none()
        });
        if self.scanned && self.unavailable.is_none() && !unknown {
            self.incomplete = false;
        }
    }
}
