//! Tests of the retention and of the completeness of evidence.

use argus_core::outcome::Diagnosis;

use super::*;

fn run(root: &Path, service: &str, number: u64, bytes: usize) -> PathBuf {
    let folder = root.join("shop").join(service).join(number.to_string());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("stdout.log"), vec![b'x'; bytes]).unwrap();
    let at = second(number * 10);
    let file = fs::File::open(folder.join("stdout.log")).unwrap();
    file.set_modified(at).unwrap();
    folder
}

fn second(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(number)
}

#[test]
fn sweep_removes_the_oldest_and_keeps_the_last_of_a_service() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let web: Vec<_> = (1..=10).map(|number| run(root, "web", number, 100)).collect();
    let db = run(root, "db", 1, 100_000);
    let known = |_: &str| true;
    sweep(root, &web[9], 100_350, second(0), &known);
    let left: Vec<_> = web.iter().map(|folder| folder.exists()).collect();
    assert_eq!(left, [&[false; 7][..], &[true; 3]].concat());
    assert!(db.exists(), "large, and the last one of its service");
    sweep(root, &web[9], 100_350, second(100), &known);
    assert!(web[9].exists() && !web[8].exists() && db.exists(), "too old");
}

#[test]
fn sweep_removes_nothing_behind_a_link() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, theirs) = (dir.path(), run(elsewhere.path(), "web", 1, 100));
    let own = run(root, "db", 1, 100);
    for (target, link) in [("shop", "linked"), ("shop/web", "shop/web")] {
        std::os::unix::fs::symlink(elsewhere.path().join(target), root.join(link)).unwrap();
    }
    sweep(root, &own, 0, second(1_000), &|_: &str| false);
    assert!(theirs.exists(), "it was never evidence");
}

fn facts(container: &str, number: u64, taken_at: &str) -> EvidenceFacts {
    EvidenceFacts {
        environment: "shop".to_owned(),
        service: "web".to_owned(),
        run: RunFacts {
            run: number,
            container_id: container.to_owned(),
            ..RunFacts::default()
        },
        taken_at: taken_at.to_owned(),
        probe_output: Vec::new(),
        engine: false,
        network_diagnostics: std::collections::BTreeMap::new(),
        stdout_lines: 0,
        stderr_lines: 0,
        missing: Vec::new(),
    }
}

#[test]
fn recreated_service_keeps_old_runs_and_newest_has_top_number() {
    let dir = tempfile::tempdir().unwrap();
    let of = |number: u64| dir.path().join("shop/web").join(number.to_string());
    let at = "2026-11-21T10:00:00.000Z";
    for number in 1..=3 {
        write(&of(number), &facts("old", number, at), &Evidence::default()).unwrap();
    }
    // The environment was taken down and comes up again: its failures count from 1.
    write(&of(1), &facts("new", 1, at), &Evidence::default()).unwrap();
    // Evidence of the same run is collected again.
    write(&of(1), &facts("new", 1, at), &Evidence::default()).unwrap();
    let read = |folder: &Path| -> EvidenceFacts {
        serde_json::from_slice(&fs::read(folder.join(FACTS_FILE)).unwrap()).unwrap()
    };
    let mut found: Vec<(Option<u64>, String)> = folders(&dir.path().join("shop/web"))
        .iter()
        .map(|folder| (number(folder), read(folder).run.container_id))
        .collect();
    found.sort();
    let old = || (None, "old".to_owned());
    assert_eq!(found, [old(), old(), old(), (Some(1), "new".to_owned())]);
}

#[test]
fn moved_runs_and_runs_of_unknown_services_expire() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let web = run(root, "web", 5, 100);
    let aside = root.join("shop/web/before-1");
    fs::rename(run(root, "web", 1, 100), &aside).unwrap();
    let known = |_: &str| true;
    sweep(root, &web, 350, second(0), &known);
    assert!(web.exists() && aside.exists());
    sweep(root, &web, 150, second(0), &known);
    assert!(web.exists() && !aside.exists(), "retained evidence counts too");
    let db = run(root, "db", 1, 100);
    sweep(root, &web, 1_000, second(100), &known);
    assert!(db.exists(), "old, and the last of a known service");
    sweep(root, &web, 1_000, second(100), &|_: &str| false);
    assert!(!db.exists() && web.exists());
}

