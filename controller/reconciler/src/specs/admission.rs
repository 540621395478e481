//! The judge in service: YAML, then admission, with every complaint at its place in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use argus_core::desired::Image;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::excluded::Excluded;
use argus_core::desired::host::{HostPaths, named};
use argus_core::ident::Hash;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::mock::config::{LARGEST, MockConfig};
use argus_crds::{E2eSpec, Mock, yaml};
use argus_mock::CompiledMock;

use super::admitter::{AdmissionInput, Admitter, Context, Needs};
use super::registry::Admission;
use super::surroundings::{Access, Surroundings};

/// Admits files as the format has them.
#[derive(Debug, Clone, Default)]
pub struct SpecAdmitter {
    /// What files may reach on this host.
    pub access: Access,
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
    fn surroundings(&self, path: &Path) -> Surroundings {
        Surroundings::of(path, &self.access)
    }

    fn named(&self, path: &Path, bytes: &[u8]) -> BTreeSet<String> {
        let read = yaml::read(&path.display().to_string(), bytes);
        let spec = read.spec.as_ref().or(read.rest.as_ref());
        spec.map_or_else(BTreeSet::new, |spec| named(spec, &directory(path)))
    }

    fn needs(
        &self,
        path: &Path,
        bytes: &[u8],
        variables: &BTreeMap<String, String>,
        host: &HostPaths,
    ) -> Needs {
        let name = path.display().to_string();
        let Some(spec) = yaml::read(&name, bytes).spec else {
            return Needs::default();
        };
        let beside = path.parent().unwrap_or(Path::new("/"));
        let document = |(name, mock): (&String, &Mock)| {
            let written = mock.openapi.as_ref().filter(|_| mock.image.is_none())?;
            Some((name.clone(), beside.join(written)))
        };
        let documents = spec.mocks.iter().filter_map(document).collect();
        let own = |(name, mock): (&String, &Mock)| {
            mock.image.is_none().then(|| Context {
                service: name.clone(),
                folder: self.own_image.clone(),
                dockerfile: PathBuf::from("Dockerfile"),
                excluded: Excluded::default(),
            })
        };
        let own: Vec<Context> = spec.mocks.iter().filter_map(own).collect();
        // Admission settles where a context lies; what it refuses is not built.
        let mut context = self.context(path, host.clone());
        context.env_vars.clone_from(variables);
        let desired = admit(&spec, &context).desired;
        let builds = desired
            .into_iter()
            .flat_map(|desired| desired.services)
            .filter_map(|(service, it)| match it.image {
                Image::Built(build) if it.file.is_none() => Some(Context {
                    service: service.into(),
                    folder: PathBuf::from(build.context),
                    dockerfile: PathBuf::from(build.dockerfile),
                    excluded: build.excluded,
                }),
                Image::Built(_) | Image::Named(_) => None,
            });
        Needs {
            builds: builds.chain(own).collect(),
            documents,
        }
    }

