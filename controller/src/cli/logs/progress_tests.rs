//! Unit tests of [`Progress`].

use super::*;

fn at(text: &str) -> Stamp {
    Stamp::parse(&format!("2026-11-21T10:00:{text}Z")).unwrap()
}

fn start(text: &str) -> Option<Timestamp> {
    Timestamp::parse(&format!("2026-11-21T10:00:{text}Z"))
}

fn id(text: &str) -> ContainerId {
    ContainerId::new(text).unwrap()
}

fn view(container: &str, is_up: bool, started: &str) -> ContainerView {
    ContainerView {
        id: id(container),
        name: "web".to_owned(),
        is_up,
        started_at: start(started),
    }
}

impl Progress {
    fn opened(&mut self, containers: &[ContainerView]) -> Vec<String> {
        let opened = self.open_due(containers).into_iter();
        opened.map(|opening| opening.id.to_string()).collect()
    }

    /// Reads a line of stdout: whether it is shown, and whether a border precedes it.
    fn reads(&mut self, container: &str, stamp: &str) -> (bool, bool) {
        let shown = self.on_line(&id(container), false, Some(at(stamp)));
        (shown.is_ok(), shown.is_ok_and(|border| border.is_some()))
    }
}

const NEW: (bool, bool) = (true, false);
const BORDER: (bool, bool) = (true, true);
const KNOWN: (bool, bool) = (false, false);

#[test]
fn a_log_opens_once_per_run() {
    let mut progress = Progress::default();
    let created = ContainerView {
        started_at: None,
        ..view("a", false, "01")
    };
    assert!(progress.opened(&[created]).is_empty(), "it has not run");
    assert_eq!(progress.opened(&[view("a", true, "01")]), ["a"]);
    assert!(progress.opened(&[view("a", true, "01")]).is_empty(), "it is open");
    assert!(progress.is_reading());
    progress.on_end(&id("a"), true);
    assert!(
        progress.opened(&[view("a", true, "01")]).is_empty(),
        "an old view"
    );
    assert_eq!(progress.opened(&[view("a", true, "05")]), ["a"], "another run");
    progress.on_end(&id("a"), true);
    progress.on_delay(&id("a"));
    assert!(progress.opened(&[view("a", false, "05")]).is_empty(), "it ended");
    assert!(!progress.is_reading());
    assert_eq!(
        progress.opened(&[view("a", true, "05")]),
        ["a"],
        "the stream ended, and not the run"
    );
}

#[test]
fn a_run_that_ended_before_its_log_was_opened_is_read() {
    let mut progress = Progress::default();
    progress.opened(&[view("a", true, "01")]);
    progress.on_end(&id("a"), true);
    progress.on_delay(&id("a"));
    assert_eq!(progress.opened(&[view("a", false, "03")]), ["a"]);
}

#[test]
fn a_broken_stream_is_read_again_from_its_newest_line() {
    let mut progress = Progress::default();
    progress.opened(&[view("a", true, "01")]);
    for stamp in ["02.000000001", "02.000000002", "02.000000002"] {
        assert_eq!(progress.reads("a", stamp), NEW, "{stamp}");
    }
    assert_eq!(progress.on_end(&id("a"), false), None);
    assert!(progress.opened(&[view("a", false, "01")]).is_empty());
    progress.on_delay(&id("a"));
    assert!(progress.is_reading(), "lines can be missing");
    let openings = progress.open_due(&[view("a", false, "01")]);
    assert_eq!(
        openings[0].since,
        start("01"),
        "one second before the newest line"
    );
    for (stamp, shown) in [
        ("02.000000001", KNOWN),
        ("02.000000002", KNOWN),
        ("02.000000002", KNOWN),
        ("02.000000002", NEW),
        ("02.5", NEW),
        // The clock of the engine went back.
        ("02.4", NEW),
    ] {
        assert_eq!(progress.reads("a", stamp), shown, "{stamp}");
    }
    let stderr = progress.on_line(&id("a"), true, Some(at("02.2")));
    assert_eq!(stderr, Ok(None), "each stream has its own order");
    let early = progress.on_line(&id("a"), true, Some(at("01.9")));
    assert_eq!(
        early,
        Err(Repeated),
        "it precedes the first read, as after `--tail`"
    );
    assert_eq!(
        progress.on_line(&id("a"), false, None),
        Ok(None),
        "a line without a time"
    );
}

#[test]
fn a_border_precedes_the_first_line_of_each_later_run() {
    let mut progress = Progress::default();
    progress.opened(&[view("a", true, "01")]);
    assert_eq!(progress.reads("a", "01.1"), NEW, "the first run has no border");
    progress.on_end(&id("a"), false);
    progress.opened(&[view("a", true, "05")]);
    assert_eq!(progress.reads("a", "01.2"), NEW, "a missed line of the first run");
    // The engine records the start after the first output.
    assert_eq!(progress.reads("a", "04.9"), BORDER);
    assert_eq!(progress.reads("a", "05.1"), NEW);
    assert_eq!(progress.on_end(&id("a"), true), None, "it has its border");
    progress.opened(&[view("a", false, "05"), view("b", true, "09")]);
    let border = progress
        .on_line(&id("b"), true, Some(at("09.1")))
        .unwrap()
        .unwrap();
    assert_eq!((border.name.as_str(), border.replaced), ("web", Some(id("a"))));
    assert_eq!(Some(border.started_at), start("09"));
}

#[test]
fn a_run_without_output_has_its_border_at_its_end() {
    let mut progress = Progress::default();
    progress.opened(&[view("a", true, "01")]);
    assert_eq!(progress.on_end(&id("a"), true), None);
    progress.opened(&[view("a", true, "03")]);
    let border = progress.on_end(&id("a"), true).unwrap();
    assert_eq!((border.id, border.replaced), (id("a"), None));
}

#[test]
fn late_lines_of_a_replaced_container_begin_no_run() {
    let mut progress = Progress::default();
    progress.opened(&[view("a", true, "01"), view("b", true, "05")]);
    assert_eq!(progress.reads("a", "01.1"), NEW);
    assert_eq!(progress.reads("b", "05.1"), BORDER);
    assert_eq!(progress.reads("a", "04.8"), NEW);
    assert_eq!(progress.on_gone(&id("a")), None);
    progress.forget_missing(&[view("b", true, "05")]);
    assert_eq!((progress.name(&id("a")), progress.name(&id("b"))), ("", "web"));
    assert_eq!(progress.width(), 3);
    assert_eq!(progress.on_gone(&id("b")), None);
    assert!(progress.is_reading(), "until the delay is over");
    progress.on_delay(&id("b"));
    assert!(!progress.is_reading());
}
