//! Numbers of parses and admissions per revision of the inputs of a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use argus_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::specs::debounce::QUIET_TIME;
use crate::specs::evaluation::Fingerprints;
use crate::specs::file_writes::FileWrites;
use crate::specs::loader::{PersistedSpecs, SpecLoader};
use crate::specs::parsed_file::CALLS;
use crate::specs::prefix_tests::{new_loader, rules};
use crate::specs::registry::FileState;
use crate::specs::scan::{Contents, Scan};

const SPEC: &str = "project: {name: shop}\nservices:\n  web:\n    build: {context: ./app}\n    command: [\"{{env.A}}\"]\n    container: {name: web}\n";

const DOCUMENT: &str = r#"{"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}}"#;

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
fn permitted_variables_precede_those_of_the_dotenv() {
    let dir = tempfile::tempdir().unwrap();
    let text = SPEC.replace("build: {context: ./app}", "image: busybox");
    let text = text.replace("{{env.A}}", "{{env.A}} {{env.B}} {{env.C}} {{env.ARGUS_ENV_D}}");
    fs::write(dir.path().join("e2e.yaml"), text).unwrap();
    fs::write(dir.path().join(".env"), "A=own\nB=own\nC=$A\nARGUS_ENV_D=own\n").unwrap();
    let mut settings = rules(dir.path());
    settings.env_allow = vec!["A".to_owned()];
    let names = ["A", "B", "ARGUS_ENV_D"];
    settings.process_env = names.map(|name| (name.to_owned(), "shell".to_owned())).into();
    let mut loader = SpecLoader::new(settings, PersistedSpecs::default());
    scan(&mut loader, &mut 0);
    let accepted = loader.registry().environments.values().next().unwrap();
    let web = accepted.desired.services.values().next().unwrap();
    assert_eq!(web.command, Some(vec!["shell own shell shell".to_owned()]));
}

#[test]
fn dotenv_that_is_not_understood_rejects_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dotenv = dir.path().join(".env");
    let text = SPEC.replace("build: {context: ./app}", "image: busybox");
    let text = text.replace("[\"", "[echo, \"");
    fs::write(dir.path().join("e2e.yaml"), &text).unwrap();
    fs::write(&dotenv, "\u{feff}B=\"one\r\ntwo\" # text\r\nA=$B\r\n").unwrap();
    let (mut loader, mut now) = (new_loader(dir.path()), 0);
    scan(&mut loader, &mut now);
    let command = |loader: &SpecLoader| {
        let registry = loader.registry();
        let accepted = registry.environments.values().next();
        let accepted = accepted
            .unwrap_or_else(|| panic!("{:#?}", registry.files))
            .clone();
        accepted.desired.services.values().next().unwrap().command.clone()
    };
    let before = command(&loader);
    assert_eq!(before, Some(["echo", "one\r\ntwo"].map(str::to_owned).to_vec()));
    fs::write(&dotenv, "A=3\nB='x\n").unwrap();
    scan(&mut loader, &mut now);
    let entry = &loader.registry().files[Path::new("e2e.yaml")];
    let error = entry.diagnostics.iter().find(|it| it.is_error()).unwrap();
    assert!(
        error.message.ends_with("/.env:2:3`: this quote has no end"),
        "{error:?}"
    );
    let place = error.correction.as_ref().unwrap().elsewhere.as_ref().unwrap();
    assert_eq!((place.file.as_str(), place.line), (".env", Some(2)));
    assert_eq!(command(&loader), before, "the last good revision");
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
fn only_an_edit_of_the_file_changes_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let (app, spec) = (dir.path().join("app"), dir.path().join("e2e.yaml"));
    fs::create_dir(&app).unwrap();
    fs::write(app.join("Dockerfile"), "FROM scratch").unwrap();
    fs::write(dir.path().join(".env"), "A=1").unwrap();
    fs::write(dir.path().join("api.json"), DOCUMENT).unwrap();
    let text = format!("{SPEC}mocks:\n  api: {{port: 80, openapi: api.json}}\n");
    fs::write(&spec, &text).unwrap();
    let (mut loader, mut now) = (new_loader(dir.path()), 0);
    let mut read = |loader: &mut SpecLoader| {
        scan(loader, &mut now);
        let accepted = loader.registry().environments.values().next().unwrap();
        assert!(accepted.file_hash.is_some() && !accepted.has_pending_edit);
        (accepted.desired.revision.clone(), accepted.file_hash.clone())
    };
    let mut before = read(&mut loader);
    let renamed = DOCUMENT.replace("\"t\"", "\"u\"");
    for (name, text) in [
        (".env", "A=2"),
        ("app/Dockerfile", "FROM alpine"),
        ("api.json", &*renamed),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let after = read(&mut loader);
        assert!(
            after.0 != before.0 || name == "api.json",
            "{name} changes the revision"
        );
        assert_eq!(after.1, before.1, "{name} is not the spec file");
        before = after;
    }
    // A restart keeps the hash.
    let mut loader = SpecLoader::new(rules(dir.path()), loader.persisted_specs());
    assert_eq!(read(&mut loader), before);
    fs::write(&spec, text + "# a comment\n").unwrap();
    let after = read(&mut loader);
    assert_eq!(after.0, before.0, "a comment does not change the revision");
    assert_ne!(after.1, before.1);
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
    // The context of this file does not change.
    write_build(dir.path(), "cached");
    let mut now = 0;
    let mut loader = scanned_in_parts(dir.path(), &mut now);
    assert_eq!(loader.registry().environments.len(), 3);
    // Scans until the context is read. Returns the number of scans and the accepted environments after the second one.
    let mut read = |loader: &mut SpecLoader| {
        let mut second = Vec::new();
        for number in 1..40 {
            now += 1_000;
            let result = loader.scan_once(Timestamp(now));
            let ready = ready(loader);
            if number == 2 {
                second.clone_from(&ready);
                assert_eq!(
                    result.next_at,
                    Some(Timestamp(now)),
                    "the next part follows immediately"
                );
                assert!(loader.has_unconfirmed_files() && loader.registry().scanned);
            }
            if ready.len() == 3 && !loader.has_unconfirmed_files() {
                return (number, second);
            }
        }
        panic!("{:?}", loader.registry());
    };
    // An edit of the context keeps the accepted revision until it is read.
    fs::File::create(&data).unwrap().set_len(2 << 20).unwrap();
    let (scans, second) = read(&mut loader);
    assert!(scans > 16 && second == ["cached", "other"], "{scans} {second:?}");
    assert_eq!(loader.registry().environments.len(), 3);

    // A renamed file is unknown until its context is read, which takes longer than the grace period of the old name.
    fs::File::create(&data).unwrap().set_len(1 << 20).unwrap();
    fs::rename(&spec, dir.path().join("b.e2e.yaml")).unwrap();
    let (scans, second) = read(&mut loader);
    assert!(
        scans > 8 && second == ["cached", "other", "shop"],
        "{scans} {second:?}"
    );
}

