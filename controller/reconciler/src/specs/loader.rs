//! Spec loader: scans the folder once, debounces changed files, admits them, and updates the registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_backend::host_path::FileId;
use argus_core::hex::hex;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::debounce::{Confirmation, Debounce, MIN_GAP, QUIET_TIME, REQUESTED_QUIET_TIME};
use super::evaluation::{BuildContexts, Evaluation, Fingerprint, Fingerprints};
use super::file_writes::{FileWrites, InputState};
use super::inputs::SpecInputs;
use super::registry::{Admission, SpecRegistry};
use super::scan::{BAD_NAME, Contents, MAX_FILE_BYTES, Scan, Scanner};
use super::settings::SpecLoaderSettings;
use argus_core::desired::Accepted;

/// Maximum duration of the first scan, for files that never give two equal reads.
const MAX_FIRST_SCAN: Duration = Duration::from_secs(10);

/// Persisted state: the accepted revisions, and the first-seen times of their contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistedSpecs {
    /// Accepted revisions by file.
    pub accepted: BTreeMap<PathBuf, Accepted>,
    /// True if earlier contents of the files are unknown.
    pub incomplete: bool,
    /// Hash of the last admitted contents and the time at which they were first read, by file.
    pub first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
}

/// Scanner of the specs folder with its caches.
pub struct SpecLoader {
    rules: SpecLoaderSettings,
    pub(super) registry: SpecRegistry,
    scanner: Scanner,
    debounce: Debounce<Fingerprint>,
    writes: FileWrites,
    build_contexts: BuildContexts,
    pub(super) evaluations: BTreeMap<PathBuf, Evaluation>,
    /// Fingerprints of the inputs of the last confirmed admission, by file.
    admitted: BTreeMap<PathBuf, Fingerprints>,
    first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
    started: Option<Timestamp>,
    /// Files of the last scan whose build contexts need a further part, in the order of the scan.
    postponed: Vec<PathBuf>,
    /// A command waits for the next scan.
    is_requested: bool,
}

/// Result of a scan.
#[derive(Debug, Clone, Default)]
pub struct ScanResult {
    /// Folders to watch; `None` if the specs folder does not exist.
    pub folders: Option<BTreeMap<PathBuf, FileId>>,
    /// Other files and folders that the spec files name.
    pub inputs: SpecInputs,
    /// Time of the next change without an event.
    pub next_at: Option<Timestamp>,
}

impl SpecLoader {
    /// Creates a loader that continues from the persisted state.
    pub fn new(rules: SpecLoaderSettings, persisted_specs: PersistedSpecs) -> Self {
        let mut registry = SpecRegistry::restored(persisted_specs.accepted);
        registry.incomplete = persisted_specs.incomplete;
        Self {
            scanner: Scanner::new(rules.source.clone(), rules.admitter.access.clone()),
            rules,
            registry,
            debounce: Debounce::default(),
            writes: FileWrites::default(),
            build_contexts: BuildContexts::default(),
            evaluations: BTreeMap::new(),
            admitted: BTreeMap::new(),
            first_seen: persisted_specs.first_seen,
            started: None,
            postponed: Vec::new(),
            is_requested: false,
        }
    }

    /// Ends the scans, and their reads of build contexts, when `stop` is cancelled.
    #[must_use]
    pub fn until(mut self, stop: CancellationToken) -> Self {
        self.build_contexts = BuildContexts::until(stop);
        self
    }

    /// As [`SpecLoader::until`], and a scan reads at most `part` bytes of all build contexts. Further scans read the rest.
    pub(super) fn in_parts(mut self, part: u64, stop: CancellationToken) -> Self {
        self.build_contexts = BuildContexts::in_parts(part, stop);
        self
    }

    /// Takes notice of the writes that a watcher reports.
    #[must_use]
    pub fn with_writes(mut self, writes: FileWrites) -> Self {
        self.writes = writes;
        self
    }

    /// Current registry.
    pub fn registry(&self) -> &SpecRegistry {
        &self.registry
    }

    /// Reports whether a file waits for its second read, or for the rest of its build contexts.
    pub fn has_unconfirmed_files(&self) -> bool {
        !self.debounce.is_empty() || !self.postponed.is_empty()
    }

    /// State to persist.
    pub fn persisted_specs(&self) -> PersistedSpecs {
        PersistedSpecs {
            accepted: self.registry.accepted_specs(),
            incomplete: self.registry.incomplete,
            first_seen: self.first_seen.clone(),
        }
    }

    /// Lets the next scan use all build contexts as they are: a command waits for the edits before it.
    pub(super) fn request(&mut self) {
        self.build_contexts.delays.end();
        self.is_requested = true;
    }

