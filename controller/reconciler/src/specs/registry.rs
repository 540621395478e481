//! Spec registry: the state of every spec file, and the environments that result from them.
//! Invariant 8: a rejected spec never changes a running environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_core::desired::conflict_index::ConflictIndex;
use argus_core::desired::key_lines::KeyLines;
use argus_core::desired::nested_mounts::MountPlaces;
use argus_core::desired::{Accepted, Desired};
use argus_core::ident::{EnvName, Hash};
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::yaml::SourceMap;
use serde::{Deserialize, Serialize};

use super::scan::Text;

/// State of the specs folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecRegistry {
    /// True after the first complete scan.
    pub scanned: bool,
    /// Reason why the folder cannot be read; until then, the registry does not change.
    pub unavailable: Option<String>,
    /// Reasons why parts of the folder are not read, for people.
    pub notes: Vec<String>,
    /// Reason why a folder is not watched, with the remedy. Scans find its changes later.
    pub watch_limit: Option<String>,
    /// Files by path relative to the folder.
    pub files: BTreeMap<PathBuf, FileEntry>,
    /// Accepted environments; after a rejected edit, the last good revision.
    pub environments: BTreeMap<EnvName, Arc<Accepted>>,
    /// True after a loss of the persisted registry: earlier contents of the files are unknown.
    pub(crate) incomplete: bool,
    /// Environments whose file now defines another environment, with the start of their grace period.
    pub(super) draining: BTreeMap<EnvName, (Arc<Accepted>, Timestamp)>,
    /// Accepted files by what can conflict.
    pub(super) conflict_index: ConflictIndex,
}

/// Spec file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileEntry {
    /// Contents of the last admission, for snippets; `None` if unreadable.
    pub text: Option<Text>,
    /// Errors and warnings of these contents.
    pub diagnostics: Vec<Diagnostic>,
    /// Result of the admission.
    pub state: FileState,
    /// Name of the environment in these contents; `None` if it is not valid.
    pub env: Option<EnvName>,
    /// Newest accepted revision.
    pub accepted: Option<Arc<Accepted>>,
    /// Time since which the file is missing.
    pub gone_since: Option<Timestamp>,
    /// Admitted environment that conflicts with another file.
    conflicting: Option<PendingAdmission>,
}

impl FileEntry {
    /// Returns true for a Compose file that conflicts with another file.
    pub fn is_compose_conflict(&self) -> bool {
        let conflicting = self.conflicting.as_ref();
        conflicting.is_some_and(|admission| admission.lines.is_compose())
    }

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

/// Admitted environment of a file that is not accepted yet, with its diagnostics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingAdmission {
    pub(super) desired: Arc<Desired>,
    pub(super) allowed: bool,
    file_hash: Option<Hash>,
    pub(super) lines: KeyLines,
    pub(super) mounts: MountPlaces,
    diagnostics: Vec<Diagnostic>,
    source: SourceMap,
}

/// Result of the last admission of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileState {
    /// Not admitted since the start of the controller.
    #[default]
    Unread,
    /// Accepted.
    Accepted,
    /// Refused; the previous revision stays in effect.
    Rejected,
    /// Another file defines a resource of this environment.
    Conflict {
        /// Path of the other file.
        holder: PathBuf,
    },
}

/// Result of an admission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// Desired environment, unless an error refuses it.
    pub desired: Option<Desired>,
    /// Name of the environment, also of a refused file; `None` if the name itself is refused.
    pub env: Option<EnvName>,
    /// True if a person allowed the project of the file.
    pub allowed: bool,
    /// Hash of the bytes, as in [`Accepted`].
    pub file_hash: Option<Hash>,
    /// Positions of the keys in the file.
    pub lines: KeyLines,
    /// Places of the mounts in the file.
    pub mounts: MountPlaces,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Locations in the file, for diagnostics of conflicts.
    pub source: SourceMap,
}

impl SpecRegistry {
    /// Restores a registry from the accepted revisions of the previous run.
    pub fn restored(accepted: BTreeMap<PathBuf, Accepted>) -> Self {
        let entry = |accepted| FileEntry {
            accepted: Some(Arc::new(accepted)),
            ..FileEntry::default()
        };
        let mut registry = Self {
            files: accepted
                .into_iter()
                .map(|(path, accepted)| (path, entry(accepted)))
                .collect(),
            ..Self::default()
        };
        registry.index();
        registry
    }

