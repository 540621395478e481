//! Waits for environments: only the status of a running controller counts.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::process::{Output, Stdio};
use std::time::Duration;

use argus_tests::fixture::{IMAGE, LIMIT, engine, running};
use argus_tests::{Controller, RunOptions, wait};
use serde_json::Value;

/// Time in which a wait that cannot succeed ends, on a busy machine.
const SHORT: Duration = Duration::from_secs(40);

fn file(name: &str) -> String {
    format!(
        "project: {{ name: {name} }}\nservices:\n  - name: web\n    image: {IMAGE}\n    \
         container: {{ name: {name}-web }}\n"
    )
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The error that a command with `-o json` prints after its notes.
fn error(output: &Output) -> Value {
    let text = stderr(output);
    let json = text.find("\n{").map_or("", |at| &text[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn status_of_a_dead_controller_is_never_ready() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("stale"));
    argus.wait_ready("stale", LIMIT);
    argus.kill9();
    engine().docker_ok(&["rm", "-f", "stale-web"]);

    for target in ["stale", "stale/web"] {
        let waited = argus.cli(&["wait", target, "--timeout", "3s", "-o", "json"]);
        assert_eq!(waited.status.code(), Some(5), "{}", stderr(&waited));
        assert!(stderr(&waited).contains("note: no controller is running"));
        let error = error(&waited);
        assert_eq!(error["code"], "PREREQ_MISSING", "{error:#}");
        assert_eq!(error["details"]["reason"], "notRunning");
        let hint = error["details"]["hint"].as_str().expect("a hint");
        assert!(hint.contains("`argus run"), "{hint}");
    }
    let all = json(&argus.cli(&["get", "-o", "json"]));
    assert_eq!(all["items"][0]["stale"], true, "{all:#}");
    let row = json(&argus.cli(&["get", "stale/web", "-o", "json"]));
    assert_eq!(row["stale"], true, "{row:#}");
    assert!(row["asOf"].is_string(), "{row:#}");
    for words in [&["get"][..], &["get", "stale"], &["get", "stale/web"]] {
        let shown = String::from_utf8(argus.cli(words).stdout).expect("text");
        assert!(shown.contains("Ready (stale "), "{shown}");
    }
    let why = json(&argus.cli(&["why", "stale", "-o", "json"]));
    assert_eq!(why["stale"], true, "{why:#}");

    // The wait begins with the files of the dead controller, and ends with those of the new one.
    let mut waiting = argus.command();
    waiting.args(["wait", "stale", "--timeout", "2m"]);
    waiting.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = waiting.spawn().expect("argus starts");
    argus.start_again();
    let waited = waiting.wait_with_output().expect("argus runs");
    assert!(waited.status.success(), "{}", stderr(&waited));
    assert!(
        running(engine(), "stale-web"),
        "the new controller has started it again"
    );
    let all = json(&argus.cli(&["get", "-o", "json"]));
    assert!(all["items"][0]["stale"].is_null(), "{all:#}");
}

#[test]
fn wait_for_an_unknown_or_removed_environment_ends_soon() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("known"));
    argus.wait_ready("known", LIMIT);
    let (took, waited) = wait::timed(|| argus.cli(&["wait", "konwn", "--timeout", "10m"]));
    assert_eq!(waited.status.code(), Some(1), "{}", stderr(&waited));
    assert!(
        stderr(&waited).contains("the nearest is `known`"),
        "{}",
        stderr(&waited)
    );
    assert!(took < SHORT, "{took:?}");

    assert!(argus.cli(&["down", "known"]).status.success());
    let (took, waited) = wait::timed(|| argus.cli(&["wait", "known", "--timeout", "10m"]));
    assert_eq!(waited.status.code(), Some(6), "{}", stderr(&waited));
    let text = stderr(&waited);
    assert!(
        text.contains("was removed by a command such as `argus down`")
            && text.contains("`argus retry known`"),
        "{text}"
    );
    assert!(took < SHORT, "{took:?}");
    let listed = argus.cli(&["get"]);
    assert!(
        stderr(&listed).contains("`known` was removed"),
        "{}",
        stderr(&listed)
    );

    // A file that appears during the wait is not unknown.
    let mut waiting = argus.command();
    waiting.args(["wait", "late", "--timeout", "2m"]);
    waiting.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = waiting.spawn().expect("argus starts");
    argus.write_spec("late.e2e.yaml", &file("late"));
    let waited = waiting.wait_with_output().expect("argus runs");
    assert!(waited.status.success(), "{}", stderr(&waited));
}
