//! Runs of test suites by agents: progress, failed cases with their place, refused commands, and an agent that leaves.

use argus_tests::fixture::{IMAGE, LIMIT, engine, text};
use argus_tests::{RunOptions, http, wait};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data, error};

const CHECKS: &str = "name: Checks
cases:
  - { name: page, request: { method: GET, path: / }, expect: { status: 200 } }
  - { name: teapot, request: { method: GET, path: / }, expect: { status: 418 } }
";

const CURIOUS: &str = "name: Curious
cases:
  - { name: own, exec: { container: web, command: 'true' } }
  - { name: stranger, exec: { container: stranger, command: 'touch /tmp/reached' } }
  - { name: variable, exec: { container: web, command: 'test \"{{env.HOME}}\" = /root' } }
";

/// Requests to a listener outside of the environment, in each spelling, and to the metadata service of clouds. `PORT` is the port of the listener.
const NOSY: &str = r"name: Nosy
variables: { host: 127.0.0.1 }
setup:
  - waitForPort: { port: PORT, timeout: 2s }
  - { name: in setup, request: { url: 'http://127.0.0.1:PORT/' } }
  - name: redirect
    exec:
      container: web
      command: |
        mkdir -p /www/cgi-bin
        cat > /www/cgi-bin/away <<'END'
        #!/bin/sh
        printf 'Status: 302 Found\r\nLocation: http://127.0.0.1:PORT/secret\r\n\r\n'
        END
        chmod +x /www/cgi-bin/away
cases:
  - { name: own, request: { path: / }, expect: { status: 200 } }
  - { name: own by name, request: { url: 'http://localhost:18636/' }, expect: { status: 200 } }
  - { name: address, request: { url: 'http://127.0.0.1:PORT/' } }
  - { name: name, request: { url: 'http://localhost:PORT/' } }
  - { name: wildcard, request: { url: 'http://0.0.0.0:PORT/' } }
  - { name: decimal, request: { url: 'http://2130706433:PORT/' } }
  - { name: octal, request: { url: 'http://0177.0.0.1:PORT/' } }
  - { name: mapped, request: { url: 'http://[::ffff:127.0.0.1]:PORT/' } }
  - { name: userinfo, request: { url: 'http://localhost:18636@127.0.0.1:PORT/' } }
  - { name: variable, request: { url: 'http://{{host}}:PORT/' } }
  - { name: redirect, request: { method: GET, path: /cgi-bin/away } }
  - { name: metadata, request: { url: 'http://169.254.169.254/latest/meta-data/' } }
teardown:
  - { name: in teardown, request: { url: 'http://127.0.0.1:PORT/' } }
";

/// Its directory `shared` is that of the test. The teardown waits for a file there.
const SLOW: &str = "name: Slow
cases:
  - { name: begin, exec: { command: 'touch /shared/started' } }
  - { name: slow, delay: 600s, request: { path: / } }
teardown:
  - { name: end, exec: { command: 'touch /shared/torn-down; until [ -e /shared/end ]; do sleep 0.1; done' } }
";

