//! Automatic connectivity checks of the controller, and their reports.

use argus_tests::fixture::{IMAGE, LIMIT, condition, images, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

use super::fixture::{
    BARE, SHOP_LINKS, controller, engine, helpers, links, network, no_helper_stays, shop, verified,
};

#[test]
fn ready_environment_is_verified_with_a_matrix() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("matrix", 19020, 8080));
    let status = verified(&argus, "matrix", &Value::Null);
    assert_eq!(links(&status), SHOP_LINKS, "{status:#}");
    let (code, output) = network(&argus, "matrix", &[]);
    assert_eq!((code, links(&output)), (Some(0), links(&status)), "{output:#}");
    argus.wait_until(LIMIT, "the journal records it", || {
        let events = argus.cli(&["events", "matrix", "--type", "network_verified"]);
        String::from_utf8_lossy(&events.stdout)
            .contains("network_verified")
            .then_some(())
    });
    no_helper_stays(engine, "matrix");
    // Nothing is to do. `links_are_checked_once_all_are_up_and_after_a_restart` counts the checks of the following hour.
    argus.assert_settled("matrix");
    assert_eq!(argus.status("matrix")["connectivity"], status["connectivity"]);
    assert_eq!(helpers(engine, "matrix"), 0);
}

/// Phases of an environment after it became Ready.
fn phases_after_ready(argus: &Controller<'_>, env: &str) -> Vec<String> {
    let output = argus.cli(&["events", env, "--type", "phase", "-o", "json"]);
    let events: Value = serde_json::from_slice(&output.stdout).expect("`argus events` prints JSON");
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let phases = events.iter().map(|event| text(&event["to"]));
    phases.skip_while(|phase| phase != "Ready").skip(1).collect()
}

#[test]
fn refused_port_is_an_error_and_keeps_the_phase() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("deaf", 19030, 5432));
    argus.wait_ready("deaf", LIMIT);
    let status = argus.wait_status("deaf", LIMIT, "is not verified", |now| {
        condition(now, "Verified")["status"] == "False"
    });
    assert_eq!(status["phase"], "Ready", "{status:#}");
    assert_eq!(phases_after_ready(&argus, "deaf"), [""; 0]);
    assert_eq!(condition(&status, "Verified")["reason"], "ConnectionsFailed");
    let error = &status["errors"][0];
    assert_eq!(error["code"], "NETWORK_UNREACHABLE", "{status:#}");
    assert_eq!(
        (&error["service"], &error["environment"]),
        (&"api".into(), &"deaf".into())
    );
    assert_eq!(error["details"]["failure"], "refused");
    assert_eq!(
        error["remedies"][0]["command"], "argus network deaf --verify",
        "{error:#}"
    );
    // While a later check runs, there is no result.
    argus.wait_until(LIMIT, "the command reports the same error", || {
        let (code, output) = network(&argus, "deaf", &[]);
        let status = argus.status("deaf");
        let [shown, stored] = [&output, &status].map(|of| &of["errors"][0]["errorId"]);
        (code == Some(1) && shown.is_string() && shown == stored).then_some(())
    });
    let begin = || argus.cli(&["test", "begin", "deaf", "--case", "one", "-o", "json"]);
    assert_eq!(
        phases_after_ready(&argus, "deaf"),
        [""; 0],
        "after repeated checks"
    );
    let refused = begin();
    let output = String::from_utf8_lossy(&refused.stdout) + String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && output.contains("NETWORK_UNREACHABLE"),
        "no test begins without connectivity: {output}"
    );
    // The edited file has the real port of the database, so all links work.
    argus.write_spec("e2e.yaml", &shop("deaf", 19030, 8080));
    let status = verified(&argus, "deaf", &status);
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");
    assert!(begin().status.success(), "a test begins");
}

#[test]
fn disabled_connectivity_checks_do_not_run() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("on.e2e.yaml", &shop("unlooked", 19040, 8080));
    let off = "resilience: { network: { verifyConnectivity: false } }\n";
    argus.write_spec("off.e2e.yaml", &(shop("unwanted", 19050, 8080) + off));
    for (env, reason) in [("unlooked", "NoHelpers"), ("unwanted", "Disabled")] {
        let status = argus.wait_ready(env, LIMIT);
        let verified = condition(&status, "Verified");
        assert_eq!(
            (&verified["status"], &verified["reason"]),
            (&"Unknown".into(), &reason.into())
        );
        assert!(status["connectivity"].is_null(), "{status:#}");
        assert_eq!(
            network(&argus, env, &[]).0,
            Some(5),
            "neither verified nor failed"
        );
    }
    let refused = argus.cli(&["network", "unlooked", "--verify", "-o", "json"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("helpers are disabled"));
}

#[test]
fn engine_restart_repeats_the_connectivity_check() {
    let engine = PrivateEngine::start();
    images(&engine);
    engine.load_argus_image(BARE);
    let argus = controller(&engine);
    argus.write_spec("e2e.yaml", &shop("again", 19060, 8080));
    let before = verified(&argus, "again", &Value::Null);
    engine.restart();
    let after = verified(&argus, "again", &before);
    assert_eq!(links(&after), links(&before));
    let stayed = argus.wait_until(LIMIT, "no helper container remains", || {
        (helpers(&engine, "again") == 0).then_some(0)
    });
    assert_eq!(stayed, 0);
}

#[test]
fn silent_resolver_is_reported_as_such() {
    let argus = controller(engine());
    let file = |first: &str| {
        format!(
            "project: {{ name: lost }}\nservices:\n  db: {{ image: {IMAGE}, container: {{ name: lost-db, ports: ['0:8080'] }} }}\n  \
             api:\n    image: {IMAGE}\n    dependsOn: [{{ service: db, condition: started }}]\n    \
             command: [sh, -c, '{first} exec httpd -f -p 8080 -h /www']\n    container: {{ name: lost-api }}\n"
        )
    };
    argus.write_spec("e2e.yaml", &file("echo nameserver 127.0.0.9 > /etc/resolv.conf;"));
    let status = argus.wait_status("lost", LIMIT, "is not verified", |now| {
        condition(now, "Verified")["status"] == "False"
    });
    let error = &status["errors"][0];
    assert_eq!(error["code"], "DNS_RESOLUTION_FAILED", "{status:#}");
    assert_eq!(error["details"]["failure"], "SERVFAIL", "{error:#}");
    assert_eq!(error["details"]["host"], "db");
    argus.write_spec("e2e.yaml", &file(""));
    verified(&argus, "lost", &status);
}
