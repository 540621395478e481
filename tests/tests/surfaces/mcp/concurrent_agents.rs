//! Two agents in one environment: the second one sees the holder, the purpose and the end of the lease.

use argus_tests::fixture::{LIMIT, singles};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data};

/// Summary of the environment, as an agent gets it.
fn seen(fixture: &McpFixture, over: Over) -> (Value, String) {
    let answer = fixture.call(over, "argus_status", &json!({ "environment": "claimed" }));
    let words = answer["content"][0]["text"].as_str().expect("words").to_owned();
    (data(&answer)["environments"][0].clone(), words)
}

#[test]
fn second_agent_sees_the_user_of_an_environment() {
    let fixture = McpFixture::start();
    fixture
        .argus
        .write_spec("e2e.yaml", &singles("claimed", &[18780], ""));
    fixture.argus.wait_ready("claimed", LIMIT);
    let test = |more: Value| {
        let mut all = json!({ "environment": "claimed" });
        all.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("an object"));
        all
    };
    let (before, _) = seen(&fixture, Over::Http);
    assert!(
        before["tests"].is_null() && before["holds"].is_null(),
        "{before:#}"
    );
    // The first agent begins a test.
    let begin = json!({ "action": "begin", "case": "checkout", "ttlSeconds": 300, "holder": "agent-1", "purpose": "nightly" });
    let lease = fixture.call(Over::Stdio, "argus_test", &test(begin));
    let lease = data(&lease)["value"].clone();
    assert_eq!(
        (&lease["holder"], &lease["purpose"]),
        (&json!("agent-1"), &json!("nightly")),
        "{lease:#}"
    );
    // The other agent sees it, over every transport.
    let runs = |status: &Value| status["tests"][0]["holder"] == "agent-1";
    fixture
        .argus
        .wait_status("claimed", LIMIT, "names the holder of the test", runs);
    for over in [Over::Http, Over::Socket, Over::Stdio] {
        let (now, words) = seen(&fixture, over);
        let output = json!({
            "case": "checkout", "holder": "agent-1", "purpose": "nightly", "since": lease["since"], "until": lease["until"],
        });
        assert_eq!(now["tests"], json!([output]), "{now:#}");
        let until = lease["until"].as_str().expect("a time");
        assert!(
            words.contains(&format!("test `checkout` of agent-1 runs until {until}: nightly")),
            "{words}"
        );
    }
    // The second agent may run a test in parallel, and learns about the first.
    let begin = json!({ "action": "begin", "case": "search", "holder": "agent-2" });
    let second = fixture.call(Over::Http, "argus_test", &test(begin));
    let words = second["content"][0]["text"].to_string();
    assert!(words.contains("also: test `checkout` of agent-1"), "{words}");
    let hold = json!({ "reason": "looking", "holder": "agent-2", "forSeconds": 600 });
    data(&fixture.call(Over::Http, "argus_hold", &test(hold)));
    let is_named = |status: &Value| status["holds"][0]["holder"] == "agent-2";
    let status = fixture
        .argus
        .wait_status("claimed", LIMIT, "names the holder", is_named);
    let cases: Vec<&Value> = status["tests"]
        .as_array()
        .expect("tests")
        .iter()
        .map(|test| &test["case"])
        .collect();
    assert_eq!(cases, ["checkout", "search"], "ordered by their end");
    assert_eq!(status["holds"][0]["reason"], "looking", "{status:#}");
    assert!(status["holds"][0]["until"].is_string(), "{status:#}");
    let described = fixture.argus.cli(&["describe", "claimed"]);
    let described = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(
        described.contains("held by agent-2") && described.contains("of agent-1"),
        "{described}"
    );
    let wide = fixture.argus.cli(&["get", "-o", "wide"]);
    let wide = String::from_utf8_lossy(&wide.stdout).into_owned();
    assert!(wide.contains("agent-1, agent-2"), "{wide}");

    // A resume and an expiry free it.
    data(&fixture.call(Over::Http, "argus_resume", &test(json!({}))));
    for case in ["checkout", "search"] {
        data(&fixture.call(
            Over::Stdio,
            "argus_test",
            &test(json!({ "action": "end", "case": case })),
        ));
    }
    let short = json!({ "action": "begin", "case": "short", "ttlSeconds": 1, "holder": "agent-3" });
    data(&fixture.call(Over::Http, "argus_test", &test(short)));
    fixture
        .argus
        .wait_status("claimed", LIMIT, "no holder any more", |status| {
            status["tests"].is_null() && status["holds"].is_null()
        });
}
