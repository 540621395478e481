//! Spec admission: admits a parsed spec file, and places every diagnostic in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_core::desired::admit::{SpecContext, admit, admit_with_digests};
use argus_core::desired::excluded::Excluded;
use argus_core::desired::host::{HostPaths, host_paths_in};
use argus_core::desired::{Build, Service};
use argus_core::ident::Hash;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::mock::config::{MAX_CONFIG_BYTES, MockConfig};
use argus_crds::yaml::ParsedSpec;
use argus_crds::{E2eSpec, Mock};
use argus_mock::CompiledMock;

use super::build_context::{BuildContext, OwnImage};
use super::location::{HostAccess, SpecLocation};
use super::registry::Admission;

/// Inputs of an admission besides the contents of the file.
#[derive(Debug, Clone)]
pub struct AdmissionInput<'a> {
    /// Absolute path of the file without links.
    pub path: &'a Path,
    /// Variables that `{{env.X}}` may read.
    pub variables: BTreeMap<String, String>,
    /// Text of each mock's `openapi` document, or the cause of its absence.
    pub documents: BTreeMap<String, Result<String, String>>,
    /// Targets of the host paths that the contents name.
    pub host: HostPaths,
    /// Stable for these contents.
    pub uuid: String,
    /// Time at which these contents were first read.
    pub first_seen: Timestamp,
}

impl<'a> AdmissionInput<'a> {
    /// Input without variables, documents and host paths.
    pub fn new(path: &'a Path) -> Self {
        Self {
            path,
            variables: BTreeMap::new(),
            documents: BTreeMap::new(),
            host: HostPaths::default(),
            uuid: String::new(),
            first_seen: Timestamp::default(),
        }
    }
}

/// Digest of a build context, or the cause of its absence; `None` if the context is unavailable here.
pub type DigestOf<'a> = &'a mut dyn FnMut(BuildContext) -> Option<Result<String, String>>;

/// Admitter for the spec format of Argus. Pure except for [`SpecAdmitter::locate`] and the digests.
#[derive(Debug, Clone, Default)]
pub struct SpecAdmitter {
    /// Paths of this host that spec files may use.
    pub access: HostAccess,
    /// The image of this program, which serves mocks.
    pub own_image: OwnImage,
}

impl SpecAdmitter {
    /// Returns the location of a file on the host. `path` has no links. Reads the disk.
    pub fn locate(&self, path: &Path) -> SpecLocation {
        SpecLocation::of(path.to_owned(), &self.access)
    }

    /// Admits parsed contents. Equal inputs and digests give equal admissions.
    pub fn admit(
        &self,
        parsed: &ParsedSpec,
        input: &AdmissionInput<'_>,
        digest_of: DigestOf<'_>,
    ) -> Admission {
        let context = self.context(input);
        let Some(spec) = &parsed.spec else {
            return refused(parsed, &context);
        };
        let mut unreadable = Vec::new();
        let mut digest = |service: &Service, build: &Build| {
            let result = digest_of(self.build_context(service, build))?;
            match result.map(Hash::new) {
                Ok(Ok(hash)) => return Some(hash),
                Ok(Err(error)) => unreadable.push((service.name.to_string(), error.to_string())),
                Err(why) => unreadable.push((service.name.to_string(), why)),
            }
            None
        };
        let admission = admit_with_digests(spec, &context, &mut digest);
        let mut diagnostics = Vec::new();
        for (mock, text) in &input.documents {
            let path = format!("mocks.{mock}.openapi");
            // Admission already reports a path that the policy refuses, with its reason.
            let reported = admission.diagnostics.iter().any(|known| known.path == path);
            if let (Err(why), false) = (text, reported) {
                let diagnostic = Diagnostic::error(path, why.clone())
                    .hint("`openapi` is relative to the folder of the spec file");
                diagnostics.push(diagnostic);
            }
        }
        diagnostics.extend(mocks(input, spec));
        diagnostics.extend(admission.diagnostics);
        let is_readable = unreadable.is_empty();
        diagnostics.extend(unreadable.into_iter().map(|(service, why)| {
            if spec.mocks.contains_key(&service) {
                Diagnostic::error(
                    format!("mocks.{service}"),
                    format!("cannot serve the mock: {why}"),
                )
            } else {
                Diagnostic::error(format!("services.{service}.build.context"), why)
                    .hint("`context` is relative to the folder of the spec file")
            }
        }));
        let placed = diagnostics
            .into_iter()
            .map(|diagnostic| parsed.source.with_location(diagnostic));
        let diagnostics: Vec<_> = parsed.diagnostics.iter().cloned().chain(placed).collect();
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        Admission {
            desired: admission.desired.filter(|_| is_readable && !refused),
            diagnostics,
            source: parsed.source.clone(),
        }
    }

