//! Settings of retries and restarts: the budget of actions, and the restart rate limit.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{LIMIT, engine, proxied_with};
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

fn spec(name: &str, command: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nservices:\n  web:\n    image: busybox:local\n    command: {command}\n    \
         container: {{ name: {name}-web }}\n"
    )
}

fn error<'s>(status: &'s Value, code: &str) -> Option<&'s Value> {
    let errors = status["errors"].as_array()?;
    errors.iter().find(|error| error["code"] == code)
}

#[test]
fn action_is_retried_slowly_until_its_cause_ends() {
    let engine = engine();
    engine.docker_ok(&["create", "--name", "budget-web", "busybox:local", "true"]);
    let flags = ["--action-attempts", "2", "--action-retry-interval", "1h"];
    let options = RunOptions {
        args: flags.map(str::to_owned).into(),
        ..RunOptions::default()
    };
    let (proxy, argus) = proxied_with(engine, "budget", options);
    argus.write_spec("e2e.yaml", &spec("budget", "[sleep, \"3600\"]"));
    argus.wait_status("budget", LIMIT, "reports the conflict", |status| {
        error(status, "NAME_CONFLICT").is_some()
    });
    let creates = || {
        let writes = proxy.writes().into_iter();
        writes
            .filter(|seen| seen.class == "POST /containers/create")
            .count()
    };
    argus.wait_until(LIMIT, "the second attempt", || (creates() == 2).then_some(()));
    let status = argus.wait_status("budget", LIMIT, "lists both attempts", |status| {
        let error = error(status, "NAME_CONFLICT");
        error.is_some_and(|error| error["details"]["attempts"].as_array().map(Vec::len) == Some(2))
    });
    let conditions = status["conditions"].as_array().expect("conditions");
    let blocked = conditions.iter().find(|condition| condition["type"] == "Blocked");
    assert_eq!(blocked.expect("a condition")["status"], "True", "{status:#}");
    // The next attempt would follow in an hour. The removal of the container ends the conflict.
    engine.docker_ok(&["rm", "budget-web"]);
    argus.wait_ready("budget", LIMIT);
    assert_eq!(creates(), 3);
}

#[test]
fn settings_file_limits_the_restarts_per_minute() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    let config = argus.specs.with_extension("toml");
    std::fs::write(&config, "restart-rate-limit = 1\nslow-retry-interval = \"5s\"\n")
        .expect("a settings file");
    let path = config.display().to_string();
    let argus = Controller::start(
        engine,
        RunOptions {
            args: vec!["--config".to_owned(), path],
            ..RunOptions::default()
        },
    );
    argus.write_spec("e2e.yaml", &spec("paced", "[sh, -c, \"sleep 1; exit 3\"]"));
    let status = argus.wait_status("paced", LIMIT, "waits for a permit", |status| {
        let waits = &Controller::service(status, "web")["waitingOn"]["message"];
        waits.as_str().is_some_and(|text| text.contains("(1 per minute)"))
    });
    assert_eq!(Controller::service(&status, "web")["restarts"], 2, "{status:#}");
}
