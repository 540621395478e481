//! Evaluation of a spec file: its contents are parsed once, and admitted once per revision of all inputs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_core::hex::hex;
use argus_core::ident::Hash;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use argus_crds::Diagnostic;
use argus_crds::diagnostic::DiagnosticSeverity;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::admission::AdmissionInput;
use super::build_context::BuildContext;
use super::build_delay::BuildDelays;
use super::digest::{ContextDigest, Digests};
use super::env_vars;
use super::inputs::SpecInputs;
use super::location::SpecLocation;
use super::nested_git::NestedGit;
use super::parsed_file::ParsedFile;
use super::registry::Admission;
use super::scan::Text;
use super::settings::SpecLoaderSettings;
use super::translated_file::translate;

/// Hash of inputs of an admission.
pub(super) type Fingerprint = [u8; 32];

/// Hashes of the inputs of an admission.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fingerprints {
    pub(super) all: Fingerprint,
    /// All inputs except for the contents of the spec file.
    pub(super) others: Fingerprint,
}

impl Fingerprints {
    /// Hashes of contents that are not admitted, such as those of an unreadable file.
    pub(super) fn of(contents: &str) -> Self {
        Self::combined(Sha256::digest(contents).into(), Sha256::new())
    }

    fn combined(contents: Fingerprint, others: Sha256) -> Self {
        let others = others.finalize();
        Self {
            all: Sha256::new()
                .chain_update(contents)
                .chain_update(others)
                .finalize()
                .into(),
            others: others.into(),
        }
    }
}

/// Digests of build contexts, the delays of their changes, and the files and folders that evaluations read.
#[derive(Debug, Default)]
pub struct BuildContexts {
    pub(super) digests: Digests,
    pub(super) delays: BuildDelays,
    pub(super) read: SpecInputs,
    pub(super) nested_git: NestedGit,
}

impl BuildContexts {
    /// Contexts whose reads end when `stop` is cancelled.
    pub fn until(stop: CancellationToken) -> Self {
        Self::in_parts(u64::MAX, stop)
    }

    /// Keeps the folders of the last digest, unless Argus itself writes the context.
    fn keep_folders(&mut self, is_watched: bool) {
        let folders = self.digests.take_folders().into_iter();
        folders
            .filter(|_| is_watched)
            .for_each(|folders| self.read.add_context(folders));
    }

    /// Contexts of which all evaluations read at most `part` bytes after each [`Digests::begin_part`].
    pub(super) fn in_parts(part: u64, stop: CancellationToken) -> Self {
        Self {
            digests: Digests::new(part, stop),
            delays: BuildDelays::default(),
            read: SpecInputs::default(),
            nested_git: NestedGit::default(),
        }
    }
}

/// Evaluation of one file. The registry takes its admission; the rest detects changes of the inputs.
#[derive(Debug, Default)]
pub struct Evaluation {
    named: Option<NamedFiles>,
    inputs: Option<Inputs>,
    /// Parsed contents until the registry takes the admission.
    parsed: Option<ParsedFile>,
    admission: Option<Admission>,
}

/// Other files that contents name.
#[derive(Debug)]
struct NamedFiles {
    /// Hash of the contents.
    hash: Fingerprint,
    /// Path of the spec file without links.
    file: PathBuf,
    project: String,
    first_seen: Timestamp,
    /// Time of the scan that read the contents.
    read_at: Timestamp,
    host_paths: BTreeSet<String>,
    /// Those that containers can write.
    writable: BTreeSet<String>,
    /// Path of the file for the addresses.
    env_file: Option<String>,
    /// Path of each mock's `openapi` document.
    documents: BTreeMap<String, PathBuf>,
}

/// Inputs of the last admission.
#[derive(Debug)]
struct Inputs {
    /// Hash of all inputs except the build contexts.
    without_builds: Fingerprint,
    builds: Vec<BuildContext>,
    fingerprints: Fingerprints,
    /// True if the spec file names no other file.
    is_alone: bool,
}

