//! What is kept of failed runs, for how long, and whole.

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
fn the_oldest_goes_first_and_the_last_of_a_service_never() {
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

fn facts(container: &str, number: u64, taken_at: &str) -> EvidenceFacts {
    EvidenceFacts {
        environment: "shop".to_owned(),
        service: "web".to_owned(),
        run: number,
        container_id: container.to_owned(),
        started_at: None,
        taken_at: taken_at.to_owned(),
        memory_peak: None,
        exit_code: None,
        probe_output: Vec::new(),
        questions: std::collections::BTreeMap::new(),
        stdout_lines: 0,
        stderr_lines: 0,
        missing: Vec::new(),
    }
}

#[test]
fn a_service_that_counts_anew_overwrites_nothing_and_its_newest_run_has_the_highest_number() {
    let dir = tempfile::tempdir().unwrap();
    let of = |number: u64| dir.path().join("shop/web").join(number.to_string());
    let at = "2026-11-21T10:00:00.000Z";
    for number in 1..=3 {
        write(&of(number), &facts("old", number, at), &Evidence::default()).unwrap();
    }
    // It was taken down and comes up again: its failures begin at 1.
    write(&of(1), &facts("new", 1, at), &Evidence::default()).unwrap();
    // Evidence of the same run is taken again.
    write(&of(1), &facts("new", 1, at), &Evidence::default()).unwrap();
    let read = |folder: &Path| -> EvidenceFacts {
        serde_json::from_slice(&fs::read(folder.join(FACTS)).unwrap()).unwrap()
    };
    let mut found: Vec<(Option<u64>, String)> = folders(&dir.path().join("shop/web"))
        .iter()
        .map(|folder| (number(folder), read(folder).container_id))
        .collect();
    found.sort();
    let old = || (None, "old".to_owned());
    assert_eq!(found, [old(), old(), old(), (Some(1), "new".to_owned())]);
}

#[test]
fn what_was_set_aside_goes_in_its_time_and_the_last_of_what_is_gone_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let web = run(root, "web", 5, 100);
    let aside = root.join("shop/web/before-1");
    fs::rename(run(root, "web", 1, 100), &aside).unwrap();
    let known = |_: &str| true;
    sweep(root, &web, 350, second(0), &known);
    assert!(web.exists() && aside.exists());
    sweep(root, &web, 150, second(0), &known);
    assert!(web.exists() && !aside.exists(), "what stays counts too");
    let db = run(root, "db", 1, 100);
    sweep(root, &web, 1_000, second(100), &known);
    assert!(db.exists(), "old, and the last of a service that is known");
    sweep(root, &web, 1_000, second(100), &|_: &str| false);
    assert!(!db.exists() && web.exists());
}

#[test]
fn what_is_there_is_whole_and_private() {
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
    // What an attempt that was cut off left is written over.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("stdout.log"), "half of something longer").unwrap();
    write(&folder, &facts, &found).unwrap();
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let kept: Vec<_> = names
        .iter()
        .map(|file| (file.file_name(), fs::read_to_string(file.path()).unwrap()))
        .collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert_eq!((kept[1].1.as_str(), kept[2].1.as_str()), ("", "one\ntwo\n"));
    assert_eq!(serde_json::from_str::<EvidenceFacts>(&kept[0].1).unwrap(), facts);
}

#[test]
fn the_memory_keeps_the_last_lines_without_their_times() {
    let stamp = "2026-11-21T10:00:00.123456789Z";
    let lines: Vec<String> = (0..200).map(|n| format!("{stamp} line {n}")).collect();
    let kept = persisted(&lines);
    assert_eq!((kept.len(), kept[99].as_str()), (100, "line 199"));
    let odd = [
        format!("{stamp} "),
        stamp.to_owned(),
        "no stamp".to_owned(),
        "é".repeat(2_000),
    ];
    let kept = persisted(&odd);
    assert_eq!(&kept[..3], ["", "", "no stamp"]);
    assert_eq!(kept[3].len(), 2_048);
}