#[test]
fn stored_evidence_is_complete_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("shop").join("web").join("1");
    let facts: EvidenceFacts = serde_json::from_str(
        r#"{"environment":"shop","service":"web","run":1,"containerId":"c","startedAt":null,"takenAt":"",
            "memoryPeak":null,"stdoutLines":2,"stderrLines":0,"missing":[]}"#,
    )
    .unwrap();
    let found = Evidence {
        stdout: vec!["one".to_owned(), "two".to_owned()],
        ..Evidence::default()
    };
    // The files of an interrupted write are overwritten.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("stdout.log"), "half of something longer").unwrap();
    write(&folder, &facts, &found).unwrap();
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let stored: Vec<_> = names
        .iter()
        .map(|file| (file.file_name(), fs::read_to_string(file.path()).unwrap()))
        .collect();
    assert_eq!(stored.len(), 3, "{stored:?}");
    assert_eq!((stored[1].1.as_str(), stored[2].1.as_str()), ("", "one\ntwo\n"));
    assert_eq!(
        serde_json::from_str::<EvidenceFacts>(&stored[0].1).unwrap(),
        facts
    );
}

#[test]
fn state_stores_the_last_lines_without_timestamps() {
    let stamp = "2026-11-21T10:00:00.123456789Z";
    let lines: Vec<String> = (0..200).map(|n| format!("{stamp} line {n}")).collect();
    let stored = tail_of(&lines);
    assert_eq!((stored.len(), stored[99].as_str()), (100, "line 199"));
    let odd = [
        format!("{stamp} "),
        stamp.to_owned(),
        "no stamp".to_owned(),
        "é".repeat(2_000),
    ];
    let stored = tail_of(&odd);
    assert_eq!(&stored[..3], ["", "", "no stamp"]);
    assert_eq!(stored[3].len(), 2_048);
}

#[test]
fn evidence_contains_no_secrets() {
    let secrets: Secrets = serde_json::from_value(serde_json::json!(["swordfish"])).unwrap();
    let stamp = "2026-11-21T10:00:00.123456789Z";
    let long = "x".repeat(MIN_CUT_BYTES);
    let mut evidence = Evidence {
        stdout: vec![format!("{stamp} ordfish."), format!("{stamp} the word is fish")],
        stderr: vec![
            format!("{stamp} pw=swordfish"),
            format!("{long} swordfi"),
            "c3dvcmRmaXNo".to_owned(),
        ],
        missing: vec!["swordfish".to_owned()],
        network_diagnostics: [("dns".to_owned(), "swordfish".to_owned())].into(),
        ..Evidence::default()
    };
    redact(&mut evidence, &secrets);
    assert_eq!(
        evidence.stdout,
        [
            format!("{stamp} [redacted]."),
            format!("{stamp} the word is fish")
        ]
    );
    assert_eq!(
        evidence.stderr,
        [
            format!("{stamp} pw=[redacted]"),
            format!("{long} [redacted]"),
            "[redacted]".to_owned()
        ]
    );
    assert_eq!(evidence.missing, ["[redacted]"]);
    assert_eq!(evidence.network_diagnostics["dns"], "[redacted]");
}

#[test]
fn diagnosis_is_added_to_the_evidence_of_its_run_only() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("shop/web/1");
    let own = facts("c", 1, "");
    write(&folder, &own, &Evidence::default()).unwrap();
    let diagnosis = Diagnosis {
        results: [("dns web".to_owned(), "10.0.0.2".to_owned())].into(),
        missing: Some("tcp".to_owned()),
    };
    later_facts::attach(&folder, &facts("other", 1, ""), diagnosis.clone()).unwrap();
    let read =
        || -> EvidenceFacts { serde_json::from_slice(&fs::read(folder.join(FACTS_FILE)).unwrap()).unwrap() };
    assert_eq!(read(), own);
    later_facts::attach(&folder, &own, diagnosis).unwrap();
    assert_eq!(read().network_diagnostics["dns web"], "10.0.0.2");
    assert_eq!(read().missing, ["tcp"]);
}