/// Writes a spec file with a build context, both with the name of the environment. Returns the path of a file in the context.
fn write_build(dir: &Path, name: &str) -> PathBuf {
    let context = dir.join(name);
    fs::create_dir(&context).unwrap();
    fs::write(context.join("Dockerfile"), "FROM scratch").unwrap();
    let spec = format!(
        "project: {{name: {name}}}\nservices:\n  web:\n    build: {{context: ./{name}}}\n    container: {{name: {name}-web}}\n"
    );
    fs::write(dir.join(format!("{name}.e2e.yaml")), spec).unwrap();
    context.join("data")
}

/// Sets the size of a file of which nothing is on the disk.
fn resize(file: &Path, bytes: u64) {
    fs::File::create(file).unwrap().set_len(bytes).unwrap();
}

/// Loader after its first complete scan, which knows every environment: what it does not know is removed.
fn scanned_in_parts(dir: &Path, now: &mut i64) -> SpecLoader {
    let mut loader = new_loader(dir).in_parts(100_000, CancellationToken::new());
    while !loader.registry().scanned {
        *now += 1_000;
        loader.scan_once(Timestamp(*now));
    }
    loader
}

/// Environments without a pending edit.
fn ready(loader: &SpecLoader) -> Vec<String> {
    let environments = loader.registry().environments.values();
    let ready = environments.filter(|accepted| !accepted.has_pending_edit);
    ready.map(|accepted| accepted.desired.env.to_string()).collect()
}

#[test]
fn part_of_a_scan_is_shared_by_all_files() {
    let dir = tempfile::tempdir().unwrap();
    let contexts = ["a", "b", "c"].map(|name| write_build(dir.path(), name));
    let mut now = 0;
    let mut loader = scanned_in_parts(dir.path(), &mut now);
    for data in &contexts {
        resize(data, 1 << 20);
    }
    let mut scans = 0;
    loop {
        now += 1_000;
        loader.scan_once(Timestamp(now));
        scans += 1;
        if !loader.has_unconfirmed_files() {
            break;
        }
        assert!(scans < 60, "{:?}", loader.registry());
    }
    assert_eq!(ready(&loader), ["a", "b", "c"]);
    // A read takes 64 KiB, so a part takes 128 KiB.
    assert!(scans >= 24, "{scans} scans");
}

#[test]
fn stop_ends_a_scan_between_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let mut loader = new_loader(dir.path()).until(stop.clone());
    let path = PathBuf::from("e2e.yaml");
    let scan = Scan {
        files: [(path.clone(), Contents::NotFile("directory"))].into(),
        ..Scan::default()
    };
    let mut enter = |now| {
        let evaluated = [(&path, Some(Fingerprints::of("directory")))].into();
        let at_start = FileWrites::default().inputs(QUIET_TIME, Timestamp(now));
        loader.enter_all(&scan, evaluated, (&BTreeMap::new(), at_start), Timestamp(now))
    };
    assert_eq!(enter(1), Some(false));
    stop.cancel();
    assert_eq!(enter(1_000), None);
    assert!(loader.registry().files.is_empty());
    fs::write(dir.path().join(&path), SPEC).unwrap();
    loader.scan_once(Timestamp(2_000));
    assert!(loader.evaluations.is_empty(), "no file is evaluated");
}

#[test]
fn changing_context_starves_no_other_one() {
    let dir = tempfile::tempdir().unwrap();
    let [changing, edited] = ["a", "b"].map(|name| write_build(dir.path(), name));
    let mut now = 0;
    let mut loader = scanned_in_parts(dir.path(), &mut now);
    resize(&edited, 1 << 20);
    for number in 0..60 {
        resize(&changing, (1 << 20) + number);
        now += 1_000;
        loader.scan_once(Timestamp(now));
        let is_read = ready(&loader).contains(&"b".to_owned());
        if is_read && number > 0 {
            return;
        }
        assert!(!is_read, "the edit is read in parts");
    }
    panic!("{:?}", loader.registry());
}
