//! Reasons to keep environments without a file: grace periods after its disappearance, and an incomplete registry.

use std::path::Path;
use std::time::Duration;

use argus_core::desired::Accepted;
use argus_core::status::SpecsProblem;
use argus_core::time::Timestamp;

use super::registry::{FileEntry, FileState, SpecRegistry};

/// Time before the environment of a removed file is removed.
const REMOVAL_GRACE: Duration = Duration::from_secs(5);

/// The same time, if two or more files are missing and no other file exists. Such a folder is more often a volume that is
/// not mounted, or a checkout in progress, than the wish to remove everything.
const EMPTY_FOLDER_GRACE: Duration = Duration::from_secs(60);

/// Start of a grace period that is suspended because the folder cannot be read.
const SUSPENDED: Timestamp = Timestamp(i64::MAX);

impl SpecRegistry {
    /// Restarts the grace period of the environments that a file no longer defines, because the file changed.
    pub(super) fn restart_grace(&mut self, path: &Path, now: Timestamp) {
        let path = path.display().to_string();
        for (accepted, since) in self.draining.values_mut() {
            if accepted.spec_path == path && *since != SUSPENDED {
                *since = now;
            }
        }
    }

    /// Reports whether the file of a draining environment has no pending edit.
    fn has_no_pending_edit(&self, accepted: &Accepted) -> bool {
        let file = self.files.get(Path::new(&accepted.spec_path));
        file.and_then(|entry| entry.accepted.as_ref())
            .is_none_or(|accepted| !accepted.has_pending_edit)
    }

    /// Records which files exist. The environments of missing files stay for the grace period.
    pub fn record_existing_files(&mut self, exists: impl Fn(&Path) -> bool, now: Timestamp) {
        let was_emptied = self.is_emptied();
        for (path, entry) in &mut self.files {
            if exists(path) {
                entry.gone_since = None;
            } else {
                let since = entry.gone_since.get_or_insert(now);
                *since = (*since).min(now);
            }
        }
        if was_emptied && !self.is_emptied() {
            // The first file is back, and the others may follow.
            for since in self
                .files
                .values_mut()
                .filter_map(|entry| entry.gone_since.as_mut())
            {
                *since = now;
            }
        }
    }

    /// Returns whether the folder contained two or more spec files, and now contains none.
    fn is_emptied(&self) -> bool {
        self.files.len() > 1 && self.files.values().all(|entry| entry.gone_since.is_some())
    }

    fn removal_grace(&self) -> Duration {
        if self.is_emptied() {
            EMPTY_FOLDER_GRACE
        } else {
            REMOVAL_GRACE
        }
    }

    /// Problem that postpones the removal of environments.
    pub fn problem(&self) -> Option<SpecsProblem> {
        if let Some(why) = &self.unavailable {
            return Some(SpecsProblem::Unreadable(why.clone()));
        }
        let until = self.expires_at().filter(|_| self.is_emptied())?;
        Some(SpecsProblem::Emptied(self.files.len(), until))
    }

    /// Suspends all grace periods while the folder cannot be read.
    pub fn suspend_grace_periods(&mut self, reason: String) {
        self.unavailable = Some(reason);
        let gone = self
            .files
            .values_mut()
            .filter_map(|entry| entry.gone_since.as_mut());
        for since in gone.chain(self.draining.values_mut().map(|(_, since)| since)) {
            *since = SUSPENDED;
        }
    }

    /// Resumes the grace periods after the folder was read.
    pub fn resume_grace_periods(&mut self, now: Timestamp) {
        self.unavailable = None;
        for (_, since) in self.draining.values_mut() {
            *since = (*since).min(now);
        }
    }

    /// Removes files and environments whose grace period is over.
    pub fn remove_expired(&mut self, now: Timestamp) {
        if self.unavailable.is_some() {
            return;
        }
        let grace = self.removal_grace();
        let is_over = |since: Timestamp| now.since(since) >= grace;
        self.files.retain(|_, entry| {
            let stays = entry.accepted.is_some() || entry.state == FileState::Unread;
            !entry.gone_since.is_some_and(|since| is_over(since) || !stays)
        });
        let is_over = |since: Timestamp| now.since(since) >= REMOVAL_GRACE;
        let draining = std::mem::take(&mut self.draining);
        self.draining = draining
            .into_iter()
            .filter(|(_, (accepted, since))| !(is_over(*since) && self.has_no_pending_edit(accepted)))
            .collect();
        self.retry_pending(now);
    }

    /// End of the next grace period.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let is_suspended = |since: &Timestamp| *since == SUSPENDED;
        let grace = self.removal_grace();
        let files = self.files.values().filter_map(|entry| entry.gone_since);
        let files = files
            .filter(|since| !is_suspended(since))
            .map(|since| since + grace);
        let draining = self
            .draining
            .values()
            .filter(|(accepted, _)| self.has_no_pending_edit(accepted))
            .map(|(_, since)| *since)
            .filter(|since| !is_suspended(since))
            .map(|since| since + REMOVAL_GRACE);
        files.chain(draining).min()
    }

    /// Reports whether environments outside the registry may still be desired: after a loss of `specs.json`, a rejected or unread file may
    /// have contained them.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Marks the registry as complete once every existing file has an accepted revision.
    pub(crate) fn complete_registry(&mut self) {
        let is_unknown = |entry: &FileEntry| {
            entry.state != FileState::Accepted && entry.accepted.is_none() && entry.gone_since.is_none()
        };
        if self.scanned && self.unavailable.is_none() && !self.files.values().any(is_unknown) {
            self.incomplete = false;
        }
    }
}
