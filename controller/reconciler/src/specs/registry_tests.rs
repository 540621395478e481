//! Tests of the registry: file changes never remove running environments unexpectedly.

use std::time::Duration;

use argus_core::backoff::Growth;
use argus_core::desired::admit::SpecContext;
use argus_core::desired::{PortPolicy, PortStrategy, RestartMode, RestartPolicy};
use argus_core::ident::{ResourceName, Revision};
use argus_core::status::SpecsProblem;
use proptest::prelude::*;

use super::*;

fn desired(env: &str, revision: u32) -> Desired {
    Desired {
        env: EnvName::new(env).unwrap(),
        project: env.to_owned(),
        revision: Revision::new(format!("{revision:08x}")).unwrap(),
        internal: false,
        networks: BTreeMap::new(),
        external_networks: std::collections::BTreeSet::new(),
        network: ResourceName::new(format!("{env}-network")).unwrap(),
        volumes: Vec::new(),
        external_volumes: std::collections::BTreeSet::new(),
        former_volumes: std::collections::BTreeMap::new(),
        services: BTreeMap::new(),
        ports: PortPolicy {
            low: 9_000,
            high: 9_999,
            strategy: PortStrategy::Auto,
        },
        restart: RestartPolicy {
            enabled: true,
            max_restarts: 3,
            delay: Duration::from_secs(2),
            growth: Growth::Exponential,
            max_delay: Duration::from_secs(60),
            window: Duration::from_secs(300),
            reset_after: Duration::from_secs(60),
            halt_after_same: Some(3),
            mode: RestartMode::GiveUp,
            never: std::collections::BTreeSet::new(),
            memory_above: None,
        },
        preflight: argus_core::desired::PreflightSettings::default(),
        delete_volumes: false,
        container_limits: argus_core::desired::ContainerLimits::default(),
        clean_orphans: true,
        verify_connectivity: true,
        ttl: None,
        env_file: None,
        folder: None,
        worktree: None,
        hold: false,
        rollback: None,
        breaker: Some(argus_core::desired::BreakerSettings::default()),
        secrets: argus_core::secrets::Secrets::default(),
        notes: Vec::new(),
    }
}

fn good(env: &str, revision: u32) -> Admission {
    Admission {
        desired: Some(desired(env, revision)),
        ..Admission::default()
    }
}

fn bad() -> Admission {
    Admission {
        diagnostics: vec![Diagnostic::error("", "broken")],
        ..Admission::default()
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

fn revisions(registry: &SpecRegistry) -> Vec<String> {
    let line = |a: &Arc<Accepted>| {
        let revision = u32::from_str_radix(a.desired.revision.as_str(), 16).unwrap();
        format!(
            "{}@{revision} {} {}",
            a.desired.env,
            a.spec_path,
            a.accepted_at.0 / 1_000
        )
    };
    registry.environments.values().map(line).collect()
}

fn admit(registry: &mut SpecRegistry, path: &str, admission: Admission, now: i64) {
    registry.resume_grace_periods(at(now));
    registry.on_admitted(Path::new(path), None, admission, at(now));
}

#[test]
fn rejected_edit_preserves_the_last_good_revision() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    admit(&mut registry, "a", bad(), 2);
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);
    assert_eq!(registry.files[Path::new("a")].state, FileState::Rejected);
    admit(&mut registry, "a", good("shop", 2), 3);
    assert_eq!(revisions(&registry), ["shop@2 a 3"]);
    let before = registry.clone();
    admit(&mut registry, "a", good("shop", 2), 9);
    assert_eq!(registry, before, "the same again changes nothing");
}

#[test]
fn edit_without_effect_is_a_warning_until_the_next_edit() {
    let mut registry = SpecRegistry::default();
    let mut edit = |text: &str, revision, now| -> Vec<String> {
        let text = Some(Text::new(text.as_bytes().to_vec()));
        registry.on_admitted(Path::new("a"), text, good("shop", revision), at(now));
        let found = &registry.files[Path::new("a")].diagnostics;
        found.iter().map(|it| it.message.clone()).collect()
    };
    assert!(edit("one", 1, 1).is_empty());
    assert!(edit("one", 1, 2).is_empty(), "the same content is not an edit");
    let expected = "the edit at 1970-01-01T00:00:03.000Z has no effect: the revision is still `00000001`";
    assert_eq!(edit("one # comment", 1, 3), [expected]);
    assert!(edit("two", 2, 4).is_empty());
}

