//! Batches, rotation and a disk that takes nothing: every intent that was promised is in the file that is read at the next start.

use argus_core::ident::EnvName;
use argus_core::journal::{ActionRecord, Outcome};
use argus_core::plan::Subject;

use super::*;

const NOW: Timestamp = Timestamp(1_000_000_000);

struct Place {
    dir: tempfile::TempDir,
    desk: JournalWriter,
    health: watch::Receiver<JournalHealth>,
}

fn place(limit: u64) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let segment = LogFile::at(dir.path().join("journal.jsonl"));
    let (sender, health) = watch::channel(JournalHealth::default());
    let feed = Feed::new(dir.path().join("journal.jsonl"), 0);
    let desk = JournalWriter::new(
        segment,
        "RUN".to_owned(),
        limit,
        &JournalContents::default(),
        sender,
        feed,
        Tally::default(),
    );
    Place { dir, desk, health }
}

impl Place {
    fn path(&self) -> PathBuf {
        self.dir.path().join("journal.jsonl")
    }

    fn read(&self) -> JournalContents {
        LogFile::at(self.path()).read().unwrap()
    }

    /// Promises so many at once.
    fn intend(&mut self, number: usize) -> Vec<Result<u64, String>> {
        let environment = EnvName::new("shop").unwrap();
        let intent = Intent {
            environment: Some(environment.clone()),
            subject: Subject::Network { environment },
            action: ActionRecord::default(),
            cause: "it is missing".to_owned(),
        };
        let (requests, answers): (Vec<_>, Vec<_>) = (0..number)
            .map(|_| {
                let (reply, answer) = oneshot::channel();
                let intent = Box::new(intent.clone());
                (
                    WriteRequest::Intend {
                        at: NOW,
                        intent,
                        reply,
                    },
                    answer,
                )
            })
            .unzip();
        self.desk.carry_out(requests);
        answers
            .into_iter()
            .map(|mut answer| answer.try_recv().unwrap())
            .collect()
    }

    fn result(&mut self, of: u64) {
        let entry = Box::new(Entry::Result {
            of,
            environment: None,
            verb: "create-network".to_owned(),
            outcome: Outcome::Done,
            code: None,
            ms: 1,
        });
        self.desk.carry_out(vec![WriteRequest::Event { at: NOW, entry }]);
    }

    fn resume(&mut self) -> Result<(), String> {
        let (reply, mut answer) = oneshot::channel();
        self.desk.carry_out(vec![WriteRequest::Resume { at: NOW, reply }]);
        answer.try_recv().unwrap()
    }
}

#[test]
fn all_that_wait_are_written_at_once_and_each_has_its_number() {
    let mut place = place(u64::MAX);
    let numbers: Vec<u64> = place.intend(100).into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    place.result(7);
    let past = place.read();
    assert_eq!((past.open.len(), past.records, past.next), (99, 101, 102));
    assert!(!past.open.contains_key(&7));
}

#[test]
fn no_open_intent_is_lost_by_any_number_of_rotations() {
    let mut place = place(3_000);
    let mut open = std::collections::BTreeSet::new();
    for round in 0..200_u64 {
        let seq = place.intend(1)[0].clone().unwrap();
        open.insert(seq);
        if round % 10 != 0 {
            open.remove(&seq);
            place.result(seq);
        }
        let past = place.read();
        assert_eq!(
            past.open
                .keys()
                .copied()
                .collect::<std::collections::BTreeSet<_>>(),
            open
        );
        assert_eq!((past.torn, past.damaged), (0, 0));
    }
    assert!(place.dir.path().join("journal.4.jsonl").exists());
}

#[test]
fn what_cannot_be_written_is_refused_until_a_person_resumes_and_results_come_later() {
    let mut place = place(u64::MAX);
    let first = place.intend(2);
    // A folder in its place: it can neither be written to nor made anew.
    std::fs::rename(place.path(), place.dir.path().join("away")).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    assert!(place.intend(3).iter().all(Result::is_err));
    let health = place.health.borrow().clone();
    assert!(health.unwritable.is_some() && health.safe.is_some());
    place.result(first[0].clone().unwrap());
    place.desk.try_again(NOW);
    assert!(place.resume().is_err(), "it is not writable yet");
    std::fs::remove_dir(place.path()).unwrap();
    place.desk.try_again(NOW);
    let health = place.health.borrow().clone();
    assert!(
        health.unwritable.is_none() && health.safe.is_some(),
        "nobody said that it may go on"
    );
    assert!(place.intend(1)[0].is_err());
    place.resume().unwrap();
    assert_eq!(*place.health.borrow(), JournalHealth::default());
    let next = place.intend(1)[0].clone().unwrap();
    let past = place.read();
    let open: Vec<u64> = past.open.keys().copied().collect();
    assert_eq!(
        open,
        [first[1].clone().unwrap(), next],
        "the open one came along, the closed one did not"
    );
    assert!(place.resume().is_err(), "there is nothing to resume");
    let tally = &place.desk.tally;
    // One intent that found the disk so, and each look whether it still is: by the clock, and by a person.
    assert_eq!(tally.journal_failures.get(), 3);
    let size = std::fs::metadata(place.path()).unwrap().len();
    assert_eq!(u64::try_from(tally.journal_bytes.get()), Ok(size));
}

