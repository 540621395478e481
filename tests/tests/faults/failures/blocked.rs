//! Waits for environments that only a change can make ready.

use argus_tests::fixture::{LIMIT, condition, engine};
use argus_tests::{Controller, Registry, RunOptions};
use serde_json::Value;

fn spec(name: &str, body: &str) -> String {
    format!(
        "version: \"1\"\nproject:\n  name: {name}\nservices:\n  web:\n    {body}\n    container: {{ name: {name}-web }}\n"
    )
}

/// Waits until the known cause ends the wait, which a timeout would end with another exit code. Returns the error.
fn wait_for_error(argus: &Controller<'_>, name: &str) -> Value {
    let output = argus.cli(&["wait", name, "--timeout", "120s", "-o", "json"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{text}");
    let error = text.find('{').map(|at| serde_json::from_str(&text[at..]));
    error
        .expect("an error")
        .unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn missing_image_ends_the_wait_and_is_found_later() {
    let engine = engine();
    let registry = Registry::start(engine, 5052);
    let options = RunOptions {
        args: vec!["--action-retry-interval".to_owned(), "2s".to_owned()],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let image = format!("{}/late:1", registry.address);
    let body = format!("image: {image}\n    command: [\"sleep\", \"3600\"]");
    argus.write_spec("late.e2e.yaml", &spec("late", &body));
    let error = wait_for_error(&argus, "late");
    assert_eq!(error["code"], "IMAGE_NOT_FOUND", "{error:#}");
    assert_eq!(
        (&error["class"], &error["retryable"]),
        (&"permanent".into(), &false.into())
    );
    assert!(error["retryAfter"].is_null(), "{error:#}");
    // During a retry, nothing blocks the environment.
    argus.wait_status("late", LIMIT, "is blocked", |status| {
        let blocked = condition(status, "Blocked");
        blocked["status"] == "True" && blocked["reason"] == "ImageNotFound"
    });
    // Argus finds the image without a command.
    engine.docker_ok(&["tag", "busybox:local", &image]);
    argus.wait_ready("late", LIMIT);
}

#[test]
fn foreign_container_with_the_name_ends_the_wait() {
    let engine = engine();
    engine.docker_ok(&["create", "--name", "owned-web", "busybox:local", "true"]);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "owned.e2e.yaml",
        &spec(
            "owned",
            "image: busybox:local\n    command: [\"sleep\", \"3600\"]",
        ),
    );
    let error = wait_for_error(&argus, "owned");
    assert_eq!(
        (&error["code"], &error["class"]),
        (&"NAME_CONFLICT".into(), &"human".into()),
        "{error:#}"
    );
    engine.docker_ok(&["rm", "owned-web"]);
    argus.wait_ready("owned", LIMIT);
}