    /// Applies the admission of a file. A refusal changes only the diagnostics.
    pub fn on_admitted(&mut self, path: &Path, text: Option<Text>, admission: Admission, now: Timestamp) {
        self.enter(path, text, admission, now);
        self.index();
    }

    /// As [`SpecRegistry::on_admitted`], for one of many files: [`SpecRegistry::index`] after the last one updates the environments.
    pub(super) fn enter(&mut self, path: &Path, text: Option<Text>, admission: Admission, now: Timestamp) {
        let entry = self.files.entry(path.to_path_buf()).or_default();
        let is_edit = entry.text.is_some() && entry.text != text;
        let before = entry.current().filter(|_| is_edit).cloned();
        entry.text = text;
        entry.env.clone_from(&admission.env);
        entry.gone_since = None;
        // The permission is that of the file, whatever its contents are.
        if let Some(accepted) = entry
            .accepted
            .as_mut()
            .filter(|it| it.allowed != admission.allowed)
        {
            Arc::make_mut(accepted).allowed = admission.allowed;
        }
        self.restart_grace(path, now);
        let entry = self.files.entry(path.to_path_buf()).or_default();
        let refused = admission.diagnostics.iter().any(Diagnostic::is_error);
        if let Some(desired) = admission.desired.filter(|_| !refused) {
            let admission = PendingAdmission {
                desired: Arc::new(desired),
                allowed: admission.allowed,
                file_hash: admission.file_hash,
                lines: admission.lines,
                mounts: admission.mounts,
                diagnostics: admission.diagnostics,
                source: admission.source,
            };
            self.try_accept(path, admission, now);
            if let (Some(before), Some(entry)) = (before, self.files.get_mut(path)) {
                entry.warn_of_edit_without_effect(&before, now);
            }
        } else {
            entry.diagnostics = admission.diagnostics;
            entry.conflicting = None;
            entry.state = FileState::Rejected;
            self.mark_edited(path, now);
        }
        self.retry_conflicts(now);
    }

    /// Marks the accepted revision of a file as outdated: it must not cause removals.
    pub fn mark_edited(&mut self, path: &Path, now: Timestamp) {
        self.restart_grace(path, now);
        if let Some(accepted) = self.files.get_mut(path).and_then(|entry| entry.accepted.as_mut())
            && !accepted.has_pending_edit
        {
            Arc::make_mut(accepted).has_pending_edit = true;
            self.index();
        }
    }

    /// Clears the mark after the file has its accepted contents again. Their stability period restarts.
    pub fn clear_edited(&mut self, path: &Path, now: Timestamp) {
        let Some(entry) = self.files.get_mut(path) else {
            return;
        };
        if entry.state == FileState::Accepted
            && let Some(accepted) = entry.accepted.as_mut()
            && accepted.has_pending_edit
        {
            let accepted = Arc::make_mut(accepted);
            accepted.has_pending_edit = false;
            accepted.accepted_at = now;
            self.index();
        }
    }

    /// Accepted revisions by file, to restore the registry after a restart.
    pub fn accepted_specs(&self) -> BTreeMap<PathBuf, Accepted> {
        let accepted = |entry: &FileEntry| entry.accepted.as_deref().cloned();
        self.files
            .iter()
            .filter_map(|(path, entry)| Some((path.clone(), accepted(entry)?)))
            .collect()
    }

    /// File that defines an environment.
    pub fn file_of(&self, env: &EnvName) -> Option<(&Path, &FileEntry)> {
        let of = |entry: &FileEntry| {
            entry
                .accepted
                .as_ref()
                .is_some_and(|accepted| accepted.desired.env == *env)
        };
        self.files
            .iter()
            .find(|(_, entry)| of(entry))
            .map(|(path, entry)| (path.as_path(), entry))
    }

    /// Compares the file of an environment, and everything of other files that can concern it.
    pub(crate) fn is_same_for(&self, env: &EnvName, other: &Self) -> bool {
        // Any file without an accepted spec can claim the environment.
        fn claims(registry: &SpecRegistry) -> impl Iterator<Item = (&PathBuf, &FileEntry)> {
            let files = registry.files.iter();
            files.filter(|(_, entry)| entry.accepted.is_none())
        }
        self.scanned == other.scanned
            && self.problem() == other.problem()
            && self.file_of(env) == other.file_of(env)
            && claims(self).eq(claims(other))
    }

