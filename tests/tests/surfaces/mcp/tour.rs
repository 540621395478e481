//! Calls of every tool, over every transport.

use std::collections::BTreeSet;

use argus_tests::fixture::{LIMIT, shop};
use argus_tests::http;
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data, error, size};

#[test]
fn every_tool_works_over_stdio() {
    tour(&McpFixture::start(), Over::Stdio, "tour-stdio", 18_600);
}

#[test]
fn every_tool_works_over_http() {
    tour(&McpFixture::start(), Over::Http, "tour-http", 18_610);
}

#[test]
fn token_is_needed_on_tcp_and_not_on_the_socket() {
    let fixture = McpFixture::start();
    let steps = [json!({ "call": "argus_status" })];
    let answers = fixture.run_steps(Over::Socket, &steps);
    assert_eq!(data(&answers[0]["result"])["controller"]["alive"], true);
    let mut script = fixture.script(Over::Http, &steps);
    // The protocol of older clients, from before requests without a session.
    script["mode"] = json!("legacy");
    let answers = fixture.run(&script);
    assert_eq!(
        data(&answers["answers"][0]["result"])["controller"]["alive"],
        true
    );
    for token in [Value::Null, json!("another")] {
        script["token"] = token;
        let refused = fixture.run(&script);
        assert!(refused["refused"].is_string(), "{refused:#}");
    }
}

#[test]
fn oversized_body_is_refused_with_a_message() {
    let fixture = McpFixture::start();
    let long = vec![b' '; 4 * 1024 * 1024 + 1];
    let socket = fixture.argus.state.join("private/argus.sock");
    let answer =
        http::request(&socket, "POST", "/mcp", "application/json", &long, LIMIT).expect("a response");
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(answer.json()["code"], "PREREQ_MISSING", "{answer:?}");
}

#[test]
fn stopping_controller_waits_for_no_agent() {
    let fixture = McpFixture::start();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("stopped", 18_630, "hi"));
    fixture.argus.wait_ready("stopped", LIMIT);
    let env = json!({ "environment": "stopped" });
    let later = json!({ "environment": "stopped", "for": "gone", "timeoutSeconds": 3600 });
    let mark = fixture.argus.specs.join("waits");
    let steps = [
        json!({ "call": "argus_hold", "arguments": env }),
        json!({ "call": "argus_wait", "arguments": later, "progress": true, "mark": mark }),
    ];
    let script = fixture.script(Over::Http, &steps);
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| fixture.run(&script));
        // The call of the agent has reported progress, and takes an hour.
        fixture
            .argus
            .wait_until(LIMIT, "the agent waits", || mark.exists().then_some(()));
        fixture
            .argus
            .wait_status("stopped", LIMIT, "is held", |now| now["phase"] == "Held");
        let status = fixture.argus.stop();
        assert!(status.success(), "{status:?}");
        agent.join().expect("the agent ends");
    });
}

#[test]
fn cancelled_call_ends_and_the_next_is_answered() {
    let fixture = McpFixture::start();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("cancelled", 18_620, "hi"));
    let later = json!({ "environment": "cancelled", "for": "gone", "timeoutSeconds": 3600 });
    let steps = [
        json!({ "call": "argus_wait", "arguments": later, "progress": true, "cancel": "progress" }),
        json!({ "call": "argus_status" }),
    ];
    // Over HTTP, another test cancels a run of suites.
    let answers = fixture.run_steps(Over::Stdio, &steps);
    assert_eq!(answers[0]["cancelled"], true, "{answers:#?}");
    data(&answers[1]["result"]);
}

/// Asserts that the response of a step is a success. Returns it.
fn good(answer: &Value) -> &Value {
    data(&answer["result"])
}

