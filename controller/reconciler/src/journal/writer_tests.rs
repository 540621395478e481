//! Tests of batches, rotation and unwritable disks: every confirmed intent is in the file that the next start
//! reads.

use argus_core::action::{ActionKind, Subject};
use argus_core::ident::EnvName;
use argus_core::journal::{ActionRecord, Outcome};

use super::*;

const NOW: Timestamp = Timestamp(1_000_000_000);

struct Fixture {
    dir: tempfile::TempDir,
    writer: JournalWriter,
    health: watch::Receiver<JournalHealth>,
}

fn fixture(limit: u64) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let log_file = LogFile::new(dir.path().join("journal.jsonl"));
    let (sender, health) = watch::channel(JournalHealth::default());
    let feed = Feed::new(dir.path().join("journal.jsonl"), 0);
    let writer = JournalWriter::new(
        log_file,
        "RUN".to_owned(),
        limit,
        &JournalContents::default(),
        sender,
        feed,
        TaskMetrics::default(),
    );
    Fixture { dir, writer, health }
}

impl Fixture {
    fn path(&self) -> PathBuf {
        self.dir.path().join("journal.jsonl")
    }

    fn read(&self) -> JournalContents {
        LogFile::new(self.path()).read().unwrap()
    }

    /// Writes this many intents in one batch, and returns their results.
    fn intend(&mut self, number: usize) -> Vec<Result<u64, String>> {
        let environment = EnvName::new("shop").unwrap();
        let intent = Intent {
            environment: Some(environment.clone()),
            subject: Subject::Network {
                environment,
                name: None,
            },
            action: ActionRecord::default(),
            cause: "it is missing".to_owned(),
            correlation_id: None,
        };
        let (requests, replies): (Vec<_>, Vec<_>) = (0..number)
            .map(|_| {
                let (reply, replied) = oneshot::channel();
                let intent = Box::new(intent.clone());
                (
                    WriteRequest::Intend {
                        at: NOW,
                        intent,
                        reply,
                    },
                    replied,
                )
            })
            .unzip();
        self.writer.execute(requests);
        replies
            .into_iter()
            .map(|mut replied| replied.try_recv().unwrap())
            .collect()
    }

    fn result(&mut self, of: u64) {
        let entry = Box::new(Entry::Result {
            of,
            environment: None,
            verb: ActionKind::CreateNetwork,
            outcome: Outcome::Done,
            code: None,
            ms: 1,
        });
        self.writer.execute(vec![WriteRequest::Event { at: NOW, entry }]);
    }

    fn leave_safe_mode(&mut self) -> Result<(), String> {
        let (reply, mut replied) = oneshot::channel();
        self.writer.execute(vec![WriteRequest::Resume { at: NOW, reply }]);
        replied.try_recv().unwrap()
    }
}

#[test]
fn waiting_intents_are_written_in_one_batch_with_own_numbers() {
    let mut fixture = fixture(u64::MAX);
    let numbers: Vec<u64> = fixture.intend(100).into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    fixture.result(7);
    let contents = fixture.read();
    assert_eq!(
        (contents.open.len(), contents.records, contents.next),
        (99, 101, 102)
    );
    assert!(!contents.open.contains_key(&7));
}

#[test]
fn rotations_lose_no_open_intent() {
    let mut fixture = fixture(3_000);
    let mut open = std::collections::BTreeSet::new();
    for round in 0..200_u64 {
        let seq = fixture.intend(1)[0].clone().unwrap();
        open.insert(seq);
        if round % 10 != 0 {
            open.remove(&seq);
            fixture.result(seq);
        }
        let contents = fixture.read();
        assert_eq!(
            contents
                .open
                .keys()
                .copied()
                .collect::<std::collections::BTreeSet<_>>(),
            open
        );
        assert_eq!((contents.torn, contents.damaged), (0, 0));
    }
    assert!(fixture.dir.path().join("journal.4.jsonl").exists());
}

#[test]
fn write_failure_refuses_intents_until_a_person_resumes() {
    let mut fixture = fixture(u64::MAX);
    let first = fixture.intend(2);
    // A folder at the path of the journal: it can neither be written nor created.
    std::fs::rename(fixture.path(), fixture.dir.path().join("away")).unwrap();
    std::fs::create_dir(fixture.path()).unwrap();
    assert!(fixture.intend(3).iter().all(Result::is_err));
    let health = fixture.health.borrow().clone();
    assert!(health.unwritable.is_some() && health.safe.is_some());
    fixture.result(first[0].clone().unwrap());
    fixture.writer.try_again(NOW);
    assert!(fixture.leave_safe_mode().is_err(), "it is not writable yet");
    std::fs::remove_dir(fixture.path()).unwrap();
    fixture.writer.try_again(NOW);
    let health = fixture.health.borrow().clone();
    assert!(
        health.unwritable.is_none() && health.safe.is_some(),
        "no person has resumed it"
    );
    assert!(fixture.intend(1)[0].is_err());
    fixture.leave_safe_mode().unwrap();
    assert_eq!(*fixture.health.borrow(), JournalHealth::default());
    let next = fixture.intend(1)[0].clone().unwrap();
    let contents = fixture.read();
    let open: Vec<u64> = contents.open.keys().copied().collect();
    assert_eq!(
        open,
        [first[1].clone().unwrap(), next],
        "the open intent was copied, the closed one was not"
    );
    assert!(fixture.leave_safe_mode().is_err(), "there is nothing to resume");
    let metrics = &fixture.writer.metrics;
    // One intent that met the failure, and two attempts to write again: by the timer and by the resume.
    assert_eq!(metrics.journal_failures.get(), 3);
    let size = std::fs::metadata(fixture.path()).unwrap().len();
    assert_eq!(u64::try_from(metrics.journal_bytes.get()), Ok(size));
}