#[test]
fn first_file_keeps_the_name_until_its_grace_ends() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "b", good("shop", 1), 1);
    admit(&mut registry, "a", good("shop", 2), 2);
    assert_eq!(revisions(&registry), ["shop@1 b 1"]);
    let entry = &registry.files[Path::new("a")];
    assert_eq!(
        entry.state,
        FileState::Conflict {
            holder: PathBuf::from("b")
        }
    );
    assert_eq!(
        entry.diagnostics[0].message,
        "environment `shop` is already defined by `b`"
    );
    registry.record_existing_files(|path| path == Path::new("a"), at(3));
    registry.remove_expired(at(4));
    assert_eq!(revisions(&registry), ["shop@2 a 4"], "the holder is gone");
    assert!(registry.files[Path::new("a")].diagnostics.is_empty());
}

/// Admission of a file whose only service has this mount, below the folder `/p`.
fn with_mount(env: &str, volume: &str) -> Admission {
    with_mount_of(env, volume, false)
}

fn with_mount_of(env: &str, volume: &str, allowed: bool) -> Admission {
    let text = format!(
        "project: {{name: {env}}}\nservice: {{image: i, container: {{name: {env}, volumes: [\"{volume}\"]}}}}\n"
    );
    let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let context = SpecContext {
        directory: "/p".to_owned(),
        ..SpecContext::default()
    };
    let admission = argus_core::desired::admit::admit(&spec, &context);
    Admission {
        desired: admission.desired,
        allowed,
        mounts: admission.mounts,
        ..Admission::default()
    }
}

#[test]
fn mount_that_another_file_can_replace_is_refused() {
    for (first, second) in [(".:/app", "./conf:/c:ro"), ("./conf:/c:ro", ".:/app")] {
        let mut registry = SpecRegistry::default();
        admit(&mut registry, "a", with_mount("one", first), 1);
        admit(&mut registry, "b", with_mount("two", second), 1);
        let holder = FileState::Conflict {
            holder: PathBuf::from("a"),
        };
        assert_eq!(registry.files[Path::new("b")].state, holder);
        let message = &registry.files[Path::new("b")].diagnostics[0].message;
        for named in ["`/p:/app`", "`/p/conf:/c:ro`", "`one` in `a`"] {
            assert!(message.contains(named), "{message}");
        }
        admit(&mut registry, "a", with_mount("one", "data:/o"), 2);
        assert_eq!(registry.files[Path::new("b")].state, FileState::Accepted);

        for allowed in [[false, true], [true, false], [true, true]] {
            let mut registry = SpecRegistry::default();
            admit(&mut registry, "a", with_mount_of("one", first, allowed[0]), 1);
            admit(&mut registry, "b", with_mount_of("two", second, allowed[1]), 1);
            let is_accepted = registry.files[Path::new("b")].state == FileState::Accepted;
            assert_eq!(is_accepted, allowed == [true, true], "{first} {allowed:?}");
        }
    }
}

#[test]
fn missing_file_keeps_its_mounts_during_its_grace() {
    for (first, second) in [(".:/app", "./conf:/c:ro"), ("./conf:/c:ro", ".:/app")] {
        let only_b = |path: &Path| path == Path::new("b");
        let start = || {
            let mut registry = SpecRegistry::default();
            admit(&mut registry, "a", with_mount("one", first), 1);
            registry.record_existing_files(only_b, at(10));
            admit(&mut registry, "b", with_mount("two", second), 11);
            let holder = PathBuf::from("a");
            let state = &registry.files[Path::new("b")].state;
            assert_eq!(*state, FileState::Conflict { holder }, "{second}");
            registry
        };
        // The file returns without an admission.
        let mut registry = start();
        registry.record_existing_files(|_| true, at(12));
        registry.remove_expired(at(100));
        let environments: Vec<_> = registry.environments.keys().map(EnvName::as_str).collect();
        assert_eq!(environments, ["one"]);
        // Its grace ends.
        let mut registry = start();
        registry.remove_expired(at(15));
        let environments: Vec<_> = registry.environments.keys().map(EnvName::as_str).collect();
        assert_eq!(environments, ["two"]);
    }
}

