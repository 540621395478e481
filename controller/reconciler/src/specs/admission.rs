//! Spec admission: admits a parsed spec file, and places every diagnostic in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use argus_core::desired::admit::{MAX_DIAGNOSTICS, SpecContext, admit, admit_with_digests};
use argus_core::desired::ceiling::Ceiling;
use argus_core::desired::host::HostPaths;
use argus_core::desired::key_lines::KeyLines;
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::desired::{Build, Service};
use argus_core::ident::Hash;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::mock::config::{MAX_CONFIG_BYTES, MockConfig};
use argus_crds::yaml::ParsedSpec;
use argus_crds::{E2eSpec, Mock};
use argus_mock::CompiledMock;

use super::build_context::{BuildContext, ContextProblem, OwnImageContext};
use super::location::{HostAccess, SpecLocation};
#[cfg(test)]
use super::parsed_file::count_call;
use super::parsed_file::{ParsedFile, directory};
use super::registry::Admission;
use crate::clock::thread_cpu_time;

/// Maximum CPU time of the validation of a file. Programs without optimizations are an order of magnitude slower.
const MAX_CPU_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3_000 } else { 100 });

/// Inputs of an admission besides the contents of the file and of its build contexts.
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
    pub fn new(path: &'a Path, first_seen: Timestamp) -> Self {
        Self {
            path,
            variables: BTreeMap::new(),
            documents: BTreeMap::new(),
            host: HostPaths::default(),
            uuid: String::new(),
            first_seen,
        }
    }
}

/// Digest of a build context, or the cause of its absence; `None` if the context is unavailable here.
pub type DigestOf<'a> = &'a mut dyn FnMut(BuildContext) -> Option<Result<String, ContextProblem>>;

/// Admitter of spec files. Pure except for [`SpecAdmitter::locate`] and the digests.
#[derive(Debug, Clone, Default)]
pub struct SpecAdmitter {
    /// Paths of this host that spec files may use.
    pub access: HostAccess,
    /// Image that serves mocks.
    pub own_image: OwnImageContext,
    /// Source of the namespace of files without one.
    pub namespace_from: NamespaceFrom,
    /// Limits of the operator.
    pub ceiling: Ceiling,
}

impl SpecAdmitter {
    /// Returns the surroundings of a file on the host. `path` has no links. Reads the disk.
    pub fn locate(&self, path: &Path) -> SpecLocation {
        let mut location = SpecLocation::of(path.to_owned(), &self.access);
        if self.namespace_from == NamespaceFrom::Branch {
            location.read_head();
        }
        location
    }

    /// Admits parsed contents. Equal inputs and digests give equal admissions.
    pub fn admit(&self, file: &ParsedFile, input: &AdmissionInput<'_>, digest_of: DigestOf<'_>) -> Admission {
        #[cfg(test)]
        count_call(0, 1);
        let mut reading = Duration::ZERO;
        let before = thread_cpu_time();
        let admission = self.admit_contents(&file.contents, input, &mut |build| {
            let before = thread_cpu_time();
            let digest = digest_of(build);
            reading += thread_cpu_time().saturating_sub(before);
            digest
        });
        let took = thread_cpu_time().saturating_sub(before + reading);
        bounded(admission, file.took + took)
    }

