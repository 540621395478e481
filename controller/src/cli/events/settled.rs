//! Settled changes, and the calls of a command for them.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use argus_core::journal::{Entry, Event, Record};
use argus_core::time::Timestamp;
use argus_crds::status::Phase;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::api::events::public_record;
use crate::process::exit::Failure;
use crate::render::foreign_text;
use crate::render::output;

/// Time without a further event after which a change is settled.
const QUIET: Duration = Duration::from_secs(1);

/// Changes that are not settled: the last event of each environment, with the time at which it was read.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<String, (Record, Timestamp)>);

impl Changes {
    /// Adds events, oldest first. Each replaces the earlier one of its environment.
    pub(super) fn add(&mut self, records: impl IntoIterator<Item = Record>, now: Timestamp) {
        for record in records {
            let of = record.environment().map(ToString::to_string).unwrap_or_default();
            self.0.insert(of, (record, now));
        }
    }

    /// Takes the changes that are settled, in the order of their numbers.
    pub(super) fn take_settled(&mut self, now: Timestamp) -> Vec<Record> {
        let mut settled = Vec::new();
        self.0.retain(|_, (record, at)| {
            let is_settled = now.since(*at) >= QUIET && !is_on_the_way(record);
            if is_settled {
                settled.push(record.clone());
            }
            !is_settled
        });
        settled.sort_unstable_by_key(|record| record.seq);
        settled
    }
}

/// Returns true for a phase that another one follows.
fn is_on_the_way(record: &Record) -> bool {
    let is_before = |to: &str| {
        [Phase::Pending, Phase::Progressing]
            .iter()
            .any(|phase| format!("{phase:?}") == to)
    };
    matches!(&record.entry, Entry::Event(Event::Phase { to, .. }) if is_before(to))
}

/// Calls a command in a shell, with the event as one line of JSON on its stdin. A command that fails is a note.
pub(super) async fn call(command: &str, record: &Record) -> Result<(), Failure> {
    let line = foreign_text::escape_json(&Value::Object(public_record(record, true)).to_string()) + "\n";
    let cannot =
        |error: std::io::Error| Failure::operation_failed("cannot run the command of `--exec`", &error);
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that reads nothing may have ended.
        drop(stdin.write_all(line.as_bytes()).await);
    }
    let ended = child.wait().await.map_err(cannot)?;
    if !ended.success() {
        output::print_note(&format!(
            "note: the command of `--exec` failed for event {}: {ended}",
            record.seq
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use argus_core::ident::EnvName;
    use argus_core::journal::JOURNAL_VERSION;

    use super::*;

    fn phase(seq: u64, environment: &str, to: &str) -> Record {
        Record {
            v: JOURNAL_VERSION,
            seq,
            at: String::new(),
            run: String::new(),
            entry: Entry::Event(Event::Phase {
                environment: EnvName::new(environment).unwrap(),
                from: String::new(),
                to: to.to_owned(),
                revision: None,
                after_ms: None,
            }),
        }
    }

    fn settled(changes: &mut Changes, now: i64) -> Vec<u64> {
        let taken = changes.take_settled(Timestamp(now));
        taken.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn change_is_settled_once_after_a_quiet_second() {
        let mut changes = Changes::default();
        changes.add(
            [phase(1, "shop", "Progressing"), phase(2, "shop", "Failed")],
            Timestamp(0),
        );
        assert_eq!(settled(&mut changes, 999), [0; 0]);
        // The environment recovers before the failure is settled.
        changes.add([phase(3, "shop", "Progressing")], Timestamp(999));
        assert_eq!(settled(&mut changes, 60_000), [0; 0], "it is on the way");
        changes.add([phase(4, "shop", "Ready")], Timestamp(60_000));
        assert_eq!(settled(&mut changes, 61_000), [4]);
        assert_eq!(settled(&mut changes, 99_000), [0; 0]);
    }

    #[test]
    fn environments_settle_apart_in_the_order_of_their_events() {
        let mut changes = Changes::default();
        changes.add([phase(1, "b", "Ready"), phase(2, "a", "Failed")], Timestamp(0));
        changes.add([phase(3, "c", "Held")], Timestamp(500));
        assert_eq!(settled(&mut changes, 1_000), [1, 2]);
        assert_eq!(settled(&mut changes, 1_500), [3]);
    }
}