#[test]
fn draining_environment_keeps_its_mounts() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", with_mount("one", ".:/app"), 1);
    admit(&mut registry, "a", with_mount("other", "data:/d"), 10);
    assert!(registry.environments["one"].is_ending);
    admit(&mut registry, "b", with_mount("two", "./conf:/c:ro"), 11);
    let holder = PathBuf::from("a");
    let state = &registry.files[Path::new("b")].state;
    assert_eq!(*state, FileState::Conflict { holder });
    registry.remove_expired(at(15));
    let environments: Vec<_> = registry.environments.keys().map(EnvName::as_str).collect();
    assert_eq!(environments, ["other", "two"]);
}

#[test]
fn permission_is_that_of_the_file_and_is_not_stored() {
    let (first, second) = (
        with_mount_of("one", ".:/app", true),
        with_mount_of("two", "./conf:/c:ro", true),
    );
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", first.clone(), 1);
    admit(&mut registry, "b", second.clone(), 1);
    let text = serde_json::to_string(&registry.accepted_specs()).unwrap();
    let mut registry = SpecRegistry::restored(serde_json::from_str(&text).unwrap());
    let allowed = |registry: &SpecRegistry| -> Vec<bool> {
        let environments = registry.environments.values();
        environments.map(|accepted| accepted.allowed).collect()
    };
    assert_eq!(allowed(&registry), [false, false]);
    admit(&mut registry, "a", first, 40);
    admit(&mut registry, "b", second, 40);
    assert_eq!(allowed(&registry), [true, true]);
    for path in ["a", "b"] {
        assert_eq!(
            registry.files[Path::new(path)].state,
            FileState::Accepted,
            "{path}"
        );
    }
    // A file with a mistake keeps the permission of its folder.
    let broken = |allowed| Admission { allowed, ..bad() };
    admit(&mut registry, "a", broken(true), 50);
    assert_eq!(allowed(&registry), [true, true]);
    admit(&mut registry, "a", broken(false), 51);
    assert_eq!(allowed(&registry), [false, true]);
}

#[test]
fn renamed_file_retains_its_environment() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    registry.record_existing_files(|_| false, at(10));
    admit(&mut registry, "b", good("shop", 1), 11);
    assert_eq!(revisions(&registry), ["shop@1 b 1"]);
    registry.record_existing_files(|path| path == Path::new("b"), at(12));
    registry.remove_expired(at(100));
    assert_eq!(revisions(&registry), ["shop@1 b 1"]);
}

#[test]
fn removed_file_is_dropped_after_its_grace() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    registry.record_existing_files(|_| false, at(10));
    registry.remove_expired(at(14));
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);
    assert_eq!(registry.expires_at(), Some(at(15)));
    registry.record_existing_files(|_| true, at(14));
    registry.remove_expired(at(16));
    assert_eq!(revisions(&registry), ["shop@1 a 1"], "it came back in time");
    registry.record_existing_files(|_| false, at(20));
    registry.remove_expired(at(25));
    assert!(registry.environments.is_empty() && registry.files.is_empty());
}

#[test]
fn emptied_folder_removes_nothing_for_a_minute() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    admit(&mut registry, "b", good("blog", 1), 1);
    assert_eq!(registry.problem(), None);
    registry.record_existing_files(|_| false, at(10));
    registry.remove_expired(at(69));
    assert_eq!(revisions(&registry).len(), 2);
    assert_eq!(registry.expires_at(), Some(at(70)));
    assert_eq!(registry.problem(), Some(SpecsProblem::Emptied(2, at(70))));

    // A checkout writes one file after the other.
    registry.record_existing_files(|path| path == Path::new("a"), at(69));
    assert_eq!(registry.problem(), None);
    registry.remove_expired(at(73));
    assert_eq!(revisions(&registry).len(), 2);
    registry.remove_expired(at(74));
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);

    admit(&mut registry, "b", good("blog", 1), 80);
    registry.record_existing_files(|_| false, at(90));
    registry.remove_expired(at(150));
    assert!(registry.environments.is_empty() && registry.files.is_empty());
}

#[test]
fn changed_name_drops_the_old_environment_after_the_grace() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    admit(&mut registry, "a", good("sho", 2), 10);
    assert_eq!(revisions(&registry), ["sho@2 a 10", "shop@1 a 1"]);
    admit(&mut registry, "a", good("shop", 1), 12);
    assert_eq!(revisions(&registry), ["sho@2 a 10", "shop@1 a 1"]);
    registry.remove_expired(at(17));
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);
}

