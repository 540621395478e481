//! A client that returns after its records are gone.

use std::os::unix::net::UnixStream;

use argus_tests::fixture::{LIMIT, singles};
use serde_json::{Value, json};

use super::HttpFixture;

#[test]
fn client_past_retention_gets_lagged_and_a_snapshot() {
    let mut fixture = HttpFixture::open();
    fixture
        .argus
        .write_spec("e2e.yaml", &singles("gap", &[18745], ""));
    fixture.argus.wait_ready("gap", LIMIT);
    assert!(fixture.argus.stop().success());
    // Simulates retention: the oldest records are removed.
    let journal = fixture.argus.state.join("private/journal.jsonl");
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = text.lines().collect();
    let number = |line: &str| {
        let record: Value = serde_json::from_str(line).expect("a record");
        record["seq"].as_u64().expect("a number")
    };
    let (from, last) = (lines.len() / 2, number(lines[lines.len() - 1]));
    let first = number(lines[from]);
    assert!(first > 3, "{text}");
    std::fs::write(&journal, lines[from..].join("\n") + "\n").expect("a file");
    fixture.argus.start_again();
    fixture.argus.wait_until(LIMIT, "the server listens again", || {
        UnixStream::connect(&fixture.socket).ok()?;
        (fixture.send("GET", "/readyz", "").status == 200).then_some(())
    });
    fixture = HttpFixture::of(fixture.argus);

    let received = 1;
    let mut late = fixture.events("", Some(&received.to_string()));
    let mut next = || {
        late.next_event()
            .expect("the stream continues")
            .expect("an event")
    };
    let greeting = next();
    assert_eq!((greeting.name.as_str(), greeting.id.as_str()), ("snapshot", "1"));
    let gap = std::iter::repeat_with(&mut next).find(|event| event.name == "lagged");
    let gap = gap.expect("the stream continues");
    assert_eq!(gap.json(), json!({ "missed": first - received - 1 }));
    assert!(
        gap.id.is_empty(),
        "a client that is cut off here reconnects for the same"
    );
    assert_eq!(next().name, "snapshot", "the current state");
    // Every later event follows, once each.
    let mut output = Vec::new();
    while output.last().is_none_or(|id| *id < last) {
        output.extend(next().id.parse::<u64>().ok());
    }
    let rest: Vec<u64> = (first..).take(output.len()).collect();
    assert_eq!(output, rest);
    // Records that are complete have no gap.
    let mut back = fixture.events("", Some(&(first - 1).to_string()));
    let started = back
        .next_event()
        .expect("the stream continues")
        .expect("a snapshot");
    assert_eq!(started.name, "snapshot");
    let mut record = back
        .next_event()
        .expect("the stream continues")
        .expect("an event");
    while record.id.is_empty() {
        assert_ne!(record.name, "lagged");
        record = back
            .next_event()
            .expect("the stream continues")
            .expect("an event");
    }
    assert_eq!(record.id, first.to_string());
}
