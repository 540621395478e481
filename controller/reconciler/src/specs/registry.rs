//! The book of environments: what every spec file said last, and what of it counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::conflict::conflicts;
use argus_core::desired::{Accepted, Desired};
use argus_core::ident::EnvName;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

use super::clash::clash;
use super::scan::Text;

/// How long the environment of a file that is gone stays.
pub const GRACE: Duration = Duration::from_secs(5);

/// The begin of a grace that has not begun, because the folder cannot be read.
const NOT_RUNNING: Timestamp = Timestamp(i64::MAX);

/// Everything known of the spec folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecRegistry {
    /// The folder was read completely at least once.
    pub scanned: bool,
    /// Why the folder cannot be read; while it is so, nothing in here changes.
    pub unavailable: Option<String>,
    /// What keeps parts of the folder from being read, for people.
    pub notes: Vec<String>,
    /// By path relative to the folder.
    pub files: BTreeMap<PathBuf, FileEntry>,
    /// What shall be: accepted revisions, and last good ones where an edit was rejected.
    pub environments: BTreeMap<EnvName, Arc<Accepted>>,
    /// What files held before is not known: the book was lost.
    pub(crate) incomplete: bool,
    /// Environments whose file became another environment's.
    draining: BTreeMap<EnvName, (Arc<Accepted>, Timestamp)>,
}

/// One spec file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileEntry {
    /// The contents that were judged last, for snippets; `None` where they could not be read.
    pub text: Option<Text>,
    /// What is wrong with them, warnings included.
    pub diagnostics: Vec<Diagnostic>,
    /// What came of them.
    pub state: FileState,
    /// The revision that counts: the newest accepted one.
    pub holds: Option<Arc<Accepted>>,
    /// Since when the file is not there.
    pub gone_since: Option<Timestamp>,
    /// Admitted, but another file holds what it claims.
    pending: Option<PendingAdmission>,
}

/// What a file would hold if another one did not, with what is wrong with it besides.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PendingAdmission {
    desired: Arc<Desired>,
    diagnostics: Vec<Diagnostic>,
}

/// What came of a file's last contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileState {
    /// They have not been judged since the controller started.
    #[default]
    Unread,
    /// They count.
    Accepted,
    /// They are refused; what the file held before still counts.
    Rejected,
    /// Another file holds what they claim.
    Conflict {
        /// Which file.
        holder: PathBuf,
    },
}

/// What admission says of a file's contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// What shall be, unless a complaint refuses it.
    pub desired: Option<Desired>,
    /// All complaints.
    pub diagnostics: Vec<Diagnostic>,
}

impl SpecRegistry {
    /// A book that remembers what counted before the controller was started.
    pub fn remembering(held: BTreeMap<PathBuf, Accepted>) -> Self {
        let entry = |accepted| FileEntry {
            holds: Some(Arc::new(accepted)),
            ..FileEntry::default()
        };
        let mut book = Self {
            files: held
                .into_iter()
                .map(|(path, accepted)| (path, entry(accepted)))
                .collect(),
            ..Self::default()
        };
        book.index();
        book
    }

    /// Takes the judgement of a file's contents in. A refusal changes nothing but the complaints.
    pub fn on_admitted(&mut self, path: &Path, text: Option<Text>, judged: Admission, now: Timestamp) {
        let entry = self.files.entry(path.to_path_buf()).or_default();
        entry.text = text;
        entry.gone_since = None;
        self.restart_grace(path, now);
        let entry = self.files.entry(path.to_path_buf()).or_default();
        let refused = judged.diagnostics.iter().any(Diagnostic::is_error);
        if let Some(desired) = judged.desired.filter(|_| !refused) {
            let claim = PendingAdmission {
                desired: Arc::new(desired),
                diagnostics: judged.diagnostics,
            };
            self.claim(path, claim, now);
        } else {
            entry.diagnostics = judged.diagnostics;
            entry.pending = None;
            entry.state = FileState::Rejected;
            self.mark_pending(path, now);
        }
        self.settle_claims(now);
    }

    /// A file has other contents than those that count: nothing is removed on the word of the old ones.
    pub fn mark_pending(&mut self, path: &Path, now: Timestamp) {
        self.restart_grace(path, now);
        if let Some(held) = self.files.get_mut(path).and_then(|entry| entry.holds.as_mut())
            && !held.has_pending_edit
        {
            Arc::make_mut(held).has_pending_edit = true;
            self.index();
        }
    }