/// A step, and the check of its response.
pub(crate) type Step = (&'static str, Value, fn(&Value));

/// The arguments that name the environment, with more.
fn of(name: &str, more: &Value) -> Value {
    let mut all = json!({ "environment": name });
    for (key, value) in more.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

/// Steps that create an environment and wait for it.
fn creation_steps(name: &str, port: u16) -> Vec<Step> {
    let env = json!({ "environment": name });
    vec![
        ("argus_preflight_check", json!({ "skip": ["images"] }), |answer| {
            let report = good(answer);
            assert_ne!(report["overall"], "unhealthy", "{report:#}");
            let images = report["checks"].as_array().expect("a list").iter();
            let skipped = images.filter(|check| check["result"] == "skipped" && check["name"] == "images");
            assert_eq!(skipped.count(), 1, "{report:#}");
        }),
        (
            "argus_apply",
            json!({ "content": shop(name, port, "hello") }),
            |answer| {
                let applied = good(answer);
                assert_eq!(
                    (&applied["changed"], &applied["accepted"]),
                    (&json!(true), &json!(true)),
                    "{applied:#}"
                );
                assert_eq!(applied["nextSteps"][0]["tool"], "argus_wait");
            },
        ),
        ("argus_wait", env.clone(), |answer| {
            assert_eq!(good(answer)["environments"][0]["phase"], "Ready");
            let received = answer["progress"].as_array().expect("a list");
            assert!(received.len() > 1, "progress was reported: {received:?}");
            let grows = |pair: &[Value]| pair[0]["progress"].as_f64() < pair[1]["progress"].as_f64();
            assert!(received.windows(2).all(grows), "{received:?}");
        }),
        ("argus_status", env.clone(), |answer| {
            let status = good(answer);
            let brief = &status["environments"][0];
            assert_eq!(
                (&brief["ready"], &brief["services"]),
                (&json!(3), &json!(3)),
                "{status:#}"
            );
            assert!(brief["endpoints"]["web:8080"].is_string(), "{status:#}");
            assert!(
                size(&answer["result"]) < 1_600,
                "{}: {status:#}",
                size(&answer["result"])
            );
        }),
        ("argus_status", of(name, &json!({ "detail": "full" })), |answer| {
            assert_eq!(good(answer)["full"][0]["phase"], "Ready");
        }),
    ]
}

/// Steps that query it.
fn query_steps(name: &str) -> Vec<Step> {
    let env = json!({ "environment": name });
    vec![
        ("argus_validate", json!({}), |answer| {
            assert_eq!(good(answer)["accepted"], true);
        }),
        ("argus_validate", json!({ "content": "services: [" }), |answer| {
            let file = &good(answer)["files"][0];
            assert!(file["diagnostics"][0]["location"]["line"].is_u64(), "{file:#}");
        }),
        ("argus_why", env.clone(), |answer| {
            assert_eq!(good(answer)["phase"], "Ready");
        }),
        ("argus_fix", env.clone(), |answer| {
            assert_eq!(error(&answer["result"])["details"]["reason"], "notPossible");
        }),
        ("argus_diff", env.clone(), |answer| {
            assert!(good(answer)["keys"].is_array());
        }),
        (
            "argus_logs",
            of(name, &json!({ "service": "web", "tail": 5 })),
            |answer| {
                assert!(good(answer)["items"].is_array());
            },
        ),
        (
            "argus_evidence",
            of(name, &json!({ "service": "web" })),
            |answer| {
                let message = error(&answer["result"])["message"].to_string();
                assert!(message.contains("no evidence for"), "{message}");
            },
        ),
        (
            "argus_events",
            of(name, &json!({ "type": ["phase"] })),
            |answer| {
                let events = good(answer)["items"].as_array().expect("a list");
                assert!(events.iter().any(|event| event["to"] == "Ready"), "{events:?}");
            },
        ),
        ("argus_plan", env.clone(), |answer| {
            let ahead = &good(answer)["environments"][0];
            assert_eq!(
                (&ahead["settled"], &ahead["steps"]),
                (&json!(true), &json!([])),
                "{ahead:#}"
            );
        }),
        ("argus_network", env.clone(), |answer| {
            let output = good(answer);
            assert!(output["condition"]["reason"].is_string(), "{output:#}");
        }),
        ("argus_test_results", env.clone(), |answer| {
            assert_eq!(good(answer)["suites"], json!([]));
        }),
        ("argus_incidents", json!({}), |answer| {
            assert_eq!(good(answer)["items"], json!([]));
        }),
        (
            "argus_mock_requests",
            of(name, &json!({ "mock": "web" })),
            |answer| {
                let message = error(&answer["result"])["message"].to_string();
                assert!(message.contains("not a mock"), "{message}");
            },
        ),
        ("argus_explain", json!({ "code": "CONTAINER_CRASH" }), |answer| {
            assert_eq!(good(answer)["retryable"], true);
        }),
        ("argus_reset_circuit", json!({}), |answer| {
            let output = good(answer);
            assert_eq!(
                (&output["kind"], &output["value"]["changed"]),
                (&json!("circuit"), &json!(false))
            );
        }),
        ("argus_orphans", json!({}), |answer| {
            assert!(good(answer)["items"].is_array());
        }),
    ]
}

/// Steps that change and remove it.
fn change_steps(name: &str) -> Vec<Step> {
    let env = json!({ "environment": name });
    let copy = format!("{name}-copy");
    let gone = json!({ "environment": copy, "for": "gone" });
    vec![
        (
            "argus_test",
            of(name, &json!({ "action": "begin", "case": "one" })),
            |answer| {
                assert_eq!(good(answer)["nextSteps"][0]["arguments"]["action"], "end");
            },
        ),
        (
            "argus_test",
            of(name, &json!({ "action": "end", "case": "one" })),
            |answer| {
                assert_eq!(good(answer)["value"]["restartsDuringRun"], 0);
            },
        ),
        ("argus_test_run", env.clone(), |answer| {
            let message = error(&answer["result"])["message"].to_string();
            assert!(message.contains("has no suites"), "{message}");
        }),
        (
            "argus_hold",
            of(name, &json!({ "forSeconds": 600, "reason": "inspection" })),
            |answer| {
                assert_eq!(good(answer)["nextSteps"][0]["tool"], "argus_resume");
            },
        ),
        ("argus_resume", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "resume");
        }),
        ("argus_wait", env.clone(), |answer| {
            assert_eq!(good(answer)["environments"][0]["phase"], "Ready");
        }),
        ("argus_retry", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "retry");
        }),
        ("argus_rollback", env.clone(), |answer| {
            error(&answer["result"]);
        }),
        ("argus_fork", of(name, &json!({ "to": copy })), |answer| {
            assert!(
                good(answer)["value"].to_string().ends_with("-copy\""),
                "{answer:#}"
            );
        }),
        ("argus_wait", json!({ "environment": copy }), |answer| {
            let copy = &good(answer)["environments"][0];
            assert_eq!(copy["phase"], "Ready");
            assert!(
                copy["portMappings"][0]["originalPort"].is_u64()
                    && copy["portMappings"][0]["actualPort"] != copy["portMappings"][0]["originalPort"],
                "it reports its other port: {copy:#}"
            );
        }),
        ("argus_down", json!({ "environment": copy }), |answer| {
            assert_eq!(good(answer)["verb"], "down");
        }),
        ("argus_wait", gone, |answer| {
            assert_eq!(good(answer)["environments"], json!([]));
        }),
        ("argus_cancel", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "cancel");
        }),
        ("argus_status", json!({}), |answer| {
            assert_eq!(good(answer)["environments"][0]["phase"], "Held");
        }),
        ("argus_resume", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "resume");
        }),
        ("argus_restart", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "restart");
        }),
        ("argus_down", env.clone(), |answer| {
            assert_eq!(good(answer)["verb"], "down");
        }),
    ]
}

