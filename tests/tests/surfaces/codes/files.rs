//! Errors of a file, of the image or command that it names, and of leftovers.

use std::fs;

use argus_tests::fixture::{LIMIT, container_runs, engine};
use argus_tests::{Controller, RunOptions};
use serde_json::{Value, json};

use super::case::Case;
use super::{queries, registry};

const CASES: &[Case] = &[
    Case {
        env: "codes-build",
        code: "BUILD_FAILED",
        service: Some("app"),
        details: &["message", "log"],
        text: "] RUN exit 3: ",
    },
    Case {
        env: "codes-built-private",
        code: "AUTH_REQUIRED",
        service: Some("app"),
        details: &["verb", "reason", "registry"],
        text: "registry refused access",
    },
    Case {
        env: "codes-built-busy",
        code: "BUILD_FAILED",
        service: Some("app"),
        details: &["message", "log"],
        text: "429 Too Many Requests",
    },
    Case {
        env: "codes-policy",
        code: "POLICY_VIOLATION",
        service: None,
        details: &["specPath", "path", "hint"],
        text: "privileged",
    },
    Case {
        env: "codes-twin",
        code: "SPEC_CONFLICT",
        service: None,
        details: &["specPath", "path", "hint"],
        text: "first.e2e.yaml",
    },
    Case {
        env: "codes-private",
        code: "AUTH_REQUIRED",
        service: Some("app"),
        details: &["verb", "reason"],
        text: "registry refused access",
    },
    Case {
        env: "codes-busy",
        code: "REGISTRY_RATE_LIMITED",
        service: Some("app"),
        details: &["verb", "reason"],
        text: "toomanyrequests",
    },
    Case {
        env: "codes-broken",
        code: "IMAGE_PULL_FAILED",
        service: Some("app"),
        details: &["verb", "reason"],
        text: "500 Internal Server Error",
    },
    Case {
        env: "codes-stuck",
        code: "NETWORK_STUCK",
        service: None,
        details: &["verb", "reason"],
        text: "codes-stranger",
    },
];

fn app(env: &str, what: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {env} }}\nservices:\n  app:\n    {what}\n    container: {{ name: {env}-app }}\n"
    )
}

#[test]
fn file_and_image_rejections_are_reported_alike() {
    let engine = engine();
    registry::refuse(engine);
    let argus = Controller::start(engine, RunOptions::default());
    let write =
        |file: &str, env: &str, what: &str| argus.write_spec(&format!("{file}.e2e.yaml"), &app(env, what));
    write("stuck", "codes-stuck", "image: busybox:local");
    write("first", "codes-twin", "image: busybox:local");
    let context = argus.specs.join("context");
    fs::create_dir_all(&context).expect("a directory");
    fs::write(context.join("Dockerfile"), "FROM busybox:local\nRUN exit 3\n").expect("a file");
    write(
        "build",
        "codes-build",
        "build: { context: ./context, image: \"codes-build:local\" }",
    );
    write(
        "policy",
        "codes-policy",
        "image: busybox:local\n    privileged: true",
    );
    for (name, port, _) in registry::REFUSALS {
        let image = format!("image: \"127.0.0.1:{port}/{name}/app:1\"");
        write(name, &format!("codes-{name}"), &image);
    }
    // The same refusals for the base image of a build.
    for (name, port, _) in &registry::REFUSALS[..2] {
        let context = argus.specs.join(format!("built-{name}"));
        fs::create_dir_all(&context).expect("a directory");
        let dockerfile = format!("FROM 127.0.0.1:{port}/{name}/app:1\n");
        fs::write(context.join("Dockerfile"), dockerfile).expect("a file");
        let build = format!("build: {{ context: ./built-{name}, image: \"codes-built-{name}:local\" }}");
        write(&format!("of-{name}"), &format!("codes-built-{name}"), &build);
    }
    argus.wait_ready("codes-twin", LIMIT);
    let twin = container_runs(engine, "codes-twin");
    write("second", "codes-twin", "image: busybox:local");
    argus.wait_ready("codes-stuck", LIMIT);
    // A foreign container is on the network of an environment that is being removed.
    let on = [
        "run",
        "-d",
        "--name",
        "codes-stranger",
        "--network",
        "argusai-codes-stuck-network",
        "busybox:local",
    ];
    engine.docker_ok(&on);
    argus.cli(&["down", "codes-stuck", "--timeout", "1s"]);
    for case in CASES {
        case.is_reported_everywhere(&argus);
    }
    let error = |env: &str| argus.status(env)["errors"][0].clone();
    let failed = error("codes-build");
    assert_eq!(
        (&failed["class"], &failed["retryable"], &failed["retryAfter"]),
        (&json!("permanent"), &json!(false), &Value::Null)
    );
    argus.wait_status(
        "codes-busy",
        LIMIT,
        "waits as long as the registry requests",
        |now| now["errors"][0]["code"] == "REGISTRY_RATE_LIMITED" && now["errors"][0]["retryAfter"] == 60,
    );
    let conflict = error("codes-twin");
    assert_eq!(
        (&conflict["code"], &conflict["class"]),
        (&json!("SPEC_CONFLICT"), &json!("permanent"))
    );
    assert_eq!(
        container_runs(engine, "codes-twin"),
        twin,
        "the first file stays in force"
    );
    assert_eq!(argus.status("codes-twin")["phase"], "Ready");
    let refused = error("codes-built-private");
    assert_eq!(refused["remedies"][0]["command"], "docker login 127.0.0.1:5096");
    assert_eq!(
        (&refused["class"], &refused["retryable"]),
        (&json!("human"), &json!(false))
    );
    // While a retry is in flight, the status does not show its error.
    let is_limited = |status: &Value| status["errors"][0]["class"] == "transient";
    let limited = argus.wait_status("codes-built-busy", LIMIT, "reports the limit", is_limited);
    let limited = &limited["errors"][0];
    assert_eq!(limited["retryable"], true);
    assert!(
        limited["details"]["log"]
            .as_str()
            .is_some_and(|log| log.contains("load metadata for")),
        "{limited:#}"
    );
    engine.docker_ok(&["rm", "-f", "codes-stranger"]);
}

#[test]
fn unreadable_status_is_reported_alike() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.wait_until(LIMIT, "it listens and has removed old files", || {
        let is_ready =
            argus.state.join("private/argus.sock").exists() && !argus.controller_status().is_null();
        is_ready.then_some(())
    });
    // A file that a newer version may have left.
    fs::create_dir_all(argus.state.join("environments")).expect("a directory");
    let text = json!({ "schemaVersion": 1, "environment": "codes-odd", "phase": "Levitating" });
    fs::write(argus.state.join("environments/codes-odd.json"), text.to_string()).expect("a file");
    let case = Case {
        env: "codes-odd",
        code: "PREREQ_MISSING",
        service: None,
        details: &["reason", "hint"],
        text: "codes-odd.json",
    };
    let output = [
        queries::cli(&argus, &["get", "codes-odd"]),
        queries::http(&argus, "/api/v1/environments/codes-odd"),
        queries::mcp(&argus, "argus_status", &json!({ "environment": "codes-odd" })),
    ];
    let timeless = |mut error: serde_json::Value| {
        case.is_whole(&error);
        let fields = error.as_object_mut().expect("the error is complete");
        // This error is not stored: each reader of the file creates it again.
        fields.retain(|name, _| !["errorId", "correlationId", "timestamp"].contains(&name.as_str()));
        error
    };
    let [cli, http, mcp] = output.map(timeless);
    assert_eq!(cli, http);
    assert_eq!(cli, mcp);
}
