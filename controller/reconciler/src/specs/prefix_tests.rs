//! A file that is only half written takes nothing away, however its writer goes about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_core::observed::{Store, WatchEvent};
use argus_core::plan::forecast::pretend;
use argus_core::plan::{Cause, Step};
use argus_core::probe::HealthStates;
use argus_core::reconcile::{ControllerIdentity, Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use super::admission::SpecAdmitter;
use super::loader::{Rules, SpecLoader, StartingPoint};

/// Longer than it takes for a prefix to count, shorter than what makes a removal stable.
const STEP: i64 = 250;

enum Writer {
    InPlace,
    ByRename,
}

fn desk(folder: &Path) -> SpecLoader {
    let rules = Rules {
        own_image: crate::specs::admitter::OwnImage {
            folder: "/nowhere".into(),
            fill: None,
        },
        folder: folder.to_path_buf(),
        strict: false,
        env_allow: Vec::new(),
        process_env: std::collections::BTreeMap::new(),
        controller: "C".to_owned(),
        admitter: Arc::new(SpecAdmitter::default()),
    };
    SpecLoader::new(rules, StartingPoint::default())
}

fn steps(planner: &mut Planner, desk: &SpecLoader, store: &Store, now: i64) -> Vec<Step> {
    let (health, specs) = (HealthStates::new(), &desk.registry().environments);
    let inputs = Inputs {
        requests: &argus_core::user_requests::UserRequests::default(),
        leases: &argus_core::lease::Leases::default(),
        specs,
        preflight: None,
        scanned: true,
        store,
        health: &health,
        now: Timestamp(now),
    };
    planner.reconcile(&inputs).actions
}

/// The brain and the world after everything that the file wants was made.
fn converged(desk: &SpecLoader, now: i64) -> (Planner, Store) {
    let site = ControllerIdentity {
        controller: "C".to_owned(),
        run: "R".to_owned(),
        publish_address: core::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (mut planner, mut store) = (Planner::new(site, PlannerState::default()), Store::default());
    store.apply(WatchEvent::Connected(Timestamp(now)));
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::InitDone);
    for round in 0..100 {
        let begun = steps(&mut planner, desk, &store, now);
        if begun.is_empty() {
            break;
        }
        for (number, step) in begun.iter().enumerate() {
            let done = pretend(&mut store, &step.action, Timestamp(now), round * 100 + number);
            planner.finished(step, &Ok(done), &store, Timestamp(now));
        }
    }
    (planner, store)
}

fn removes(step: &Step) -> bool {
    matches!(step.cause, Cause::ServiceRemoved | Cause::EnvironmentRemoved)
}

/// Writes every proper prefix of `text`, one after the other, then all of it; nothing may be removed meanwhile.
fn check(text: &str, writer: &Writer) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e2e.yaml");
    let mut desk = desk(dir.path());
    let mut now = 1_000_000;
    let mut round = |desk: &mut SpecLoader| {
        now += STEP;
        desk.scan_once(Timestamp(now));
        now
    };
    fs::write(&file, text).unwrap();
    round(&mut desk);
    let settled = round(&mut desk);
    assert_eq!(desk.registry().environments.len(), 1, "the whole file is good");
    let (planner, store) = converged(&desk, settled);
    let mut written = 0;
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        match writer {
            Writer::InPlace => fs::write(&file, &text[..end]).unwrap(),
            Writer::ByRename => {
                let aside = dir.path().join(".e2e.yaml.part");
                fs::write(&aside, &text[..end]).unwrap();
                fs::rename(&aside, &file).unwrap();
            }
        }
        written += 1;
        for _ in 0..2 {
            let now = round(&mut desk);
            let begun = steps(&mut planner.clone(), &desk, &store, now);
            let removal = begun.iter().find(|step| removes(step));
            assert!(
                removal.is_none(),
                "after {end} bytes: {removal:?}\n{}",
                &text[..end]
            );
        }
    }
    fs::write(&file, text).unwrap();
    round(&mut desk);
    for _ in 0..20 {
        let now = round(&mut desk);
        let begun = steps(&mut planner.clone(), &desk, &store, now);
        assert!(begun.is_empty(), "the whole file again is as before: {begun:?}");
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
            let alone = tempfile::tempdir().unwrap();
            fs::write(alone.path().join("e2e.yaml"), &text).unwrap();
            let mut desk = desk(alone.path());
            desk.scan_once(Timestamp(1_000));
            desk.scan_once(Timestamp(2_000));
            let services: usize = desk
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
fn every_prefix_of_a_file_written_slowly_removes_nothing() {
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
fn a_writer_that_stalls_after_a_valid_part_and_a_broken_one_removes_nothing() {
    let whole = "project: { name: stall }\nservices:\n  a: { image: x, container: { name: a } }\n  b: { image: x, container: { name: b } }\n";
    let part = "project: { name: stall }\nservices:\n  a: { image: x, container: { name: a } }\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e2e.yaml");
    let mut desk = desk(dir.path());
    fs::write(&file, whole).unwrap();
    desk.scan_once(Timestamp(1_000));
    desk.scan_once(Timestamp(2_000));
    let (planner, store) = converged(&desk, 2_000);
    fs::write(&file, part).unwrap();
    desk.scan_once(Timestamp(3_000));
    desk.scan_once(Timestamp(3_500));
    fs::write(&file, format!("{part}  b: {{ ima")).unwrap();
    desk.scan_once(Timestamp(4_000));
    desk.scan_once(Timestamp(4_500));
    desk.scan_once(Timestamp(60_000));
    let begun = steps(&mut planner.clone(), &desk, &store, 60_000);
    assert!(!begun.iter().any(removes), "{begun:?}");
    // The part on its own, and for long enough, is an edit like any other.
    fs::write(&file, part).unwrap();
    desk.scan_once(Timestamp(61_000));
    desk.scan_once(Timestamp(61_500));
    desk.scan_once(Timestamp(64_000));
    let begun = steps(&mut planner.clone(), &desk, &store, 64_000);
    assert!(begun.iter().any(removes), "{begun:?}");
}
