//! Properties of admission that hold for every file, including mutated ones.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::conflict::{Candidate, conflicts};
use argus_core::desired::hash::revision_of;
use argus_core::desired::host::GitPaths;
use argus_core::desired::key_lines::KeyLines;
use argus_core::desired::nested_mounts::MountPlaces;
use argus_core::desired::{Accepted, Desired, Mount};
use argus_core::time::Timestamp;
use argus_crds::{Diagnostic, E2eSpec, yaml};
use proptest::prelude::*;
use serde_json::Value;

const EDGE_CASES: [&str; 28] = [
    "",
    " ",
    "../x",
    "a/b",
    "{{",
    "{{env.X}}",
    "{{config.a}}",
    "{{ports.api.80}}",
    "{{services.db.url}}",
    "8080:80",
    "[::1]:1-9:1-9/udp",
    "65535-65535",
    ":",
    "::",
    "/",
    "/var/run/docker.sock:/x",
    "./a:/b:ro",
    "a:/b",
    "'",
    "\"\\",
    "日本",
    "\u{0}",
    "host",
    "db",
    "api",
    "0s",
    "{{config.{{config.a}}}}",
    "é{{uuid}}é",
];

fn seeds() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/admitted");
    let files = ["everything", "probes", "wild", "mocks-only"];
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name).with_extension("yaml")).unwrap();
        let spec = yaml::read(name, text.as_bytes()).spec.unwrap();
        (text, serde_json::to_value(spec).unwrap())
    };
    files.into_iter().map(read).collect()
}

/// Replaces leaf number `at` below a value.
fn change(value: &mut Value, at: &mut usize, new: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, at, new)),
        Value::Object(fields) => fields.values_mut().for_each(|field| change(field, at, new)),
        leaf => {
            if *at == 0 {
                *leaf = match leaf {
                    Value::Number(_) => Value::from(new.len() * 7919 % 70_000),
                    Value::Bool(flag) => Value::Bool(!*flag),
                    _ => Value::from(new),
                };
            }
            *at = at.wrapping_sub(1);
        }
    }
}

fn context() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        uuid: "u".to_owned(),
        ..SpecContext::default()
    }
}

/// Asserts the invariants that the rest of this crate relies on.
fn check_invariants(desired: &Desired) {
    assert_eq!(desired.revision, revision_of(desired));
    let json = serde_json::to_string(desired).unwrap();
    assert_eq!(
        &serde_json::from_str::<Desired>(&json).unwrap(),
        desired,
        "stored names pass validation again"
    );
    let mut containers = std::collections::BTreeSet::new();
    for (name, service) in &desired.services {
        assert_eq!(name, &service.name);
        assert!(
            containers.insert(&service.container_name),
            "two containers called {}",
            service.container_name
        );
        for need in &service.depends_on {
            assert!(
                &need.service != name && desired.services.contains_key(&need.service),
                "{need:?}"
            );
        }
        let mut ports = std::collections::BTreeSet::new();
        for port in &service.ports {
            assert!(port.container != 0 && port.requested != Some(0));
            assert!(ports.insert((port.container, port.protocol, port.address)));
        }
    }
    assert!(desired.ports.low <= desired.ports.high && desired.ports.low >= 1024);
}

fn check_admission(spec: &E2eSpec) {
    let admission = admit(spec, &context());
    assert_eq!(
        admission,
        admit(spec, &context()),
        "the same file has the same outcome"
    );
    let refused = admission.diagnostics.iter().any(Diagnostic::is_error);
    assert_eq!(
        admission.desired.is_none(),
        refused,
        "{:#?}",
        admission.diagnostics
    );
    if let Some(desired) = &admission.desired {
        check_invariants(desired);
    }
}

/// Path below the folder of the file; names are few, so that paths meet.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(0..3u8, 1..4).prop_map(|parts| {
        let parts: Vec<String> = parts.iter().map(u8::to_string).collect();
        parts.join("/")
    })
}

/// Mounts of the services of one file: service, path, and whether it is read-only.
fn mounts() -> impl Strategy<Value = Vec<(usize, String, bool)>> {
    prop::collection::vec((0..3usize, path(), any::<bool>()), 0..5)
}

