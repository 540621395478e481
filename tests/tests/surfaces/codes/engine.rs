//! An engine that is too old, returns errors, or does not exist.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use argus_tests::fixture::{LIMIT, condition, engine, proxied};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Proxy, RunOptions};

use super::case::Case;

/// Version response of Docker 19.03.
const OLD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\
    {\"Version\":\"19.03.15\",\"ApiVersion\":\"1.40\",\"MinAPIVersion\":\"1.12\",\"Os\":\"linux\",\"Arch\":\"amd64\"}";
const REFUSAL: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\
    {\"message\":\"driver \\\"overlay2\\\" failed to remove root filesystem\"}";

fn spec(env: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {env} }}\nservices:\n  app:\n    image: busybox:local\n    container: {{ name: {env}-app }}\n"
    )
}

#[test]
fn old_engine_is_reported_alike_on_every_interface() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "codes-old");
    proxy.inject("GET /version", Fault::Answer(OLD), 100_000);
    argus.write_spec("e2e.yaml", &spec("codes-old"));
    Case {
        env: "codes-old",
        code: "API_TOO_OLD",
        service: None,
        details: &["apiVersion", "needed"],
        text: "1.40",
    }
    .is_reported_everywhere(&argus);
    assert!(
        engine.inspect("codes-old-app").is_none(),
        "nothing is created on it"
    );
    proxy.heal();
    argus.wait_ready("codes-old", LIMIT);
}

#[test]
fn socket_without_access_ends_waits_and_names_the_group() {
    const OTHER_USER: Option<u32> = Some(65_534);
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("codes-denied").join("p.sock"), &engine.socket());
    let socket = proxy.host().replace("unix://", "");
    chown(&socket, OTHER_USER, OTHER_USER).expect("root changes owners");
    fs::set_permissions(&socket, Permissions::from_mode(0o660)).expect("root changes modes");
    // Without these capabilities, root needs the permissions of a file like any other user.
    let launcher = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];
    let options = RunOptions {
        host: Some(proxy.host()),
        launcher: launcher.map(str::to_owned).to_vec(),
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    argus.write_spec("e2e.yaml", &spec("codes-denied"));
    let error = Case {
        env: "codes-denied",
        code: "DOCKER_PERMISSION_DENIED",
        service: None,
        details: &["endpoint", "reason", "errno", "since", "group"],
        text: "group `nogroup`",
    };
    error.is_reported_everywhere(&argus);
    // The wait ends before its limit: a wait that reaches its limit here has exit code 4.
    for (words, exit) in [(["wait", "codes-denied"], 6), (["plan", "codes-denied"], 4)] {
        let output = argus.cli(&words);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {text}");
        assert!(text.contains("group `nogroup`"), "{words:?}: {text}");
    }
    let status = argus.status("codes-denied");
    let blocked = condition(&status, "Blocked");
    assert_eq!(
        (&blocked["status"], &blocked["reason"]),
        (&"True".into(), &"DockerPermissionDenied".into()),
        "{status:#}"
    );
    let remedy = &status["errors"][0]["remedies"][0]["command"];
    assert_eq!(remedy, "sudo usermod -aG nogroup \"$USER\"");
    // The change of the socket causes another attempt.
    chown(&socket, Some(0), Some(0)).expect("root changes owners");
    argus.wait_ready("codes-denied", LIMIT);
    argus.wait_status("codes-denied", LIMIT, "is no longer blocked", |status| {
        status["phase"] == "Ready" && condition(status, "Blocked")["status"] == "False"
    });
}

#[test]
fn failed_removals_and_outages_are_reported_alike() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "codes-gone");
    argus.write_spec("e2e.yaml", &spec("codes-gone"));
    argus.write_spec("stays.e2e.yaml", &spec("codes-stays"));
    argus.wait_ready("codes-gone", LIMIT);
    argus.wait_ready("codes-stays", LIMIT);
    proxy.inject("DELETE /containers/*", Fault::Answer(REFUSAL), 100_000);
    argus.cli(&["down", "codes-stays", "--timeout", "1s"]);
    Case {
        env: "codes-stays",
        code: "CLEANUP_FAILED",
        service: Some("app"),
        details: &["verb", "reason"],
        text: "failed to remove root filesystem",
    }
    .is_reported_everywhere(&argus);

    proxy.refuse();
    // Skips the pauses between retries: a reset connects to the engine immediately.
    argus.wait_until(LIMIT, "ten connection attempts", || {
        argus.cli(&["breaker", "reset"]);
        let errors = argus.status("codes-gone")["errors"].clone();
        let output = errors
            .as_array()?
            .iter()
            .any(|error| error["code"] == "RETRY_EXHAUSTED");
        output.then_some(())
    });
    for (code, text, details) in [
        (
            "RETRY_EXHAUSTED",
            "attempts",
            &["endpoint", "reason", "since", "tries"],
        ),
        (
            "DOCKER_UNAVAILABLE",
            "does not answer",
            &["endpoint", "reason", "since", "tries"],
        ),
    ] {
        Case {
            env: "codes-gone",
            code,
            service: None,
            details,
            text,
        }
        .is_reported_everywhere(&argus);
    }
    // A person is needed until the engine answers.
    let status = argus.status("codes-gone");
    let blocked = condition(&status, "Blocked");
    assert_eq!(
        (&blocked["status"], &blocked["reason"]),
        (&"True".into(), &"RetryExhausted".into()),
        "{status:#}"
    );
    proxy.heal();
    argus.cli(&["breaker", "reset"]);
    argus.wait_status("codes-gone", LIMIT, "is no longer blocked", |status| {
        status["phase"] == "Ready" && condition(status, "Blocked")["status"] == "False"
    });
}
