//! Evaluation of a spec file: its contents are parsed once, and admitted once per revision of all inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_core::time::Timestamp;
use argus_crds::diagnostic::{Diagnostic, DiagnosticSeverity};
use argus_crds::yaml::{self, ParsedSpec};
use sha2::{Digest, Sha256};

use super::admission::{self, AdmissionInput};
use super::build_context::BuildContext;
use super::digest::Digests;
use super::env_vars;
use super::loader::Rules;
use super::registry::Admission;
use super::scan::Text;

/// Hash of all inputs of an admission.
pub type Fingerprint = [u8; 32];

/// Cache of one file: the parsed contents and the last admission.
#[derive(Debug, Default)]
pub struct Evaluation {
    parsed: Option<ParsedFile>,
    admitted: Option<Admitted>,
}

/// Parsed contents of a file at its place.
#[derive(Debug)]
struct ParsedFile {
    /// Hash of the contents.
    hash: [u8; 32],
    /// Path of the file without links.
    file: PathBuf,
    first_seen: Timestamp,
    spec: ParsedSpec,
    host_paths: BTreeSet<String>,
    documents: BTreeMap<String, PathBuf>,
}

/// Admission with its inputs.
#[derive(Debug)]
struct Admitted {
    /// Hash of all inputs except the build contexts.
    inputs: Fingerprint,
    /// Build contexts that the admission required.
    builds: Vec<BuildContext>,
    fingerprint: Fingerprint,
    admission: Admission,
}

impl Evaluation {
    /// Parses and admits contents unless all inputs are unchanged. Returns the hash of all inputs.
    ///
    /// `path` names the file for people, and `real` is its absolute path without links. `now` is the time at which
    /// the contents were first read, unless this evaluation already contains them.
    pub fn update(
        &mut self,
        rules: &Rules,
        (path, real): (&Path, &Path),
        text: &Text,
        digests: &mut Digests,
        now: Timestamp,
    ) -> Fingerprint {
        let admitter = &rules.admitter;
        let mut location = admitter.locate(real);
        let is_same = |parsed: &ParsedFile| parsed.hash == text.hash && parsed.file == location.file;
        let parsed = match self.parsed.take().filter(is_same) {
            Some(parsed) => parsed,
            None => ParsedFile::read(path, &location.file, text, now),
        };
        location.resolve(&parsed.host_paths);
        let (dotenv, dotenv_error) = env_vars::dotenv(&location);
        let document = |(mock, at): (&String, &PathBuf)| (mock.clone(), env_vars::document(at, &location));
        let documents: BTreeMap<_, _> = parsed.documents.iter().map(document).collect();
        let mut hasher = Sha256::new();
        hasher.update(text.hash);
        for (name, value) in &dotenv {
            for part in [name, value] {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        hasher.update(location.file.as_os_str().as_encoded_bytes());
        hasher.update(format!("{:?}{documents:?}{dotenv_error:?}", location.host));
        let inputs = hasher.clone().finalize().into();
        if let Some(admitted) = self
            .admitted
            .as_ref()
            .filter(|admitted| admitted.inputs == inputs)
        {
            let mut hasher = hasher.clone();
            for build in &admitted.builds {
                hasher.update(format!("{:?}", admitter.own_image.digest(build, digests)));
            }
            if admitted.fingerprint == Fingerprint::from(hasher.finalize()) {
                self.parsed = Some(parsed);
                return admitted.fingerprint;
            }
        }
        let mut builds = Vec::new();
        let mut digest_of = |build: BuildContext| {
            let digest = admitter.own_image.digest(&build, digests);
            hasher.update(format!("{digest:?}"));
            builds.push(build);
            digest
        };
        let input = AdmissionInput {
            path: &location.file,
            variables: env_vars::passed(dotenv, &rules.process_env, &rules.env_allow),
            documents,
            host: location.host.clone(),
            uuid: env_vars::uuid(&rules.controller, path, &text.hash),
            first_seen: parsed.first_seen,
        };
        let mut admission = admitter.admit(&parsed.spec, &input, &mut digest_of);
        let warning = dotenv_error.map(|cause| Diagnostic::warning("", cause));
        admission.diagnostics.extend(warning);
        if rules.strict {
            for diagnostic in &mut admission.diagnostics {
                diagnostic.severity = DiagnosticSeverity::Error;
            }
        }
        let fingerprint = hasher.finalize().into();
        self.parsed = Some(parsed);
        self.admitted = Some(Admitted {
            inputs,
            builds,
            fingerprint,
            admission,
        });
        fingerprint
    }

    /// Admission of the last contents; an empty one before the first update.
    pub fn admission(&self) -> Admission {
        let admission = self.admitted.as_ref().map(|admitted| &admitted.admission);
        admission.cloned().unwrap_or_default()
    }

    /// Time at which the last contents were first read.
    pub(super) fn first_seen(&self) -> Option<Timestamp> {
        self.parsed.as_ref().map(|parsed| parsed.first_seen)
    }
}

impl ParsedFile {
    fn read(path: &Path, file: &Path, text: &Text, first_seen: Timestamp) -> Self {
        let spec = yaml::read(&path.display().to_string(), &text.bytes);
        Self {
            hash: text.hash,
            file: file.to_path_buf(),
            first_seen,
            host_paths: admission::host_paths(&spec, file),
            documents: admission::documents(&spec, file),
            spec,
        }
    }
}
