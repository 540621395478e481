//! `argus diff` on a real engine: changes of the file and of the images since the environment was last good.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::path::Path;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions, http};
use serde_json::{Value, json};

/// Waits this long for a new good revision, which needs 10 s of a running container.
const GOOD_LIMIT: std::time::Duration = std::time::Duration::from_secs(90);

const FAILS: &str = "echo no shop at port 12 >&2; exit 1";

fn spec(image: &str, command: &str, password: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: changed }}
resilience: {{ container: {{ maxRestarts: 0 }} }}
services:
  web:
    image: {image}
    command: ["sh", "-c", "{command}"]
    container:
      name: changed-web
      environment:
        DB_PASSWORD: {password}
"#
    )
}

fn diff(argus: &Controller<'_>) -> Value {
    let output = argus.cli(&["diff", "changed", "-o", "json"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn edit_since_the_last_good_revision_is_shown_key_by_key() {
    let engine = engine();
    engine.make_busybox_image("changed:1", &[]);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("changed:1", FAILS, "hunter2"));
    argus.wait_status("changed", LIMIT, "fails", |status| {
        status["services"][0]["state"] == "Failed"
    });
    let never = argus.cli(&["diff", "changed"]);
    assert!(never.status.success());
    let never = String::from_utf8_lossy(&never.stdout).into_owned();
    assert!(never.starts_with("changed: never Ready for 10 s"), "{never}");

    argus.write_spec("e2e.yaml", &spec("changed:1", "exec sleep 1000", "hunter2"));
    argus.wait_ready("changed", LIMIT);
    let good = argus.wait_until(GOOD_LIMIT, "the revision is good", || {
        let found = diff(&argus);
        found["good"].is_object().then_some(found)
    });
    assert_eq!(
        (&good["keys"], &good["images"]),
        (&json!([]), &json!([])),
        "{good:#}"
    );
    assert_eq!(good["good"]["revision"], good["revision"]);

    // An edit that breaks the service: the keys, without the secret.
    argus.write_spec("e2e.yaml", &spec("changed:1", FAILS, "correct-horse"));
    argus.wait_status("changed", LIMIT, "fails again", |status| {
        status["services"][0]["state"] == "Failed"
    });
    let found = diff(&argus);
    assert_eq!(
        found["keys"],
        json!([
            { "key": "services.web.command[2]", "line": 7, "before": "exec sleep 1000", "after": FAILS },
            {
                "key": "services.web.container.environment.DB_PASSWORD", "line": 11,
                "before": "[redacted]", "after": "[redacted]",
            },
        ]),
        "{found:#}"
    );
    let table = argus.cli(&["diff", "changed"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains("services.web.command[2]") && table.contains("no shop"),
        "{table}"
    );
    assert!(
        !table.contains("hunter2") && !table.contains("correct-horse"),
        "{table}"
    );
    let socket = argus.state.join("private/argus.sock");
    failure_names_its_earlier_repair(&argus, &socket);
    let over_mcp = http::call(&socket, "argus_diff", &json!({ "environment": "changed" }), LIMIT);
    assert_eq!(over_mcp["keys"], found["keys"], "{over_mcp:#}");
    let path = "/api/v1/environments/changed/diff";
    let over_http = http::request(&socket, "GET", path, "application/json", b"", LIMIT);
    assert_eq!(over_http.expect("an answer").json(), found);

    // The good file with another image under the same name, whose container fails.
    engine.make_busybox_image("changed:1", &["ENTRYPOINT [\"false\"]"]);
    argus.write_spec("e2e.yaml", &spec("changed:1", "exec sleep 1000", "hunter2"));
    let swapped = argus.wait_until(LIMIT, "the other image is shown", || {
        let found = diff(&argus);
        (found["images"]
            .as_array()
            .is_some_and(|images| !images.is_empty()))
        .then_some(found)
    });
    let image = &swapped["images"][0];
    assert_eq!(
        (&image["service"], &image["image"]),
        (&json!("web"), &json!("changed:1"))
    );
    assert_ne!(image["before"], image["after"], "{swapped:#}");
    assert_eq!(swapped["keys"], json!([]), "{swapped:#}");
    let service = text(&engine.inspect("changed-web").expect("a container")["Image"]);
    assert_eq!(text(&image["after"]), service);
}

/// The first failure of the test was the same, and an edit ended it.
fn failure_names_its_earlier_repair(argus: &Controller<'_>, socket: &Path) {
    let why = http::call(socket, "argus_why", &json!({ "environment": "changed" }), LIMIT);
    let seen = why["chains"].as_array().into_iter().flatten();
    let seen: Vec<&Value> = seen.filter_map(|chain| chain.get("seenBefore")).collect();
    let repair = &seen.first().expect("an earlier repair")["lastRepair"];
    assert_eq!(repair["keys"], json!(["services.web.command[2]"]), "{why:#}");
    assert_eq!(
        (&repair["diff"][0]["before"], &repair["diff"][0]["after"]),
        (&json!(FAILS), &json!("exec sleep 1000"))
    );
    for command in [&["why", "changed/web"][..], &["incidents", "--repairs"]] {
        let output = argus.cli(command);
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains("1 repair, the last at"), "{command:?}: {output}");
    }
}
