//! One round over the spec folder: look, wait until it reads the same twice, judge, enter into the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::diagnostic::{Diagnostic, DiagnosticSeverity};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::admitter::{AdmissionInput, Admitter, Needs, OwnImage};
use super::debounce::Debounce;
use super::digest::{Digests, hex};
use super::env_vars;
use super::registry::{Admission, SpecRegistry};
use super::scan::{Contents, MAX_FILE, MAX_FILES, Scan, Scanner};
use super::surroundings::Surroundings;
use argus_core::desired::Accepted;
use argus_core::desired::host::HostPaths;

/// A file that never reads the same twice does not keep the first scan open for longer than this.
const FIRST_SCAN: Duration = Duration::from_secs(10);

/// How files are read and judged.
#[derive(Clone)]
pub struct Rules {
    /// The spec folder, absolute.
    pub folder: PathBuf,
    /// Warnings refuse a file.
    pub strict: bool,
    /// Names of variables that files may read.
    pub env_allow: Vec<String>,
    /// The controller's own variables.
    pub process_env: BTreeMap<String, String>,
    /// Identity of the controller.
    pub controller: String,
    /// The image that serves mocks.
    pub own_image: OwnImage,
    /// Who judges.
    pub admitter: Arc<dyn Admitter>,
}

/// What outlives the process: the last good revisions, and when contents were seen first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartingPoint {
    /// What counts, by file.
    pub held: BTreeMap<PathBuf, Accepted>,
    /// What files held before is not known.
    pub incomplete: bool,
    /// Hash of the contents that were judged last, and when they were seen first, by file.
    pub first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
}

/// The folder's reader with all that it remembers.
pub struct SpecLoader {
    rules: Rules,
    registry: SpecRegistry,
    scanner: Scanner,
    debounce: Debounce<Fingerprint>,
    digests: Digests,
    /// What was judged last, by file.
    admitted: BTreeMap<PathBuf, Fingerprint>,
    first_seen: BTreeMap<PathBuf, (String, Timestamp)>,
    /// What else was to be read, by file, for these contents and variables.
    needs: BTreeMap<PathBuf, (Fingerprint, Needs)>,
    /// The paths that contents name, by file, for these contents at this place.
    named: BTreeMap<PathBuf, (Fingerprint, PathBuf, BTreeSet<String>)>,
    started: Option<Timestamp>,
}

/// All that a judgement depends on, as one hash.
type Fingerprint = [u8; 32];

/// What came of a round.
#[derive(Debug, Clone, Default)]
pub struct ScanResult {
    /// The folders that were read, to be watched; `None`: the spec folder is not there.
    pub folders: Option<BTreeMap<PathBuf, (u64, u64)>>,
    /// When time alone changes something.
    pub next_at: Option<Timestamp>,
}

/// A file with its surroundings as they are now.
struct FileFingerprint {
    fingerprint: Fingerprint,
    variables: BTreeMap<String, String>,
    dotenv_error: Option<String>,
    file: PathBuf,
    host: HostPaths,
    digests: BTreeMap<String, Result<String, String>>,
    documents: BTreeMap<String, Result<String, String>>,
}

impl SpecLoader {
    /// A desk that goes on from what was kept.
    pub fn new(rules: Rules, kept: StartingPoint) -> Self {
        let mut book = SpecRegistry::remembering(kept.held);
        book.incomplete = kept.incomplete;
        Self {
            scanner: Scanner::new(rules.folder.clone()),
            rules,
            registry: book,
            debounce: Debounce::default(),
            digests: Digests::default(),
            admitted: BTreeMap::new(),
            first_seen: kept.first_seen,
            needs: BTreeMap::new(),
            named: BTreeMap::new(),
            started: None,
        }
    }

    /// The book as it stands.
    pub fn registry(&self) -> &SpecRegistry {
        &self.registry
    }

    /// No file waits for its second reading.
    pub fn is_settled(&self) -> bool {
        self.debounce.is_empty()
    }

    /// What is to outlive the process.
    pub fn starting_point(&self) -> StartingPoint {
        StartingPoint {
            held: self.registry.held(),
            incomplete: self.registry.incomplete,
            first_seen: self.first_seen.clone(),
        }
    }