/// Admits a file with these mounts. `links` are the paths that lead to another one.
fn admit_mounts(
    env: &str,
    mounts: &[(usize, String, bool)],
    links: &BTreeMap<String, String>,
    allowed: bool,
) -> Option<Desired> {
    let mut text = format!("project: {{ name: {env} }}\nservices:\n");
    for service in 0..3 {
        let own = mounts.iter().enumerate().filter(|(_, mount)| mount.0 == service);
        let volumes: Vec<String> = own
            .map(|(index, (_, path, read_only))| {
                format!("\"./{path}:/m{index}{}\"", if *read_only { ":ro" } else { "" })
            })
            .collect();
        writeln!(
            text,
            "  s{service}: {{ image: a:1, container: {{ name: {env}-{service}, volumes: [{}] }} }}",
            volumes.join(", ")
        )
        .unwrap();
    }
    let mut context = context();
    context.host.allowed = allowed;
    let absolute = |path: &String| format!("/specs/shop/{path}");
    let resolved = links.iter().map(|(from, to)| (absolute(from), Ok(absolute(to))));
    context.host.resolved = resolved.collect();
    admit(&yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap(), &context).desired
}

/// Returns whether a container of these environments can write a directory above a bind source.
fn has_writable_parent(environments: &[&Desired]) -> bool {
    let services = environments.iter().flat_map(|desired| desired.services.values());
    let mounts: Vec<&Mount> = services.flat_map(|service| &service.mounts).collect();
    mounts.iter().any(|above| {
        mounts.iter().any(|below| match (above, below) {
            (
                Mount::Bind {
                    source: above,
                    read_only: false,
                    ..
                },
                Mount::Bind { source: below, .. },
            ) => above != below && Path::new(below).starts_with(above),
            _ => false,
        })
    })
}

/// Returns whether the second environment conflicts with the first one, by whether a person allowed their projects.
fn has_conflict(held: &Desired, desired: &Desired, [held_allowed, allowed]: [bool; 2]) -> bool {
    let held = Accepted {
        desired: held.clone(),
        spec_path: "one.e2e.yaml".to_owned(),
        lines: KeyLines::default(),
        accepted_at: Timestamp(0),
        has_pending_edit: false,
        allowed: held_allowed,
        is_ending: false,
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
    };
    let mounts = MountPlaces::default();
    let candidate = Candidate::new(desired, "two.e2e.yaml", &mounts, allowed);
    !conflicts(&held, &candidate).is_empty()
}

/// Mounts of one service: source, target, and whether it is read-only. Sources and targets meet often.
fn nested_targets() -> impl Strategy<Value = Vec<(String, String, bool)>> {
    let source = prop_oneof![
        Just(".".to_owned()),
        Just("v".to_owned()),
        path().prop_map(|path| format!("./{path}"))
    ];
    prop::collection::vec((source, path(), any::<bool>()), 1..4)
}

/// Returns the mount at which a path of the container ends, and the rest of the path below it.
fn mount_of<'a>(mounts: &[&'a Mount], path: &'a Path) -> Option<(&'a Mount, &'a Path)> {
    let above = mounts.iter().filter(|mount| path.starts_with(mount.target()));
    let nearest = above.max_by_key(|mount| mount.target().len())?;
    Some((nearest, path.strip_prefix(nearest.target()).unwrap()))
}

