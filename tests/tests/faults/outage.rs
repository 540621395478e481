//! An engine that fails or disappears: the breaker opens, Argus reports it immediately, tests with one call, and
//! reconnects.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

mod daemon;
mod wire;

use std::process::{Output, Stdio};

use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, container_runs, engine, page, proxied, running, shop, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Proxy};
use serde_json::Value;

/// Output of a command as JSON, for any exit code; errors are on stderr.
fn json(argus: &Controller<'_>, words: &[&str]) -> (Option<i32>, Value) {
    parse(words, argus.cli(&[words, &["-o", "json"]].concat()))
}

fn parse(words: &[&str], output: Output) -> (Option<i32>, Value) {
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let value = serde_json::from_slice(&text);
    let value = value.unwrap_or_else(|_| panic!("{words:?}: {}", String::from_utf8_lossy(&text)));
    (output.status.code(), value)
}

fn error<'v>(status: &'v Value, code: &str) -> Option<&'v Value> {
    let errors = status["errors"].as_array()?;
    errors.iter().find(|error| error["code"] == code)
}

/// Events of this kind in the journal, oldest first. Unlike the status, it also has those that have ended.
fn journal_events(argus: &Controller<'_>, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(argus.state.join("private/journal.jsonl")).unwrap_or_default();
    let records = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    records.filter(|record: &Value| record["event"] == kind).collect()
}

/// States of the engine's breaker after its first change, oldest first.
fn engine_breaker_states(argus: &Controller<'_>) -> Vec<String> {
    let changes = journal_events(argus, "circuit").into_iter();
    let of_engine = changes.filter(|change| change["environment"].is_null());
    of_engine.map(|change| text(&change["to"])).collect()
}

#[test]
fn half_made_start_opens_the_breaker_until_reset() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "breaker");
    let class = "POST /containers/*/start";
    proxy.inject(class, Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 3, resetTimeoutMs: 120000 } }\n";
    argus.write_spec("e2e.yaml", &format!("{}{breaker}", shop("breaker", 18400, "one")));
    let open = argus.wait_status("breaker", LIMIT, "reports its open breaker", |now| {
        now["breaker"]["state"] == "open" && error(now, "CIRCUIT_OPEN").is_some()
    });
    let output = error(&open, "CIRCUIT_OPEN").expect("the error found above");
    assert_eq!(output["details"]["breaker"]["scope"], "environment", "{output:#}");
    assert_eq!(
        output["details"]["cleanupPending"], true,
        "a container is created but not started"
    );
    assert!(
        output["details"]["pending"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{output:#}"
    );
    // Time may have passed since then, so only the upper bound of the delay below holds for it.
    let after = output["retryAfter"].as_u64().expect("a number of seconds");
    assert!((1..=138).contains(&after), "{output:#}");
    let at = |time: &Value| Timestamp::parse(&text(time)).expect("a time");
    let changes = open["breaker"]["history"].as_array().expect("history");
    let opened = changes.last().expect("a change");
    let span = at(&open["breaker"]["retryAt"]).since(at(&opened["at"]));
    assert!(
        (102..=138).contains(&span.as_secs()),
        "two minutes, 15 % more or less: {span:?}"
    );
    let names: Vec<_> = output["remedies"]
        .as_array()
        .expect("remedies")
        .iter()
        .filter_map(|remedy| remedy["command"].as_str())
        .collect();
    assert!(names.contains(&"argus breaker reset"), "{names:?}");

    let (exit, breakers) = json(&argus, &["breaker", "status"]);
    assert_eq!(exit, Some(0));
    assert_eq!(
        breakers["environments"]["breaker"]["state"], "open",
        "{breakers:#}"
    );
    assert_eq!(breakers["engine"]["state"], "closed", "{breakers:#}");
    assert!(
        text(&breakers["environments"]["breaker"]["lastFailure"]).contains("connection"),
        "{breakers:#}"
    );

    proxy.reset_counts();
    engine.docker_ok(&["rm", "-f", "breaker-db"]);
    argus.wait_status("breaker", LIMIT, "reports the missing network", |now| {
        Controller::service(now, "db")["containerId"].is_null()
    });
    let writes = proxy.writes_but_the_lease();
    assert_eq!(writes, [], "nothing changes while the breaker is open");

    proxy.heal();
    let (exit, _) = json(&argus, &["breaker", "reset", "breaker"]);
    assert_eq!(exit, Some(0));
    let ready = argus.wait_ready("breaker", LIMIT);
    assert_eq!(ready["breaker"]["state"], "closed", "{:#}", ready["breaker"]);
    let history: Vec<_> = ready["breaker"]["history"]
        .as_array()
        .expect("history")
        .iter()
        .map(|change| text(&change["to"]))
        .collect();
    assert_eq!(history, ["open", "halfOpen", "closed"]);
    assert!(error(&ready, "CIRCUIT_OPEN").is_none());
    assert_eq!(
        container_runs(engine, "breaker").len(),
        3,
        "no service is duplicated"
    );
}

#[test]
fn open_breaker_closes_after_one_call() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "probe");
    proxy.inject("POST /containers/create", Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 2, resetTimeoutMs: 1500 } }\n";
    argus.write_spec("e2e.yaml", &format!("{}{breaker}", shop("probe", 18410, "one")));
    argus.wait_status("probe", LIMIT, "the test call failed", |now| {
        now["breaker"]["timesOpened"].as_u64() >= Some(2)
    });
    proxy.heal();
    let ready = argus.wait_ready("probe", LIMIT);
    let history: Vec<_> = ready["breaker"]["history"]
        .as_array()
        .expect("history")
        .iter()
        .map(|change| text(&change["to"]))
        .collect();
    let rounds = history.len() / 2;
    let expected = ["open", "halfOpen"].repeat(rounds);
    assert_eq!(
        history[..history.len() - 1],
        expected,
        "one test call per attempt"
    );
    assert_eq!(history.last().map(String::as_str), Some("closed"));
}

