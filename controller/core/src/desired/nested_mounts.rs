//! Bind sources below a directory that a container can write.
//!
//! An engine resolves a bind source again when it starts the container. A container that can write a parent directory of the
//! source can replace the source with a link out of the project at any time. Admission therefore refuses such a source, and no
//! start has to watch for an exchange. Two mounts of the same directory are safe: no container can replace the root of its
//! mount.

use std::collections::BTreeMap;

use argus_crds::{DeclaredService, Diagnostic, E2eSpec};

use crate::desired::identity::shown;
use crate::desired::{Accepted, Desired, Mount, Role, Service, paths};

impl Mount {
    /// Path on the host that the container can write.
    pub(crate) fn writable_source(&self) -> Option<&str> {
        match self {
            Self::Bind {
                source,
                read_only: false,
                ..
            } => Some(source),
            Self::Bind { .. } | Self::Volume { .. } => None,
        }
    }

    /// Directories above the path on the host, the nearest first. None for a volume.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &str> {
        let source = match self {
            Self::Bind { source, .. } => source.as_str(),
            Self::Volume { .. } => "",
        };
        let parents = std::iter::successors(Some(source), |path| Some(path.rsplit_once('/')?.0));
        parents.skip(1)
    }
}

/// Mount of a service, with the index of the service.
#[derive(Clone, Copy)]
struct PlacedMount<'a> {
    index: usize,
    service: &'a Service,
    mount: &'a Mount,
}

/// Writable bind mounts by source.
struct WritableMounts<'a>(BTreeMap<&'a str, PlacedMount<'a>>);

impl<'a> WritableMounts<'a> {
    fn of(services: impl Iterator<Item = &'a Service>) -> Self {
        let mounts = placed(services);
        Self(
            mounts
                .filter_map(|placed| Some((placed.mount.writable_source()?, placed)))
                .collect(),
        )
    }

    /// Returns each mount of these services that is below a writable one, with the nearest one.
    fn pairs<'b>(
        &self,
        services: impl Iterator<Item = &'b Service>,
    ) -> impl Iterator<Item = (PlacedMount<'b>, PlacedMount<'a>)> {
        let services = services.filter(|_| !self.0.is_empty());
        placed(services).filter_map(|below| {
            let above = below.mount.parents().find_map(|parent| self.0.get(parent));
            Some((below, *above?))
        })
    }
}

fn placed<'a>(services: impl Iterator<Item = &'a Service>) -> impl Iterator<Item = PlacedMount<'a>> {
    services.enumerate().flat_map(|(index, service)| {
        let mounts = service.mounts.iter();
        mounts.map(move |mount| PlacedMount {
            index,
            service,
            mount,
        })
    })
}

/// Returns whether a container of one environment can replace a bind source of the other one.
pub fn can_replace_a_source(one: &Desired, other: &Desired) -> bool {
    let has_pair = |below: &Desired, above: &Desired| {
        let writable = WritableMounts::of(above.services.values());
        writable.pairs(below.services.values()).next().is_some()
    };
    has_pair(one, other) || has_pair(other, one)
}

/// Returns a diagnostic for each mount of the candidate that is below a writable mount of an accepted file, or above a mount of it.
pub fn conflicts(accepted: &Accepted, candidate: &Desired) -> Vec<Diagnostic> {
    let Accepted {
        desired: other,
        spec_path,
        ..
    } = accepted;
    let report = |at: PlacedMount<'_>, message: String, writable: &str| {
        let hint = format!(
            "SPEC_CONFLICT: add `:ro` to `{writable}`, trust the project with `argus allow`, or remove `{spec_path}`"
        );
        Diagnostic::error(setting_path(at), message).hint(hint)
    };
    let mut diagnostics = Vec::new();
    let of_other = WritableMounts::of(other.services.values());
    for (below, above) in of_other.pairs(candidate.services.values()) {
        let (nested, writable) = (format_mount(below.mount), format_mount(above.mount));
        let message = format!(
            "`{nested}` is below `{writable}`, which the container of `{}` of environment `{}` in `{spec_path}` can write",
            above.service.name, other.env
        );
        diagnostics.push(report(below, message, &writable));
    }
    let of_candidate = WritableMounts::of(candidate.services.values());
    for (below, above) in of_candidate.pairs(other.services.values()) {
        let (nested, writable) = (format_mount(below.mount), format_mount(above.mount));
        let message = format!(
            "the container of `{}` can write `{writable}`, which contains `{nested}` of environment `{}` in `{spec_path}`",
            above.service.name, other.env
        );
        diagnostics.push(report(above, message, &writable));
    }
    diagnostics
}

