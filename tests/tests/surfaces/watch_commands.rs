//! Commands that run until they are stopped: `get --watch` and `logs --follow` show changes immediately.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::os::unix::process::ExitStatusExt as _;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, PrivateEngine, RunOptions, Terminal, binary};
use rustix::process::Signal;

const COLUMNS: u16 = 100;

/// Counts on stdout while it runs, and writes to stderr at its start.
fn spec(name: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nservices:\n  clock:\n    image: busybox:local\n    \
         command: [\"sh\", \"-c\", \"echo begins >&2; n=0; while :; do n=$((n+1)); echo tick $n; sleep 1; done\"]\n    \
         container: {{ name: {name}-clock }}\n"
    )
}

fn running(engine: &'static PrivateEngine, name: &str) -> Controller<'static> {
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec(name));
    argus.wait_ready(name, LIMIT);
    argus
}

/// Starts a command on a terminal of its own.
fn on_terminal(engine: &PrivateEngine, argus: &Controller<'_>, words: &[&str]) -> Terminal {
    // Background jobs of a shell ignore SIGINT, and so would every process that the tests start.
    let mut command = engine.command_in_netns("env");
    command.arg("--default-signal=INT").arg(binary::argus());
    command.args(words).env("ARGUS_STATE", &argus.state);
    command.env("DOCKER_HOST", engine.host()).env("NO_COLOR", "1");
    Terminal::start(command, COLUMNS, 40)
}

/// Sends SIGINT, as Ctrl-C does.
fn interrupted(shown: Terminal) -> String {
    shown.signal(Signal::INT);
    let (text, ended) = shown.end(LIMIT);
    let by = ended.signal();
    assert!(
        by == Some(Signal::INT.as_raw()) || ended.code() == Some(130),
        "{ended:?}: {text}"
    );
    text
}

#[test]
fn get_watch_prints_changes_below() {
    let engine = engine();
    let argus = running(engine, "watched");
    let shown = on_terminal(engine, &argus, &["get", "watched", "--watch"]);
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("clock ")).count();
    shown.wait_until(LIMIT, "the initial status", |text| {
        text.contains("SERVICE") && text.contains("Ready")
    });
    let before = rows(&shown.written());
    assert!(
        argus
            .cli(&["hold", "watched", "--reason", "inspection"])
            .status
            .success()
    );
    shown.wait_until(LIMIT, "the changed status", |text| rows(text) > before);
    assert!(argus.cli(&["resume", "watched"]).status.success());
    // The exit code does not matter.
    drop(engine.docker(&["exec", "watched-clock", "kill", "1"]));
    shown.wait_until(LIMIT, "the restart", |text| {
        let last = text.lines().rfind(|line| line.starts_with("clock "));
        last.is_some_and(|row| row.contains("Ready") && row.split_whitespace().any(|cell| cell == "1"))
    });
    let text = interrupted(shown);
    assert!(
        !text.contains('\u{1b}'),
        "output is appended, not redrawn: {text:?}"
    );
}

#[test]
fn get_watch_of_all_services_shows_holds_and_stops() {
    let engine = engine();
    let argus = running(engine, "listed");
    let shown = on_terminal(engine, &argus, &["get", "--all-services", "--watch"]);
    let row = |text: &str| {
        let last = text.lines().rfind(|line| line.starts_with("listed "));
        last.unwrap_or_default().to_owned()
    };
    shown.wait_until(LIMIT, "the initial status", |text| {
        text.contains("ENVIRONMENT") && row(text).contains("clock") && row(text).contains("Ready")
    });
    assert!(
        argus
            .cli(&["hold", "listed", "--reason", "inspection"])
            .status
            .success()
    );
    shown.wait_until(LIMIT, "the hold", |text| row(text).contains("held"));
    assert!(argus.stop().success());
    shown.wait_until(LIMIT, "the missing controller", |text| {
        row(text).contains("stale")
    });
    interrupted(shown);
}

#[test]
fn logs_follow_waits_for_the_next_run_of_a_held_service() {
    let engine = engine();
    let argus = running(engine, "followed");
    let shown = on_terminal(
        engine,
        &argus,
        &["logs", "followed/clock", "--follow", "--tail", "1"],
    );
    let ticks = |text: &str| -> Vec<u32> {
        let numbers = text
            .lines()
            .filter_map(|line| line.strip_prefix("tick ")?.trim().parse().ok());
        numbers.collect()
    };
    shown.wait_until(LIMIT, "lines after the start", |text| ticks(text).len() >= 3);
    assert!(argus.cli(&["hold", "followed"]).status.success());
    engine.docker_ok(&["kill", "followed-clock"]);
    assert!(argus.cli(&["resume", "followed"]).status.success());
    assert!(argus.cli(&["restart", "followed/clock"]).status.success());
    shown.wait_until(LIMIT, "the next run", |text| {
        ticks(text).iter().skip(1).any(|tick| *tick == 1)
    });
    let text = interrupted(shown);
    assert!(text.contains("note: new run of `followed/clock`"), "{text}");
    let output = ticks(&text);
    let is_next = |two: &[u32]| two[1] == two[0] + 1 || two[1] == 1;
    assert!(output.windows(2).all(is_next), "each once, in order: {output:?}");
}

#[test]
fn logs_of_all_environments_survive_a_replacement() {
    let engine = engine();
    let argus = running(engine, "pursued");
    let shown = on_terminal(engine, &argus, &["logs", "--follow"]);
    let begins = |text: &str| text.matches("pursued/clock | begins").count();
    shown.wait_until(LIMIT, "the first container", |text| begins(text) == 1);
    argus.write_spec("e2e.yaml", &spec("pursued").replace("sleep 1", "sleep 2"));
    shown.wait_until(LIMIT, "its replacement", |text| begins(text) == 2);
    assert!(argus.cli(&["restart", "pursued/clock"]).status.success());
    shown.wait_until(LIMIT, "the restart", |text| begins(text) == 3);
    argus.write_spec("late/e2e.yaml", &spec("late"));
    shown.wait_until(LIMIT, "another environment", |text| {
        text.contains("late/clock    | tick 1")
    });
    let text = interrupted(shown);
    assert_eq!(begins(&text), 3, "no line appears twice: {text}");
}
