//! Networks whose derived name a foreign network holds, on a real engine.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{LIMIT, container_runs, engine, text};
use argus_tests::{Controller, RunOptions};

#[test]
fn network_with_a_taken_derived_name_moves() {
    let engine = engine();
    let (own, moved) = ("argusai-squatted-network", "argusai-squatted-network-2");
    engine.docker_ok(&["network", "create", own]);
    let id = |name: &str| {
        engine
            .docker(&["network", "inspect", "-f", "{{.Id}}", name])
            .stdout
    };
    let foreign = id(own);
    let argus = Controller::start(engine, RunOptions::default());
    let spec = "project: { name: squatted }\nservices:\n  web:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
         stopGrace: 1s\n    container: { name: squatted-web }\n";
    argus.write_spec("e2e.yaml", spec);
    let status = argus.wait_ready("squatted", LIMIT);
    let warning = &status["diagnostics"][0]["message"];
    assert!(
        text(warning).contains(moved) && text(warning).contains("Argus did not create"),
        "{status:#}"
    );
    let networks = || engine.inspect("squatted-web").expect("it runs")["NetworkSettings"]["Networks"].clone();
    assert!(networks().get(moved).is_some(), "{:#}", networks());

    let before = container_runs(engine, "squatted");
    assert!(argus.stop().success());
    argus.start_again();
    argus.wait_ready("squatted", LIMIT);
    assert_eq!(container_runs(engine, "squatted"), before, "nothing restarts");

    argus.remove_spec("e2e.yaml");
    argus.wait_until(LIMIT, "its own network is removed", || {
        (!engine.docker(&["network", "inspect", moved]).status.success()).then_some(())
    });
    assert_eq!(id(own), foreign, "the foreign network stays");
    engine.docker_ok(&["network", "rm", own]);

    // A name that the file sets does not move.
    engine.docker_ok(&["network", "create", "squatted-chosen"]);
    argus.write_spec(
        "e2e.yaml",
        &format!("{spec}network: {{ name: squatted-chosen }}\n"),
    );
    argus.wait_status("squatted", LIMIT, "reports the conflict", |status| {
        status["errors"].to_string().contains("NAME_CONFLICT")
    });
    engine.docker_ok(&["network", "rm", "squatted-chosen"]);
    argus.wait_ready("squatted", LIMIT);
}
