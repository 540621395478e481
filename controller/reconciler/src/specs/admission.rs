//! Spec admission: parses the YAML, admits the spec, and places every diagnostic in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::desired::Image;
use argus_core::desired::admit::{MAX_DIAGNOSTICS, SpecContext, admit};
use argus_core::desired::excluded::Excluded;
use argus_core::desired::host::{HostPaths, host_paths_in};
use argus_core::desired::key_lines::KeyLines;
use argus_core::ident::Hash;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::mock::config::{MAX_CONFIG_BYTES, MockConfig};
use argus_crds::{E2eSpec, Mock, yaml};
use argus_mock::CompiledMock;

use super::admitter::{AdmissionInput, Admitter, BuildContext, RequiredFiles};
use super::location::{HostAccess, SpecLocation};
use super::registry::Admission;
use crate::clock::thread_cpu_time;

/// Maximum CPU time of the validation of a file. Programs without optimizations are an order of magnitude slower.
const MAX_CPU_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3_000 } else { 100 });

/// Admitter for the spec format of Argus.
#[derive(Debug, Clone, Default)]
pub struct SpecAdmitter {
    /// Paths of this host that spec files may use.
    pub access: HostAccess,
    /// The folder that the image of this program is built from, which serves mocks.
    pub own_image: PathBuf,
}

impl SpecAdmitter {
    fn context(&self, path: &Path, host: HostPaths) -> SpecContext {
        SpecContext {
            directory: directory(path),
            env_vars: BTreeMap::new(),
            now: Timestamp::default(),
            uuid: String::new(),
            build_digests: BTreeMap::new(),
            allow_mounts: self.access.allow_mounts.clone(),
            own_image: self.own_image.display().to_string(),
            documents: BTreeMap::new(),
            host,
        }
    }
}

fn directory(path: &Path) -> String {
    path.parent().unwrap_or(Path::new("/")).display().to_string()
}

impl Admitter for SpecAdmitter {
    fn locate(&self, path: &Path) -> SpecLocation {
        SpecLocation::of(path.to_owned(), &self.access)
    }

    fn host_paths(&self, location: &SpecLocation, bytes: &[u8]) -> BTreeSet<String> {
        let read = yaml::read(&location.file.display().to_string(), bytes);
        let spec = read.spec.as_ref().or(read.rest.as_ref());
        let (directory, project) = (directory(&location.file), &location.host.project);
        spec.map_or_else(BTreeSet::new, |spec| host_paths_in(spec, &directory, project))
    }

