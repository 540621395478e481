//! Spec loader: scans the folder once, debounces changed files, admits them, and updates the registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::admission::SpecAdmitter;
use super::debounce::Debounce;
use super::digest::{Digests, hex};
use super::evaluation::{Evaluation, Fingerprint};
use super::registry::{Admission, SpecRegistry};
use super::scan::{Contents, MAX_FILE_BYTES, MAX_FILES, Scan, Scanner};
use argus_core::desired::Accepted;

/// Maximum duration of the first scan, for files that never give two equal reads.
const MAX_FIRST_SCAN: Duration = Duration::from_secs(10);

/// Settings of the scan and the admission.
#[derive(Clone)]
pub struct Rules {
    /// Absolute path of the specs folder.
    pub folder: PathBuf,
    /// True if warnings refuse a file.
    pub strict: bool,
    /// Names of variables that spec files may read.
    pub env_allow: Vec<String>,
    /// Environment variables of the controller.
    pub process_env: BTreeMap<String, String>,
    /// Identity of the controller.
    pub controller: String,
    /// Admitter of the files.
    pub admitter: SpecAdmitter,
}

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
    rules: Rules,
    registry: SpecRegistry,
    scanner: Scanner,
    debounce: Debounce<Fingerprint>,
    digests: Digests,
    /// Fingerprint of the last admission, by file.
    admitted: BTreeMap<PathBuf, Fingerprint>,
    first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
    /// Parsed contents and last admission, by file.
    evaluations: BTreeMap<PathBuf, Evaluation>,
    started: Option<Timestamp>,
}

/// Result of a scan.
#[derive(Debug, Clone, Default)]
pub struct ScanResult {
    /// Folders to watch; `None` if the specs folder does not exist.
    pub folders: Option<BTreeMap<PathBuf, (u64, u64)>>,
    /// Time of the next change without an event.
    pub next_at: Option<Timestamp>,
}

impl SpecLoader {
    /// Creates a loader that continues from the persisted state.
    pub fn new(rules: Rules, persisted_specs: PersistedSpecs) -> Self {
        let mut registry = SpecRegistry::restored(persisted_specs.accepted);
        registry.incomplete = persisted_specs.incomplete;
        Self {
            scanner: Scanner::new(rules.folder.clone()),
            rules,
            registry,
            debounce: Debounce::default(),
            digests: Digests::default(),
            admitted: BTreeMap::new(),
            first_seen: persisted_specs.first_seen,
            evaluations: BTreeMap::new(),
            started: None,
        }
    }

    /// Current registry.
    pub fn registry(&self) -> &SpecRegistry {
        &self.registry
    }

    /// Reports whether no file waits for its second read.
    pub fn is_settled(&self) -> bool {
        self.debounce.is_empty()
    }

    /// State to persist.
    pub fn persisted_specs(&self) -> PersistedSpecs {
        PersistedSpecs {
            accepted: self.registry.accepted_specs(),
            incomplete: self.registry.incomplete,
            first_seen: self.first_seen.clone(),
        }
    }