/// All steps, from an empty engine to an empty engine.
pub(crate) fn steps(name: &str, port: u16) -> Vec<Step> {
    [creation_steps(name, port), query_steps(name), change_steps(name)].concat()
}

fn tour(fixture: &McpFixture, over: Over, name: &str, port: u16) {
    let steps = steps(name, port);
    let mut script: Vec<Value> = steps
        .iter()
        .map(|(tool, arguments, _)| json!({ "call": tool, "arguments": arguments, "progress": *tool == "argus_wait" }))
        .collect();
    script.push(json!({ "tools": true }));
    script.push(json!({ "resources": true }));
    script.push(json!({ "read": "argus://controller" }));
    let answers = fixture.run_steps(over, &script);
    for ((tool, arguments, check), answer) in steps.iter().zip(&answers) {
        assert!(answer["error"].is_null(), "{tool} {arguments}: {answer:#}");
        check(answer);
    }
    let [tools, resources, controller] = &answers[steps.len()..] else {
        panic!("three more responses");
    };
    let published: BTreeSet<&str> = tools["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let called: BTreeSet<&str> = steps.iter().map(|(tool, ..)| *tool).collect();
    assert_eq!(published, called, "every tool is called");
    assert_eq!(resources["resources"][0]["uri"], "argus://controller");
    assert_eq!(
        resources["templates"]["resourceTemplates"][0]["uriTemplate"],
        "argus://environments/{environment}"
    );
    let text = controller["contents"][0]["text"].as_str().unwrap_or_default();
    let status: Value = serde_json::from_str(text).expect("a document");
    assert_eq!(
        status["controller"],
        fixture.argus.controller_status()["controller"]
    );
}
