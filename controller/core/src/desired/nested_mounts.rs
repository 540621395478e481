//! Bind sources below a directory that a container can write.
//!
//! An engine resolves a bind source again when it starts the container. A container that can write a parent directory of the
//! source can replace the source with a link out of the project at any time. Admission therefore refuses such a source, and no
//! start has to watch for an exchange. Two mounts of the same directory are safe: no container can replace the root of its
//! mount.

use std::collections::BTreeMap;

use argus_crds::{Diagnostic, E2eSpec, OtherFile};

use crate::desired::conflict::Candidate;
use crate::desired::identity::shown;
use crate::desired::{Accepted, Mount, Service, covers, mock, paths};

impl Mount {
    /// Path on the host. None for a volume.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::Bind { source, .. } => Some(source),
            Self::Volume { .. } => None,
        }
    }

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
        let source = self.source().unwrap_or_default();
        let parents = std::iter::successors(Some(source), |path| Some(path.rsplit_once('/')?.0));
        parents.skip(1)
    }
}

/// Places of the mounts in a spec file, by service and target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountPlaces(BTreeMap<(String, String), MountPlace>);

/// Place of one mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MountPlace {
    /// Path of the setting.
    path: String,
    /// Its text.
    text: String,
}

impl MountPlaces {
    pub(super) fn of(spec: &E2eSpec) -> Self {
        let mut places = BTreeMap::new();
        let mut add = |service: &str, key: &str, texts: &[String]| {
            for (index, text) in texts.iter().enumerate() {
                let target = text.trim().split(':').nth(1).unwrap_or_default();
                let place = MountPlace {
                    path: format!("{key}[{index}]"),
                    text: shown(text),
                };
                let target = paths::to_absolute("/", target);
                places.entry((service.to_owned(), target)).or_insert(place);
            }
        };
        for declared in spec.declared_services() {
            if let Some(container) = &declared.service.container {
                let key = format!("{}.container.volumes", declared.path);
                add(declared.name, &key, &container.volumes);
            }
        }
        for (name, mock) in spec.mocks.iter().filter(|(_, mock)| mock.image.is_some()) {
            add(name, &format!("mocks.{name}.volumes"), &mock.volumes);
        }
        for (name, mock) in spec.mocks.iter().filter(|(_, mock)| mock.image.is_none()) {
            let place = MountPlace {
                path: format!("mocks.{name}.recordingsDir"),
                text: shown(&mock.recordings_dir),
            };
            places.insert((name.clone(), mock::RECORDINGS.to_owned()), place);
        }
        Self(places)
    }

    /// Returns the error for a mount at a target below that of another mount of the service, with whether it needs a cover.
    pub(super) fn refuse_below(
        &self,
        service: &Service,
        (below, is_covered): (&Mount, bool),
        above: &Mount,
    ) -> Diagnostic {
        let [below, above] = [below, above].map(|mount| self.find_mount(service, mount));
        let (nested, around) = (&below.text, &above.text);
        let message = format!(
            "the path of `{nested}` is below that of `{around}`, through which a container could write the git or state directory"
        );
        let read_only = if is_covered {
            " add `:ro` to the first one,"
        } else {
            ""
        };
        let hint = format!(
            "POLICY_VIOLATION: mount one of them elsewhere,{read_only} or run `argus allow` and restart the controller"
        );
        let diagnostic = Diagnostic::error(below.path, message).hint(hint);
        diagnostic.relate(above.path, format!("`{around}` is"))
    }

    fn find(&self, placed: PlacedMount<'_>) -> MountPlace {
        self.find_mount(placed.service, placed.mount)
    }

    fn find_mount(&self, service: &Service, mount: &Mount) -> MountPlace {
        let service = service.name.as_str();
        let target = Some(mount.target());
        // A cover is below a mount of the file.
        let mut targets = std::iter::successors(target, |path| Some(path.rsplit_once('/')?.0));
        let place = targets.find_map(|target| self.0.get(&(service.to_owned(), target.to_owned())));
        place.cloned().unwrap_or_default()
    }
}

/// Mount of a service.
#[derive(Clone, Copy)]
struct PlacedMount<'a> {
    service: &'a Service,
    mount: &'a Mount,
    is_cover: bool,
}

impl PlacedMount<'_> {
    /// Change that makes the mount read-only, as an imperative clause.
    fn fix(self, written: &str) -> String {
        match self.service.injected_file {
            Some(_) => "choose another `recordingsDir`".to_owned(),
            None => format!("add `:ro` to `{written}`"),
        }
    }

    /// Returns whether the container can exchange the source of a cover through the mount.
    fn can_exchange(self, cover: &Mount) -> bool {
        let (service, source) = (self.service, cover.source().unwrap_or_default());
        covers::can_exchange(self.mount, source, service.all_mounts(), &service.tmpfs)
    }
}

