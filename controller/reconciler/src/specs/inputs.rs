//! Inputs of an admission: the contents of a spec file, and the other files and variables that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_core::desired::host::HostPaths;
use argus_core::time::Timestamp;
use sha2::{Digest, Sha256};

use super::admitter::RequiredFiles;
use super::build_delay::BuildDelays;
use super::digest::Digests;
use super::env_vars;
use super::loader::SpecLoaderSettings;
use super::location::SpecLocation;
use super::scan::{Contents, Text};

/// Hash of inputs of an admission.
pub(super) type Fingerprint = [u8; 32];

/// Hashes of the inputs of an admission.
#[derive(Clone, Copy)]
pub(super) struct Fingerprints {
    pub(super) all: Fingerprint,
    /// All inputs except for the contents of the spec file.
    pub(super) others: Fingerprint,
}

/// Hash of the contents, path of the file, and project: the inputs of its host paths.
type HostPathsKey = (Fingerprint, PathBuf, String);

/// Current contents of a file, with all other inputs of its admission.
pub(super) struct FileInputs {
    pub(super) fingerprints: Fingerprints,
    /// True if the spec file names no other file.
    is_alone: bool,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) dotenv_error: Option<String>,
    pub(super) file: PathBuf,
    pub(super) host: HostPaths,
    pub(super) digests: BTreeMap<String, Result<String, String>>,
    pub(super) documents: BTreeMap<String, Result<String, String>>,
}

impl FileInputs {
    /// Returns true if only the spec file itself can be half-written: it names no other file, or the other files are
    /// those of the last admission.
    pub(super) fn depends_on_file_alone(&self, admitted: Option<Fingerprints>) -> bool {
        self.is_alone || admitted.is_some_and(|admitted| admitted.others == self.fingerprints.others)
    }
}

/// Reader of the inputs, with caches by file.
#[derive(Default)]
pub(super) struct InputReader {
    pub(super) build_delays: BuildDelays,
    digests: Digests,
    /// Other required files for these contents and variables.
    required_files: BTreeMap<PathBuf, (Fingerprint, RequiredFiles)>,
    /// Host paths in the contents of a file.
    host_paths: BTreeMap<PathBuf, (HostPathsKey, BTreeSet<String>)>,
}

impl InputReader {
    /// Collects the inputs of the admission of these contents.
    pub(super) fn collect(
        &mut self,
        rules: &SpecLoaderSettings,
        path: &Path,
        real: Option<&PathBuf>,
        contents: &Contents,
        now: Timestamp,
    ) -> FileInputs {
        let (mut hasher, mut others) = (Sha256::new(), Sha256::new());
        let mut is_alone = true;
        let (mut variables, mut dotenv_error) = (BTreeMap::new(), None);
        let (mut digests, mut documents) = (BTreeMap::new(), BTreeMap::new());
        // A file without a resolved path is unreadable, and its surroundings do not matter.
        let file = real.map_or_else(|| rules.source.folder.join(path), Clone::clone);
        let mut location = rules.admitter.locate(&file);
        match contents {
            Contents::Text(text) => {
                hasher.update(text.hash);
                (variables, dotenv_error) = env_vars::dotenv(&location);
                for (name, value) in &variables {
                    for part in [name, value] {
                        others.update((part.len() as u64).to_be_bytes());
                        others.update(part);
                    }
                }
                is_alone = variables.is_empty() && dotenv_error.is_none();
                variables = env_vars::passed(variables, &rules.process_env, &rules.env_allow);
                let host_paths = self.host_paths(rules, path, text, &location);
                location.resolve(&host_paths);
                others.update(location.file.as_os_str().as_encoded_bytes());
                others.update(format!("{:?}", location.host));
                let key = hasher.clone().chain_update(others.clone().finalize());
                let key = key.finalize().into();
                let required_files =
                    self.required_files(rules, path, &text.bytes, &variables, &location, key);
                is_alone &= host_paths.is_empty()
                    && required_files.builds.is_empty()
                    && required_files.documents.is_empty();
                for build in required_files.builds {
                    let Some(found) = rules.own_image.digest(&build, &mut self.digests) else {
                        continue;
                    };
                    let digest =
                        found.map(|found| self.build_delays.delay(path, &build.service, key, found, now));
                    others.update(format!("{}{digest:?}", build.service));
                    digests.insert(build.service, digest);
                }
                for (mock, at) in required_files.documents {
                    let text = env_vars::document(&at, &location);
                    others.update(format!("{mock}{text:?}"));
                    documents.insert(mock, text);
                }
            }
            Contents::TooLong(bytes) => hasher.update(format!("too long: {bytes}")),
            Contents::Unreadable(why) => hasher.update(format!("unreadable: {why}")),
            Contents::NotFile(kind) => hasher.update(format!("not a file: {kind}")),
        }
        others.update(dotenv_error.as_deref().unwrap_or_default());
        let others = others.finalize();
        FileInputs {
            fingerprints: Fingerprints {
                all: hasher.chain_update(others).finalize().into(),
                others: others.into(),
            },
            is_alone,
            variables,
            dotenv_error,
            file: location.file,
            host: location.host,
            digests,
            documents,
        }
    }

    /// Drops the caches of files that are gone, and of build contexts that no file named since the last call.
    pub(super) fn retain_files(&mut self, is_known: impl Fn(&PathBuf) -> bool) {
        self.digests.sweep();
        self.required_files.retain(|path, _| is_known(path));
        self.host_paths.retain(|path, _| is_known(path));
        self.build_delays.retain_files(is_known);
    }

    /// Returns the host paths in these contents. Parses a file again only if its contents, path or project changed.
    fn host_paths(
        &mut self,
        rules: &SpecLoaderSettings,
        path: &Path,
        text: &Text,
        location: &SpecLocation,
    ) -> BTreeSet<String> {
        let key = (text.hash, location.file.clone(), location.host.project.clone());
        match self.host_paths.get(path) {
            Some((known, host_paths)) if *known == key => host_paths.clone(),
            _ => {
                let host_paths = rules.admitter.host_paths(location, &text.bytes);
                self.host_paths
                    .insert(path.to_path_buf(), (key, host_paths.clone()));
                host_paths
            }
        }
    }

    fn required_files(
        &mut self,
        rules: &SpecLoaderSettings,
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
                    rules
                        .admitter
                        .required_files(&location.file, bytes, variables, &location.host);
                self.required_files
                    .insert(path.to_path_buf(), (key, required_files.clone()));
                required_files
            }
        }
    }
}