#[test]
fn removed_journal_is_created_again_with_open_intents() {
    let mut fixture = fixture(u64::MAX);
    fixture.intend(3);
    std::fs::remove_file(fixture.path()).unwrap();
    fixture.intend(1)[0].clone().unwrap();
    assert_eq!(fixture.read().open.len(), 4);
    assert_eq!(*fixture.health.borrow(), JournalHealth::default());
}

#[test]
fn immovable_corrupt_state_refuses_intents_until_removed() {
    let mut fixture = fixture(u64::MAX);
    let unquarantined = fixture.dir.path().join("gone").join("state.json");
    fixture.writer.enter_safe_mode(&[&Quarantined {
        path: unquarantined.clone(),
        why: "its checksum does not match".to_owned(),
        to: None,
    }]);
    assert!(fixture.intend(1)[0].is_err());
    assert!(fixture.leave_safe_mode().is_err());
    std::fs::create_dir(unquarantined.parent().unwrap()).unwrap();
    std::fs::write(&unquarantined, "x").unwrap();
    fixture.leave_safe_mode().unwrap();
    assert!(!unquarantined.exists());
    fixture.intend(1)[0].clone().unwrap();
}

#[test]
fn newest_incident_files_are_retained() {
    let mut fixture = fixture(u64::MAX);
    let folder = fixture.dir.path().join("incidents");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("README"), "").unwrap();
    for number in 10..20 {
        let path = folder.join(format!("{number}.json"));
        let text = "{}".to_owned();
        fixture.writer.execute(vec![WriteRequest::WriteFile {
            path,
            text,
            max_files: 3,
        }]);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
    assert!(folder.join("19.json").exists() && folder.join("README").exists());
}

#[tokio::test]
async fn feed_returns_every_record_once_from_memory_or_files() {
    // Small files, so that most records are in rotated files, and the oldest in none.
    let mut fixture = fixture(256 * 1024);
    let feed = fixture.writer.feed.clone();
    for _ in 0..20 {
        let request = || WriteRequest::Event {
            at: NOW,
            entry: Box::new(Entry::Event(Event::Stop)),
        };
        fixture.writer.execute((0..500).map(|_| request()).collect());
    }
    let newest = *feed.newest().borrow();
    assert_eq!(newest, 10_000);
    let (mut last, mut count, mut missed) = (0, 0, 0);
    while last < newest {
        let page = feed.after(last, 300).await;
        missed += page.missed;
        assert!(page.records.len() <= 300 && !page.records.is_empty());
        let mut expected = last + 1 + page.missed;
        for record in &page.records {
            assert_eq!(record.seq, expected);
            expected += 1;
        }
        count += page.records.len() as u64;
        last = expected - 1;
    }
    assert_eq!(count + missed, 10_000, "removed records are counted");
    assert_eq!(feed.after(newest, 300).await, crate::journal::Page::default());
}

#[tokio::test]
async fn failed_resume_leaves_no_gap_in_the_numbers() {
    let mut fixture = fixture(u64::MAX);
    let feed = fixture.writer.feed.clone();
    fixture.intend(1)[0].clone().unwrap();
    std::fs::rename(fixture.path(), fixture.dir.path().join("away")).unwrap();
    std::fs::create_dir(fixture.path()).unwrap();
    assert!(fixture.intend(1)[0].is_err());
    std::fs::remove_dir(fixture.path()).unwrap();
    fixture.writer.try_again(NOW);
    // The disk fails again between the successful attempt and the resume.
    std::fs::remove_file(fixture.path()).unwrap();
    std::fs::create_dir(fixture.path()).unwrap();
    assert!(fixture.leave_safe_mode().is_err());
    std::fs::remove_dir(fixture.path()).unwrap();
    fixture.writer.try_again(NOW);
    fixture.leave_safe_mode().unwrap();
    let newest = *feed.newest().borrow();
    let page = feed.after(0, usize::MAX).await;
    let count: Vec<u64> = page.records.iter().map(|record| record.seq).collect();
    assert_eq!(count, (1..=newest).collect::<Vec<_>>());
    assert_eq!(page.missed, 0);
}

#[test]
fn lost_newest_file_continues_the_numbers() {
    let mut fixture = fixture(64 * 1024);
    for _ in 0..10 {
        let request = || WriteRequest::Event {
            at: NOW,
            entry: Box::new(Entry::Event(Event::Stop)),
        };
        fixture.writer.execute((0..100).map(|_| request()).collect());
    }
    let older = fixture.dir.path().join("journal.1.jsonl");
    assert!(older.exists(), "it was rotated");
    std::fs::remove_file(fixture.path()).unwrap();
    let clock = crate::clock::Clock::virtual_from(NOW);
    let (_, _, contents, _) = crate::journal::handle::open(&fixture.path(), "NEXT", clock, 64 * 1024);
    let kept = crate::journal::log_file::between(&fixture.path(), 0, u64::MAX, usize::MAX);
    let newest = kept.last().expect("records").seq;
    assert!(newest > 100);
    assert_eq!(contents.next, newest + 1);
}