/// Writable bind mounts by source.
pub(super) struct WritableMounts<'a>(BTreeMap<&'a str, Vec<PlacedMount<'a>>>);

impl<'a> WritableMounts<'a> {
    pub(super) fn of(services: impl Iterator<Item = &'a Service>) -> Self {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for placed in placed(services).filter(|placed| !placed.is_cover) {
            if let Some(source) = placed.mount.writable_source() {
                found.entry(source).or_default().push(placed);
            }
        }
        Self(found)
    }

    /// Returns each mount of these services that is below a writable one, with the nearest one. Optionally also each cover that a
    /// container can exchange.
    fn pairs<'b>(
        &self,
        services: impl Iterator<Item = &'b Service>,
        with_covers: bool,
    ) -> impl Iterator<Item = (PlacedMount<'b>, PlacedMount<'a>)> {
        let services = services.filter(|_| !self.0.is_empty());
        let all = placed(services).filter(move |below| with_covers || !below.is_cover);
        all.filter_map(|below| {
            let parents = below.mount.parents().filter_map(|parent| self.0.get(parent));
            let mut above = parents.flat_map(|placed| placed.iter().rev());
            let above = above.find(|above| !below.is_cover || above.can_exchange(below.mount));
            Some((below, *above?))
        })
    }
}

fn placed<'a>(services: impl Iterator<Item = &'a Service>) -> impl Iterator<Item = PlacedMount<'a>> {
    services.flat_map(|service| {
        let mounts = service.mounts_and_covers();
        mounts.map(move |(mount, is_cover)| PlacedMount {
            service,
            mount,
            is_cover,
        })
    })
}

/// Returns a diagnostic for each mount of the candidate that is below a writable mount of an accepted file, or above a mount of it.
/// None if a person allowed the projects of both files.
pub fn conflicts(existing: &Accepted, candidate: &Candidate<'_>) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    if existing.allowed && candidate.allowed {
        return diagnostics;
    }
    let (other, file) = (&existing.desired, &existing.spec_path);
    let mut report = |at: PlacedMount<'_>, message: String, fix: &str, holder: &Service| {
        let hint =
            format!("SPEC_CONFLICT: {fix}, run `argus allow` and restart the controller, or remove `{file}`");
        let path = candidate.mounts.find(at).path;
        let holder = OtherFile {
            file: file.clone(),
            path: format!("services.{}", holder.name),
            line: existing.lines.service(holder.name.as_str()),
        };
        diagnostics.push(Diagnostic::error(path, message).hint(hint).conflicts_with(holder));
    };
    // Without a permission, both files get the same covers once both are read again, so neither may wait for the other one.
    let with_covers = existing.allowed || candidate.allowed;
    let of_other = WritableMounts::of(other.services.values());
    for (below, above) in of_other.pairs(candidate.desired.services.values(), with_covers) {
        let (nested, writable) = (format_mount(below.mount), format_mount(above.mount));
        let message = format!(
            "`{nested}` is below `{writable}`, which the container of `{}` of environment `{}` in `{file}` can write",
            above.service.name, other.env
        );
        report(below, message, &above.fix(&writable), above.service);
    }
    for (below, above) in candidate.writable.pairs(other.services.values(), with_covers) {
        let (nested, writable) = (format_mount(below.mount), format_mount(above.mount));
        let message = format!(
            "the container of `{}` can write `{writable}`, which contains `{nested}` of environment `{}` in `{file}`",
            above.service.name, other.env
        );
        report(above, message, &above.fix(&writable), below.service);
    }
    diagnostics
}

/// Reports each bind source below a writable mount of the same file.
pub(super) fn check(services: &[(String, Service)], places: &MountPlaces, diagnostics: &mut Vec<Diagnostic>) {
    let all = || services.iter().map(|(_, service)| service);
    for (below, above) in WritableMounts::of(all()).pairs(all(), false) {
        let (nested, writable) = (places.find(below), places.find(above));
        let message = format!(
            "`{}` is below `{}`, which the container of `{}` can write",
            nested.text, writable.text, above.service.name
        );
        let fix = above.fix(&writable.text);
        let hint = format!("POLICY_VIOLATION: {fix}, or run `argus allow` and restart the controller");
        let diagnostic = Diagnostic::error(nested.path, message).hint(hint);
        diagnostics.push(diagnostic.relate(writable.path, format!("`{}` is", writable.text)));
    }
}

