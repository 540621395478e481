//! Spec loader: scans the folder once, debounces changed files, admits them, and updates the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::diagnostic::{Diagnostic, DiagnosticSeverity};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::admitter::{AdmissionInput, Admitter, OwnImageContext, RequiredFiles};
use super::build_delay::BuildDelays;
use super::debounce::Debounce;
use super::digest::{Digests, hex};
use super::env_vars;
use super::location::SpecLocation;
use super::registry::{Admission, SpecRegistry};
use super::scan::{Contents, MAX_FILE_BYTES, MAX_FILES, Scan, Scanner, Text};
use super::source::SpecSource;
use argus_core::desired::Accepted;
use argus_core::desired::host::HostPaths;

/// Maximum duration of the first scan, for files that never give two equal reads.
const MAX_FIRST_SCAN: Duration = Duration::from_secs(10);

/// Settings of the scan and the admission.
#[derive(Clone)]
pub struct SpecLoaderSettings {
    /// Source of the spec files.
    pub source: SpecSource,
    /// True if warnings refuse a file.
    pub strict: bool,
    /// Names of variables that spec files may read.
    pub env_allow: Vec<String>,
    /// Environment variables of the controller.
    pub process_env: BTreeMap<String, String>,
    /// Identity of the controller.
    pub controller: String,
    /// Image that serves mocks.
    pub own_image: OwnImageContext,
    /// Admitter of the files.
    pub admitter: Arc<dyn Admitter>,
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
    rules: SpecLoaderSettings,
    registry: SpecRegistry,
    scanner: Scanner,
    debounce: Debounce<Fingerprint>,
    digests: Digests,
    build_delays: BuildDelays,
    /// Fingerprint of the inputs of the last admission, by file.
    admitted: BTreeMap<PathBuf, Fingerprint>,
    first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
    /// Other required files, by file, for these contents and variables.
    required_files: BTreeMap<PathBuf, (Fingerprint, RequiredFiles)>,
    /// Host paths in the contents of a file, by file.
    host_paths: BTreeMap<PathBuf, (HostPathsKey, BTreeSet<String>)>,
    started: Option<Timestamp>,
}

/// Hash of all inputs of an admission.
type Fingerprint = [u8; 32];
/// Hash of the contents, path of the file, and project: the inputs of its host paths.
type HostPathsKey = (Fingerprint, PathBuf, String);

/// Result of a scan.
#[derive(Debug, Clone, Default)]
pub struct ScanResult {
    /// Folders to watch; `None` if the specs folder does not exist.
    pub folders: Option<BTreeMap<PathBuf, (u64, u64)>>,
    /// Time of the next change without an event.
    pub next_at: Option<Timestamp>,
}

/// Current contents of a file, with all other inputs of its admission.
struct FileInputs {
    fingerprint: Fingerprint,
    variables: BTreeMap<String, String>,
    dotenv_error: Option<String>,
    file: PathBuf,
    host: HostPaths,
    digests: BTreeMap<String, Result<String, String>>,
    documents: BTreeMap<String, Result<String, String>>,
}

impl SpecLoader {
    /// Creates a loader that continues from the persisted state.
    pub fn new(rules: SpecLoaderSettings, persisted_specs: PersistedSpecs) -> Self {
        let mut registry = SpecRegistry::restored(persisted_specs.accepted);
        registry.incomplete = persisted_specs.incomplete;
        Self {
            scanner: Scanner::new(rules.source.clone()),
            rules,
            registry,
            debounce: Debounce::default(),
            digests: Digests::default(),
            build_delays: BuildDelays::default(),
            admitted: BTreeMap::new(),
            first_seen: persisted_specs.first_seen,
            required_files: BTreeMap::new(),
            host_paths: BTreeMap::new(),
            started: None,
        }
    }

    /// Current registry.
    pub fn registry(&self) -> &SpecRegistry {
        &self.registry
    }