    /// Scans all files once. Blocks on the file system.
    pub fn scan_once(&mut self, now: Timestamp) -> ScanResult {
        let started = *self.started.get_or_insert(now);
        let completed = self.writes.completed();
        let quiet_time = if std::mem::take(&mut self.is_requested) {
            REQUESTED_QUIET_TIME
        } else {
            QUIET_TIME
        };
        let inputs_at_start = self.writes.inputs(quiet_time, now);
        let (debounce, folder) = (&self.debounce, &self.rules.source.folder);
        let is_read_again =
            |path: &Path| debounce.is_pending(path) || completed.contains_key(&folder.join(path));
        let scan = match self.scanner.scan(is_read_again) {
            Ok(scan) => scan,
            Err(error) => {
                let why = format!("`{}` cannot be read: {error}", folder.shown());
                self.registry.suspend_grace_periods(why);
                return ScanResult::default();
            }
        };
        self.registry.resume_grace_periods(now);
        let notes = scan.notes(&self.rules.source.folder);
        for note in notes.iter().filter(|note| !self.registry.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.registry.notes = notes;
        let is_present = |path: &Path| may_exist(&scan, path);
        self.registry.record_existing_files(is_present, now);
        self.debounce.retain_files(|path| scan.files.contains_key(path));
        self.admitted.retain(|path, _| is_present(path));
        // Contents that return need another admission, because the registry took the first one.
        self.evaluations.retain(|path, _| is_present(path));
        let evaluated = self.evaluate_all(&scan, now);
        let entered =
            evaluated.and_then(|all| self.enter_all(&scan, all, (&completed, inputs_at_start), now));
        let Some(is_reading_new) = entered else {
            return ScanResult::default();
        };
        self.registry.index();
        self.writes.forget(&completed);
        // A new file can be the new name of a file that is gone: its environment stays until the new file is read.
        if !is_reading_new {
            self.registry.remove_expired(now);
        }
        let files = &self.registry.files;
        self.first_seen.retain(|path, _| files.contains_key(path));
        let known = |path: &PathBuf| files.contains_key(path) || scan.files.contains_key(path);
        if self.postponed.is_empty() {
            self.build_contexts.digests.sweep();
        }
        self.build_contexts.delays.retain_files(known);
        if self.debounce.is_empty() || now.since(started) >= MAX_FIRST_SCAN {
            self.registry.scanned = true;
        }
        self.registry.complete_registry();
        self.build_contexts.delays.show(&mut self.registry.files);
        self.registry.update_mounted_files(now);
        let inputs = std::mem::take(&mut self.build_contexts.read);
        let delayed = self.build_contexts.delays.next_at();
        let reading = (!self.postponed.is_empty()).then_some(now);
        let next = self
            .debounce
            .next_at()
            .into_iter()
            .chain(self.registry.expires_at());
        ScanResult {
            folders: Some(scan.folders),
            inputs: inputs.restricted(&self.rules.source, &self.registry),
            next_at: next.chain(delayed).chain(reading).min(),
        }
    }

    /// Enters all confirmed contents. Returns whether the contexts of a new file are still read; `None` after the end of the scans.
    pub(super) fn enter_all(
        &mut self,
        scan: &Scan,
        evaluated: BTreeMap<&PathBuf, Option<Fingerprints>>,
        (completed, inputs_at_start): (&BTreeMap<PathBuf, u64>, InputState),
        now: Timestamp,
    ) -> Option<bool> {
        let mut is_reading_new = false;
        let folders = self.build_contexts.read.folders().values();
        let are_inputs_whole = self.writes.are_whole(inputs_at_start, folders);
        for ((path, contents), current) in scan.files.iter().zip(evaluated.into_values()) {
            if self.build_contexts.digests.is_stopped() {
                return None;
            }
            let real = scan.resolved.get(path);
            let known = self.admitted.get(path).copied();
            // The file keeps its last admission, and the other files do not wait for it.
            let Some(current) = current else {
                if known.is_some() {
                    self.registry.mark_edited(path, now);
                } else {
                    is_reading_new = true;
                }
                continue;
            };
            let evaluation = self.evaluations.get(path);
            let by = if self.is_being_written(path, real, now) {
                Confirmation::NoRead
            } else if (are_inputs_whole || evaluation.is_none_or(|it| it.depends_on_file_alone(known)))
                && scan.changed_at.get(path).is_some_and(|changed_at| {
                    now.since(*changed_at) >= MIN_GAP || self.is_complete(path, real, completed)
                })
            {
                Confirmation::ThisRead
            } else {
                Confirmation::SecondRead
            };
            let known = known.map(|known| known.all);
            if self.debounce.confirm(path, current.all, known.as_ref(), by, now) {
                self.admitted.insert(path.clone(), current);
                self.enter(path, contents, now);
            } else if let Some(known) = known {
                if known == current.all {
                    self.registry.clear_edited(path, now);
                } else {
                    self.registry.mark_edited(path, now);
                }
            }
        }
        Some(is_reading_new)
    }

    /// Returns true while a process writes the file, or the target of its link.
    fn is_being_written(&self, path: &Path, real: Option<&PathBuf>, now: Timestamp) -> bool {
        self.write_paths(path, real)
            .any(|path| self.writes.is_in_progress(&path, now))
    }

    /// Returns true if a completed write of the file is the last one. The contents were read after `completed`.
    fn is_complete(&self, path: &Path, real: Option<&PathBuf>, completed: &BTreeMap<PathBuf, u64>) -> bool {
        self.write_paths(path, real).any(|path| {
            let number = completed.get(&path);
            number.is_some_and(|number| self.writes.is_last(&path, *number))
        })
    }

    /// Paths under which notifications report writes of the file.
    fn write_paths(&self, path: &Path, real: Option<&PathBuf>) -> impl Iterator<Item = PathBuf> {
        let listed = self.rules.source.folder.join(path);
        real.cloned().into_iter().chain([listed])
    }

    /// Evaluates all files. Returns the hashes of the inputs of each file, as [`Evaluation::update`]; `None` after the end of the scans.
    ///
    /// The files share the part of a scan. A context that changes all the time would use it up in every scan, so the next scan begins with
    /// another file that waits for it.
    fn evaluate_all<'a>(
        &mut self,
        scan: &'a Scan,
        now: Timestamp,
    ) -> Option<BTreeMap<&'a PathBuf, Option<Fingerprints>>> {
        self.build_contexts.read = SpecInputs::default();
        // The first complete scan decides what is an orphan, so it waits for every context.
        self.build_contexts.digests.begin_part(!self.registry.scanned);
        let mut postponed = std::mem::take(&mut self.postponed).into_iter().take(2);
        let first = postponed.next_back().unwrap_or_default();
        let before = scan.files.range::<PathBuf, _>(..&first);
        let after = scan.files.range::<PathBuf, _>(&first..);
        let mut evaluated = BTreeMap::new();
        for (path, contents) in after.chain(before) {
            if self.build_contexts.digests.is_stopped() {
                return None;
            }
            let current = self.evaluate(path, scan.resolved.get(path), contents, now);
            if current.is_none() {
                self.postponed.push(path.clone());
            }
            evaluated.insert(path, current);
        }
        Some(evaluated)
    }

    /// Evaluates the contents of a file. Returns the hashes of its inputs, as [`Evaluation::update`].
    fn evaluate(
        &mut self,
        path: &Path,
        real: Option<&PathBuf>,
        contents: &Contents,
        now: Timestamp,
    ) -> Option<Fingerprints> {
        let text = match contents {
            Contents::Text(text) => text,
            Contents::TooLong(_)
            | Contents::Unreadable(_)
            | Contents::Link(_)
            | Contents::NotFile(_)
            | Contents::BadName => {
                self.evaluations.remove(path);
                return Some(Fingerprints::of(&format!("{contents:?}")));
            }
        };
        let first_seen = match self.first_seen.get(path) {
            Some((hash, at)) if *hash == hex(&text.hash) => *at,
            Some(_) | None => now,
        };
        let real = real.map_or_else(|| self.rules.source.folder.join(path), Clone::clone);
        let builds = &mut self.build_contexts;
        let evaluation = self.evaluations.entry(path.to_path_buf()).or_default();
        evaluation.update(&self.rules, (path, &real), text, builds, (first_seen, now))
    }

    /// Enters the admission of confirmed contents into the registry.
    fn enter(&mut self, path: &Path, contents: &Contents, now: Timestamp) {
        let known = self.registry.files.get(path).and_then(|it| it.accepted.as_ref());
        // A file that was not read keeps its permission.
        let allowed = known.is_some_and(|accepted| accepted.allowed);
        let refused = |message: String, hint: &str| Admission {
            diagnostics: vec![Diagnostic::error("", message).hint(hint)],
            allowed,
            ..Admission::default()
        };
        let (text, admission) = match contents {
            Contents::Text(text) => {
                let evaluation = self.evaluations.get_mut(path);
                let Some((admission, first_seen)) = evaluation.and_then(Evaluation::take_admission) else {
                    return;
                };
                // `{{timestamp}}` is stable with the contents.
                let seen = (hex(&text.hash), first_seen);
                self.first_seen.insert(path.to_path_buf(), seen);
                (Some(text.clone()), admission)
            }
            Contents::TooLong(bytes) => {
                let message = format!("file has {bytes} bytes, at most {MAX_FILE_BYTES} are read");
                (None, refused(message, "split it into several environments"))
            }
            Contents::Unreadable(why) => {
                let hint = "make it readable for the controller's user";
                (None, refused(format!("file cannot be read: {why}"), hint))
            }
            Contents::Link(link) => (
                None,
                refused(format!("the file is not read: {link}"), link.hint()),
            ),
            Contents::NotFile(kind) => {
                let message = format!("it is a {kind}, not a file");
                (None, refused(message, "rename it, or replace it with a file"))
            }
            Contents::BadName => (
                None,
                refused(BAD_NAME.to_owned(), "rename the file or its folder"),
            ),
        };
        self.registry.enter(path, text, admission, now);
        if let Some(entry) = self.registry.files.get(path) {
            tracing::info!(file = %path.shown(), state = ?entry.state, diagnostics = entry.diagnostics.len(), "spec processed");
        }
    }
}

/// Reports whether a file may exist: it was listed, or its folder could not be listed completely.
fn may_exist(scan: &Scan, path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    scan.files.contains_key(path) || scan.too_many || scan.unlisted.contains_key(folder)
}