    /// Looks at everything once. Blocks on the file system.
    pub fn scan_once(&mut self, now: Timestamp) -> ScanResult {
        let began = *self.started.get_or_insert(now);
        let settle = &self.debounce;
        let scan = match self.scanner.scan(|path| settle.waits(path)) {
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
        let there = |path: &Path| is_there(&scan, path);
        self.registry.present(there, now);
        self.debounce.keep(|path| scan.files.contains_key(path));
        self.admitted.retain(|path, _| there(path));
        for (path, contents) in &scan.files {
            let seen = self.fingerprint(path, contents);
            if self
                .debounce
                .counts(path, seen.fingerprint, self.admitted.get(path), now)
            {
                self.admit(path, contents, seen, now);
            } else if let Some(judged) = self.admitted.get(path) {
                if *judged == seen.fingerprint {
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
        self.needs.retain(|path, _| known(path));
        self.named.retain(|path, _| known(path));
        if self.debounce.is_empty() || now.since(began) >= FIRST_SCAN {
            self.registry.scanned = true;
        }
        self.registry.complete_registry();
        let next_at = [self.debounce.again_at(), self.registry.expires_at()]
            .into_iter()
            .flatten()
            .min();
        ScanResult {
            folders: Some(scan.folders),
            next_at,
        }
    }

    /// Gathers what a judgement of these contents depends on.
    fn fingerprint(&mut self, path: &Path, contents: &Contents) -> FileFingerprint {
        let mut all = Sha256::new();
        let (mut variables, mut dotenv_trouble) = (BTreeMap::new(), None);
        let (mut digests, mut documents) = (BTreeMap::new(), BTreeMap::new());
        let mut around = self.rules.admitter.surroundings(&self.rules.folder.join(path));
        match contents {
            Contents::Text(text) => {
                all.update(text.hash);
                (variables, dotenv_trouble) = env_vars::dotenv(&around);
                for (name, value) in &variables {
                    for part in [name, value] {
                        all.update((part.len() as u64).to_be_bytes());
                        all.update(part);
                    }
                }
                variables = env_vars::passed(variables, &self.rules.process_env, &self.rules.env_allow);
                let named = self.named(path, &text.bytes, &around.file, text.hash);
                around.resolve(&named);
                all.update(around.file.as_os_str().as_encoded_bytes());
                all.update(format!("{:?}", around.host));
                let of = all.clone().finalize().into();
                let needs = self.needs(path, &text.bytes, &variables, &around, of);
                for build in needs.builds {
                    let Some(digest) = self.rules.own_image.digest(&build, &mut self.digests) else {
                        continue;
                    };
                    all.update(format!("{}{digest:?}", build.service));
                    digests.insert(build.service, digest);
                }
                for (mock, at) in needs.documents {
                    let text = env_vars::document(&at, &around);
                    all.update(format!("{mock}{text:?}"));
                    documents.insert(mock, text);
                }
            }
            Contents::TooLong(bytes) => all.update(format!("too long: {bytes}")),
            Contents::Unreadable(why) => all.update(format!("unreadable: {why}")),
        }
        all.update(dotenv_trouble.as_deref().unwrap_or_default());
        FileFingerprint {
            fingerprint: all.finalize().into(),
            variables,
            dotenv_error: dotenv_trouble,
            file: around.file,
            host: around.host,
            digests,
            documents,
        }
    }

    /// The paths that these contents name; a file is parsed again only when it or its place changed.
    fn named(&mut self, path: &Path, bytes: &[u8], file: &Path, of: Fingerprint) -> BTreeSet<String> {
        match self.named.get(path) {
            Some((known, at, named)) if *known == of && at == file => named.clone(),
            _ => {
                let named = self.rules.admitter.named(file, bytes);
                let entry = (of, file.to_path_buf(), named.clone());
                self.named.insert(path.to_path_buf(), entry);
                named
            }
        }
    }

    fn needs(
        &mut self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        around: &Surroundings,
        of: Fingerprint,
    ) -> Needs {
        match self.needs.get(path) {
            Some((known, needs)) if *known == of => needs.clone(),
            _ => {
                let needs = self
                    .rules
                    .admitter
                    .needs(&around.file, bytes, variables, &around.host);
                self.needs.insert(path.to_path_buf(), (of, needs.clone()));
                needs
            }
        }
    }

    /// Judges contents that count from now on.
    fn admit(&mut self, path: &Path, contents: &Contents, seen: FileFingerprint, now: Timestamp) {
        self.admitted.insert(path.to_path_buf(), seen.fingerprint);
        let refused = |message: String, hint: &str| Admission {
            desired: None,
            diagnostics: vec![Diagnostic::error("", message).hint(hint)],
        };
        let (text, mut judged) = match contents {
            Contents::Text(text) => {
                let first_seen = self.first_seen(path, text.hash, now);
                let reading = AdmissionInput {
                    path: &seen.file,
                    name: &path.display().to_string(),
                    bytes: &text.bytes,
                    variables: seen.variables,
                    digests: seen.digests,
                    documents: seen.documents,
                    host: seen.host,
                    uuid: env_vars::uuid(&self.rules.controller, path, &text.hash),
                    first_seen,
                };
                (Some(text.clone()), self.rules.admitter.admit(&reading))
            }
            Contents::TooLong(bytes) => {
                let message = format!("file has {bytes} bytes, at most {MAX_FILE} are read");
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
        judged
            .diagnostics
            .extend(seen.dotenv_error.map(|trouble| Diagnostic::warning("", trouble)));
        if self.rules.strict {
            for diagnostic in &mut judged.diagnostics {
                diagnostic.severity = DiagnosticSeverity::Error;
            }
        }
        self.registry.on_admitted(path, text, judged, now);
        if let Some(entry) = self.registry.files.get(path) {
            let diagnostics = entry.diagnostics.len();
            tracing::info!(file = %path.display(), standing = ?entry.state, diagnostics, "spec judged");
        }
    }

    /// When these contents of this file were seen first; `{{timestamp}}` stays the same with it.
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

/// Whether a file is there, as far as anybody can tell.
fn is_there(scan: &Scan, path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    scan.files.contains_key(path) || scan.too_many || scan.unlisted.contains_key(folder)
}

fn notes(scan: &Scan) -> Vec<String> {
    let unlisted = scan.unlisted.iter();
    let mut notes: Vec<String> = unlisted
        .map(|(folder, why)| format!("folder `{}` cannot be read: {why}", folder.display()))
        .collect();
    if scan.too_many {
        notes.push(format!(
            "more than {MAX_FILES} spec files, the rest is not looked at"
        ));
    }
    notes
}