    fn context(&self, input: &AdmissionInput<'_>) -> SpecContext {
        let readable = |(mock, text): (&String, &Result<String, String>)| {
            Some((mock.clone(), text.as_ref().ok()?.clone()))
        };
        SpecContext {
            directory: directory(input.path),
            env_vars: input.variables.clone(),
            now: input.first_seen,
            uuid: input.uuid.clone(),
            allow_mounts: self.access.allow_mounts.clone(),
            own_image: self.own_image.folder.display().to_string(),
            documents: input.documents.iter().filter_map(readable).collect(),
            host: input.host.clone(),
        }
    }

    fn build_context(&self, service: &Service, build: &Build) -> BuildContext {
        let is_own_image = service.file.is_some();
        BuildContext {
            folder: if is_own_image {
                self.own_image.folder.clone()
            } else {
                PathBuf::from(&build.context)
            },
            dockerfile: PathBuf::from(&build.dockerfile),
            excluded: if is_own_image {
                Excluded::default()
            } else {
                build.excluded.clone()
            },
        }
    }
}

/// Host paths that the contents of a file name. Empty if the contents do not parse.
pub(super) fn host_paths(parsed: &ParsedSpec, path: &Path) -> BTreeSet<String> {
    let spec = parsed.spec.as_ref().or(parsed.rest.as_ref());
    spec.map_or_else(BTreeSet::new, |spec| host_paths_in(spec, &directory(path)))
}

/// Path of each mock's `openapi` document. Empty if the contents do not parse.
pub(super) fn documents(parsed: &ParsedSpec, path: &Path) -> BTreeMap<String, PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let document = |(name, mock): (&String, &Mock)| {
        let written = mock.openapi.as_ref().filter(|_| mock.image.is_none())?;
        Some((name.clone(), folder.join(written)))
    };
    let mocks = parsed.spec.iter().flat_map(|spec| &spec.mocks);
    mocks.filter_map(document).collect()
}

fn directory(path: &Path) -> String {
    path.parent().unwrap_or(Path::new("/")).display().to_string()
}

/// Diagnostics of the mocks that this program serves, from the code that serves them.
fn mocks(input: &AdmissionInput<'_>, spec: &E2eSpec) -> impl Iterator<Item = Diagnostic> {
    let of = |(name, mock): (&String, &Mock)| {
        let document = match input.documents.get(name) {
            Some(Ok(text)) => Some(text.clone()),
            // The diagnostic of the unreadable document was added before.
            Some(Err(_)) => return Vec::new(),
            None => None,
        };
        let config = MockConfig::new(name, mock.clone(), document);
        let mut diagnostics = CompiledMock::new(&config, Vec::new()).1;
        if config.to_json().len() > MAX_CONFIG_BYTES {
            let message = format!("mock `{name}` exceeds the maximum of {MAX_CONFIG_BYTES} bytes");
            diagnostics.push(Diagnostic::error(format!("mocks.{name}"), message));
        }
        diagnostics
    };
    let served = spec.mocks.iter().filter(|(_, mock)| mock.image.is_none());
    served.flat_map(of).collect::<Vec<_>>().into_iter()
}

/// Admission of a file that does not parse completely: its diagnostics, with those of the parts that can be
/// admitted.
fn refused(parsed: &ParsedSpec, context: &SpecContext) -> Admission {
    let mut diagnostics = parsed.diagnostics.clone();
    if let Some(rest) = &parsed.rest {
        let further = parsed.further(admit(rest, context).diagnostics);
        diagnostics.extend(
            further
                .into_iter()
                .map(|diagnostic| parsed.source.with_location(diagnostic)),
        );
        diagnostics.sort_by_key(|diagnostic| diagnostic.location.map(|at| (at.line, at.column)));
    }
    Admission {
        desired: None,
        diagnostics,
        source: parsed.source.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_and_semantic_errors_are_reported_together() {
        let text = "project: { name: both }\nservices:\n  - name: a\n    image: x\n    memory: lots\n    container: { name: a }\n  \
                    - name: b\n    image: x\n    container: { name: \"b/../c\", ports: [\"99999:80\"] }\n";
        let parsed = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let input = AdmissionInput::new(Path::new("/specs/e2e.yaml"));
        let admission = SpecAdmitter::default().admit(&parsed, &input, &mut |_| None);
        assert_eq!(admission.desired, None);
        let locations: Vec<(String, usize)> = admission
            .diagnostics
            .iter()
            .map(|diagnostic| {
                (
                    diagnostic.path.clone(),
                    diagnostic.location.map_or(0, |location| location.line),
                )
            })
            .collect();
        assert!(
            locations
                .iter()
                .any(|(path, line)| path.ends_with("memory") && *line == 5),
            "{locations:?}"
        );
        assert!(
            locations
                .iter()
                .any(|(path, line)| path.ends_with("ports[0]") && *line == 9),
            "{locations:?}"
        );
        assert!(
            locations
                .iter()
                .any(|(path, line)| path.ends_with("container.name") && *line == 9),
            "{locations:?}"
        );
        assert_eq!(locations.len(), 3, "no further diagnostics: {locations:?}");
    }
}