/// Asserts that a container with these mounts can neither write into `git` nor exchange it or a directory above it.
fn check_git_is_safe(mounts: &[&Mount], git: &str) {
    for mount in mounts {
        let Mount::Bind {
            source,
            target,
            read_only: false,
        } = mount
        else {
            continue;
        };
        assert!(!Path::new(source).starts_with(git), "{mounts:?}");
        let Ok(below) = Path::new(git).strip_prefix(source) else {
            continue;
        };
        let first = Path::new(target).join(below.components().next().unwrap());
        assert!(
            mounts.iter().any(|other| Path::new(other.target()) == first),
            "{git} can be exchanged: {mounts:?}"
        );
        let inside = Path::new(target).join(below).join("hooks");
        if let Some((
            Mount::Bind {
                source,
                read_only: false,
                ..
            },
            rest,
        )) = mount_of(mounts, &inside)
        {
            assert!(
                !Path::new(source).join(rest).starts_with(git),
                "{git} can be written: {mounts:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaced_leaf_never_panics_admission(
        seed in 0..4usize,
        changes in prop::collection::vec((0..160usize, prop_oneof![
            prop::sample::select(EDGE_CASES.to_vec()).prop_map(str::to_owned), ".{0,40}", "[a-z0-9:./\\-\\[\\]{} ]{0,20}",
        ]), 1..6),
    ) {
        let mut value = seeds().swap_remove(seed).1;
        for (mut at, new) in changes {
            change(&mut value, &mut at, &new);
        }
        if let Ok(spec) = serde_json::from_value::<E2eSpec>(value) {
            check_admission(&spec);
        }
    }

    #[test]
    fn mangled_file_never_panics_admission(
        seed in 0..4usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8), 1..5),
    ) {
        let text = seeds().swap_remove(seed).0;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, operation) in cuts {
            let at = at.index(lines.len());
            match operation {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines.truncate(at + 1),
                _ => {
                    let half = lines[at].chars().count() / 2;
                    lines[at] = lines[at].chars().take(half).collect();
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        if let Some(spec) = yaml::read("e2e.yaml", lines.join("\n").as_bytes()).spec {
            check_admission(&spec);
        }
    }

    /// No container can write a directory above an accepted bind source, in one file or in two. Nothing else is refused.
    #[test]
    fn accepted_source_has_no_writable_parent(
        one in mounts(),
        two in mounts(),
        links in prop::collection::btree_map(path(), path(), 0..4),
    ) {
        let all = |env, mounts| admit_mounts(env, mounts, &links, true).unwrap();
        let (any_one, any_two) = (all("one", &one), all("two", &two));
        let accepted = |env, mounts| admit_mounts(env, mounts, &links, false);
        let (one, two) = (accepted("one", &one), accepted("two", &two));
        prop_assert_eq!(one.is_none(), has_writable_parent(&[&any_one]));
        prop_assert_eq!(two.is_none(), has_writable_parent(&[&any_two]));
        if let (Some(one), Some(two)) = (one, two) {
            let has_pair = has_writable_parent(&[&one, &two]);
            for allowed in [[false, false], [false, true], [true, false], [true, true]] {
                let is_refused = has_conflict(&one, &two, allowed);
                prop_assert_eq!(is_refused, has_pair && allowed != [true, true]);
            }
        }
    }

    /// In a project that is not allowed, no container can change a git directory, and nothing is mounted twice at one path.
    #[test]
    fn accepted_container_cannot_change_a_git_directory(
        mounts in nested_targets(),
        repositories in prop::collection::btree_set(prop_oneof![Just(String::new()), path()], 0..4),
    ) {
        let git: BTreeSet<String> = repositories
            .iter()
            .map(|path| if path.is_empty() { "/specs/shop/.git".to_owned() } else { format!("/specs/shop/{path}/.git") })
            .collect();
        let mut seen = BTreeSet::new();
        let volumes: Vec<String> = mounts
            .iter()
            .filter(|(_, target, _)| seen.insert(target.clone()))
            .map(|(source, target, read_only)| format!("{source}:/m/{target}{}", if *read_only { ":ro" } else { "" }))
            .collect();
        let text = format!(
            "project: {{ name: shop }}\nservices:\n  one: {{ image: a:1, container: {{ name: one, volumes: {volumes:?} }} }}\n"
        );
        let mut context = context();
        context.host.git = Some(GitPaths {
            paths: git.clone(),
            ..GitPaths::default()
        });
        let admission = admit(&yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap(), &context);
        if let Some(desired) = admission.desired {
            for service in desired.services.values() {
                let mounts: Vec<&Mount> = service.mounts.iter().chain(&service.covers).collect();
                let targets: BTreeSet<&str> = mounts.iter().map(|mount| mount.target()).collect();
                prop_assert_eq!(targets.len(), mounts.len());
                for git in &git {
                    check_git_is_safe(&mounts, git);
                }
            }
        }
    }
}