impl Evaluation {
    /// Parses and admits contents unless all inputs are unchanged. Returns the hashes of the inputs; `None` if a further part of the
    /// build contexts must be read before.
    ///
    /// `path` names the file for people, and `real` is its absolute path without links. `first_seen` is the time at
    /// which the contents were first read, unless this evaluation already knows them.
    pub fn update(
        &mut self,
        settings: &SpecLoaderSettings,
        (path, real): (&Path, &Path),
        text: &Text,
        contexts: &mut BuildContexts,
        (first_seen, now): (Timestamp, Timestamp),
    ) -> Option<Fingerprints> {
        let admitter = &settings.admitter;
        let mut location = admitter.locate(real);
        let (dotenv, dotenv_problems, mut variables) = read_variables(settings, &location);
        let name = path.shown().to_string();
        let digests = &contexts.digests;
        let translated = translate(settings, (&name, &location, text), &mut variables, digests);
        let compose_files = translated.iter().flat_map(|translated| &translated.read);
        contexts.read.add_file(&env_vars::dotenv_path(&location));
        contexts.read.add_files(compose_files.map(PathBuf::as_path));
        let file_hash = translated.as_ref().map_or(text.hash, |it| it.files);
        let text = translated.as_ref().map_or(text, |translated| &translated.text);
        let parse = || match &translated {
            Some(translated) => ParsedFile::of(&translated.translation, translated.took),
            None => ParsedFile::read(&name, &text.bytes),
        };
        let named = self.named_files(&parse, &location, text, (first_seen, now));
        let (first_seen, names_host_paths) = (named.first_seen, !named.host_paths.is_empty());
        location.resolve(&named.host_paths);
        let nested = &mut contexts.nested_git;
        nested.protect(&mut location.host, &named.writable, (named.read_at, now));
        contexts.read.add_files(location.resolved_files());
        if let Some(path) = &named.env_file {
            location.resolve_env_file(path);
        }
        let document = |(mock, at): (&String, &PathBuf)| (mock.clone(), env_vars::document(at, &location));
        let documents: BTreeMap<_, _> = named.documents.iter().map(document).collect();
        self.named = Some(named);
        let mut others = env_vars::hash(&dotenv);
        let others_of_compose = translated.as_ref().and_then(|translated| translated.others);
        others.update(others_of_compose.unwrap_or_default());
        others.update(location.file.as_os_str().as_encoded_bytes());
        others.update(format!("{:?}", location.host));
        // A change of these inputs takes effect without a delay of builds.
        let immediate = Fingerprints::combined(text.hash, others.clone()).all;
        others.update(format!("{documents:?}{dotenv_problems:?}"));
        let without_builds = Fingerprints::combined(text.hash, others.clone()).all;
        contexts.digests.begin_file();
        let is_part = Cell::new(false);
        let mut left_out = BTreeMap::new();
        let mut digest_of = |build: &BuildContext, others: &mut Sha256| {
            let found = admitter.own_image.digest(build, &mut contexts.digests)?;
            is_part.set(contexts.digests.is_part());
            contexts.keep_folders(build.folder != admitter.own_image.folder);
            let left = found.as_ref().ok().and_then(ContextDigest::describe_left_out);
            left_out.extend(left.map(|left| (build.service.clone(), left)));
            let delays = &mut contexts.delays;
            let digest = found.map(|found| delays.delay(path, &build.service, immediate, found, now));
            others.update(format!("{}{digest:?}", build.service));
            Some(digest)
        };
        if let Some(known) = &self.inputs
            && known.without_builds == without_builds
        {
            let mut others = others.clone();
            for build in &known.builds {
                digest_of(build, &mut others);
            }
            if is_part.get() {
                return None;
            }
            if Fingerprints::combined(text.hash, others).all == known.fingerprints.all {
                return Some(known.fingerprints);
            }
        }
        let is_alone = dotenv.is_empty()
            && dotenv_problems.is_empty()
            && !names_host_paths
            && documents.is_empty()
            && others_of_compose.is_none();
        let input = AdmissionInput {
            path: &location.file,
            variables,
            documents,
            host: location.host.clone(),
            uuid: env_vars::uuid(&settings.controller, path, &text.hash),
            first_seen,
        };
        let parsed = self.parsed.take().unwrap_or_else(parse);
        let mut builds = Vec::new();
        let mut admission = admitter.admit(&parsed, &input, &mut |build| {
            let digest = digest_of(&build, &mut others);
            builds.push(build);
            digest
        });
        if is_part.get() {
            self.parsed = Some(parsed);
            return None;
        }
        admission.file_hash = Hash::new(hex(&file_hash)).ok();
        admission.diagnostics.extend(dotenv_problems);
        finish_diagnostics(&mut admission, settings.strict, left_out);
        // A warning about the shell of one user stays a warning, too.
        let unread = translated.iter().flat_map(|it| it.unread.clone());
        admission.diagnostics.extend(unread);
        let inputs = Inputs {
            without_builds,
            is_alone: is_alone && builds.is_empty(),
            builds,
            fingerprints: Fingerprints::combined(text.hash, others),
        };
        (self.parsed, self.admission) = (Some(parsed), Some(admission));
        Some(self.inputs.insert(inputs).fingerprints)
    }