#[test]
fn a_journal_that_was_removed_is_made_anew_with_what_is_open() {
    let mut place = place(u64::MAX);
    place.intend(3);
    std::fs::remove_file(place.path()).unwrap();
    place.intend(1)[0].clone().unwrap();
    assert_eq!(place.read().open.len(), 4);
    assert_eq!(*place.health.borrow(), JournalHealth::default());
}

#[test]
fn corrupt_state_that_is_in_the_way_forbids_everything_until_it_is_away() {
    let mut place = place(u64::MAX);
    let stuck = place.dir.path().join("gone").join("state.json");
    place
        .desk
        .blocked(format!("`{}`: it is not as it was written", stuck.display()));
    place.desk.stuck(vec![stuck.clone()]);
    assert!(place.intend(1)[0].is_err());
    assert!(place.resume().is_err());
    std::fs::create_dir(stuck.parent().unwrap()).unwrap();
    std::fs::write(&stuck, "x").unwrap();
    place.resume().unwrap();
    assert!(!stuck.exists());
    place.intend(1)[0].clone().unwrap();
}

#[test]
fn incidents_are_kept_by_number() {
    let mut place = place(u64::MAX);
    let folder = place.dir.path().join("incidents");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("README"), "").unwrap();
    for number in 10..20 {
        let path = folder.join(format!("{number}.json"));
        let text = "{}".to_owned();
        place
            .desk
            .carry_out(vec![WriteRequest::WriteFile { path, text, most: 3 }]);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
    assert!(folder.join("19.json").exists() && folder.join("README").exists());
}

#[tokio::test]
async fn who_reads_along_gets_every_record_once_from_memory_or_from_the_files() {
    // Small files, so that most of a storm is in rotated ones and the oldest in none.
    let mut place = place(256 * 1024);
    let feed = place.desk.feed.clone();
    for _ in 0..20 {
        let said = || WriteRequest::Event {
            at: NOW,
            entry: Box::new(Entry::Event(Event::Stop)),
        };
        place.desk.carry_out((0..500).map(|_| said()).collect());
    }
    let newest = *feed.newest().borrow();
    assert_eq!(newest, 10_000);
    let (mut last, mut told, mut missed) = (0, 0, 0);
    while last < newest {
        let page = feed.after(last, 300).await;
        missed += page.missed;
        assert!(page.records.len() <= 300 && !page.records.is_empty());
        let mut expected = last + 1 + page.missed;
        for record in &page.records {
            assert_eq!(record.seq, expected);
            expected += 1;
        }
        told += page.records.len() as u64;
        last = expected - 1;
    }
    assert_eq!(told + missed, 10_000, "what is gone is counted");
    assert_eq!(feed.after(newest, 300).await, crate::journal::Page::default());
}

#[tokio::test]
async fn a_resume_that_fails_leaves_no_hole_that_readers_would_wait_at() {
    let mut place = place(u64::MAX);
    let feed = place.desk.feed.clone();
    place.intend(1)[0].clone().unwrap();
    std::fs::rename(place.path(), place.dir.path().join("away")).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    assert!(place.intend(1)[0].is_err());
    std::fs::remove_dir(place.path()).unwrap();
    place.desk.try_again(NOW);
    // Once more, between the look whether it can be written and the word that it goes on.
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    assert!(place.resume().is_err());
    std::fs::remove_dir(place.path()).unwrap();
    place.desk.try_again(NOW);
    place.resume().unwrap();
    let newest = *feed.newest().borrow();
    let page = feed.after(0, usize::MAX).await;
    let told: Vec<u64> = page.records.iter().map(|record| record.seq).collect();
    assert_eq!(told, (1..=newest).collect::<Vec<_>>());
    assert_eq!(page.missed, 0);
}

#[test]
fn a_journal_whose_newest_file_is_lost_goes_on_with_its_numbers() {
    let mut place = place(64 * 1024);
    for _ in 0..10 {
        let said = || WriteRequest::Event {
            at: NOW,
            entry: Box::new(Entry::Event(Event::Stop)),
        };
        place.desk.carry_out((0..100).map(|_| said()).collect());
    }
    let older = place.dir.path().join("journal.1.jsonl");
    assert!(older.exists(), "it was rotated");
    std::fs::remove_file(place.path()).unwrap();
    let clock = crate::clock::Clock::virtual_from(NOW);
    let (_, _, past, _) = crate::journal::handle::open(&place.path(), "NEXT", clock, 64 * 1024);
    let kept = crate::journal::log_file::between(&place.path(), 0, u64::MAX, usize::MAX);
    let newest = kept.last().expect("records").seq;
    assert!(newest > 100);
    assert_eq!(past.next, newest + 1);
}
