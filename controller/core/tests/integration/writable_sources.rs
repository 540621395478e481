//! Bind sources that a container can replace, although admission refuses such a pair of files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed precondition fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Step, Subject};
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::host::GitPaths;
use argus_core::desired::key_lines::KeyLines;
use argus_core::desired::{Accepted, Mount};
use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, ProcessIdentity, TTL};
use argus_core::observed::{Container, ContainerState, Object, ObjectId, Store, WatchEvent};
use argus_core::preflight::{DiskFact, Fact, HostFacts, PreflightSnapshot};
use argus_core::probe::HealthStates;
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::status::describe_wait;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::{Wait, WaitReason};
use argus_crds::error::Code;

use crate::reconcile::{identity, listed_store};

const WRITES_ABOVE: &str = "project: { name: shop }\nservices:\n  \
    web: { image: web:1, container: { name: web, volumes: [\".:/app\"] } }\n";
/// Its `db` mounts a directory of the earlier mount, and the new `web` waits for it.
const MOUNTS_BELOW: &str = "project: { name: shop }\nservices:\n  \
    web: { image: web:1, dependsOn: [{ service: db, condition: started }], container: { name: web } }\n  \
    db: { image: db:1, container: { name: db, volumes: [\"./data:/data\"] } }\n";

/// Two services with the same writable mount.
const WRITE_BOTH: &str = "project: { name: shop }\nservices:\n  \
    web: { image: web:1, container: { name: web, volumes: [\".:/app\"] } }\n  \
    db: { image: db:1, container: { name: db, volumes: [\".:/data\"] } }\n";

struct World {
    planner: Planner,
    /// Git directories of the project.
    git: BTreeSet<String>,
    store: Store,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    preflight: Option<PreflightSnapshot>,
    leases: ControllerLeases,
    now: Timestamp,
    actions: usize,
}

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

impl World {
    fn new() -> Self {
        let now = Timestamp(1_000_000);
        Self {
            planner: Planner::new(identity(), PlannerState::default()),
            git: BTreeSet::new(),
            store: listed_store(now),
            specs: BTreeMap::new(),
            preflight: None,
            leases: ControllerLeases::default(),
            now,
            actions: 0,
        }
    }

    /// Accepts a file whatever its mounts are, as an earlier version did.
    fn accept(&mut self, text: &str, allowed: bool) {
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let spec = read.spec.unwrap();
        let mut context = SpecContext {
            directory: "/p".to_owned(),
            ..SpecContext::default()
        };
        context.host.allowed = self.git.is_empty();
        context.host.git = Some(GitPaths {
            paths: self.git.clone(),
            ..GitPaths::default()
        });
        let accepted = Accepted {
            desired: admit(&spec, &context).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::from_spec(&spec, &read.source),
            accepted_at: self.now,
            has_pending_edit: false,
            allowed,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        self.specs
            .insert(accepted.desired.env.clone(), Arc::new(accepted));
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Container)) {
        let container = self.store.containers().find(|it| it.name == name);
        let mut container = Container::clone(container.unwrap());
        change(&mut container);
        let event = WatchEvent::Apply(Object::Container(Arc::new(container)));
        self.store.apply(event);
    }

    /// Ends all containers.
    fn reboot(&mut self) {
        let now = self.now;
        let names: Vec<String> = self.names().into_iter().map(str::to_owned).collect();
        for name in names {
            self.change(&name, |container| {
                container.state = ContainerState::Exited;
                container.inspect.as_mut().unwrap().finished_at = Some(now);
            });
        }
    }

    /// Wait of the only service of an environment.
    fn wait_of(&mut self, name: &str) -> WaitReason {
        let plan = self.reconcile().plans[&env(name)].clone();
        let is_service = |wait: &&Wait| matches!(wait.subject, Subject::Service { .. });
        let mut waits = plan.waits.iter().filter(is_service);
        waits.next().unwrap_or_else(|| panic!("{plan:?}")).on.clone()
    }

    /// Runs the plans for two minutes. Returns whether a container was started while another one could replace its sources.
    fn settle(&mut self) -> bool {
        let mut is_exposed = false;
        for _ in 0..40 {
            for step in self.reconcile().steps {
                if let Action::StartContainer { id } = &step.action {
                    let container = self.store.container(id).unwrap();
                    is_exposed |= self.store.containers().any(|other| can_replace(other, container));
                }
                self.actions += 1;
                let done = apply_action(&mut self.store, &step.action, self.now, self.actions);
                self.planner.finished(&step, &Ok(done), &self.store, self.now);
            }
            self.now = self.now + Duration::from_secs(3);
        }
        is_exposed
    }