    /// Reports whether only the spec file itself can be half-written: it names no other file, or the other files are
    /// those of the last confirmed admission.
    pub(super) fn depends_on_file_alone(&self, confirmed: Option<Fingerprints>) -> bool {
        self.inputs.as_ref().is_some_and(|inputs| {
            inputs.is_alone
                || confirmed.is_some_and(|confirmed| confirmed.others == inputs.fingerprints.others)
        })
    }

    /// Takes the last admission, with the time at which its contents were first read.
    pub fn take_admission(&mut self) -> Option<(Admission, Timestamp)> {
        self.parsed = None;
        Some((self.admission.take()?, self.named.as_ref()?.first_seen))
    }

    /// Returns the files that the contents name, which are parsed only if they or their location changed.
    fn named_files(
        &mut self,
        parse: &dyn Fn() -> ParsedFile,
        location: &SpecLocation,
        text: &Text,
        (first_seen, now): (Timestamp, Timestamp),
    ) -> NamedFiles {
        let (file, project) = (&location.file, &location.host.project);
        let is_same =
            |named: &NamedFiles| named.hash == text.hash && named.file == *file && named.project == *project;
        if let Some(named) = self.named.take().filter(is_same) {
            return named;
        }
        let parsed = parse();
        let named = NamedFiles {
            hash: text.hash,
            file: file.clone(),
            project: project.clone(),
            first_seen,
            read_at: now,
            host_paths: parsed.host_paths(location),
            writable: parsed.writable_paths(file),
            env_file: parsed.env_file(location),
            documents: parsed.documents(file),
        };
        self.parsed = Some(parsed);
        named
    }
}

type Variables = BTreeMap<String, String>;

/// Returns the variables of the `.env`, its problems, and all variables of the spec file: with the permitted ones of the controller.
fn read_variables(
    settings: &SpecLoaderSettings,
    location: &SpecLocation,
) -> (Variables, Vec<Diagnostic>, Variables) {
    let permitted = env_vars::permitted(&settings.process_env, &settings.env_allow);
    let (dotenv, problems) = env_vars::dotenv(location, &permitted);
    let mut all = dotenv.clone();
    all.extend(permitted);
    (dotenv, problems, all)
}

/// Makes warnings errors in strict mode. What the builds of these services leave out stays a warning, because such files come and go with
/// their programs.
fn finish_diagnostics(admission: &mut Admission, is_strict: bool, left_out: BTreeMap<String, String>) {
    if is_strict {
        for diagnostic in &mut admission.diagnostics {
            diagnostic.severity = DiagnosticSeverity::Error;
        }
    }
    for (service, message) in left_out {
        let warning = Diagnostic::warning(format!("services.{service}.build.context"), message);
        let hint = "add it to the `.dockerignore`, or move it out of the context";
        let warning = admission.source.with_location(warning.hint(hint));
        admission.diagnostics.push(warning);
    }
}

#[cfg(test)]
#[path = "evaluation_tests.rs"]
mod tests;
