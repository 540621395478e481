//! Files on a real file system.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use argus_core::action::Subject;
use argus_core::mode::Mode;
use argus_core::observed::{Store, WatchEvent};
use argus_core::plan::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use super::*;
use crate::fake_backend::run_of;
use crate::specs::SpecRegistry;

/// View of these environments.
struct View(Vec<&'static str>);

impl StatusView for View {
    fn environments(&self, _: &Snapshot) -> BTreeSet<EnvName> {
        self.0.iter().map(|name| EnvName::new(*name).unwrap()).collect()
    }

    fn environment(&self, env: &EnvName, snapshot: &Snapshot, previous: Option<&str>) -> EnvFiles {
        let json = format!(
            "{{\n  \"environment\": \"{env}\",\n  \"asOf\": \"{}\"\n}}",
            snapshot.as_of
        );
        EnvFiles {
            json,
            env: format!("KNOWN={}", previous.is_some()),
            debug: None,
            project_file: None,
        }
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, snapshot: &Snapshot, _: Option<&str>) -> String {
        format!("{{\"mode\":\"{:?}\"}}", snapshot.mode)
    }
}

/// An environment whose status names a file in its project.
struct Addressed(Option<PathBuf>);

impl StatusView for Addressed {
    fn environments(&self, _: &Snapshot) -> BTreeSet<EnvName> {
        [EnvName::new("shop").unwrap()].into()
    }

    fn environment(&self, _: &EnvName, _: &Snapshot, _: Option<&str>) -> EnvFiles {
        let status = EnvironmentStatus {
            env_file: self.0.as_ref().map(|path| path.display().to_string()),
            ..EnvironmentStatus::default()
        };
        EnvFiles {
            json: serde_json::to_string(&status).unwrap(),
            env: "A=1\n".to_owned(),
            debug: None,
            project_file: self.0.clone(),
        }
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, _: &Snapshot, _: Option<&str>) -> String {
        "{}".to_owned()
    }
}

#[test]
fn file_of_the_project_follows_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let state = StateDir::prepare(&root.join("state"), &root.join("specs")).unwrap();
    let [first, second] = ["first", "second"].map(|name| root.join(name));
    let update = |path: Option<&PathBuf>, complete: bool| {
        // Each update is one of another process.
        let mut status_files = StatusFiles::default();
        status_files.read(&state).unwrap();
        let view = Addressed(path.cloned());
        status_files
            .update(&state, &view, &snapshot(1_000, complete), true)
            .unwrap();
        (first.exists(), second.exists())
    };
    assert_eq!(update(Some(&first), true), (true, false));
    assert!(std::fs::read_to_string(&first).unwrap().ends_with("\nA=1\n"));
    assert_eq!(update(Some(&second), true), (false, true));
    assert_eq!(update(None, true), (false, false));
    // A failure blocks neither the status nor other files.
    std::fs::write(&first, "MINE=1\n").unwrap();
    assert_eq!(update(Some(&first), true), (true, false));
    assert_eq!(update(Some(&second), true), (true, true));
    // A removed environment takes its file with it.
    let mut status_files = StatusFiles::default();
    status_files.read(&state).unwrap();
    status_files
        .update(&state, &View(vec![]), &snapshot(1_000, true), true)
        .unwrap();
    assert!(first.exists() && !second.exists());
}

fn snapshot(at: i64, complete: bool) -> Arc<Snapshot> {
    let identity = ControllerIdentity {
        controller: "C".into(),
        run: "R".into(),
        publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let mut snapshot = Snapshot::blank(identity, PlannerState::default(), Timestamp(at));
    if complete {
        let mut store = Store::default();
        store.apply(WatchEvent::Init);
        store.apply(WatchEvent::InitDone);
        snapshot.store = Arc::new(store);
        let mut specs = SpecRegistry::restored(BTreeMap::new());
        specs.scanned = true;
        snapshot.specs = Arc::new(specs);
    }
    Arc::new(snapshot)
}

#[test]
fn files_are_written_on_change_and_removed_when_complete() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let json = |env: &str| std::fs::read_to_string(state.environments().join(format!("{env}.json")));
    std::fs::write(state.environments().join("left.json"), "{}").unwrap();
    let mut status_files = StatusFiles::default();
    status_files.read(&state).unwrap();
    status_files
        .update(&state, &View(vec!["shop"]), &snapshot(1_000, false), true)
        .unwrap();
    let first = json("shop").unwrap();
    assert!(json("left").is_ok(), "it may still be desired");
    status_files
        .update(&state, &View(vec!["shop"]), &snapshot(9_000, true), true)
        .unwrap();
    assert_eq!(json("shop").unwrap(), first, "only the time differs");
    assert!(json("left").is_err());
    status_files
        .update(&state, &View(vec![]), &snapshot(9_000, true), true)
        .unwrap();
    assert!(json("shop").is_err() && !state.environments().join("shop.env").exists());
    assert!(state.controller_json().exists());
}