    /// A file has the contents again that count; their stability begins anew.
    pub fn clear_pending(&mut self, path: &Path, now: Timestamp) {
        let Some(entry) = self.files.get_mut(path) else {
            return;
        };
        if entry.state == FileState::Accepted
            && let Some(held) = entry.holds.as_mut()
            && held.has_pending_edit
        {
            let held = Arc::make_mut(held);
            held.has_pending_edit = false;
            held.accepted_at = now;
            self.index();
        }
    }

    /// The grace of what a file let go begins anew whenever the file changes.
    fn restart_grace(&mut self, path: &Path, now: Timestamp) {
        let path = path.display().to_string();
        for (accepted, since) in self.draining.values_mut() {
            if accepted.spec_path == path && *since != NOT_RUNNING {
                *since = now;
            }
        }
    }

    /// Whether the file that let this go says so still.
    fn is_steady(&self, left: &Accepted) -> bool {
        let file = self.files.get(Path::new(&left.spec_path));
        file.and_then(|entry| entry.holds.as_ref())
            .is_none_or(|held| !held.has_pending_edit)
    }

    /// Notes which files are there. The environments of the others stay for the grace.
    pub fn present(&mut self, is_there: impl Fn(&Path) -> bool, now: Timestamp) {
        for (path, entry) in &mut self.files {
            if is_there(path) {
                entry.gone_since = None;
            } else {
                let since = entry.gone_since.get_or_insert(now);
                *since = (*since).min(now);
            }
        }
    }

    /// The folder cannot be read: no grace runs out until it can.
    pub fn pause(&mut self, reason: String) {
        self.unavailable = Some(reason);
        let gone = self
            .files
            .values_mut()
            .filter_map(|entry| entry.gone_since.as_mut());
        for since in gone.chain(self.draining.values_mut().map(|(_, since)| since)) {
            *since = NOT_RUNNING;
        }
    }

    /// The folder was read.
    pub fn resume(&mut self, now: Timestamp) {
        self.unavailable = None;
        for (_, since) in self.draining.values_mut() {
            *since = (*since).min(now);
        }
    }

    /// Drops what has been gone for the grace.
    pub fn expire(&mut self, now: Timestamp) {
        if self.unavailable.is_some() {
            return;
        }
        let over = |since: Timestamp| now.since(since) >= GRACE;
        self.files.retain(|_, entry| {
            let stays = entry.holds.is_some() || entry.state == FileState::Unread;
            !entry.gone_since.is_some_and(|since| over(since) || !stays)
        });
        let leaving = std::mem::take(&mut self.draining);
        self.draining = leaving
            .into_iter()
            .filter(|(_, (left, since))| !(over(*since) && self.is_steady(left)))
            .collect();
        self.settle_claims(now);
    }