    /// Accepts the environment of a file unless it conflicts with another file. Returns whether it was accepted.
    fn try_accept(&mut self, path: &Path, admission: PendingAdmission, now: Timestamp) -> bool {
        let desired = admission.desired.clone();
        let others = self.files.iter().filter(|(other, _)| other.as_path() != path);
        // A renamed file inherits its environment from the missing file.
        let replaced_file = others
            .filter(|(_, entry)| entry.gone_since.is_some())
            .find(|(_, entry)| {
                entry
                    .accepted
                    .as_ref()
                    .is_some_and(|existing| existing.desired.env == desired.env)
            })
            .map(|(other, _)| other.clone());
        self.complete_conflict_index();
        if let Some((holder, conflicts)) = self.find_conflicts(path, &admission) {
            let Some(entry) = self.files.get_mut(path) else {
                return false;
            };
            let placed = conflicts.into_iter().map(|it| admission.source.with_location(it));
            entry.diagnostics = admission.diagnostics.iter().cloned().chain(placed).collect();
            entry.state = FileState::Conflict { holder };
            entry.conflicting = Some(admission);
            return false;
        }
        let inherited = replaced_file
            .and_then(|other| {
                self.conflict_index.remove(&other.display().to_string());
                self.files.remove(&other)
            })
            .and_then(|entry| entry.accepted);
        let inherited =
            inherited.or_else(|| self.draining.remove(&desired.env).map(|(accepted, _)| accepted));
        let Some(entry) = self.files.get_mut(path) else {
            return false;
        };
        entry.diagnostics = admission.diagnostics;
        entry.state = FileState::Accepted;
        entry.conflicting = None;
        let before = entry
            .accepted
            .clone()
            .filter(|existing| existing.desired.env == desired.env)
            .or(inherited);
        // An unchanged revision keeps its original acceptance time.
        let accepted_at = match &before {
            Some(before) if before.desired == *desired && !before.has_pending_edit => before.accepted_at,
            Some(_) | None => now,
        };
        let spec_path = path.display().to_string();
        let accepted = Accepted {
            desired: (*desired).clone(),
            spec_path,
            lines: admission.lines,
            accepted_at,
            has_pending_edit: false,
            allowed: admission.allowed,
            is_ending: false,
            file_hash: admission.file_hash,
            mounted_files: before
                .map(|before| before.mounted_files.clone())
                .unwrap_or_default(),
        };
        if entry.accepted.as_deref() == Some(&accepted) {
            return true;
        }
        self.conflict_index.insert(&accepted.spec_path, &accepted.desired);
        if let Some(mut old) = entry.accepted.replace(Arc::new(accepted))
            && entry
                .accepted
                .as_ref()
                .is_some_and(|new| new.desired.env != old.desired.env)
        {
            Arc::make_mut(&mut old).is_ending = true;
            self.draining.insert(old.desired.env.clone(), (old, now));
        }
        true
    }

    /// Accepts waiting files whose conflicts ended, then updates the environments.
    pub(super) fn retry_pending(&mut self, now: Timestamp) {
        self.retry_conflicts(now);
        self.index();
    }

    fn retry_conflicts(&mut self, now: Timestamp) {
        let waiting = |entry: &FileEntry| {
            entry
                .gone_since
                .is_none()
                .then(|| entry.conflicting.clone())
                .flatten()
        };
        // An accepted file may end the conflict of another one. Every round but the last accepts a file.
        loop {
            let admissions: Vec<_> = self
                .files
                .iter()
                .filter_map(|(path, entry)| Some((path.clone(), waiting(entry)?)))
                .collect();
            let mut satisfied = false;
            for (path, admission) in admissions {
                satisfied |= self.try_accept(&path, admission, now);
            }
            if !satisfied {
                break;
            }
        }
    }

    /// Updates the environments.
    pub(super) fn index(&mut self) {
        let draining = self.draining.values().map(|(accepted, _)| accepted);
        let accepted = self.files.values().filter_map(|entry| entry.accepted.as_ref());
        // Files come last: an accepted file overrides a draining environment of the same name.
        self.environments = draining
            .chain(accepted)
            .map(|accepted| (accepted.desired.env.clone(), accepted.clone()))
            .collect();
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
