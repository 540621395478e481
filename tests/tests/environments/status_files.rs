//! The guarantees of the status page: when an edit has taken effect, and whether a controller updates the files.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

fn file(mood: &str) -> String {
    format!(
        "project: {{ name: moody }}\nservices:\n  - name: web\n    image: {IMAGE}\n    \
         container: {{ name: moody-web, environment: {{ MOOD: {mood} }} }}\n"
    )
}

/// The revision as `argus validate -o json` reports it, independent of reader and time.
fn revision_of_the_file(argus: &Controller<'_>) -> Value {
    let output = argus.cli(&["validate", "-o", "json"]);
    let output: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert!(output["files"][0]["revision"].is_string(), "{output:#}");
    output["files"][0]["revision"].clone()
}

#[test]
fn edit_is_in_force_at_the_validated_revision() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("first"));
    let mut before = argus.wait_ready("moody", LIMIT);
    for mood in ["second", "third"] {
        argus.write_spec("e2e.yaml", &file(mood));
        let wanted = revision_of_the_file(&argus);
        assert_eq!(
            before["revision"], before["observedRevision"],
            "equal before and after"
        );
        assert_ne!(before["observedRevision"], wanted);
        before = argus.wait_status("moody", LIMIT, "reports the edit, and is Ready", |now| {
            now["observedRevision"] == wanted && now["phase"] == "Ready"
        });
        assert_eq!(before["revision"], wanted);
        let runs = engine().inspect("moody-web").expect("the container runs")["Config"]["Env"].to_string();
        assert!(runs.contains(&format!("MOOD={mood}")), "{runs}");
    }
}

#[test]
fn unparsable_file_is_found_by_its_name() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("first"));
    argus.wait_ready("moody", LIMIT);
    for (path, name) in [("broken/e2e.yaml", "broken"), ("torn.e2e.yaml", "torn")] {
        argus.write_spec(path, "project: [\n");
        let cause = format!("{path}:1:10: this is not valid YAML: unclosed bracket '['");
        for (command, code) in [("wait", 3), ("why", 0), ("get", 0), ("describe", 0)] {
            let output = argus.cli(&[command, name]);
            let shown = [output.stdout, output.stderr].concat();
            let shown = String::from_utf8_lossy(&shown);
            assert_eq!(output.status.code(), Some(code), "{command}: {shown}");
            assert!(shown.contains(&cause), "{command}: {shown}");
        }
        let status = argus.controller_status();
        // Other tests leave orphans on this engine.
        let errors = status["errors"].as_array().expect("errors").iter();
        let errors = errors.filter(|error| error["code"] != "ORPHAN_DETECTED");
        assert_eq!(errors.count(), 0, "{status:#}");
        argus.write_spec(path, &file("first").replace("moody", "fixed"));
        argus.wait_ready("fixed", LIMIT);
        argus.remove_spec(path);
    }
}

#[test]
fn controller_file_records_clean_stops_only() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("first"));
    argus.wait_ready("moody", LIMIT);
    let runs = argus.controller_status();
    assert!(runs["stoppedAt"].is_null(), "{runs:#}");
    assert!(is_there(&runs["pid"]), "{runs:#}");

    assert!(argus.stop().success());
    let stopped = argus.controller_status();
    let at = stopped["stoppedAt"].as_str().expect("the stop time").to_owned();
    assert!(
        at.as_str() > runs["startedAt"].as_str().expect("the start time"),
        "{stopped:#}"
    );
    assert!(!is_there(&stopped["pid"]), "{stopped:#}");
    let output = argus.cli(&["get"]);
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.contains(&format!("not running since {at}")), "{output}");

    argus.start_again();
    argus.wait_until(LIMIT, "the controller runs again", || {
        let runs = argus.controller_status();
        (runs["stoppedAt"].is_null() && runs["startedAt"] != stopped["startedAt"]).then_some(())
    });
    argus.kill9();
    let killed = argus.controller_status();
    assert!(killed["stoppedAt"].is_null(), "{killed:#}");
    assert!(!is_there(&killed["pid"]), "no process has its `pid`: {killed:#}");
}

fn is_there(pid: &Value) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