    /// When the next grace ends.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let files = self.files.values().filter_map(|entry| entry.gone_since);
        let leaving = self
            .draining
            .values()
            .filter(|(left, _)| self.is_steady(left))
            .map(|(_, since)| *since);
        files
            .chain(leaving)
            .filter(|since| *since != NOT_RUNNING)
            .min()
            .map(|since| since + GRACE)
    }

    /// What counts, by file: enough to go on from after a restart.
    pub fn held(&self) -> BTreeMap<PathBuf, Accepted> {
        let held = |entry: &FileEntry| entry.holds.as_deref().cloned();
        self.files
            .iter()
            .filter_map(|(path, entry)| Some((path.clone(), held(entry)?)))
            .collect()
    }

    /// The file that an environment comes from.
    pub fn file_of(&self, env: &EnvName) -> Option<(&Path, &FileEntry)> {
        let of = |entry: &FileEntry| entry.holds.as_ref().is_some_and(|held| held.desired.env == *env);
        self.files
            .iter()
            .find(|(_, entry)| of(entry))
            .map(|(path, entry)| (path.as_path(), entry))
    }

    /// Gives a file what it claims, unless another file has it; tells whether it got it.
    fn claim(&mut self, path: &Path, claim: PendingAdmission, now: Timestamp) -> bool {
        let desired = claim.desired.clone();
        let rivals = self.files.iter().filter(|(other, _)| other.as_path() != path);
        let clashes = |entry: &FileEntry| entry.holds.clone().filter(|held| clash(&desired, &held.desired));
        let rival = rivals
            .clone()
            .filter(|(_, entry)| entry.gone_since.is_none())
            .find_map(|(other, entry)| Some((other.clone(), clashes(entry)?)));
        // A renamed file takes its environment along: the one that is gone no longer holds it.
        let heir_of = rivals
            .filter(|(_, entry)| entry.gone_since.is_some())
            .find(|(_, entry)| {
                entry
                    .holds
                    .as_ref()
                    .is_some_and(|held| held.desired.env == desired.env)
            })
            .map(|(other, _)| other.clone());
        if let Some((holder, held)) = rival {
            let Some(entry) = self.files.get_mut(path) else {
                return false;
            };
            entry.diagnostics.clone_from(&claim.diagnostics);
            entry
                .diagnostics
                .extend(diagnostics(path, entry.text.as_ref(), &desired, &held));
            entry.state = FileState::Conflict { holder };
            entry.pending = Some(claim);
            return false;
        }
        let heritage = heir_of
            .and_then(|other| self.files.remove(&other))
            .and_then(|entry| entry.holds);
        let heritage = heritage.or_else(|| self.draining.remove(&desired.env).map(|(accepted, _)| accepted));
        let Some(entry) = self.files.get_mut(path) else {
            return false;
        };
        entry.diagnostics = claim.diagnostics;
        entry.state = FileState::Accepted;
        entry.pending = None;
        let before = entry
            .holds
            .clone()
            .filter(|held| held.desired.env == desired.env)
            .or(heritage);
        // The same revision again was accepted when it was accepted first.
        let accepted_at = match &before {
            Some(before) if before.desired == *desired && !before.has_pending_edit => before.accepted_at,
            Some(_) | None => now,
        };
        let spec_path = path.display().to_string();
        let accepted = Accepted {
            desired: (*desired).clone(),
            spec_path,
            accepted_at,
            has_pending_edit: false,
        };
        if entry.holds.as_deref() == Some(&accepted) {
            return true;
        }
        if let Some(old) = entry.holds.replace(Arc::new(accepted))
            && entry
                .holds
                .as_ref()
                .is_some_and(|new| new.desired.env != old.desired.env)
        {
            self.draining.insert(old.desired.env.clone(), (old, now));
        }
        true
    }

    /// Gives files that wait what has become free, then brings the index up to date.
    fn settle_claims(&mut self, now: Timestamp) {
        let waiting = |entry: &FileEntry| {
            entry
                .gone_since
                .is_none()
                .then(|| entry.pending.clone())
                .flatten()
        };
        // What one file gets may free what another one waits for; each round but the last satisfies a file.
        loop {
            let claims: Vec<_> = self
                .files
                .iter()
                .filter_map(|(path, entry)| Some((path.clone(), waiting(entry)?)))
                .collect();
            let mut satisfied = false;
            for (path, claim) in claims {
                satisfied |= self.claim(&path, claim, now);
            }
            if !satisfied {
                break;
            }
        }
        self.index();
    }

    fn index(&mut self) {
        let leaving = self.draining.values().map(|(accepted, _)| accepted);
        let held = self.files.values().filter_map(|entry| entry.holds.as_ref());
        // Files come last: what a file holds goes before what is leaving under the same name.
        self.environments = leaving
            .chain(held)
            .map(|accepted| (accepted.desired.env.clone(), accepted.clone()))
            .collect();
    }
}

/// What the file's author is told of a conflict, at its place in the file.
fn diagnostics(path: &Path, text: Option<&Text>, desired: &Desired, held: &Accepted) -> Vec<Diagnostic> {
    let name = path.display().to_string();
    let holder = BTreeMap::from([(held.desired.env.clone(), held.clone())]);
    let source = text.map(|text| argus_crds::yaml::read(&name, &text.bytes).source);
    let placed = |diagnostic| match &source {
        Some(source) => source.placed(diagnostic),
        None => diagnostic,
    };
    conflicts(&holder, desired, &name)
        .into_iter()
        .map(placed)
        .collect()
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
