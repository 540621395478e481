//! Parsed contents of a spec file, and the files that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::desired::env_file::env_file_in;
use argus_core::desired::host::{host_paths_in, writable_paths_in};
use argus_crds::Mock;
use argus_crds::diagnostic::Location;
use argus_crds::yaml::{self, ParsedSpec};

use super::location::SpecLocation;
use crate::clock::thread_cpu_time;

#[cfg(test)]
thread_local! {
    /// Numbers of parses and admissions on this thread.
    pub(super) static CALLS: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((0, 0)) };
}

/// Counts calls on this thread.
#[cfg(test)]
pub(super) fn count_call(parses: usize, admissions: usize) {
    let (known_parses, known_admissions) = CALLS.get();
    CALLS.set((known_parses + parses, known_admissions + admissions));
}

/// Function that translates a Compose file; `None` for another file.
pub type Translate = fn(&ComposeSource<'_>) -> Option<Translation>;

/// A file that may be a Compose file.
#[derive(Clone, Copy)]
pub struct ComposeSource<'a> {
    /// Path for people.
    pub name: &'a str,
    /// Path without links.
    pub file: &'a Path,
    /// Contents.
    pub bytes: &'a [u8],
    /// Reads another file of the project. The error is a reason for people.
    pub read: &'a dyn Fn(&Path) -> Result<Vec<u8>, String>,
    /// Values of variables: of the `.env` next to the file, and of permitted variables of the controller.
    pub variables: &'a BTreeMap<String, String>,
}

/// Translation of a Compose file.
#[derive(Debug, Clone)]
pub struct Translation {
    /// Text of the spec file.
    pub text: String,
    /// The parsed text, with locations in the Compose file.
    pub contents: ParsedSpec,
    /// Paths of the other Compose files, as they were read.
    pub files: Vec<PathBuf>,
    /// Variables that it names and that have no value, each with its first line. Those of an error are left out.
    pub unset: BTreeMap<String, Option<Location>>,
}

/// Parsed contents of a spec file.
#[derive(Debug)]
pub struct ParsedFile {
    pub(super) contents: ParsedSpec,
    /// CPU time of the parser.
    pub(super) took: Duration,
}

impl ParsedFile {
    /// Parses contents. `name` is the path for people.
    pub fn read(name: &str, bytes: &[u8]) -> Self {
        #[cfg(test)]
        count_call(1, 0);
        let before = thread_cpu_time();
        let contents = yaml::read(name, bytes);
        let took = thread_cpu_time().saturating_sub(before);
        Self { contents, took }
    }

    /// Parsed contents of a translation. `took` is the CPU time of the translator.
    pub(super) fn of(translation: &Translation, took: Duration) -> Self {
        Self {
            contents: translation.contents.clone(),
            took,
        }
    }

    /// Host paths that the contents name. Empty if the contents do not parse.
    pub(super) fn host_paths(&self, location: &SpecLocation) -> BTreeSet<String> {
        let spec = self.contents.spec.as_ref().or(self.contents.rest.as_ref());
        let (directory, project) = (directory(&location.file), &location.host.project);
        spec.map_or_else(BTreeSet::new, |spec| host_paths_in(spec, &directory, project))
    }

    /// Host paths that containers can write. Empty if the contents do not parse.
    pub(super) fn writable_paths(&self, file: &Path) -> BTreeSet<String> {
        let spec = self.contents.spec.as_ref().or(self.contents.rest.as_ref());
        spec.map_or_else(BTreeSet::new, |spec| writable_paths_in(spec, &directory(file)))
    }

    /// Path of the file for the addresses. `None` if the contents do not parse.
    pub(super) fn env_file(&self, location: &SpecLocation) -> Option<String> {
        env_file_in(self.contents.spec.as_ref()?, &directory(&location.file))
    }

    /// Path of each mock's `openapi` document. Empty if the contents do not parse.
    pub(super) fn documents(&self, file: &Path) -> BTreeMap<String, PathBuf> {
        let folder = file.parent().unwrap_or(Path::new("/"));
        let document = |(name, mock): (&String, &Mock)| {
            let written = mock.openapi.as_ref().filter(|_| mock.image.is_none())?;
            Some((name.clone(), folder.join(written)))
        };
        let mocks = self.contents.spec.iter().flat_map(|spec| &spec.mocks);
        mocks.filter_map(document).collect()
    }
}

/// Folder of a spec file.
pub(super) fn directory(path: &Path) -> String {
    path.parent().unwrap_or(Path::new("/")).display().to_string()
}
