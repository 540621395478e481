//! Tests of files that take effect at their first read, because they are known to be whole.

use std::fs;
use std::path::PathBuf;

use argus_backend::host_path::FileId;
use argus_core::time::Timestamp;
use notify::event::{AccessKind, AccessMode, EventKind};

use super::file_writes::{FileWrites, WriteEvent};
use super::loader::SpecLoader;
use super::prefix_tests::new_loader;

const IMAGE: &str = "image: busybox:local";
const BUILD: &str = "build: { context: ./app }";
const BINDS: &str = "volumes: [\"./data:/data\"]";

struct Fixture {
    dir: tempfile::TempDir,
    file: PathBuf,
    writes: FileWrites,
    loader: SpecLoader,
    /// Long before the times of the file system.
    now: i64,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("app")).unwrap();
        fs::write(dir.path().join("app/Dockerfile"), "FROM scratch").unwrap();
        let writes = FileWrites::default();
        Self {
            file: dir.path().join("e2e.yaml"),
            loader: new_loader(dir.path()).with_writes(writes.clone()),
            dir,
            writes,
            now: 1_000,
        }
    }

    fn write(&self, image: &str, more: &str, variable: u32) {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    {image}\n    container:\n      name: web\n      \
             environment: {{ N: \"{variable}\" }}\n      {more}\n"
        );
        fs::write(&self.file, text).unwrap();
    }

    fn notify(&self, event: WriteEvent) {
        self.writes.record(&self.file, event, Timestamp(self.now));
    }

    /// Scans once, so many milliseconds after the last scan. Returns the variable of the revision in effect.
    fn scan_after(&mut self, milliseconds: i64) -> Option<String> {
        self.now += milliseconds;
        self.loader.scan_once(Timestamp(self.now));
        let accepted = self.loader.registry().environments.values().next()?;
        let service = accepted.desired.services.values().next()?;
        service.env_vars.get("N").cloned()
    }

    /// Edits a source file, and scans so many milliseconds later. Returns whether this scan changes the revision.
    fn builds(&mut self, source: &str, milliseconds: i64) -> bool {
        let revision = |loader: &SpecLoader| {
            let mut environments = loader.registry().environments.values();
            environments.next().map(|it| it.desired.revision.clone())
        };
        let before = revision(&self.loader);
        let path = self.dir.path().join("app/main.py");
        fs::write(&path, source).unwrap();
        let at = Timestamp(self.now);
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        self.writes.record_input(&path, closed, at);
        self.scan_after(milliseconds);
        let is_changed = revision(&self.loader) != before;
        // Later edits are no consecutive ones.
        self.scan_after(200_000);
        is_changed
    }
}

#[test]
fn closed_file_takes_effect_at_the_first_read() {
    let mut fixture = Fixture::new();
    fixture.write(IMAGE, "", 1);
    fixture.notify(WriteEvent::Written);
    fixture.notify(WriteEvent::Completed);
    assert_eq!(fixture.scan_after(0).as_deref(), Some("1"));
    fixture.write(IMAGE, "", 2);
    assert_eq!(fixture.scan_after(0).as_deref(), Some("1"), "no notification");
    assert_eq!(fixture.scan_after(250).as_deref(), Some("2"), "two equal reads");
}

#[test]
fn file_that_is_being_written_takes_no_effect() {
    let mut fixture = Fixture::new();
    fixture.write(IMAGE, "", 1);
    fixture.notify(WriteEvent::Written);
    for _ in 0..10 {
        assert_eq!(fixture.scan_after(450), None, "its writer has not closed it");
    }
    let accepted = fixture.scan_after(600);
    assert_eq!(accepted.as_deref(), Some("1"), "5 s after the last write");
    fixture.write(IMAGE, "", 2);
    fixture.notify(WriteEvent::Completed);
    fixture.notify(WriteEvent::Written);
    assert_eq!(fixture.scan_after(250).as_deref(), Some("1"), "another writer");
    fixture.notify(WriteEvent::Completed);
    assert_eq!(fixture.scan_after(0).as_deref(), Some("2"));
}

#[test]
fn parts_of_a_slow_writer_take_no_effect_until_it_closes() {
    let mut fixture = Fixture::new();
    fixture.write(IMAGE, "", 1);
    fixture.notify(WriteEvent::Completed);
    assert_eq!(fixture.scan_after(0).as_deref(), Some("1"));
    // Every part is a valid file, which stays for just under 5 s.
    for part in 2..20 {
        fixture.write(IMAGE, "", part);
        fixture.notify(WriteEvent::Written);
        for _ in 0..4 {
            assert_eq!(fixture.scan_after(1_200).as_deref(), Some("1"), "part {part}");
        }
    }
    fixture.notify(WriteEvent::Completed);
    assert_eq!(fixture.scan_after(0).as_deref(), Some("19"));
}

#[test]
fn other_files_of_a_spec_need_two_reads() {
    for (image, more) in [(BUILD, ""), (IMAGE, BINDS)] {
        let mut fixture = Fixture::new();
        fixture.write(image, more, 1);
        fixture.notify(WriteEvent::Completed);
        assert_eq!(fixture.scan_after(0), None, "they may be half-written");
        assert_eq!(fixture.scan_after(250).as_deref(), Some("1"));
        fixture.write(image, more, 2);
        fixture.notify(WriteEvent::Completed);
        assert_eq!(fixture.scan_after(0).as_deref(), Some("2"), "they did not change");
        fs::write(fixture.dir.path().join(".env"), "A=1").unwrap();
        fixture.write(image, more, 3);
        fixture.notify(WriteEvent::Completed);
        assert_eq!(fixture.scan_after(0).as_deref(), Some("2"), "one of them changed");
        assert_eq!(fixture.scan_after(250).as_deref(), Some("3"));
    }
}

#[test]
fn file_without_recent_changes_needs_one_read() {
    let mut fixture = Fixture::new();
    fixture.write(IMAGE, "", 1);
    let changed = fs::metadata(&fixture.file).unwrap();
    let changed = std::os::unix::fs::MetadataExt::ctime(&changed) * 1_000;
    fixture.now = changed;
    assert_eq!(fixture.scan_after(0), None);
    let mut later = Fixture::new();
    later.write(IMAGE, "", 1);
    later.now = changed + 60_000;
    assert_eq!(
        later.scan_after(0).as_deref(),
        Some("1"),
        "unchanged for a minute"
    );
}

#[test]
fn quiet_context_in_watched_folders_needs_one_read() {
    let mut fixture = Fixture::new();
    fixture.write(BUILD, "", 1);
    let changed = fs::metadata(&fixture.file).unwrap();
    fixture.now = std::os::unix::fs::MetadataExt::ctime(&changed) * 1_000;
    fixture.scan_after(60_000);
    fixture.scan_after(250);
    assert!(!fixture.builds("1", 160), "the folders are not watched");
    let folders = ["", "app"].map(|folder| fs::metadata(fixture.dir.path().join(folder)).unwrap());
    fixture
        .writes
        .set_watched(folders.iter().map(FileId::from).collect(), Timestamp(fixture.now));
    assert!(fixture.builds("2", 160));
    assert!(!fixture.builds("3", 100), "an editor may write the next file");
    fixture.loader.request();
    assert!(fixture.builds("4", 30), "a command waits");
    fixture.loader.request();
    assert!(!fixture.builds("5", 20), "the edit may be incomplete");
}