    /// Runs one pass, and applies all of its actions except for starts. Returns the starts.
    fn advance(&mut self) -> Vec<Step> {
        let steps = self.reconcile().steps;
        let is_start = |step: &Step| matches!(step.action, Action::StartContainer { .. });
        let (starts, others): (Vec<_>, Vec<_>) = steps.into_iter().partition(is_start);
        for step in others {
            self.actions += 1;
            let done = apply_action(&mut self.store, &step.action, self.now, self.actions);
            self.planner.finished(&step, &Ok(done), &self.store, self.now);
        }
        self.now = self.now + Duration::from_secs(3);
        starts
    }

    fn reconcile(&mut self) -> ReconcileResult {
        self.planner.reconcile(&Inputs {
            specs: &self.specs,
            scanned: true,
            store: &self.store,
            health: &HealthStates::new(),
            leases: &self.leases,
            requests: &UserRequests::default(),
            preflight: self.preflight.as_ref(),
            now: self.now,
        })
    }

    fn names(&self) -> Vec<&str> {
        let up = self
            .store
            .containers()
            .filter(|container| container.state.is_up());
        let mut names: Vec<&str> = up.map(|container| container.name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

/// Returns whether a running container can write a directory above a source of another one, and has no cover of that source.
fn can_replace(other: &Container, container: &Container) -> bool {
    let mounts = |container: &Container| container.inspect.as_ref().unwrap().config.mounts.clone();
    let is_below = |above: &Mount, below: &Mount| match (above, below) {
        (
            Mount::Bind {
                source: above,
                read_only: false,
                ..
            },
            Mount::Bind { source: below, .. },
        ) => below.starts_with(&format!("{above}/")),
        _ => false,
    };
    let has_cover = |below: &Mount| mounts(other).iter().any(|cover| is_same_cover(cover, below));
    other.state.is_up()
        && mounts(other).iter().any(|above| {
            let own = mounts(container);
            own.iter()
                .any(|below| is_below(above, below) && !has_cover(below))
        })
}

fn is_same_cover(one: &Mount, other: &Mount) -> bool {
    let source = |mount: &Mount| match mount {
        Mount::Bind {
            source,
            read_only: true,
            ..
        } => Some(source.clone()),
        _ => None,
    };
    source(one).is_some() && source(one) == source(other)
}

#[test]
fn containers_without_a_cover_end_before_one_starts() {
    let mut world = World::new();
    world.accept(WRITE_BOTH, false);
    assert!(!world.settle());
    let before = world.actions;
    world.git.insert("/p/.git".to_owned());
    world.accept(WRITE_BOTH, false);
    assert!(
        !world.settle(),
        "a container with a cover started next to one without it"
    );
    assert_eq!(world.names(), ["db", "web"]);
    assert!(world.actions > before, "the containers are replaced");
    let covered = world.store.containers().all(|container| {
        let config = &container.inspect.as_ref().unwrap().config;
        config.mounts.len() == 2
    });
    assert!(covered);
    // The covers are no drift.
    let before = world.actions;
    world.settle();
    assert_eq!(world.actions, before);
}

#[test]
fn container_with_a_cover_starts_once() {
    for is_covered in [false, true] {
        let mut world = World::new();
        if is_covered {
            world.git.insert("/p/.git".to_owned());
        }
        world.accept(WRITES_ABOVE, false);
        world.settle();
        let id = |world: &World| world.store.containers().next().map(|it| it.id.clone());
        let first = id(&world);
        world.reboot();
        world.settle();
        assert_eq!(world.names(), ["web"]);
        assert_eq!(id(&world) != first, is_covered);
    }
}

#[test]
fn container_with_a_cover_starts_again_on_a_full_disk() {
    let mut world = World::new();
    world.git.insert("/p/.git".to_owned());
    world.accept(WRITES_ABOVE, false);
    world.settle();
    let disk = DiskFact {
        path: "/var/lib/docker".to_owned(),
        free: 1,
        total: u64::MAX,
        free_inodes: None,
        reclaimable: None,
    };
    world.preflight = Some(PreflightSnapshot {
        at: Some(world.now),
        host: HostFacts {
            disk: Fact::Known(disk),
            ..HostFacts::default()
        },
        ..PreflightSnapshot::default()
    });
    world.reboot();
    world.settle();
    assert_eq!(world.names(), ["web"]);
    world.accept(&WRITES_ABOVE.replace("web:1", "web:2"), false);
    world.settle();
    let on = world.wait_of("shop");
    assert!(
        matches!(on, WaitReason::Preflight { .. }),
        "a new revision: {on:?}"
    );
}

/// Such as next to a rollback to a revision of `--git-writable`.
#[test]
fn container_with_a_cover_never_starts_next_to_one_without() {
    let mut world = World::new();
    world.accept(&one_mount("writer", ".:/app"), false);
    world.git.insert("/p/.git".to_owned());
    world.accept(&one_mount("covered", ".:/app"), false);
    assert!(!world.settle());
    assert_eq!(world.names(), ["writer"]);
    let on = world.wait_of("covered");
    assert_waits_for(&on, "writer", false);
    let WaitReason::WritableSource(source) = on else {
        panic!("{on:?}")
    };
    assert_eq!(source.mount, "/p/.git:/app/.git:ro");
    assert_eq!(source.writer.edit.unwrap().suggest.as_deref(), Some(".:/app:ro"));
    world.accept(&one_mount("writer", ".:/app"), false);
    assert!(!world.settle());
    assert_eq!(world.names(), ["covered", "writer"]);
}

/// File with one service of one mount.
fn one_mount(name: &str, mount: &str) -> String {
    format!(
        "project: {{ name: {name} }}\nservice: {{ image: i:1, container: {{ name: {name}, volumes: [\"{mount}\"] }} }}\n"
    )
}

/// Asserts that a wait is for a container, and an error unless that is about to be removed.
fn assert_waits_for(on: &WaitReason, container: &str, is_going: bool) {
    let WaitReason::WritableSource(source) = on else {
        panic!("{on:?}")
    };
    assert_eq!(
        (source.writer.container.as_str(), source.writer.is_going),
        (container, is_going)
    );
    let code = (!is_going).then_some(Code::PolicyViolation);
    assert_eq!(describe_wait(on).error, code);
}

#[test]
fn earlier_revision_ends_before_a_source_below_it_is_mounted() {
    let mut world = World::new();
    world.accept(WRITES_ABOVE, false);
    assert!(!world.settle());
    assert_eq!(world.names(), ["web"]);
    world.accept(MOUNTS_BELOW, false);
    assert!(!world.settle(), "`db` started next to the earlier `web`");
    assert_eq!(world.names(), ["db", "web"]);
}

#[test]
fn fork_of_an_earlier_revision_delays_a_source_below_it() {
    for allowed in [false, true] {
        let mut world = World::new();
        world.accept(WRITES_ABOVE, allowed);
        let fork = world.specs[&env("shop")].desired.forked(&env("copy"));
        let accepted = Accepted {
            desired: fork,
            ..Accepted::clone(&world.specs[&env("shop")])
        };
        world.specs.insert(env("copy"), Arc::new(accepted));
        world.settle();
        world.accept(MOUNTS_BELOW, allowed);
        assert_eq!(world.settle(), allowed);
        if allowed {
            assert_eq!(world.names().len(), 3);
            continue;
        }
        assert_eq!(
            world.names(),
            ["copy-web", "web"],
            "the end of `web` would not help"
        );
        let waits = world.reconcile().plans[&env("shop")].waits.clone();
        let is_source = |wait: &&Wait| matches!(wait.on, WaitReason::WritableSource(_));
        let wait = waits.iter().find(is_source).unwrap();
        assert_waits_for(&wait.on, "copy-web", false);

        world.specs.remove(&env("copy"));
        assert!(!world.settle());
        assert_eq!(world.names(), ["db", "web"]);
    }
}

#[test]
fn source_below_a_desired_writer_never_starts() {
    for [writer, below] in [["one", "two"], ["two", "one"]] {
        for allowed in [[false, false], [false, true], [true, false], [true, true]] {
            let mut world = World::new();
            world.accept(&one_mount(below, "./conf:/c:ro"), allowed[0]);
            assert!(!world.settle());
            // Such as a rollback, or a file that returned.
            world.accept(&one_mount(writer, ".:/app"), allowed[1]);
            assert!(!world.settle());
            assert_eq!(world.names(), ["one", "two"], "no running container is stopped");
            world.reboot();
            let is_exposed = world.settle();
            if allowed == [true, true] {
                assert_eq!(world.names(), ["one", "two"]);
                continue;
            }
            assert!(!is_exposed, "{writer} writes, {allowed:?}");
            assert_eq!(world.names(), [writer]);
            assert_waits_for(&world.wait_of(below), writer, false);
            world.accept(&one_mount(writer, ".:/app:ro"), allowed[1]);
            assert!(!world.settle());
            assert_eq!(world.names(), ["one", "two"]);
        }
    }
}

#[test]
fn pair_in_one_file_of_an_earlier_version_never_runs() {
    let mut world = World::new();
    let text = "project: { name: shop }\nservices:\n  \
                app: { image: i:1, container: { name: app, volumes: [\".:/app\"] } }\n  \
                web: { image: i:1, container: { name: web, volumes: [\"./conf:/c:ro\"] } }\n";
    world.accept(text, false);
    assert!(!world.settle());
    assert_eq!(world.names(), ["app"]);
    let on = world.wait_of("shop");
    assert_waits_for(&on, "app", false);
    let WaitReason::WritableSource(source) = on else {
        panic!("{on:?}")
    };
    let edit = source.writer.edit.unwrap();
    let (key, suggest) = ("services.app.container.volumes[0]", Some(".:/app:ro"));
    assert_eq!((edit.key.as_str(), edit.suggest.as_deref()), (key, suggest));
    world.accept(text, true);
    world.settle();
    assert_eq!(world.names(), ["app", "web"]);
}

#[test]
fn source_waits_until_mounts_of_running_containers_are_known() {
    for allowed in [false, true] {
        assert_waits_for_mounts(allowed);
    }
}

/// Asserts that a source waits for the mounts of a running container, also of one of an `allowed` project.
fn assert_waits_for_mounts(allowed: bool) {
    let mut world = World::new();
    world.accept(&one_mount("below", "./conf:/c:ro"), false);
    world.accept(&one_mount("other", "data:/d"), allowed);
    world.settle();
    world.reboot();
    let mut inspect = None;
    world.change("other", |container| {
        container.state = ContainerState::Running;
        inspect = container.inspect.take();
    });
    assert!(!world.settle());
    assert_eq!(world.names(), ["other"]);
    assert_eq!(world.wait_of("below"), WaitReason::Inspection);
    let now = world.now;
    world.change("other", |container| {
        container.inspect = inspect;
        container.inspect.as_mut().unwrap().started_at = Some(now);
    });
    assert!(!world.settle());
    assert_eq!(world.names(), ["below", "other"]);
}

/// Leases of a controller that has this environment, and of one without a lease.
fn held_by_other(name: &str, now: Timestamp) -> ControllerLeases {
    let mut leases = ControllerLeases::new(ProcessIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        state_dir: "/p/.argus".to_owned(),
        holds_lease: false,
    });
    let spec = LeaseSpec {
        controller: "you".to_owned(),
        run: "theirs".to_owned(),
        state_dir: "/p/other/.argus".to_owned(),
        specs: None,
        host: "host".to_owned(),
        pid: 1,
        pid_namespace: String::new(),
        ttl: TTL,
        since: Some(now),
        claims: [(env(name), Some(now))].into(),
    };
    let lease = ControllerLease {
        name: "lease".to_owned(),
        spec,
        created_at: now,
        renewed_at: now,
    };
    leases.on_listed(vec![lease], now);
    leases.frozen(now)
}

#[test]
fn source_below_a_writer_of_another_controller_waits() {
    for allowed in [false, true] {
        let mut world = World::new();
        world.accept(&one_mount("other", ".:/app"), false);
        world.settle();
        world.specs.clear();
        world.leases = held_by_other("other", world.now);
        world.accept(&one_mount("below", "./conf:/c:ro"), allowed);
        assert_eq!(world.settle(), allowed, "a person allowed it");
        if allowed {
            assert_eq!(world.names(), ["below", "other"]);
        } else {
            assert_eq!(world.names(), ["other"]);
            let on = world.wait_of("below");
            assert_waits_for(&on, "other", false);
            assert!(matches!(on, WaitReason::WritableSource(on) if on.writer.is_of_other));
        }
    }
}

#[test]
fn source_waits_for_the_removal_of_a_writer() {
    let mut world = World::new();
    world.accept(&one_mount("other", ".:/app"), false);
    world.settle();
    world.specs.clear();
    world.change("other", |container| container.state = ContainerState::Removing);
    world.accept(&one_mount("below", "./conf:/c:ro"), false);
    assert!(!world.settle());
    assert_waits_for(&world.wait_of("below"), "other", true);
    let id = world
        .store
        .containers()
        .find(|it| it.name == "other")
        .unwrap()
        .id
        .clone();
    world.store.apply(WatchEvent::Delete(ObjectId::Container(id)));
    world.settle();
    assert_eq!(world.names(), ["below"]);
}

#[test]
fn writer_that_starts_counts_before_it_runs() {
    let mut world = World::new();
    world.accept(WRITES_ABOVE, false);
    let is_start = |step: &Step| matches!(step.action, Action::StartContainer { .. });
    // The start of the writer hangs, and its file changes.
    let start = (0..20)
        .find_map(|_| world.advance().into_iter().find(is_start))
        .unwrap();
    world.accept(MOUNTS_BELOW, false);
    for _ in 0..20 {
        let started = world.advance();
        assert!(!started.iter().any(is_start), "{started:?}");
    }
    world.actions += 1;
    let done = apply_action(&mut world.store, &start.action, world.now, world.actions);
    world.planner.finished(&start, &Ok(done), &world.store, world.now);
    assert!(!world.settle());
    assert_eq!(world.names(), ["db", "web"]);
}