#[test]
fn lost_engine_is_reported_and_found_without_restarts() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "gone");
    argus.write_spec("e2e.yaml", &shop("gone", 18420, "one"));
    argus.wait_ready("gone", LIMIT);
    let before = container_runs(engine, "gone");
    proxy.refuse();
    argus.wait_until(LIMIT, "the engine's breaker is open", || {
        (argus.controller_status()["breaker"]["state"] == "open").then_some(())
    });
    let status = argus.status("gone");
    assert_eq!(status["stale"], true);
    assert_eq!(status["breaker"]["scope"], "engine");
    let (exit, refused) = json(&argus, &["breaker", "status", "gone"]);
    assert_eq!(
        (exit, refused["engine"]["state"].as_str()),
        (Some(0), Some("open"))
    );
    let logs = argus.cli(&["logs", "gone", "db"]);
    assert_eq!(
        logs.status.code(),
        Some(4),
        "{}",
        String::from_utf8_lossy(&logs.stderr)
    );
    let text = String::from_utf8_lossy(&logs.stderr).into_owned();
    assert!(
        text.contains("circuit breaker") && text.contains("argus breaker reset"),
        "{text}"
    );
    assert_eq!(
        page(engine, 18420).as_deref(),
        Some("hello"),
        "the published port answers without an engine API"
    );
    proxy.heal();
    let (exit, _) = json(&argus, &["breaker", "reset"]);
    assert_eq!(exit, Some(0));
    argus.wait_status("gone", LIMIT, "is up to date and Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    assert_eq!(container_runs(engine, "gone"), before, "nothing was restarted");
    engine.docker_ok(&["rm", "-f", "gone-api"]);
    argus.wait_until(LIMIT, "work continues", || {
        running(engine, "gone-api").then_some(())
    });
}

#[test]
fn hanging_engine_is_reported_and_survived() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "hang");
    argus.write_spec("e2e.yaml", &shop("hang", 18430, "one"));
    argus.wait_ready("hang", LIMIT);
    let before = container_runs(engine, "hang");
    proxy.hang();
    argus.wait_until(LIMIT, "the engine's breaker is open", || {
        (argus.controller_status()["breaker"]["state"] == "open").then_some(())
    });
    let controller = argus.controller_status();
    assert!(
        error(&controller, "DOCKER_UNAVAILABLE").is_some(),
        "{controller:#}"
    );
    proxy.heal();
    argus.cli(&["breaker", "reset"]);
    argus.wait_status("hang", LIMIT, "is up to date and Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    assert_eq!(container_runs(engine, "hang"), before, "nothing was restarted");
}

#[test]
fn commands_call_no_engine_while_its_breaker_is_open() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "gate");
    argus.write_spec("e2e.yaml", &shop("gate", 18495, "one"));
    argus.wait_ready("gate", LIMIT);
    // Unlike `hang`, this counts the requests.
    proxy.inject("", Fault::Hang, 1_000_000);
    proxy.cut("");
    argus.wait_until(LIMIT, "the engine's breaker is open", || {
        (argus.controller_status()["breaker"]["state"] == "open").then_some(())
    });
    proxy.reset_counts();
    // The engine answers the commands themselves, but they do not ask it.
    let direct = Proxy::start(&engine.scratch("gate").join("direct.sock"), &engine.socket());
    let run = |words: &[&str]| {
        let mut command = argus.command();
        command.args(words).env("DOCKER_HOST", direct.host());
        command.stdin(Stdio::null()).output().expect("argus runs")
    };
    for words in [
        &["plan"][..],
        &["network", "gate", "--verify"],
        &["preflight"],
        &["prune"],
        &["logs", "gate/db"],
        &["logs", "gate", "--follow"],
        &["logs", "--follow"],
        &["exec", "gate/db", "--", "true"],
    ] {
        let output = run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{words:?}: {text}");
        assert!(
            text.contains("the circuit breaker of the engine is not closed"),
            "{words:?}: {text}"
        );
    }
    let words = ["plan", "-o", "json"];
    let (_, refusal) = parse(&words, run(&words));
    assert_eq!(refusal["code"], "CIRCUIT_OPEN", "{refusal:#}");
    let seconds = refusal["retryAfter"].as_u64();
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{refusal:#}");
    let words = ["doctor", "-o", "json"];
    let (exit, doctor) = parse(&words, run(&words));
    assert_eq!(exit, Some(4), "{doctor:#}");
    let findings = doctor["findings"].as_array().expect("findings");
    assert!(
        findings.iter().any(|finding| finding["code"] == "CIRCUIT_OPEN"),
        "{doctor:#}"
    );
    assert_eq!(direct.connections(), 0, "{:?}", direct.counts());
    // Nor does the controller make their calls. It only tries to reconnect.
    assert_eq!(proxy.writes_but_the_lease(), []);
    let mut calls = proxy.counts();
    calls.retain(|class, _| class.starts_with("GET /containers") || class.starts_with("GET /images"));
    assert!(calls.is_empty(), "{calls:?}");
}