#[test]
fn unavailable_folder_pauses_the_registry() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    admit(&mut registry, "b", good("old", 1), 1);
    admit(&mut registry, "b", good("new", 1), 2);
    registry.record_existing_files(|_| false, at(3));
    registry.suspend_grace_periods("gone".to_owned());
    registry.remove_expired(at(1_000));
    assert_eq!(revisions(&registry), ["new@1 b 2", "old@1 b 1", "shop@1 a 1"]);
    registry.resume_grace_periods(at(1_001));
    registry.record_existing_files(|_| true, at(1_001));
    registry.remove_expired(at(1_007));
    assert_eq!(revisions(&registry), ["new@1 b 2", "shop@1 a 1"]);
}

#[test]
fn accepted_revisions_survive_a_restart() {
    let mut registry = SpecRegistry::default();
    admit(&mut registry, "a", good("shop", 1), 1);
    let mut registry = SpecRegistry::restored(registry.accepted_specs());
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);
    admit(&mut registry, "a", good("shop", 1), 40);
    assert_eq!(
        revisions(&registry),
        ["shop@1 a 1"],
        "the original acceptance time stays"
    );
    admit(&mut registry, "a", bad(), 50);
    assert_eq!(revisions(&registry), ["shop@1 a 1"]);
    admit(&mut registry, "a", good("shop", 1), 60);
    assert_eq!(
        revisions(&registry),
        ["shop@1 a 60"],
        "the stability period restarts"
    );
}

#[derive(Debug, Clone)]
enum Event {
    Good(usize, usize, u32),
    Bad(usize),
    Present(Vec<bool>),
    Pause,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..4_usize, 0..3_usize, 0..3_u32).prop_map(|(file, env, revision)| Event::Good(file, env, revision)),
        (0..4_usize).prop_map(Event::Bad),
        proptest::collection::vec(any::<bool>(), 4).prop_map(Event::Present),
        Just(Event::Pause),
    ]
}

fn without_marks(all: &BTreeMap<EnvName, Arc<Accepted>>) -> Vec<Accepted> {
    all.values()
        .map(|accepted| Accepted {
            has_pending_edit: false,
            ..Accepted::clone(accepted)
        })
        .collect()
}

const FILES: [&str; 4] = ["a", "b", "c", "d"];
const ENVS: [&str; 3] = ["x", "y", "z"];

proptest! {
    #[test]
    fn rejections_and_pauses_never_change_accepted_specs(
        events in proptest::collection::vec((event(), 0..4_i64), 0..60),
    ) {
        let mut registry = SpecRegistry::default();
        let mut now = 1;
        for (event, passed) in events {
            now += passed;
            let before = registry.environments.clone();
            match event {
                Event::Good(file, env, revision) => admit(&mut registry, FILES[file], good(ENVS[env], revision), now),
                Event::Bad(file) => {
                    admit(&mut registry, FILES[file], bad(), now);
                    // Only the mark of a pending edit may change.
                    prop_assert_eq!(without_marks(&registry.environments), without_marks(&before));
                    let accepted = registry.files.get(Path::new(FILES[file])).and_then(|entry| entry.accepted.as_ref());
                    prop_assert!(accepted.is_none_or(|accepted| accepted.has_pending_edit));
                }
                Event::Present(existing) => {
                    registry.resume_grace_periods(at(now));
                    let exists = |path: &Path| FILES.iter().zip(&existing).any(|(f, t)| *t && Path::new(f) == path);
                    registry.record_existing_files(exists, at(now));
                    registry.remove_expired(at(now));
                }
                Event::Pause => {
                    registry.suspend_grace_periods("gone".to_owned());
                    registry.remove_expired(at(now));
                    prop_assert_eq!(&registry.environments, &before);
                }
            }
            // A conflict names an existing file.
            for entry in registry.files.values() {
                if let FileState::Conflict { holder } = &entry.state
                    && registry.unavailable.is_none()
                    && entry.gone_since.is_none()
                {
                    prop_assert!(entry.diagnostics.iter().any(Diagnostic::is_error));
                    prop_assert!(registry.files.contains_key(holder));
                }
            }
            // No two files define the same environment.
            let mut defined: Vec<_> = registry.accepted_specs().into_values().map(|a| a.desired.env).collect();
            defined.sort();
            let all = defined.len();
            defined.dedup();
            prop_assert_eq!(defined.len(), all);
            for entry in registry.files.values().filter_map(|entry| entry.accepted.as_ref()) {
                prop_assert_eq!(registry.environments.get(&entry.desired.env), Some(entry));
            }
        }
    }
}
