//! Circuit breaker over MCP: a reset returns the state changes, and the failures that opened the breaker.

use argus_tests::fixture::{LIMIT, engine, proxied, shop};
use argus_tests::proxy::Fault;
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data};

/// State changes of a breaker, in order.
fn changes(breaker: &Value) -> Vec<&str> {
    let history = breaker["history"].as_array().expect("a history");
    history
        .iter()
        .filter_map(|change| change["to"].as_str())
        .collect()
}

/// Checks the breaker in the summary of a status while it is open.
fn assert_open_in_status(fixture: &McpFixture, env: &Value) {
    let answer = fixture.call(Over::Socket, "argus_status", env);
    let breaker = &data(&answer)["environments"][0]["breaker"];
    assert_eq!(
        (&breaker["state"], &breaker["failureCount"]),
        (&json!("open"), &json!(3)),
        "{answer:#}"
    );
    assert!(breaker["sinceSeconds"].is_u64(), "{answer:#}");
}

/// Checks the breaker in a status after it closed: only the full document has it.
fn assert_closed_in_status(fixture: &McpFixture, env: &str) {
    let full = json!({ "environment": env, "detail": "full" });
    let answer = fixture.call(Over::Socket, "argus_status", &full);
    let status = data(&answer);
    assert_eq!(status["full"][0]["breaker"]["state"], "closed", "{status:#}");
    assert!(status["environments"][0]["breaker"].is_null(), "{status:#}");
}

#[test]
fn breaker_reset_reports_states_and_history() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "mcp-circuit");
    proxy.inject("POST /containers/*/start", Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 3, resetTimeoutMs: 120000 } }\n";
    argus.write_spec(
        "e2e.yaml",
        &format!("{}{breaker}", shop("mcp-tripped", 18790, "one")),
    );
    argus.wait_status("mcp-tripped", LIMIT, "reports its open breaker", |now| {
        now["breaker"]["state"] == "open"
    });
    proxy.heal();
    let fixture = McpFixture { engine, argus };
    let env = json!({ "environment": "mcp-tripped" });
    assert_open_in_status(&fixture, &env);
    let answer = fixture.call(Over::Stdio, "argus_reset_circuit", &env);
    let reset = data(&answer);
    assert_eq!(
        (&reset["verb"], &reset["kind"], &reset["environment"]),
        (&json!("resetBreaker"), &json!("circuit"), &json!("mcp-tripped")),
        "{reset:#}"
    );
    let reset = &reset["value"];
    assert_eq!(
        (&reset["breaker"], &reset["changed"]),
        (&json!("mcp-tripped"), &json!(true)),
        "{reset:#}"
    );
    let (previous, current) = (&reset["previous"], &reset["current"]);
    assert_eq!(previous["state"], "open", "{reset:#}");
    assert_eq!(changes(previous), ["open"]);
    let failures = previous["lastFailures"].as_array().expect("the failures");
    assert_eq!(failures.len(), 3, "{previous:#}");
    assert!(
        failures
            .iter()
            .all(|it| it["operation"] == "start-container" && it["at"].is_string()),
        "{previous:#}"
    );
    let why = previous["history"][0]["reason"]
        .as_str()
        .expect("the reason of the opening");
    assert!(
        why.starts_with("3 failures in a row") && why.contains("connection"),
        "{why}"
    );
    // The test call may have closed it already.
    assert!(
        matches!(current["state"].as_str(), Some("halfOpen" | "closed")),
        "{reset:#}"
    );
    assert_eq!(changes(current)[..2], ["open", "halfOpen"]);
    fixture.argus.wait_ready("mcp-tripped", LIMIT);
    assert_closed_in_status(&fixture, "mcp-tripped");
    let answer = fixture.call(Over::Socket, "argus_reset_circuit", &env);
    let again = &data(&answer)["value"];
    assert_eq!(again["changed"], false, "{again:#}");
    assert_eq!(
        again["previous"], again["current"],
        "a reset of a closed breaker does nothing"
    );
    assert_eq!(
        changes(
            again["current"]["history"]
                .is_array()
                .then_some(&again["current"])
                .expect("kept")
        ),
        ["open", "halfOpen", "closed"]
    );

    engines(&proxy, &fixture);
}

/// The engine's own breaker: a reset tests a missing engine with one ping, and reports that.
fn engines(proxy: &argus_tests::Proxy, fixture: &McpFixture) {
    proxy.inject("", Fault::CloseBefore, 100_000);
    fixture
        .argus
        .wait_until(LIMIT, "the engine's breaker is open", || {
            (fixture.argus.controller_status()["breaker"]["state"] == "open").then_some(())
        });
    let answer = fixture.call(Over::Stdio, "argus_reset_circuit", &json!({}));
    let reset = &data(&answer)["value"];
    assert_eq!(
        (&reset["breaker"], &reset["changed"]),
        (&json!("engine"), &json!(true)),
        "{reset:#}"
    );
    assert_eq!(reset["previous"]["state"], "open", "{reset:#}");
    assert_eq!(reset["current"]["state"], "open", "{reset:#}");
    let changes: Vec<&Value> = reset["changes"]
        .as_array()
        .expect("the changes")
        .iter()
        .map(|change| &change["to"])
        .collect();
    assert_eq!(changes, ["halfOpen", "open"], "{reset:#}");
    let failures = reset["previous"]["lastFailures"]
        .as_array()
        .expect("the failures");
    assert!(failures.iter().any(|it| it["operation"] == "ping"), "{reset:#}");
    let words = answer["content"][0]["text"].to_string();
    assert!(words.contains("is open after the reset"), "{words}");
    proxy.heal();
    let answer = fixture.call(Over::Socket, "argus_reset_circuit", &json!({}));
    assert_eq!(data(&answer)["value"]["breaker"], "engine", "{answer:#}");
    fixture.argus.wait_until(LIMIT, "it is closed again", || {
        (fixture.argus.controller_status()["breaker"]["state"] == "closed").then_some(())
    });
}