fn spec(name: &str, port: u16) -> String {
    format!(
        "version: \"1\"
project: {{ name: {name} }}
service:
  name: web
  image: {IMAGE}
  container:
    name: {name}-web
    ports: [\"{port}:8080\"]
    volumes: [\"./shared:/shared\"]
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
tests:
  suites:
    - {{ name: Checks, id: checks, file: checks.yaml }}
    - {{ name: Slow, id: slow, file: slow.yaml }}
    - {{ name: Host, id: host, runner: shell, command: 'touch ran && test -n \"$ARGUS_WEB_URL\"' }}
    - {{ name: Broken, id: broken, runner: shell, command: 'echo no store >&2; exit 3' }}
"
    )
}

fn fixture(name: &str, port: u16, more: &[&str]) -> McpFixture {
    let fixture = McpFixture::start_with(RunOptions {
        args: more.iter().map(|word| (*word).to_owned()).collect(),
        ..RunOptions::default()
    });
    std::fs::create_dir_all(fixture.argus.specs.join("shared")).expect("a directory");
    fixture.argus.write_spec("checks.yaml", CHECKS);
    fixture.argus.write_spec("slow.yaml", SLOW);
    fixture.argus.write_spec("e2e.yaml", &spec(name, port));
    fixture.argus.wait_ready(name, LIMIT);
    fixture
}

/// Runs suites over HTTP. Returns the status and the body.
fn post(fixture: &McpFixture, env: &str, arguments: &Value) -> (u16, Value) {
    let socket = fixture.argus.state.join("private/argus.sock");
    let path = format!("/api/v1/environments/{env}/tests");
    let body = arguments.to_string();
    let answer = http::request(&socket, "POST", &path, "application/json", body.as_bytes(), LIMIT);
    let answer = answer.expect("a response");
    (answer.status, answer.json())
}

#[test]
fn agent_runs_suites_and_reads_failed_cases() {
    let fixture = fixture("agents", 18_640, &[]);
    let checks = json!({ "environment": "agents", "suites": ["checks"] });
    for over in [Over::Stdio, Over::Http] {
        let call = json!({ "call": "argus_test_run", "arguments": checks, "progress": true });
        let answers = fixture.run_steps(over, &[call, json!({ "tools": true })]);
        let answer = &answers[0];
        let report = data(&answer["result"]);
        let tools = answers[1]["tools"].as_array().expect("a list");
        let tool = tools.iter().find(|tool| tool["name"] == "argus_test_run");
        let schema = &tool.expect("the tool")["outputSchema"];
        jsonschema::validate(schema, report).expect("the output matches its schema");
        assert_eq!(
            (&report["passed"], &report["failed"]),
            (&json!(0), &json!(1)),
            "{report:#}"
        );
        let failure = &report["failures"][0];
        assert_eq!(failure["at"], "checks.yaml:4", "{report:#}");
        assert_eq!(failure["attribution"], "test", "{report:#}");
        let again = &report["nextSteps"][1];
        assert_eq!(again["tool"], "argus_test_run", "{report:#}");
        assert_eq!(again["arguments"]["cases"], json!(["teapot"]), "{report:#}");
        let shown = text(&answer["result"]["content"][0]["text"]);
        assert!(
            shown.contains("failed checks: teapot (checks.yaml:4): expected `status` to be `418`, got `200`"),
            "{shown}"
        );
        let progress = answer["progress"].to_string();
        assert!(progress.contains("passed page in"), "{over:?}: {progress}");
    }
    let (status, report) = post(
        &fixture,
        "agents",
        &json!({ "suites": ["checks"], "grep": "^page" }),
    );
    assert_eq!(status, 200, "{report:#}");
    let suite = &report["suites"][0];
    assert_eq!(
        (&suite["name"], &suite["result"]),
        (&json!("checks"), &json!("passed")),
        "{report:#}"
    );
    assert_eq!(suite["attempts"][0]["cases"][0]["name"], "page", "{report:#}");
    let kept = fixture.call(
        Over::Http,
        "argus_test_results",
        &json!({ "environment": "agents" }),
    );
    assert_eq!(data(&kept)["suites"][0]["result"], "passed", "{kept:#}");
}

#[test]
fn suites_of_agents_reach_only_their_environment() {
    let fixture = fixture("curious", 18_646, &[]);
    let engine = fixture.engine;
    let outside = fixture.argus.specs.with_file_name("outside.yaml");
    std::fs::write(outside, CHECKS).expect("a file next to the folder");
    fixture.argus.write_spec("curious.yaml", CURIOUS);
    let suites = "    - { name: Curious, id: curious, file: curious.yaml }\n    - { name: Outside, id: outside, file: ../outside.yaml }\n";
    fixture
        .argus
        .write_spec("e2e.yaml", &(spec("curious", 18_646) + suites));
    engine.docker_ok(&["run", "-d", "--name", "stranger", IMAGE]);
    let (status, report) = post(&fixture, "curious", &json!({ "suites": ["curious", "outside"] }));
    engine.docker_ok(&["exec", "stranger", "test", "!", "-e", "/tmp/reached"]);
    engine.docker_ok(&["rm", "-f", "stranger"]);
    assert_eq!(status, 200, "{report:#}");
    let suites = report["suites"].as_array().expect("a list");
    let suite = |name: &str| {
        let mut suites = suites.iter();
        suites.find(|suite| suite["name"] == name).expect("the suite")
    };
    let cases = suite("curious")["attempts"][0]["cases"].as_array();
    let passed = cases
        .expect("cases")
        .iter()
        .filter(|case| case["result"] == "passed");
    let passed: Vec<_> = passed.map(|case| text(&case["name"])).collect();
    assert_eq!(passed, ["own"], "{report:#}");
    let outside = text(&suite("outside")["reason"]);
    assert!(
        outside.contains("outside the folder of the spec file"),
        "{report:#}"
    );
}

#[test]
fn requests_of_agents_reach_no_other_listener() {
    let fixture = fixture("nosy", 18_636, &["--allow-test-commands"]);
    let stranger = fixture.engine.listen("127.0.0.1:0".parse().expect("an address"));
    stranger.set_nonblocking(true).expect("a socket");
    let port = stranger.local_addr().expect("an address").port();
    fixture
        .argus
        .write_spec("nosy.yaml", &NOSY.replace("PORT", &port.to_string()));
    // A spec file is not a suite, even with cases.
    let both = "project: { name: both }\nname: Both\ncases: [{ name: a, exec: { command: 'true' } }]\n";
    std::fs::create_dir_all(fixture.argus.specs.join("shared")).expect("a directory");
    std::fs::write(fixture.argus.specs.join("shared/both.txt"), both).expect("a file");
    let suites = "    - { name: Nosy, id: nosy, file: nosy.yaml }\n    - { name: Both, id: both, file: shared/both.txt }\n";
    fixture
        .argus
        .write_spec("e2e.yaml", &(spec("nosy", 18_636) + suites));
    let (status, report) = post(&fixture, "nosy", &json!({ "suites": ["nosy", "both"] }));
    assert_eq!(status, 200, "{report:#}");
    let suites = report["suites"].as_array().expect("a list");
    let both = suites.iter().find(|suite| suite["name"] == "both");
    let reason = text(&both.expect("the suite")["reason"]);
    assert!(reason.contains("not a valid suite"), "{report:#}");
    let nosy = suites.iter().find(|suite| suite["name"] == "nosy");
    let cases = nosy.expect("the suite")["attempts"][0]["cases"].as_array();
    for case in cases.expect("cases") {
        let (name, failure) = (text(&case["name"]), &case["failures"][0]);
        if name.starts_with("own") {
            assert_eq!(case["result"], "passed", "{case:#}");
            continue;
        }
        assert_eq!(case["result"], "failed", "{case:#}");
        assert_eq!(failure["code"], "POLICY_VIOLATION", "{case:#}");
        let message = text(&failure["message"]);
        assert!(message.contains("use `web` at `127.0.0.1:18636`"), "{message}");
        assert!(!message.contains("--allow-test-hosts"), "{message}");
        if name == "redirect" {
            let both = format!("/cgi-bin/away` redirects to `http://127.0.0.1:{port}/secret`");
            assert!(message.contains(&both), "{message}");
        }
    }
    for over in [Over::Stdio, Over::Http] {
        let metadata = json!({ "environment": "nosy", "suites": ["nosy"] });
        let result = fixture.call(over, "argus_test_run", &metadata);
        let shown = data(&result)["failures"].to_string();
        assert!(
            shown.contains("`169.254.169.254:80` is not a published port"),
            "{result:#}"
        );
    }
    let connected = stranger.accept().map(drop);
    assert!(connected.is_err(), "the listener received a connection");
}

#[test]
fn commands_of_suites_need_a_flag_of_the_controller() {
    let refusing = fixture("refusing", 18_655, &[]);
    let all = json!({ "environment": "refusing" });
    for over in [Over::Stdio, Over::Http] {
        let result = refusing.call(over, "argus_test_run", &all);
        let refused = error(&result);
        assert_eq!(refused["details"]["reason"], "forbidden", "{refused:#}");
        let shown = text(&result["content"][0]["text"]);
        assert!(shown.contains("`--allow-test-commands`"), "{shown}");
        assert!(shown.contains("(`checks`, `slow`)"), "{shown}");
    }
    assert_eq!(post(&refusing, "refusing", &json!({})).0, 403);
    for over in [Over::Stdio, Over::Http] {
        let offered = refusing.run_steps(over, &[json!({ "tools": true })]);
        let tools = offered[0]["tools"].as_array().expect("a list");
        let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
        assert!(names.contains(&&json!("argus_test_run")), "{names:?}");
        assert!(!names.contains(&&json!("argus_exec")), "{names:?}");
    }
    assert!(!refusing.argus.specs.join("ran").exists());

    let allowing = fixture("allowing", 18_660, &["--allow-test-commands"]);
    let (status, report) = post(&allowing, "allowing", &json!({ "suites": ["host"] }));
    assert_eq!(
        (status, &report["suites"][0]["result"]),
        (200, &json!("passed")),
        "{report:#}"
    );
    assert!(allowing.argus.specs.join("ran").exists());
    let broken = json!({ "environment": "allowing", "suites": ["broken"] });
    let result = allowing.call(Over::Http, "argus_test_run", &broken);
    assert_eq!(data(&result)["failures"][0]["tail"], "no store\n", "{result:#}");
    let shown = text(&result["content"][0]["text"]);
    assert!(
        shown.contains("failed broken: exit code 3\n  | no store\n"),
        "{shown}"
    );
    let exec = |script: &str, seconds: u64| {
        let command = ["sh", "-c", script];
        let call = json!({ "environment": "allowing", "service": "web", "command": command, "timeoutSeconds": seconds });
        let result = allowing.call(Over::Http, "argus_exec", &call);
        (data(&result).clone(), text(&result["content"][0]["text"]))
    };
    let (ended, shown) = exec("echo out; echo err >&2; exit 3", 30);
    assert_eq!(ended["exitCode"], 3, "{ended:#}");
    assert!(
        shown.contains("exit code 3\n") && shown.contains("  | out\n") && shown.contains("  | err\n"),
        "{shown}"
    );
    let (ended, shown) = exec("echo begin; sleep 600", 1);
    assert!(
        ended["exitCode"].is_null() && ended["output"] == "begin\n",
        "{ended:#}"
    );
    assert!(
        shown.starts_with("the time limit of 1 s ended the command"),
        "{shown}"
    );
    let shared = allowing.argus.specs.join("shared");
    for over in [Over::Stdio, Over::Http] {
        let mark = format!("{over:?}");
        let command = ["sh", "-c", &format!("touch /shared/{mark}; exec sleep 601")];
        let call = json!({ "environment": "allowing", "service": "web", "command": command });
        let step = json!({ "call": "argus_exec", "arguments": call, "cancel": shared.join(&mark) });
        let mut script = allowing.script(over, &[step]);
        if let Some(words) = script.get_mut("stdio").and_then(Value::as_array_mut) {
            words.push(json!("--allow-test-commands"));
        }
        let output = allowing.run(&script);
        assert_eq!(output["answers"][0]["cancelled"], true, "{output:#}");
        allowing
            .argus
            .wait_until(LIMIT, "the cancelled command ends", || {
                let processes = engine().docker_ok(&["top", "allowing-web", "-eo", "pid,args"]);
                (!processes.contains("sleep 601")).then_some(())
            });
    }
}

#[test]
fn suite_of_an_agent_that_leaves_tears_down() {
    let fixture = fixture("leaving", 18_670, &[]);
    let slow = json!({ "environment": "leaving", "suites": ["slow"] });
    let shared = fixture.argus.specs.join("shared");
    let (started, torn_down) = (shared.join("started"), shared.join("torn-down"));
    let tests = |status: &Value| status["tests"].as_array().map_or(0, Vec::len);
    let steps = [
        json!({ "call": "argus_test_run", "arguments": slow, "cancel": started }),
        json!({ "call": "argus_status" }),
    ];
    let answers = fixture.run_steps(Over::Http, &steps);
    assert_eq!(answers[0]["cancelled"], true, "{answers:#?}");
    data(&answers[1]["result"]);
    fixture
        .argus
        .wait_until(LIMIT, "the teardown runs", || torn_down.exists().then_some(()));
    fixture.argus.sync();
    let leased = fixture.argus.status("leaving");
    assert_eq!(
        tests(&leased),
        1,
        "the lease lasts until the teardown ends: {leased:#}"
    );
    std::fs::write(shared.join("end"), "").expect("a file");
    fixture
        .argus
        .wait_status("leaving", LIMIT, "no test lease remains", |status| {
            tests(status) == 0
        });
    // The time limit of a call has the same effect, and a report.
    std::fs::remove_file(&started).expect("the suite made it");
    // On a busy machine, a short limit ends the call before its suite starts.
    let mut limits = [2, 8, 32, 120].into_iter();
    while !started.exists() {
        drop(std::fs::remove_file(&torn_down));
        let limit = limits.next().expect("a suite starts within the longest limit");
        let (status, report) = post(
            &fixture,
            "leaving",
            &json!({ "suites": ["slow"], "timeoutSeconds": limit }),
        );
        assert_eq!(status, 200, "{report:#}");
        assert_eq!(report["interrupted"], true, "{report:#}");
    }
    assert!(torn_down.exists(), "the suite that started is torn down");
}

#[test]
fn stopping_controller_waits_for_no_suite() {
    let fixture = fixture("halting", 18_695, &[]);
    std::thread::scope(|scope| {
        let socket = fixture.argus.state.join("private/argus.sock");
        let slow = json!({ "suites": ["slow"] }).to_string();
        let call = scope.spawn(move || {
            let path = "/api/v1/environments/halting/tests";
            http::request(&socket, "POST", path, "application/json", slow.as_bytes(), LIMIT)
        });
        let started = fixture.argus.specs.join("shared/started");
        wait::until(LIMIT, "the suite runs", || started.exists().then_some(()));
        // Its teardown never ends.
        let status = fixture.argus.stop();
        assert!(status.success(), "{status:?}");
        let answer = call.join().expect("the call ends");
        assert!(answer.is_ok_and(|answer| answer.status == 503));
    });
    let log = fixture.argus.logs();
    assert!(!log.contains("panicked"), "{log}");
}