    fn admit_contents(
        &self,
        parsed: &ParsedSpec,
        input: &AdmissionInput<'_>,
        digest_of: DigestOf<'_>,
    ) -> Admission {
        let context = SpecContext {
            is_compose: parsed.source.is_translated(),
            ..self.context(input)
        };
        let Some(spec) = &parsed.spec else {
            return refused(parsed, &context);
        };
        let mut unreadable = Vec::new();
        let mut hash_of = |service: &Service, build: &Build| {
            let digest = digest_of(BuildContext::of(service, build, &self.own_image.folder))?;
            let hash = digest.and_then(|hex| {
                Hash::new(hex).map_err(|error| ContextProblem {
                    message: error.to_string(),
                    hint: "",
                })
            });
            hash.map_err(|why| unreadable.push((service.name.to_string(), why)))
                .ok()
        };
        let admission = admit_with_digests(spec, &context, &mut hash_of);
        let mut diagnostics = Vec::new();
        for (mock, text) in &input.documents {
            let path = format!("mocks.{mock}.openapi");
            // Admission already reports a path that the policy refuses, with its reason.
            let reported = admission.diagnostics.iter().any(|known| known.path == path);
            if let (Err(why), false) = (text, reported) {
                let openapi = spec.mocks.get(mock).and_then(|mock| mock.openapi.as_deref());
                diagnostics.push(context.host.with_similar(
                    Diagnostic::error(path, why.clone()),
                    &context.directory,
                    openapi.unwrap_or_default(),
                    "`openapi` is relative to the folder of the spec file",
                ));
            }
        }
        diagnostics.extend(mocks(input, spec));
        diagnostics.extend(admission.diagnostics);
        for (service, why) in unreadable {
            diagnostics.push(if spec.mocks.contains_key(&service) {
                Diagnostic::error(
                    format!("mocks.{service}"),
                    format!("cannot serve the mock: {}", why.message),
                )
            } else {
                Diagnostic::error(format!("services.{service}.build.context"), why.message).hint(why.hint)
            });
        }
        let placed = parsed.source.with_locations(diagnostics);
        let diagnostics: Vec<_> = parsed.diagnostics.iter().cloned().chain(placed).collect();
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        Admission {
            desired: admission.desired.filter(|_| !refused),
            env: admission.env,
            allowed: context.host.allowed,
            file_hash: None,
            lines: KeyLines::from_spec(spec, &parsed.source),
            mounts: admission.mounts,
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
            namespace_from: self.namespace_from.clone(),
            ceiling: self.ceiling,
            is_compose: false,
        }
    }
}