    /// Reports whether no file waits for its second read.
    pub fn is_debounced(&self) -> bool {
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
                self.registry.suspend_grace_periods(format!(
                    "`{}` cannot be read: {error}",
                    self.rules.source.folder.display()
                ));
                return ScanResult::default();
            }
        };
        self.registry.resume_grace_periods(now);
        self.registry.notes = notes(&scan);
        let is_present = |path: &Path| may_exist(&scan, path);
        self.registry.record_existing_files(is_present, now);
        self.debounce.retain_files(|path| scan.files.contains_key(path));
        self.admitted.retain(|path, _| is_present(path));
        for (path, contents) in &scan.files {
            let real = scan.resolved.get(path);
            let current = self.collect_inputs(path, real, contents, now);
            if self
                .debounce
                .confirm(path, current.fingerprint, self.admitted.get(path), now)
            {
                self.admit(path, contents, current, now);
            } else if let Some(fingerprint) = self.admitted.get(path) {
                if *fingerprint == current.fingerprint {
                    self.registry.clear_edited(path, now);
                } else {
                    self.registry.mark_edited(path, now);
                }
            }
        }
        self.digests.sweep();
        self.registry.remove_expired(now);
        let files = &self.registry.files;
        self.first_seen.retain(|path, _| files.contains_key(path));
        let known = |path: &PathBuf| files.contains_key(path) || scan.files.contains_key(path);
        self.required_files.retain(|path, _| known(path));
        self.host_paths.retain(|path, _| known(path));
        self.build_delays.retain_files(known);
        if self.debounce.is_empty() || now.since(started) >= MAX_FIRST_SCAN {
            self.registry.scanned = true;
        }
        self.registry.complete_registry();
        self.build_delays.show(&mut self.registry.files);
        let delayed = self.build_delays.next_at();
        let next_at = [self.debounce.next_at(), self.registry.expires_at(), delayed]
            .into_iter()
            .flatten()
            .min();
        ScanResult {
            folders: Some(scan.folders),
            next_at,
        }
    }

    /// Collects the inputs of the admission of these contents.
    fn collect_inputs(
        &mut self,
        path: &Path,
        real: Option<&PathBuf>,
        contents: &Contents,
        now: Timestamp,
    ) -> FileInputs {
        let mut hasher = Sha256::new();
        let (mut variables, mut dotenv_error) = (BTreeMap::new(), None);
        let (mut digests, mut documents) = (BTreeMap::new(), BTreeMap::new());
        // A file without a resolved path is unreadable, and its surroundings do not matter.
        let file = real.map_or_else(|| self.rules.source.folder.join(path), Clone::clone);
        let mut location = self.rules.admitter.locate(&file);
        match contents {
            Contents::Text(text) => {
                hasher.update(text.hash);
                (variables, dotenv_error) = env_vars::dotenv(&location);
                for (name, value) in &variables {
                    for part in [name, value] {
                        hasher.update((part.len() as u64).to_be_bytes());
                        hasher.update(part);
                    }
                }
                variables = env_vars::passed(variables, &self.rules.process_env, &self.rules.env_allow);
                let host_paths = self.host_paths(path, text, &location);
                location.resolve(&host_paths);
                hasher.update(location.file.as_os_str().as_encoded_bytes());
                hasher.update(format!("{:?}", location.host));
                let key = hasher.clone().finalize().into();
                let required_files = self.required_files(path, &text.bytes, &variables, &location, key);
                for build in required_files.builds {
                    let Some(found) = self.rules.own_image.digest(&build, &mut self.digests) else {
                        continue;
                    };
                    let digest =
                        found.map(|found| self.build_delays.delay(path, &build.service, key, found, now));
                    hasher.update(format!("{}{digest:?}", build.service));
                    digests.insert(build.service, digest);
                }
                for (mock, at) in required_files.documents {
                    let text = env_vars::document(&at, &location);
                    hasher.update(format!("{mock}{text:?}"));
                    documents.insert(mock, text);
                }
            }
            Contents::TooLong(bytes) => hasher.update(format!("too long: {bytes}")),
            Contents::Unreadable(why) => hasher.update(format!("unreadable: {why}")),
            Contents::NotFile(kind) => hasher.update(format!("not a file: {kind}")),
        }
        hasher.update(dotenv_error.as_deref().unwrap_or_default());
        FileInputs {
            fingerprint: hasher.finalize().into(),
            variables,
            dotenv_error,
            file: location.file,
            host: location.host,
            digests,
            documents,
        }
    }

    /// Returns the host paths in these contents. Parses a file again only if its contents, path or project changed.
    fn host_paths(&mut self, path: &Path, text: &Text, location: &SpecLocation) -> BTreeSet<String> {
        let key = (text.hash, location.file.clone(), location.host.project.clone());
        match self.host_paths.get(path) {
            Some((known, host_paths)) if *known == key => host_paths.clone(),
            _ => {
                let host_paths = self.rules.admitter.host_paths(location, &text.bytes);
                self.host_paths
                    .insert(path.to_path_buf(), (key, host_paths.clone()));
                host_paths
            }
        }
    }

    fn required_files(
        &mut self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        location: &SpecLocation,
        key: Fingerprint,
    ) -> RequiredFiles {
        match self.required_files.get(path) {
            Some((known, required_files)) if *known == key => required_files.clone(),
            _ => {
                let required_files =
                    self.rules
                        .admitter
                        .required_files(&location.file, bytes, variables, &location.host);
                self.required_files
                    .insert(path.to_path_buf(), (key, required_files.clone()));
                required_files
            }
        }
    }

    /// Admits confirmed contents.
    fn admit(&mut self, path: &Path, contents: &Contents, current: FileInputs, now: Timestamp) {
        self.admitted.insert(path.to_path_buf(), current.fingerprint);
        let refused = |message: String, hint: &str| Admission {
            diagnostics: vec![Diagnostic::error("", message).hint(hint)],
            ..Admission::default()
        };
        let (text, mut admission) = match contents {
            Contents::Text(text) => {
                let first_seen = self.first_seen(path, text.hash, now);
                let input = AdmissionInput {
                    path: &current.file,
                    name: &path.display().to_string(),
                    bytes: &text.bytes,
                    variables: current.variables,
                    digests: current.digests,
                    documents: current.documents,
                    host: current.host,
                    uuid: env_vars::uuid(&self.rules.controller, path, &text.hash),
                    first_seen,
                };
                (Some(text.clone()), self.rules.admitter.admit(&input))
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
            Contents::NotFile(kind) => (
                None,
                refused(
                    format!("it is a {kind}, not a file"),
                    "rename it, or replace it with a file",
                ),
            ),
        };
        admission
            .diagnostics
            .extend(current.dotenv_error.map(|cause| Diagnostic::warning("", cause)));
        if self.rules.strict {
            for diagnostic in &mut admission.diagnostics {
                diagnostic.severity = DiagnosticSeverity::Error;
            }
        }
        self.registry.on_admitted(path, text, admission, now);
        if let Some(entry) = self.registry.files.get(path) {
            let diagnostics = entry.diagnostics.len();
            tracing::info!(file = %path.display(), state = ?entry.state, diagnostics, "spec processed");
        }
    }

    /// Time at which these contents were first read; `{{timestamp}}` is stable with it.
    fn first_seen(&mut self, path: &Path, hash: [u8; 32], now: Timestamp) -> Timestamp {
        let hash = hex(&hash);
        let entry = self
            .first_seen
            .entry(path.to_path_buf())
            .or_insert_with(|| (hash.clone(), now));
        if entry.0 != hash {
            *entry = (hash, now);
        }
        entry.1
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