    fn required_files(
        &self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        host: &HostPaths,
    ) -> RequiredFiles {
        let name = path.display().to_string();
        let Some(spec) = yaml::read(&name, bytes).spec else {
            return RequiredFiles::default();
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let document = |(name, mock): (&String, &Mock)| {
            let written = mock.openapi.as_ref().filter(|_| mock.image.is_none())?;
            Some((name.clone(), folder.join(written)))
        };
        let documents = spec.mocks.iter().filter_map(document).collect();
        let own_image = |(name, mock): (&String, &Mock)| {
            mock.image.is_none().then(|| BuildContext {
                service: name.clone(),
                folder: self.own_image.clone(),
                dockerfile: PathBuf::from("Dockerfile"),
                excluded: Excluded::default(),
            })
        };
        let own_image: Vec<BuildContext> = spec.mocks.iter().filter_map(own_image).collect();
        // Admission resolves the build contexts; a refused spec is not built.
        let mut context = self.context(path, host.clone());
        context.env_vars.clone_from(variables);
        let desired = admit(&spec, &context).desired;
        let builds = desired
            .into_iter()
            .flat_map(|desired| desired.services)
            .filter_map(|(service, it)| match it.image {
                Image::Built(build) if it.injected_file.is_none() => Some(BuildContext {
                    service: service.into(),
                    folder: PathBuf::from(build.context),
                    dockerfile: PathBuf::from(build.dockerfile),
                    excluded: build.excluded,
                }),
                Image::Built(_) | Image::Named(_) => None,
            });
        RequiredFiles {
            builds: builds.chain(own_image).collect(),
            documents,
        }
    }

    fn admit(&self, input: &AdmissionInput<'_>) -> Admission {
        let before = thread_cpu_time();
        let admission = self.admit_contents(input);
        let took = thread_cpu_time().saturating_sub(before);
        bounded(admission, took)
    }
}

impl SpecAdmitter {
    fn admit_contents(&self, input: &AdmissionInput<'_>) -> Admission {
        let read = yaml::read(input.name, input.bytes);
        let mut context = self.context(input.path, input.host.clone());
        context.env_vars.clone_from(&input.variables);
        context.now = input.first_seen;
        context.uuid.clone_from(&input.uuid);
        let Some(spec) = &read.spec else {
            return refused(&read, &context);
        };
        let mut diagnostics = read.diagnostics.clone();
        let mut unreadable = Vec::new();
        for (service, digest) in &input.digests {
            match digest.as_ref().map(|hex| Hash::new(hex.clone())) {
                Ok(Ok(hash)) => drop(context.build_digests.insert(service.clone(), hash)),
                Ok(Err(error)) => unreadable.push((service, error.to_string())),
                Err(why) => unreadable.push((service, why.clone())),
            }
        }
        for (mock, text) in &input.documents {
            if let Ok(text) = text {
                context.documents.insert(mock.clone(), text.clone());
            }
        }
        let admission = admit(spec, &context);
        for (mock, text) in &input.documents {
            let path = format!("mocks.{mock}.openapi");
            // Admission already reports a path that the policy refuses, with its reason.
            let reported = admission.diagnostics.iter().any(|known| known.path == path);
            if let (Err(why), false) = (text, reported) {
                let openapi = spec.mocks.get(mock).and_then(|mock| mock.openapi.as_deref());
                let diagnostic = context.host.with_similar(
                    Diagnostic::error(path, why.clone()),
                    &context.directory,
                    openapi.unwrap_or_default(),
                    "`openapi` is relative to the folder of the spec file",
                );
                diagnostics.push(read.source.with_location(diagnostic));
            }
        }
        diagnostics.extend(mocks(input, spec).map(|diagnostic| read.source.with_location(diagnostic)));
        diagnostics.extend(
            admission
                .diagnostics
                .into_iter()
                .map(|diagnostic| read.source.with_location(diagnostic)),
        );
        for (service, why) in &unreadable {
            let diagnostic = if spec.mocks.contains_key(*service) {
                Diagnostic::error(
                    format!("mocks.{service}"),
                    format!("cannot serve the mock: {why}"),
                )
            } else {
                Diagnostic::error(format!("services.{service}.build.context"), why.clone())
                    .hint("`context` is relative to the folder of the spec file")
            };
            diagnostics.push(read.source.with_location(diagnostic));
        }
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        Admission {
            desired: admission.desired.filter(|_| unreadable.is_empty() && !refused),
            lines: KeyLines::of(spec, &read.source),
            diagnostics,
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
        lines: admission.lines,
        diagnostics,
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
fn refused(read: &yaml::ParsedSpec, context: &SpecContext) -> Admission {
    let mut diagnostics = read.diagnostics.clone();
    if let Some(rest) = &read.rest {
        let further = read.further(admit(rest, context).diagnostics);
        diagnostics.extend(
            further
                .into_iter()
                .map(|diagnostic| read.source.with_location(diagnostic)),
        );
        diagnostics.sort_by_key(|diagnostic| diagnostic.location.map(|at| (at.line, at.column)));
    }
    Admission {
        diagnostics,
        ..Admission::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let input = AdmissionInput {
            path: Path::new("/specs/e2e.yaml"),
            name: "e2e.yaml",
            bytes: text.as_bytes(),
            variables: BTreeMap::new(),
            digests: BTreeMap::new(),
            documents: BTreeMap::new(),
            host: HostPaths::default(),
            uuid: String::new(),
            first_seen: Timestamp::default(),
        };
        let admission = SpecAdmitter::default().admit(&input);
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
        let input = AdmissionInput {
            path: Path::new("/specs/e2e.yaml"),
            name: "e2e.yaml",
            bytes: text.as_bytes(),
            variables: BTreeMap::new(),
            digests: BTreeMap::new(),
            documents: BTreeMap::new(),
            host: HostPaths::default(),
            uuid: String::new(),
            first_seen: Timestamp::default(),
        };
        let admission = SpecAdmitter::default().admit(&input);
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