/// Reports each bind source below a writable mount of the same file. Each service comes with its path in the file.
pub(super) fn check(spec: &E2eSpec, services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let all = || services.iter().map(|(_, service)| service);
    let declared = spec.declared_services();
    let written = |placed: PlacedMount<'_>| {
        let path = services.get(placed.index).map_or("", |(path, _)| path);
        find_text(&declared, spec, path, placed.mount)
    };
    for (below, above) in WritableMounts::of(all()).pairs(all()) {
        let ((at, text), (writer_at, writable)) = (written(below), written(above));
        let message = format!(
            "`{text}` is below `{writable}`, which the container of `{}` can write",
            above.service.name
        );
        let hint =
            format!("POLICY_VIOLATION: add `:ro` to `{writable}`, or trust the project with `argus allow`");
        let diagnostic = Diagnostic::error(at, message).hint(hint);
        diagnostics.push(diagnostic.relate(writer_at, format!("`{writable}` is")));
    }
}

/// Returns the path of a mount in the file, and its text there.
fn find_text(
    declared: &[DeclaredService<'_>],
    spec: &E2eSpec,
    path: &str,
    mount: &Mount,
) -> (String, String) {
    let declared = declared.iter().find(|declared| declared.path == path);
    let container = declared.and_then(|declared| declared.service.container.as_ref());
    let mock = path.strip_prefix("mocks.").and_then(|name| spec.mocks.get(name));
    let (key, volumes) = match (container, mock) {
        (Some(container), _) => (format!("{path}.container.volumes"), &container.volumes[..]),
        (None, Some(mock)) if mock.image.is_none() => {
            return (format!("{path}.recordingsDir"), shown(&mock.recordings_dir));
        }
        (None, Some(mock)) => (format!("{path}.volumes"), &mock.volumes[..]),
        (None, None) => (path.to_owned(), &[][..]),
    };
    let has_target = |text: &String| {
        let target = text.trim().split(':').nth(1);
        target.is_some_and(|target| paths::to_absolute("/", target) == mount.target())
    };
    match volumes.iter().position(has_target) {
        Some(index) => (format!("{key}[{index}]"), shown(&volumes[index])),
        None => (key, format_mount(mount)),
    }
}

/// Path of a mount of an admitted service: each text of the file became one mount.
fn setting_path(placed: PlacedMount<'_>) -> String {
    let PlacedMount { service, mount, .. } = placed;
    let index = service.mounts.iter().position(|other| other == mount);
    let index = index.unwrap_or_default();
    match service.role {
        Role::Service => format!("services.{}.container.volumes[{index}]", service.name),
        Role::Mock => format!("mocks.{}.volumes[{index}]", service.name),
    }
}

/// A mount in the form of a file, with the resolved source.
fn format_mount(mount: &Mount) -> String {
    let (source, is_read_only) = match mount {
        Mount::Bind {
            source, read_only, ..
        } => (source.as_str(), *read_only),
        Mount::Volume { name, read_only, .. } => (name.as_str(), *read_only),
    };
    let ending = if is_read_only { ":ro" } else { "" };
    shown(&format!("{source}:{}{ending}", mount.target()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::desired::key_lines::KeyLines;
    use crate::time::Timestamp;

    fn file(env: &str, volumes: [&str; 2]) -> String {
        let [one, two] = volumes.map(|text| if text.is_empty() { "named:/v" } else { text });
        format!(
            "project: {{ name: {env} }}\nservices:\n  one: {{ image: a:1, container: {{ name: {env}-1, volumes: [\"{one}\"] }} }}\n  \
             two: {{ image: a:1, container: {{ name: {env}-2, volumes: [\"{two}\"] }} }}\n"
        )
    }

    /// Admits a file of which `./link` leads to `data/sub`.
    fn admitted(text: &str, allowed: bool) -> Result<Desired, Vec<Diagnostic>> {
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let mut context = SpecContext {
            directory: "/p".to_owned(),
            ..SpecContext::default()
        };
        context.host.allowed = allowed;
        context.host.resolved = [("/p/link".to_owned(), Ok("/p/data/sub".to_owned()))].into();
        let admission = admit(&spec, &context);
        admission.desired.ok_or(admission.diagnostics)
    }

    const CASES: [([&str; 2], bool); 11] = [
        ([".:/app", "./nginx.conf:/c:ro"], false),
        ([".:/app", "./a/b/c:/c"], false),
        (["./a/b/c:/c", ".:/app"], false),
        (["./data:/app", "./link:/c:ro"], false),
        ([".:/app:ro", "./nginx.conf:/c"], true),
        ([".:/app", ".:/c:ro"], true),
        ([".:/app", ".:/c"], true),
        (["./a:/app", "./ab:/c"], true),
        (["./link:/app", "./data/other:/c"], true),
        (["data:/app", "./data/x:/c"], true),
        ([".:/app", "named:/c"], true),
    ];

    #[test]
    fn source_below_a_writable_mount_is_refused() {
        for (volumes, accepted) in CASES {
            let text = file("shop", volumes);
            assert_eq!(admitted(&text, false).is_ok(), accepted, "{volumes:?}");
            assert!(admitted(&text, true).is_ok(), "{volumes:?} in an allowed project");
        }
    }

    #[test]
    fn mounts_of_two_files_follow_the_same_rule() {
        for (volumes, accepted) in CASES {
            let [one, two] = volumes;
            let held = admitted(&file("held", [one, ""]), false).unwrap();
            let candidate = admitted(&file("new", ["", two]), false).unwrap();
            assert_eq!(can_replace_a_source(&held, &candidate), !accepted, "{volumes:?}");
            assert_eq!(can_replace_a_source(&candidate, &held), !accepted, "{volumes:?}");
            let held = Accepted {
                desired: held,
                spec_path: "held.e2e.yaml".to_owned(),
                lines: KeyLines::default(),
                accepted_at: Timestamp::default(),
                has_pending_edit: false,
            };
            assert_eq!(conflicts(&held, &candidate).is_empty(), accepted, "{volumes:?}");
        }
    }

    #[test]
    fn message_of_a_conflict_names_both_mounts_and_the_file() {
        let desired = |env, volumes| admitted(&file(env, volumes), false).unwrap();
        let held = |desired| Accepted {
            desired,
            spec_path: "held.e2e.yaml".to_owned(),
            lines: KeyLines::default(),
            accepted_at: Timestamp::default(),
            has_pending_edit: false,
        };
        let (project, config) = (["", ".:/app"], ["", "./nginx.conf:/c:ro"]);
        let below = conflicts(&held(desired("held", project)), &desired("new", config));
        let above = conflicts(&held(desired("held", config)), &desired("new", project));
        let messages: Vec<_> = below.iter().chain(&above).map(|it| it.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`/p/nginx.conf:/c:ro` is below `/p:/app`, which the container of `two` of environment `held` in `held.e2e.yaml` can write",
                "the container of `two` can write `/p:/app`, which contains `/p/nginx.conf:/c:ro` of environment `held` in `held.e2e.yaml`",
            ]
        );
        assert_eq!(below[0].path, "services.two.container.volumes[0]");
        assert_eq!(above[0].path, "services.two.container.volumes[0]");
    }
}
