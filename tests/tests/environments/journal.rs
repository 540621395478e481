//! Records of a controller's journal, for tests that count actions.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::Controller;
use argus_tests::fixture::text;
use serde_json::Value;

/// Records with one name of an environment, oldest first.
pub(super) fn records(argus: &Controller<'_>, environment: &str, name: &str) -> Vec<Value> {
    read(argus, &["events", environment, "--type", name, "-o", "json"])
}

/// Actions of the controller that change the engine, oldest first, as verb and subject. The journal has each action before its call, also those
/// of earlier processes on the same state directory.
pub(super) fn actions(argus: &Controller<'_>) -> Vec<String> {
    let intents = read(argus, &["events", "--type", "intent", "-o", "json"]);
    let words = |intent: &Value| format!("{} {}", text(&intent["action"]["verb"]), intent["subject"]);
    intents.iter().map(words).collect()
}

fn read(argus: &Controller<'_>, words: &[&str]) -> Vec<Value> {
    let output = argus.cli(words);
    let page: Value = serde_json::from_slice(&output.stdout).expect("`argus events` prints JSON");
    page["items"].as_array().expect("a list of events").clone()
}