/// Admission with each diagnostic once, and at most [`MAX_DIAGNOSTICS`]. Refuses a file whose validation took too long.
fn bounded(admission: Admission, took: Duration) -> Admission {
    let mut desired = admission.desired;
    let mut seen = BTreeSet::new();
    let mut diagnostics = admission.diagnostics;
    diagnostics.retain(|diagnostic| {
        let key = (
            diagnostic.location,
            diagnostic.path.clone(),
            diagnostic.message.clone(),
        );
        seen.insert(key)
    });
    let surplus = diagnostics.len().saturating_sub(MAX_DIAGNOSTICS - 1);
    if surplus > 1 {
        diagnostics.sort_by_key(|diagnostic| !diagnostic.is_error());
        diagnostics.truncate(MAX_DIAGNOSTICS - 1);
        let message = format!("{surplus} more problems are not listed");
        diagnostics.push(Diagnostic::warning("", message).hint("correct the listed ones first"));
    }
    if took > MAX_CPU_TIME {
        let message = format!(
            "the validation took {} ms of CPU time, more than the maximum of {} ms",
            took.as_millis(),
            MAX_CPU_TIME.as_millis()
        );
        diagnostics.truncate(MAX_DIAGNOSTICS - 1);
        diagnostics.insert(
            0,
            Diagnostic::error("", message).hint("split the file into several environments"),
        );
        desired = None;
    }
    Admission {
        desired,
        diagnostics,
        ..admission
    }
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
    let mut env = None;
    if let Some(rest) = &parsed.rest {
        let admission = admit(rest, context);
        env = admission.env;
        let further = parsed.further(admission.diagnostics);
        diagnostics.extend(parsed.source.with_locations(further));
        diagnostics.sort_by_key(|diagnostic| diagnostic.location.map(|at| (at.line, at.column)));
    }
    Admission {
        env,
        allowed: context.host.allowed,
        diagnostics,
        source: parsed.source.clone(),
        ..Admission::default()
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::yaml;

    use super::*;

    fn admit_text(bytes: &[u8]) -> Admission {
        let input = AdmissionInput::new(Path::new("/specs/e2e.yaml"), Timestamp::default());
        SpecAdmitter::default().admit(&ParsedFile::read("e2e.yaml", bytes), &input, &mut |_| None)
    }

    #[test]
    fn diagnostics_are_listed_once_and_bounded() {
        let diagnostic = |line: usize| {
            let location = argus_crds::Location {
                line,
                column: 1,
                length: 1,
            };
            Diagnostic::warning("x", "bad").at(location)
        };
        let admission = |diagnostics| Admission {
            diagnostics,
            ..Admission::default()
        };
        let twice = bounded(admission(vec![diagnostic(1), diagnostic(1)]), Duration::ZERO);
        assert_eq!(twice.diagnostics.len(), 1);
        let mut many: Vec<_> = (0..5_000).map(diagnostic).collect();
        many.push(Diagnostic::error("y", "the only error"));
        let many = bounded(admission(many), Duration::ZERO).diagnostics;
        assert_eq!(many.len(), MAX_DIAGNOSTICS);
        assert_eq!(many[0].message, "the only error");
        assert_eq!(many[999].message, "4002 more problems are not listed");
    }

    #[test]
    fn mistake_in_the_value_of_an_anchor_is_one_error() {
        let text = "project: { name: shop }
x-ports: &ports [\"99999:80\"]
services:
  one: { image: a, container: { name: one, ports: *ports } }
  two: { image: a, container: { name: two, ports: *ports } }
  three: { image: a, container: { name: three, ports: [\"99999:80\"] } }
";
        let admission = admit_text(text.as_bytes());
        let errors = admission.diagnostics.iter().filter(|found| found.is_error());
        let found: Vec<_> = errors
            .map(|error| {
                let related = error.correction.iter().flat_map(|it| &it.related);
                let lines: Vec<_> = related.map(|place| place.line).collect();
                (error.location.map(|at| at.line), lines)
            })
            .collect();
        assert_eq!(found, [(Some(2), vec![Some(4), Some(5)]), (Some(6), Vec::new())]);
    }

    #[test]
    fn file_that_is_slow_to_validate_is_refused() {
        let text = "project: { name: shop }\nservice: { image: demo, container: { name: api } }";
        let desired = || {
            let spec = yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
            Admission {
                desired: admit(&spec, &SpecContext::default()).desired,
                ..Admission::default()
            }
        };
        assert!(bounded(desired(), MAX_CPU_TIME).desired.is_some());
        let refused = bounded(desired(), MAX_CPU_TIME * 2);
        assert!(refused.desired.is_none() && refused.diagnostics[0].is_error());
        assert!(refused.diagnostics[0].message.contains("CPU time"), "{refused:?}");
    }

    #[test]
    fn short_file_with_huge_texts_is_refused_in_time() {
        let words = "\"{{config.a}}\",".repeat(45_000);
        let text = format!(
            "project: {{ name: shop }}\nservice: {{ image: demo, vars: {{ a: {} }}, command: [{words}], container: {{ name: api }} }}",
            "x".repeat(100_000)
        );
        let admission = admit_text(text.as_bytes());
        assert_eq!(admission.desired, None);
        let messages: Vec<_> = admission.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert!(
            messages.iter().any(|message| message.contains("16 MiB")),
            "{messages:?}"
        );
        assert!(messages.len() <= MAX_DIAGNOSTICS);
    }

    #[test]
    fn syntax_and_semantic_errors_are_reported_together() {
        let text = "project: { name: both }\nservices:\n  - name: a\n    image: x\n    memory: lots\n    container: { name: a }\n  \
                    - name: b\n    image: x\n    container: { name: \"b/../c\", ports: [\"99999:80\"] }\n";
        let admission = admit_text(text.as_bytes());
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