    fn admit(&self, reading: &AdmissionInput<'_>) -> Admission {
        let read = yaml::read(reading.name, reading.bytes);
        let mut context = self.context(reading.path, reading.host.clone());
        context.env_vars.clone_from(&reading.variables);
        context.now = reading.first_seen;
        context.uuid.clone_from(&reading.uuid);
        let Some(spec) = &read.spec else {
            return refused(&read, &context);
        };
        let mut diagnostics = read.diagnostics.clone();
        let mut unread = Vec::new();
        for (service, digest) in &reading.digests {
            match digest.as_ref().map(|hex| Hash::new(hex.clone())) {
                Ok(Ok(hash)) => drop(context.build_digests.insert(service.clone(), hash)),
                Ok(Err(error)) => unread.push((service, error.to_string())),
                Err(why) => unread.push((service, why.clone())),
            }
        }
        for (mock, text) in &reading.documents {
            match text {
                Ok(text) => drop(context.documents.insert(mock.clone(), text.clone())),
                Err(why) => {
                    let diagnostic = Diagnostic::error(format!("mocks.{mock}.openapi"), why.clone());
                    let diagnostic =
                        diagnostic.hint("`openapi` is relative to the folder that the file lies in");
                    diagnostics.push(read.source.placed(diagnostic));
                }
            }
        }
        let admission = admit(spec, &context);
        diagnostics.extend(mocks(reading, spec).map(|diagnostic| read.source.placed(diagnostic)));
        diagnostics.extend(
            admission
                .diagnostics
                .into_iter()
                .map(|diagnostic| read.source.placed(diagnostic)),
        );
        for (service, why) in &unread {
            let diagnostic = if spec.mocks.contains_key(*service) {
                Diagnostic::error(format!("mocks.{service}"), format!("it cannot be served: {why}"))
            } else {
                Diagnostic::error(format!("services.{service}.build.context"), why.clone())
                    .hint("`context` is relative to the folder that the file lies in")
            };
            diagnostics.push(read.source.placed(diagnostic));
        }
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        Admission {
            desired: admission.desired.filter(|_| unread.is_empty() && !refused),
            diagnostics,
        }
    }
}

/// What is wrong with the mocks that this program serves, in the words of what serves them.
fn mocks(reading: &AdmissionInput<'_>, spec: &E2eSpec) -> impl Iterator<Item = Diagnostic> {
    let of = |(name, mock): (&String, &Mock)| {
        let document = match reading.documents.get(name) {
            Some(Ok(text)) => Some(text.clone()),
            // It is said already that it cannot be read.
            Some(Err(_)) => return Vec::new(),
            None => None,
        };
        let config = MockConfig::new(name, mock.clone(), document);
        let mut diagnostics = CompiledMock::new(&config, Vec::new()).1;
        if config.to_json().len() > LARGEST {
            let message = format!("mock `{name}` is larger than the {LARGEST} bytes that can be served");
            diagnostics.push(Diagnostic::error(format!("mocks.{name}"), message));
        }
        diagnostics
    };
    let served = spec.mocks.iter().filter(|(_, mock)| mock.image.is_none());
    served.flat_map(of).collect::<Vec<_>>().into_iter()
}

/// A file that cannot be taken as it is: all that is wrong with it, as far as the rest of it can be judged too.
fn refused(read: &yaml::ParsedSpec, context: &SpecContext) -> Admission {
    let mut diagnostics = read.diagnostics.clone();
    if let Some(rest) = &read.rest {
        let further = read.further(admit(rest, context).diagnostics);
        diagnostics.extend(
            further
                .into_iter()
                .map(|diagnostic| read.source.placed(diagnostic)),
        );
        diagnostics.sort_by_key(|diagnostic| diagnostic.location.map(|place| (place.line, place.column)));
    }
    Admission {
        desired: None,
        diagnostics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_form_and_of_meaning_are_told_at_once() {
        let text = "project: { name: both }\nservices:\n  - name: a\n    image: x\n    memory: lots\n    container: { name: a }\n  \
                    - name: b\n    image: x\n    container: { name: \"b/../c\", ports: [\"99999:80\"] }\n";
        let reading = AdmissionInput {
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
        let judged = SpecAdmitter::default().admit(&reading);
        assert_eq!(judged.desired, None);
        let told: Vec<(String, usize)> = judged
            .diagnostics
            .iter()
            .map(|diagnostic| {
                (
                    diagnostic.path.clone(),
                    diagnostic.location.map_or(0, |place| place.line),
                )
            })
            .collect();
        assert!(
            told.iter()
                .any(|(path, line)| path.ends_with("memory") && *line == 5),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|(path, line)| path.ends_with("ports[0]") && *line == 9),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|(path, line)| path.ends_with("container.name") && *line == 9),
            "{told:?}"
        );
        assert_eq!(told.len(), 3, "and nothing that is not so: {told:?}");
    }
}
