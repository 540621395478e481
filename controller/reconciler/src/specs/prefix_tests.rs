//! Tests of partially written files: they remove nothing, for both kinds of writers.

use std::fs;
use std::path::{Path, PathBuf};

use argus_core::action::{Cause, Step};
use argus_core::observed::{Store, WatchEvent};
use argus_core::plan::ControllerIdentity;
use argus_core::probe::HealthStates;
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use super::admission::SpecAdmitter;
use super::loader::{PersistedSpecs, SpecLoader};
use super::settings::SpecLoaderSettings;

/// Longer than the debounce of a prefix, shorter than the stability period of a removal.
const STEP: i64 = 250;

enum Writer {
    InPlace,
    ByRename,
}

pub(super) fn new_loader(folder: &Path) -> SpecLoader {
    SpecLoader::new(rules(folder), PersistedSpecs::default())
}

pub(super) fn rules(folder: &Path) -> SpecLoaderSettings {
    SpecLoaderSettings {
        source: super::source::SpecSource::new(folder, Path::new("/nowhere")),
        strict: false,
        env_allow: Vec::new(),
        process_env: std::collections::BTreeMap::new(),
        controller: "C".to_owned(),
        admitter: SpecAdmitter::default(),
        translate: None,
    }
}

fn steps(planner: &mut Planner, loader: &SpecLoader, store: &Store, now: i64) -> Vec<Step> {
    let (health, specs) = (HealthStates::new(), &loader.registry().environments);
    let inputs = Inputs {
        requests: &argus_core::user_requests::UserRequests::default(),
        leases: &argus_core::lease::ControllerLeases::default(),
        specs,
        preflight: None,
        scanned: true,
        store,
        health: &health,
        now: Timestamp(now),
    };
    planner.reconcile(&inputs).steps
}

/// Planner and store after all planned actions completed.
fn converged(loader: &SpecLoader, now: i64) -> (Planner, Store) {
    let identity = ControllerIdentity {
        controller: "C".to_owned(),
        run: "R".to_owned(),
        publish_address: core::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (mut planner, mut store) = (Planner::new(identity, PlannerState::default()), Store::default());
    store.apply(WatchEvent::Connected(Timestamp(now)));
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::InitDone);
    for round in 0..100 {
        let started = steps(&mut planner, loader, &store, now);
        if started.is_empty() {
            break;
        }
        for (number, step) in started.iter().enumerate() {
            let done = apply_action(&mut store, &step.action, Timestamp(now), round * 100 + number);
            planner.finished(step, &Ok(done), &store, Timestamp(now));
        }
    }
    (planner, store)
}

fn removes(step: &Step) -> bool {
    matches!(step.cause, Cause::ServiceRemoved | Cause::EnvironmentRemoved)
}

/// Writes every proper prefix of `text`, then the whole text, and asserts that nothing is removed. Returns the
/// number of prefixes.
fn check(text: &str, writer: &Writer) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e2e.yaml");
    let mut loader = new_loader(dir.path());
    let mut now = 1_000_000;
    let mut round = |loader: &mut SpecLoader| {
        now += STEP;
        loader.scan_once(Timestamp(now));
        now
    };
    fs::write(&file, text).unwrap();
    round(&mut loader);
    let confirmed_at = round(&mut loader);
    assert_eq!(loader.registry().environments.len(), 1, "the whole file is valid");
    let (planner, store) = converged(&loader, confirmed_at);
    let mut written = 0;
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        match writer {
            Writer::InPlace => fs::write(&file, &text[..end]).unwrap(),
            Writer::ByRename => {
                let temporary = dir.path().join(".e2e.yaml.part");
                fs::write(&temporary, &text[..end]).unwrap();
                fs::rename(&temporary, &file).unwrap();
            }
        }
        written += 1;
        for _ in 0..2 {
            let now = round(&mut loader);
            let started = steps(&mut planner.clone(), &loader, &store, now);
            let removal = started.iter().find(|step| removes(step));
            assert!(
                removal.is_none(),
                "after {end} bytes: {removal:?}\n{}",
                &text[..end]
            );
        }
    }
    fs::write(&file, text).unwrap();
    round(&mut loader);
    for _ in 0..20 {
        let now = round(&mut loader);
        let started = steps(&mut planner.clone(), &loader, &store, now);
        assert!(started.is_empty(), "the whole file needs no actions: {started:?}");
    }
    written
}

fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in [
        "controller/reconciler/tests/files",
        "examples",
        "examples/shop",
        "examples/build",
        "crds/tests/corpus/good",
        "controller/core/tests/corpus/admitted",
    ] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("e2e.yaml"), &text).unwrap();
            let mut loader = new_loader(folder.path());
            loader.scan_once(Timestamp(1_000));
            loader.scan_once(Timestamp(2_000));
            let services: usize = loader
                .registry()
                .environments
                .values()
                .map(|held| held.desired.services.len())
                .sum();
            if services >= 1 && text.len() > 200 && text.len() < 4_000 {
                found.push((path, text));
            }
        }
    }
    found
}

#[test]
fn prefixes_of_a_slowly_written_file_remove_nothing() {
    let mut prefixes = 0;
    let files = files();
    assert!(files.len() >= 10, "{} files with services", files.len());
    for (path, text) in files.iter().take(10) {
        for writer in [Writer::InPlace, Writer::ByRename] {
            let written = check(text, &writer);
            assert!(written > 100, "{}", path.display());
            prefixes += written;
        }
    }
    assert!(prefixes > 5_000, "{prefixes} prefixes");
}

#[test]
fn stalled_writer_after_a_valid_part_removes_nothing() {
    let whole = "project: { name: stall }\nservices:\n  a: { image: x, container: { name: a } }\n  b: { image: x, container: { name: b } }\n";
    let part = "project: { name: stall }\nservices:\n  a: { image: x, container: { name: a } }\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e2e.yaml");
    let mut loader = new_loader(dir.path());
    fs::write(&file, whole).unwrap();
    loader.scan_once(Timestamp(1_000));
    loader.scan_once(Timestamp(2_000));
    let (planner, store) = converged(&loader, 2_000);
    fs::write(&file, part).unwrap();
    loader.scan_once(Timestamp(3_000));
    loader.scan_once(Timestamp(3_500));
    fs::write(&file, format!("{part}  b: {{ ima")).unwrap();
    loader.scan_once(Timestamp(4_000));
    loader.scan_once(Timestamp(4_500));
    loader.scan_once(Timestamp(60_000));
    let started = steps(&mut planner.clone(), &loader, &store, 60_000);
    assert!(!started.iter().any(removes), "{started:?}");
    // The valid part alone, for long enough, is a normal edit.
    fs::write(&file, part).unwrap();
    loader.scan_once(Timestamp(61_000));
    loader.scan_once(Timestamp(61_500));
    loader.scan_once(Timestamp(64_000));
    let started = steps(&mut planner.clone(), &loader, &store, 64_000);
    assert!(started.iter().any(removes), "{started:?}");
}
