//! Tests of torn, damaged and rotated files: a journal never reports more than was written, and never loses an open
//! intent.

use argus_core::action::ActionKind;
use argus_core::journal::Outcome;

use super::*;
use crate::journal::checksum::with_checksum;

fn record(seq: u64, entry: Entry) -> String {
    let record = Record {
        v: JOURNAL_VERSION,
        seq,
        at: "2026-11-21T10:00:00.000Z".to_owned(),
        run: "RUN".to_owned(),
        entry,
    };
    with_checksum(&serde_json::to_string(&record).unwrap()) + "\n"
}

fn intent(seq: u64) -> String {
    let environment = argus_core::ident::EnvName::new("shop").unwrap();
    let intent = Intent {
        environment: Some(environment.clone()),
        subject: argus_core::action::Subject::Network {
            environment,
            name: None,
        },
        action: ActionRecord::default(),
        cause: "it is missing".to_owned(),
        correlation_id: None,
    };
    record(seq, Entry::Intent(intent))
}

fn result(seq: u64, of: u64) -> String {
    let entry = Entry::Result {
        of,
        environment: None,
        verb: ActionKind::CreateNetwork,
        outcome: Outcome::Done,
        code: None,
        ms: 7,
    };
    record(seq, entry)
}

fn read_and_append(bytes: &[u8]) -> (Vec<u64>, JournalContents) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    fs::write(&path, bytes).unwrap();
    let mut log_file = LogFile::new(path.clone());
    let contents = log_file.read().unwrap();
    // The next record starts on its own line, and a second read gives the same result.
    log_file.append(intent(9_000).as_bytes(), true).unwrap();
    let again = LogFile::new(path).read().unwrap();
    assert_eq!(again.torn, 0);
    assert!(again.open.contains_key(&9_000));
    let mut open: Vec<u64> = again.open.keys().copied().collect();
    open.pop();
    assert_eq!(open, contents.open.keys().copied().collect::<Vec<_>>());
    (open, contents)
}

fn good() -> String {
    [intent(1), intent(2), result(3, 1), intent(4), result(5, 4)].concat()
}

#[test]
fn intent_without_a_result_is_open() {
    let (open, contents) = read_and_append(good().as_bytes());
    assert_eq!(open, [2]);
    assert_eq!(
        (contents.next, contents.records, contents.torn, contents.damaged),
        (6, 5, 0, 0)
    );
    assert!(read_and_append(b"").1.is_fresh());
}

#[test]
fn torn_tail_is_cut_at_every_byte() {
    let good = good();
    let mut ends = vec![0];
    ends.extend(good.match_indices('\n').map(|(at, _)| at + 1));
    for cut in 0..=good.len() {
        let (open, contents) = read_and_append(&good.as_bytes()[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(contents.records, whole as u64, "cut at {cut}");
        let expected: &[u64] = [&[][..], &[1], &[1, 2], &[2], &[2, 4], &[2]][whole];
        assert_eq!(open, expected, "cut at {cut}");
        assert_eq!(contents.torn, (cut - ends[whole]) as u64, "cut at {cut}");
    }
}

#[test]
fn damaged_line_in_the_middle_is_skipped_and_counted() {
    let good = good();
    let last = good.trim_end().rfind('\n').unwrap();
    for at in (0..last).step_by(7) {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 0x01;
        let (open, contents) = read_and_append(&bytes);
        assert!(contents.damaged >= 1, "byte {at}");
        assert!(contents.records + contents.damaged <= 5, "byte {at}");
        // Damage may lose an intent or its result, and never invents one.
        assert!(
            open.iter().all(|seq| [1, 2, 4].contains(seq)),
            "byte {at}: {open:?}"
        );
    }
}

#[test]
fn line_of_a_newer_version_is_kept_and_counted() {
    let newer = with_checksum(r#"{"v":2,"seq":77,"at":"x","run":"y","kind":"poem"}"#) + "\n";
    let (open, contents) = read_and_append((good() + &newer).as_bytes());
    assert_eq!((open, contents.newer, contents.torn), (vec![2], 1, 0));
}

#[test]
fn rotation_retains_four_older_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let mut log_file = LogFile::new(path.clone());
    for round in 0..7 {
        log_file.rotate(intent(round).as_bytes()).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = ["1", "2", "3", "4"].map(|number| format!("journal.{number}.jsonl"));
    assert_eq!(names[..4], expected);
    assert_eq!(names[4..], ["journal.jsonl"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), intent(6));
    assert_eq!(
        fs::read_to_string(dir.path().join("journal.1.jsonl")).unwrap(),
        intent(5)
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("journal.4.jsonl")).unwrap(),
        intent(2)
    );
    // A rotation that was interrupted before its last rename.
    fs::rename(&path, dir.path().join("journal.new")).unwrap();
    assert_eq!(LogFile::new(path).read().unwrap().open.len(), 1);
}

#[test]
fn stopped_containers_are_known_until_their_next_start() {
    let of = |seq: u64, verb: ActionKind, id: &str| {
        let text = intent(seq);
        let mut read: Record = serde_json::from_str(text.trim_end()).unwrap();
        let Entry::Intent(intent) = &mut read.entry else {
            panic!("{text}");
        };
        intent.action = ActionRecord {
            verb,
            id: Some(id.to_owned()),
            ..ActionRecord::default()
        };
        record(seq, read.entry)
    };
    let lines = [
        of(1, ActionKind::StartContainer, "a"),
        of(2, ActionKind::StopContainer, "a"),
        result(3, 2),
        of(4, ActionKind::StopContainer, "b"),
        of(5, ActionKind::StartContainer, "b"),
        of(6, ActionKind::RemoveContainer, "c"),
        of(7, ActionKind::CollectEvidence, "d"),
    ];
    let (_, contents) = read_and_append(lines.concat().as_bytes());
    let stopped: Vec<_> = contents.stopped.iter().map(ToString::to_string).collect();
    assert_eq!(stopped, ["a", "c"]);
}