#[test]
fn status_files_of_a_repository_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::with_private(dir.path().join(".argus"), dir.path().join("outside/private"));
    let state = state.create(&dir.path().join("specs")).unwrap();
    let (shipped, own) = (
        state.environments().join("shop.json"),
        state.environments().join("own.json"),
    );
    std::fs::write(&shipped, "{}").unwrap();
    state.write_status(&own, b"{\n  \"a\": 1\n}\n").unwrap();
    let mut status_files = StatusFiles::default();
    assert_eq!(status_files.read(&state).unwrap(), std::slice::from_ref(&shipped));
    assert_eq!(status_files.files[&shipped], "");
    assert_ne!(status_files.files[&own], "");
}

/// View of all environments of the snapshot. It counts the rendered ones.
#[derive(Default)]
struct CountingView(AtomicUsize);

impl StatusView for CountingView {
    fn environment(&self, _: &EnvName, _: &Snapshot, _: Option<&str>) -> EnvFiles {
        self.0.fetch_add(1, Ordering::Relaxed);
        EnvFiles::default()
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, _: &Snapshot, _: Option<&str>) -> String {
        String::new()
    }
}

/// Environments `shop-0` to the last, each with one container.
fn with_environments(count: usize) -> Snapshot {
    let shown = Snapshot::clone(&snapshot(1, true));
    let mut store = Store::clone(&shown.store);
    (0..count).for_each(|number| store.apply(run_of(&format!("shop-{number}"), 1)));
    Snapshot {
        store: Arc::new(store),
        ..shown
    }
}

#[test]
fn change_renders_only_its_environment() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    for count in [10, 100, 1_000] {
        let mut shown = with_environments(count);
        let (mut files, view) = (StatusFiles::default(), CountingView::default());
        let mut rendered = |snapshot: &Snapshot| {
            files
                .update(&state, &view, &Arc::new(snapshot.clone()), true)
                .unwrap();
            view.0.swap(0, Ordering::Relaxed)
        };
        assert_eq!(rendered(&shown), count);
        assert_eq!(rendered(&shown), 0);
        let mut store = Store::clone(&shown.store);
        store.apply(run_of("shop-3", 2));
        shown.store = Arc::new(store);
        assert_eq!(rendered(&shown), 1);
        shown.mode = Mode::Safe;
        assert_eq!(rendered(&shown), count, "the mode concerns all environments");
    }
}

#[test]
fn overrides_and_progress_render_only_their_environment() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let other = EnvName::new("other").unwrap();
    for count in [10, 100, 1_000] {
        let mut shown = with_environments(count);
        let (mut files, view) = (StatusFiles::default(), CountingView::default());
        let mut rendered = |snapshot: &Snapshot| {
            files
                .update(&state, &view, &Arc::new(snapshot.clone()), true)
                .unwrap();
            view.0.swap(0, Ordering::Relaxed)
        };
        assert_eq!(rendered(&shown), count);
        Arc::make_mut(&mut shown.overrides)
            .known_good
            .insert(other.clone(), Vec::new());
        assert_eq!(
            rendered(&shown),
            0,
            "a known good revision of another environment"
        );
        let image = Subject::Image {
            key: "other:1".into(),
        };
        Arc::make_mut(&mut shown.progress).insert(image, "pulling".to_owned().into());
        assert_eq!(rendered(&shown), 0, "an image of another environment");
        Arc::make_mut(&mut shown.overrides)
            .known_good
            .insert(EnvName::new("shop-3").unwrap(), Vec::new());
        assert_eq!(rendered(&shown), 1, "its own known good revision");
    }
}