    /// Scans all files once. Blocks on the file system.
    pub fn scan_once(&mut self, now: Timestamp) -> ScanResult {
        let started = *self.started.get_or_insert(now);
        let debounce = &self.debounce;
        let scan = match self.scanner.scan(|path| debounce.is_pending(path)) {
            Ok(scan) => scan,
            Err(error) => {
                self.registry.pause(format!(
                    "`{}` cannot be read: {error}",
                    self.rules.folder.display()
                ));
                return ScanResult::default();
            }
        };
        self.registry.resume(now);
        self.registry.notes = notes(&scan);
        let is_present = |path: &Path| may_exist(&scan, path);
        self.registry.present(is_present, now);
        self.debounce.retain_files(|path| scan.files.contains_key(path));
        self.admitted.retain(|path, _| is_present(path));
        for (path, contents) in &scan.files {
            let fingerprint = self.fingerprint(path, scan.resolved.get(path), contents, now);
            let admitted = self.admitted.get(path);
            if self.debounce.confirm(path, fingerprint, admitted, now) {
                self.admitted.insert(path.clone(), fingerprint);
                self.enter(path, contents, now);
            } else if let Some(admitted) = admitted {
                if *admitted == fingerprint {
                    self.registry.clear_pending(path, now);
                } else {
                    self.registry.mark_pending(path, now);
                }
            }
        }
        self.digests.sweep();
        self.registry.expire(now);
        let files = &self.registry.files;
        self.first_seen.retain(|path, _| files.contains_key(path));
        let known = |path: &PathBuf| files.contains_key(path) || scan.files.contains_key(path);
        self.evaluations.retain(|path, _| known(path));
        if self.debounce.is_empty() || now.since(started) >= MAX_FIRST_SCAN {
            self.registry.scanned = true;
        }
        self.registry.complete_registry();
        let next_at = [self.debounce.next_at(), self.registry.expires_at()]
            .into_iter()
            .flatten()
            .min();
        ScanResult {
            folders: Some(scan.folders),
            next_at,
        }
    }

    /// Evaluates the contents of a file. Returns the hash of all inputs.
    fn fingerprint(
        &mut self,
        path: &Path,
        real: Option<&PathBuf>,
        contents: &Contents,
        now: Timestamp,
    ) -> Fingerprint {
        let text = match contents {
            Contents::Text(text) => text,
            Contents::TooLong(bytes) => return Sha256::digest(format!("too long: {bytes}")).into(),
            Contents::Unreadable(why) => return Sha256::digest(format!("unreadable: {why}")).into(),
        };
        let first_seen = match self.first_seen.get(path) {
            Some((hash, at)) if *hash == hex(&text.hash) => *at,
            Some(_) | None => now,
        };
        let real = real.map_or_else(|| self.rules.folder.join(path), Clone::clone);
        let evaluation = self.evaluations.entry(path.to_path_buf()).or_default();
        evaluation.update(&self.rules, (path, &real), text, &mut self.digests, first_seen)
    }

    /// Enters the admission of confirmed contents into the registry.
    fn enter(&mut self, path: &Path, contents: &Contents, now: Timestamp) {
        let refused = |message: String, hint: &str| Admission {
            diagnostics: vec![Diagnostic::error("", message).hint(hint)],
            ..Admission::default()
        };
        let (text, admission) = match contents {
            Contents::Text(text) => {
                let evaluation = self.evaluations.entry(path.to_path_buf()).or_default();
                let first_seen = evaluation.first_seen().unwrap_or(now);
                let seen = (hex(&text.hash), first_seen);
                self.first_seen.insert(path.to_path_buf(), seen);
                (Some(text.clone()), evaluation.admission())
            }
            Contents::TooLong(bytes) => {
                let message = format!("file has {bytes} bytes, at most {MAX_FILE_BYTES} are read");
                (None, refused(message, "split it into several environments"))
            }
            Contents::Unreadable(why) => (
                None,
                refused(
                    format!("file cannot be read: {why}"),
                    "make it readable for the controller's user",
                ),
            ),
        };
        self.registry.on_admitted(path, text, admission, now);
        if let Some(entry) = self.registry.files.get(path) {
            let diagnostics = entry.diagnostics.len();
            tracing::info!(file = %path.display(), state = ?entry.state, diagnostics, "spec processed");
        }
    }
}

/// Reports whether a file may exist: it was listed, or its folder could not be listed completely.
fn may_exist(scan: &Scan, path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    scan.files.contains_key(path) || scan.too_many || scan.unlisted.contains_key(folder)
}

fn notes(scan: &Scan) -> Vec<String> {
    let unlisted = scan.unlisted.iter();
    let mut notes: Vec<String> = unlisted
        .map(|(folder, why)| format!("folder `{}` cannot be read: {why}", folder.display()))
        .collect();
    if scan.too_many {
        notes.push(format!("more than {MAX_FILES} spec files, the rest is ignored"));
    }
    notes
}
