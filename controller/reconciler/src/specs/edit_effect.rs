//! Edits of a spec file that change nothing.

use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::time::Timestamp;
use argus_crds::Diagnostic;

use super::registry::{FileEntry, FileState};

impl FileEntry {
    /// Environment of the current content, if that content is accepted.
    pub(super) fn current(&self) -> Option<&Arc<Accepted>> {
        self.accepted
            .as_ref()
            .filter(|_| self.state == FileState::Accepted)
    }

    /// Adds a warning if the edit of the revision `before` has no effect on the environment.
    pub(super) fn warn_of_edit_without_effect(&mut self, before: &Accepted, now: Timestamp) {
        if self.current().is_some_and(|now| now.desired == before.desired) {
            let revision = before.desired.revision.as_str();
            let message = format!("the edit at {now} has no effect: the revision is still `{revision:.12}`");
            self.diagnostics.push(Diagnostic::warning("", message));
        }
    }
}
