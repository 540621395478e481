//! A book that was lost: what its files held is not known before each of them is read.

use super::book::{SpecBook, Standing};

impl SpecBook {
    /// Nobody can tell what is desired of environments that are not in here: a file that does not count as it stands may
    /// have held them.
    pub fn is_in_doubt(&self) -> bool {
        self.incomplete
    }

    /// Ends the doubt when every file that is there holds something.
    pub(crate) fn settle_doubt(&mut self) {
        let unknown = self.files.values().any(|entry| {
            let counts = match entry.standing {
                Standing::Accepted => true,
                Standing::Unread | Standing::Rejected | Standing::Conflict { .. } => false,
            };
            !counts && entry.holds.is_none() && entry.gone_since.is_none()
        });
        if self.scanned && self.unavailable.is_none() && !unknown {
            self.incomplete = false;
        }
    }
}