/// A mount in the form of a file, with the resolved source.
pub(crate) fn format_mount(mount: &Mount) -> String {
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
    use crate::desired::admit::{Admission, SpecContext, admit};
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
    fn admission(text: &str, allowed: bool) -> Admission {
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let mut context = SpecContext {
            directory: "/p".to_owned(),
            ..SpecContext::default()
        };
        context.host.allowed = allowed;
        context.host.resolved = [("/p/link".to_owned(), Ok("/p/data/sub".to_owned()))].into();
        admit(&spec, &context)
    }

    /// Conflicts of the second file with the first one, by whether a person allowed their projects.
    fn between(held: &str, new: &str, [held_allowed, allowed]: [bool; 2]) -> Vec<Diagnostic> {
        let (held, new) = (admission(held, true), admission(new, true));
        let held = Accepted {
            desired: held.desired.unwrap(),
            spec_path: "held.e2e.yaml".to_owned(),
            lines: KeyLines::default(),
            accepted_at: Timestamp::default(),
            has_pending_edit: false,
            allowed: held_allowed,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let desired = new.desired.unwrap();
        conflicts(
            &held,
            &Candidate::new(&desired, "new.e2e.yaml", &new.mounts, allowed),
        )
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
            let is_accepted = |allowed| admission(&text, allowed).desired.is_some();
            assert_eq!(is_accepted(false), accepted, "{volumes:?}");
            assert!(is_accepted(true), "{volumes:?} in an allowed project");
        }
    }

    #[test]
    fn mounts_of_two_files_follow_the_same_rule() {
        for ([one, two], accepted) in CASES {
            let (one, two) = (file("one", [one, ""]), file("two", ["", two]));
            for (first, second) in [(&one, &two), (&two, &one)] {
                for allowed in [[false, false], [false, true], [true, false]] {
                    let found = between(first, second, allowed);
                    assert_eq!(found.is_empty(), accepted, "{first}{second}{allowed:?}");
                }
                assert_eq!(between(first, second, [true, true]), []);
            }
        }
    }

    #[test]
    fn message_of_a_conflict_names_both_mounts_and_the_file() {
        let (project, config) = (["", ".:/app"], ["", "./nginx.conf:/c:ro"]);
        let found = |held, new| between(&file("held", held), &file("new", new), [false, false]);
        let (below, above) = (found(project, config), found(config, project));
        let messages: Vec<_> = below.iter().chain(&above).map(|it| it.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`/p/nginx.conf:/c:ro` is below `/p:/app`, which the container of `two` of environment `held` in `held.e2e.yaml` can write",
                "the container of `two` can write `/p:/app`, which contains `/p/nginx.conf:/c:ro` of environment `held` in `held.e2e.yaml`",
            ]
        );
        assert_eq!(below[0].path, "services[1].container.volumes[0]");
        assert_eq!(above[0].path, "services[1].container.volumes[0]");
    }

    #[test]
    fn conflict_names_the_setting_of_every_kind_of_mount() {
        let service =
            "service: { image: a:1, container: { name: n, volumes: [\"named:/v\", \"./a:/c\"] } }\n";
        let list = "services: [{ name: web, image: a:1, container: { name: n, volumes: [\"./a:/c\"] } }]\n";
        let image = "mocks: { pay: { port: 90, image: m:1, volumes: [\"named:/v\", \"./a:/c\"] } }\n";
        let record = "mocks: { pay: { port: 90, mode: record, target: \"http://x\", recordingsDir: ./a } }\n";
        let (read_only, other) = ("add `:ro` to `/p/a:/c`", "choose another `recordingsDir`");
        for (parts, path, fix) in [
            (service, "service.container.volumes[1]", read_only),
            (list, "services[0].container.volumes[0]", read_only),
            (image, "mocks.pay.volumes[1]", read_only),
            (record, "mocks.pay.recordingsDir", other),
        ] {
            let app = if parts.starts_with("mocks") {
                "service: { image: a:1, container: { name: m } }\n"
            } else {
                ""
            };
            let new = format!("project: {{ name: new }}\n{app}{parts}");
            let below = between(&file("held", [".:/app", ""]), &new, [false, false]);
            assert_eq!(below.len(), 1, "{parts}");
            assert_eq!(below[0].path, path, "{parts}");
            let above = between(&file("held", ["./a/b:/b", ""]), &new, [false, false]);
            assert_eq!(above[0].path, path, "{parts}");
            let hint = above[0].hint.clone().unwrap();
            assert!(hint.contains(fix), "{hint}");
        }
    }
}
