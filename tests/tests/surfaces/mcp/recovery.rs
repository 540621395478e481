//! Recovery by an agent that knows only the tools: it finds the cause, fixes it, and continues.

use argus_tests::fixture::IMAGE;
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data, error, size};

/// `api` needs a variable, reports that on stderr, and exits.
fn spec(name: &str, variable: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {name} }}
resilience: {{ container: {{ maxRestarts: 1, restartDelay: 500ms }} }}
services:
  web:
    image: {IMAGE}
    container:
      name: {name}-web
      healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 2s, retries: 20 }}
  api:
    image: busybox:local
    command: ["sh", "-c", 'test -n "$DATABASE_URL" || {{ echo cannot find DATABASE_URL >&2; exit 3; }}; exec sleep 1000']
    container:
      name: {name}-api
      environment: {{ {variable} }}
      healthcheck: {{ type: exec, command: ["true"], interval: 500ms, timeout: 2s, retries: 20 }}
"#
    )
}

#[test]
fn agent_repairs_a_failure_over_every_transport() {
    let fixture = McpFixture::start();
    for (over, name) in [(Over::Stdio, "repair-stdio"), (Over::Http, "repair-http")] {
        let env = json!({ "environment": name });
        let broken = json!({ "content": spec(name, "OTHER: x") });
        let answers = fixture.run_steps(
            over,
            &[
                json!({ "call": "argus_apply", "arguments": broken }),
                json!({ "call": "argus_wait", "arguments": env, "progress": true }),
                json!({ "call": "argus_status", "arguments": env }),
                json!({ "call": "argus_why", "arguments": env }),
                json!({ "call": "argus_evidence", "arguments": { "environment": name, "service": "api" } }),
                json!({ "resources": true }),
            ],
        );
        let results: Vec<&Value> = answers.iter().map(|answer| &answer["result"]).collect();
        assert_eq!(data(results[0])["accepted"], true);
        let given_up = error(results[1]);
        assert_eq!(given_up["environment"], name, "{given_up:#}");
        let words = results[1]["content"][0]["text"].to_string();
        assert!(
            words.contains("cannot find DATABASE_URL"),
            "the error of the wait contains it already: {words}"
        );
        assert!(
            !answers[1]["progress"].as_array().expect("a list").is_empty(),
            "progress was reported"
        );

        let status = data(results[2]);
        assert!(size(results[2]) < 6_000, "{}: {status:#}", size(results[2]));
        let problem = &status["environments"][0]["error"];
        assert_eq!(problem["service"], "api", "{status:#}");
        assert_eq!(problem["exitCode"], 3, "{status:#}");
        assert!(
            problem["tail"].to_string().contains("cannot find DATABASE_URL"),
            "{status:#}"
        );
        assert!(
            !problem["remedies"].as_array().expect("a list").is_empty(),
            "{status:#}"
        );
        let words = results[2]["content"][0]["text"].to_string();
        assert!(
            words.contains("cannot find DATABASE_URL") && words.contains("next: "),
            "{words}"
        );

        assert!(
            data(results[3])["chains"].to_string().contains("exit code 3"),
            "{:#}",
            results[3]
        );
        assert!(
            data(results[4])["stderr"]
                .to_string()
                .contains("cannot find DATABASE_URL"),
            "{:#}",
            results[4]
        );
        let evidence = format!("argus://evidence/{name}/api/1");
        assert!(
            answers[5]["resources"].to_string().contains(&evidence),
            "{:#}",
            answers[5]
        );

        follow(&fixture, over, status);
        follow(&fixture, over, data(results[3]));

        // A retry without a fix fails again, and the wait returns a failure of the new run, not of an old one.
        let before = failures(&fixture, name);
        retry(&fixture, over, name);
        assert!(
            failures(&fixture, name) > before,
            "the wait returned the new run's failure"
        );

        let recovered = json!({ "content": spec(name, "DATABASE_URL: \"db://x\"") });
        let answers = fixture.run_steps(
            over,
            &[
                json!({ "call": "argus_apply", "arguments": recovered }),
                json!({ "call": "argus_wait", "arguments": env }),
                json!({ "read": evidence }),
                json!({ "call": "argus_down", "arguments": env }),
            ],
        );
        assert_eq!(data(&answers[0]["result"])["changed"], true);
        let ready = data(&answers[1]["result"]);
        assert_eq!(ready["environments"][0]["phase"], "Ready", "{ready:#}");
        let kept = answers[2]["contents"][0]["text"].as_str().unwrap_or_default();
        assert!(kept.contains("cannot find DATABASE_URL"), "{:#}", answers[2]);
        data(&answers[3]["result"]);
    }
}

/// Retries and waits, without a pause between.
fn retry(fixture: &McpFixture, over: Over, name: &str) {
    let env = json!({ "environment": name });
    let steps = ["argus_retry", "argus_wait"].map(|tool| json!({ "call": tool, "arguments": env }));
    let answers = fixture.run_steps(over, &steps);
    data(&answers[0]["result"]);
    error(&answers[1]["result"]);
}

/// Number of failed runs of `api`, by their evidence.
fn failures(fixture: &McpFixture, name: &str) -> usize {
    let kept = fixture
        .argus
        .state
        .join("private/evidence")
        .join(name)
        .join("api");
    std::fs::read_dir(kept).expect("evidence").count()
}

/// Calls the suggested next calls of a response, exactly as given.
fn follow(fixture: &McpFixture, over: Over, output: &Value) {
    let steps = output["nextSteps"].as_array().expect("a list");
    assert!(!steps.is_empty(), "{output:#}");
    for step in steps {
        let tool = step["tool"].as_str().expect("a name");
        if matches!(tool, "argus_retry" | "argus_rollback" | "argus_wait") {
            // The later calls would change the result.
            continue;
        }
        let result = fixture.call(over, tool, &step["arguments"]);
        assert_eq!(result["isError"], false, "{step:#}: {result:#}");
    }
}
