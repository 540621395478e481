//! Numbers of parses and admissions per revision of the inputs of a file.

use std::fs;
use std::path::Path;

use argus_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::specs::loader::SpecLoader;
use crate::specs::parsed_file::CALLS;
use crate::specs::prefix_tests::new_loader;
use crate::specs::registry::FileState;

const SPEC: &str = "project: {name: shop}\nservices:\n  web:\n    build: {context: ./app}\n    command: [\"{{env.A}}\"]\n    container: {name: web}\n";

/// Scans until the folder does not change, and further. Returns the numbers of parses and admissions.
fn scan(loader: &mut SpecLoader, now: &mut i64) -> (usize, usize) {
    CALLS.set((0, 0));
    for _ in 0..5 {
        *now += 10_000;
        loader.scan_once(Timestamp(*now));
    }
    CALLS.get()
}

#[test]
fn file_is_parsed_and_admitted_once_per_revision() {
    let dir = tempfile::tempdir().unwrap();
    let (app, spec) = (dir.path().join("app"), dir.path().join("e2e.yaml"));
    fs::create_dir(&app).unwrap();
    fs::write(app.join("Dockerfile"), "FROM scratch").unwrap();
    fs::write(dir.path().join(".env"), "A=1").unwrap();
    fs::write(&spec, SPEC).unwrap();
    let (mut loader, mut now) = (new_loader(dir.path()), 0);
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "first scans");
    assert_eq!(scan(&mut loader, &mut now), (0, 0), "no change");
    fs::write(&spec, SPEC.replace("shop", "store")).unwrap();
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "other contents");
    fs::write(dir.path().join(".env"), "A=2").unwrap();
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "other variables");
    fs::write(app.join("Dockerfile"), "FROM alpine").unwrap();
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "other build context");
    let revision = |loader: &SpecLoader| loader.registry().environments.values().next().unwrap().clone();
    let before = revision(&loader);

    let copy = dir.path().join("copy.e2e.yaml");
    fs::write(&copy, SPEC.replace("shop", "store")).unwrap();
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "conflict");
    let entry = &loader.registry().files[Path::new("copy.e2e.yaml")];
    assert!(matches!(entry.state, FileState::Conflict { .. }), "{entry:?}");
    assert!(
        entry.diagnostics.iter().any(|it| it.location.is_some()),
        "{entry:?}"
    );
    fs::remove_file(&copy).unwrap();
    assert_eq!(scan(&mut loader, &mut now), (0, 0), "the copy is gone");

    // The registry took the admission, so contents that return need another one.
    fs::remove_file(&spec).unwrap();
    fs::create_dir(&spec).unwrap();
    assert_eq!(scan(&mut loader, &mut now), (0, 0), "not a file");
    fs::remove_dir(&spec).unwrap();
    fs::write(&spec, SPEC.replace("shop", "store")).unwrap();
    assert_eq!(scan(&mut loader, &mut now), (1, 1), "returned");
    assert_eq!(
        loader.registry().files[Path::new("e2e.yaml")].state,
        FileState::Accepted
    );
    assert_eq!(revision(&loader).desired, before.desired);
}

#[test]
fn large_build_context_delays_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let (app, data) = (dir.path().join("app"), dir.path().join("app/data"));
    fs::create_dir(&app).unwrap();
    fs::write(app.join("Dockerfile"), "FROM scratch").unwrap();
    fs::write(dir.path().join(".env"), "A=1").unwrap();
    // Nothing of the file is on the disk.
    fs::File::create(&data).unwrap().set_len(1 << 20).unwrap();
    let spec = dir.path().join("a.e2e.yaml");
    fs::write(&spec, SPEC).unwrap();
    let other = "project: {name: other}\nservice: {image: demo, container: {name: z}}\n";
    fs::write(dir.path().join("z.e2e.yaml"), other).unwrap();
    let mut loader = new_loader(dir.path()).in_parts(100_000, CancellationToken::new());
    // The first complete scan knows every environment: what it does not know is removed.
    let mut now = 0;
    while !loader.registry().scanned {
        now += 1_000;
        loader.scan_once(Timestamp(now));
    }
    assert_eq!(loader.registry().environments.len(), 2);
    // Scans until the context is read. Returns the number of scans and the accepted environments after the second one.
    let mut read = |loader: &mut SpecLoader| {
        let mut second = Vec::new();
        for number in 1..40 {
            now += 1_000;
            let result = loader.scan_once(Timestamp(now));
            let environments = loader.registry().environments.values();
            let ready = environments.filter(|accepted| !accepted.has_pending_edit);
            let ready: Vec<_> = ready.map(|accepted| accepted.desired.env.to_string()).collect();
            if number == 2 {
                second.clone_from(&ready);
                assert_eq!(
                    result.next_at,
                    Some(Timestamp(now)),
                    "the next part follows immediately"
                );
                assert!(loader.has_unconfirmed_files() && loader.registry().scanned);
            }
            if ready.len() == 2 && !loader.has_unconfirmed_files() {
                return (number, second);
            }
        }
        panic!("{:?}", loader.registry());
    };
    // An edit of the context keeps the accepted revision until it is read.
    fs::File::create(&data).unwrap().set_len(2 << 20).unwrap();
    let (scans, second) = read(&mut loader);
    assert!(scans > 16 && second == ["other"], "{scans} {second:?}");
    assert_eq!(loader.registry().environments.len(), 2);

    // A renamed file is unknown until its context is read, which takes longer than the grace period of the old name.
    fs::File::create(&data).unwrap().set_len(1 << 20).unwrap();
    fs::rename(&spec, dir.path().join("b.e2e.yaml")).unwrap();
    let (scans, second) = read(&mut loader);
    assert!(scans > 8 && second == ["other", "shop"], "{scans} {second:?}");
}
