//! A real Prometheus scrapes a real controller, and evaluates the rules and the dashboard.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::path::Path;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, engine, singles};
use argus_tests::prometheus::{Prometheus, get, promtool};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PortHolder, PrivateEngine, Proxy, RunOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn charts() -> std::path::PathBuf {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts");
    charts.canonicalize().expect("the charts exist")
}

fn stdout_text(output: &std::process::Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Kills the main process of a container, without the engine.
fn crash(engine: &PrivateEngine, container: &str) {
    let found = engine.inspect(container).expect("the container exists");
    let pid = found["State"]["Pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.filter(|pid| *pid > 1).and_then(Pid::from_raw);
    kill_process(pid.expect("the container runs"), Signal::KILL).expect("its process accepts a signal");
}

/// A metric of the crash.
fn of_a_crash(name: &str) -> String {
    format!("{name}{{reason=\"CONTAINER_CRASH\"}}")
}

/// Seconds until the crash was observed, and until its service was ready again, by the records of the journal.
fn times_of_the_crash(argus: &Controller<'_>) -> (f64, f64) {
    let types = "error,restart_success";
    let output = argus.cli(&[
        "events", "figures", "--type", types, "--tail", "1000", "-o", "json",
    ]);
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let items = page["items"].as_array().expect("a list");
    let record = |key: &str, value: &str| {
        let found = items.iter().find(|item| item[key] == value);
        found.expect("the journal has the record")
    };
    let at = |record: &Value| record["at"].as_str().and_then(Timestamp::parse).expect("a time");
    let crash = record("code", "CONTAINER_CRASH");
    let observed = Duration::from_millis(crash["afterMs"].as_u64().expect("a duration"));
    let recovered = at(record("event", "restart_success")).since(at(crash) - observed);
    (observed.as_secs_f64(), recovered.as_secs_f64())
}

/// Collects every query of the dashboard, with the variables that Grafana fills in.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(query) = map.get("expr").and_then(Value::as_str) {
                let all = ["$job", "$instance", "$environment"];
                let query = all
                    .iter()
                    .fold(query.to_owned(), |text, name| text.replace(name, ".*"));
                found.push(query.replace("$__rate_interval", "1m"));
            }
            map.values().for_each(|value| queries(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| queries(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn prometheus_scrapes_crash_conflict_and_breaker() {
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("metrics").join("p.sock"), &engine.socket());
    let argus = Controller::start(
        engine,
        RunOptions {
            host: Some(proxy.host()),
            args: vec!["--listen".to_owned(), "127.0.0.1:9470".to_owned()],
            // No periodic list shows the crash: an event does.
            env: vec![("ARGUS_WAITS".to_owned(), "listInterval=1h".to_owned())],
            ..RunOptions::default()
        },
    );
    let rules = charts().join("prometheus/argus.rules.yml");
    let config = format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n  - job_name: argus\n    static_configs: [{{ targets: [\"127.0.0.1:9470\"] }}]\n",
        rules.display()
    );
    let prometheus = Prometheus::start(engine, 9471, &config);
    prometheus.wait_for("up{job=\"argus\"}", 1.0);
    prometheus.wait_for("argus_mode{mode=\"Full\"}", 1.0);
    prometheus.wait_for("argus_errors_total{code=\"CONTAINER_CRASH\"}", 0.0);

    // A port that another process holds.
    let holder = PortHolder::new(engine, 18900);
    // No other test uses this range, so one move is enough.
    let range = "isolation: { portRange: [18904, 18909] }\n";
    argus.write_spec("e2e.yaml", &singles("figures", &[18900], range));
    argus.wait_ready("figures", LIMIT);
    prometheus.wait_for("argus_ports_moved_total", 1.0);
    prometheus.wait_for(
        "argus_environment_phase{environment=\"figures\",phase=\"Ready\"}",
        1.0,
    );
    prometheus.wait_for("argus_environments{phase=\"Ready\"}", 1.0);
    prometheus.wait_for("argus_services{environment=\"figures\",state=\"Ready\"}", 1.0);
    prometheus.wait_for("argus_time_to_ready_seconds_count", 1.0);
    // The starts with a taken port, and the successful one.
    assert!(prometheus.value("argus_actions_total{verb=\"start-container\",result=\"failed\"}") >= Some(1.0));
    prometheus.wait_for(
        "argus_actions_total{verb=\"start-container\",result=\"done\"}",
        1.0,
    );
    assert!(prometheus.value("argus_action_duration_seconds_count{verb=\"start-container\"}") >= Some(1.0));
    assert!(prometheus.value("argus_probes_total{kind=\"http\",result=\"success\"}") >= Some(1.0));
    drop(holder);

    // A crash.
    crash(engine, "figures-s0");
    let restarts =
        "argus_container_restarts_total{environment=\"figures\",service=\"s0\",reason=\"CONTAINER_CRASH\"}";
    prometheus.wait_for(restarts, 1.0);
    prometheus.wait_for("argus_recoveries_total", 1.0);
    prometheus.wait_for("argus_errors_total{code=\"CONTAINER_CRASH\"}", 1.0);
    prometheus.wait_for(&of_a_crash("argus_time_to_detect_seconds_count"), 1.0);
    prometheus.wait_for(&of_a_crash("argus_time_to_recover_seconds_count"), 1.0);
    let (observed, recovered) = times_of_the_crash(&argus);
    prometheus.wait_for(&of_a_crash("argus_time_to_detect_seconds_sum"), observed);
    prometheus.wait_for(&of_a_crash("argus_time_to_recover_seconds_sum"), recovered);
    assert!(prometheus.value("argus_watch_lag_seconds_count") >= Some(2.0));

    // A breaker that trips.
    proxy.inject("POST /containers/*/start", Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 3, resetTimeoutMs: 120000 } }\n";
    argus.write_spec("b.e2e.yaml", &singles("tripped", &[18901], breaker));
    let state = |state: &str| {
        format!(
            "argus_circuit_breaker_state{{scope=\"environment\",environment=\"tripped\",state=\"{state}\"}}"
        )
    };
    prometheus.wait_for(&state("open"), 1.0);
    prometheus.wait_for(&state("closed"), 0.0);
    let opened = "argus_circuit_breaker_transitions_total{scope=\"environment\",state=\"open\"}";
    prometheus.wait_for(opened, 1.0);
    prometheus.wait_for(
        "argus_waiting{environment=\"tripped\",reason=\"CircuitOpen\"}",
        1.0,
    );
    proxy.heal();
    assert!(argus.cli(&["breaker", "reset", "tripped"]).status.success());
    prometheus.wait_for(&state("closed"), 1.0);
    prometheus.wait_for(
        "argus_commands_total{verb=\"resetBreaker\",result=\"accepted\"}",
        1.0,
    );

    // A rejected file, and an engine whose stream is lost.
    argus.write_spec("c.e2e.yaml", "version: \"1\"\nproject: { name: [ }\n");
    prometheus.wait_for("argus_spec_files{state=\"rejected\"}", 1.0);
    assert!(proxy.cut("GET /events") > 0, "{:?}", proxy.counts());
    prometheus.wait_for("argus_event_stream_gaps_total", 1.0);

    // A removed environment takes its series along.
    argus.remove_spec("b.e2e.yaml");
    argus.wait_until(LIMIT, "no series of it remains", || {
        let text = get(engine, "http://127.0.0.1:9470/metrics")?;
        (!text.contains("\"tripped\"")).then_some(())
    });

    let scraped = get(engine, "http://127.0.0.1:9470/metrics").expect("a scrape");
    let checked = promtool(&["check", "metrics"], &scraped);
    assert!(checked.status.success(), "{}\n{scraped}", stdout_text(&checked));

    // Every query of the dashboard is valid, and no rule fails on real data.
    let text = std::fs::read_to_string(charts().join("grafana/argus.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("the dashboard is JSON");
    let mut request = Vec::new();
    queries(&dashboard, &mut request);
    assert!(request.len() > 50, "{} queries", request.len());
    for query in &request {
        drop(prometheus.query(query));
    }
    let groups = prometheus.api("rules")["groups"]
        .as_array()
        .cloned()
        .expect("groups");
    let rules: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().expect("rules"))
        .collect();
    assert!(rules.len() > 15, "{groups:#?}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule:#}");
    }
}

#[test]
fn remote_scrape_needs_the_token() {
    let engine = engine();
    let at = format!("{}:9480", engine.address());
    let argus = Controller::start(
        engine,
        RunOptions {
            args: vec!["--listen".to_owned(), at.clone()],
            ..RunOptions::default()
        },
    );
    let token = argus.state.join("private/token");
    argus.wait_until(LIMIT, "the token exists", || token.is_file().then_some(()));
    let job = |name: &str, more: &str| {
        format!("  - job_name: {name}\n{more}    static_configs: [{{ targets: [\"{at}\"] }}]\n")
    };
    let proves = format!(
        "    authorization: {{ type: Bearer, credentials_file: \"{}\" }}\n",
        token.display()
    );
    let config = format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\nscrape_configs:\n{}{}",
        job("with", &proves),
        job("without", "")
    );
    let prometheus = Prometheus::start(engine, 9481, &config);
    prometheus.wait_for("up{job=\"with\"}", 1.0);
    prometheus.wait_for("up{job=\"without\"}", 0.0);
    prometheus.wait_for(
        "argus_http_requests_total{job=\"with\",path=\"/metrics\",method=\"get\",code=\"401\"} > bool 0",
        1.0,
    );
}

#[test]
fn documented_prometheus_configuration_is_valid() {
    let text = std::fs::read_to_string(charts().join("../docs/metrics.md")).expect("the page");
    let blocks: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let checked = promtool(&["check", "config", "--syntax-only", "/dev/stdin"], block);
        assert!(checked.status.success(), "{}\n{block}", stdout_text(&checked));
    }
}

#[test]
fn alert_rules_pass_their_tests() {
    let checked = promtool(&["check", "rules", "argus.rules.yml"], "");
    assert!(checked.status.success(), "{}", stdout_text(&checked));
    let tested = promtool(&["test", "rules", "argus.rules.test.yml"], "");
    assert!(tested.status.success(), "{}", stdout_text(&tested));
}
