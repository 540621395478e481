//! YAML suites on a real engine: requests, commands, files, processes and ports, on a host port that moved.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::process::{Output, Stdio};

use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, PortHolder, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A store with the state in a file. `POST` creates an order, and `GET` shows the last one.
const SERVICE: &str = r#"#!/bin/sh
last=$(cat /tmp/last 2>/dev/null || echo 0)
if [ "$REQUEST_METHOD" = POST ]; then
  last=$((last + 1))
  echo $last > /tmp/last
  printf 'Status: 201 Created\r\nContent-Type: application/json\r\n\r\n{"order": {"id": %s, "tags": ["new"]}}' $last
else
  printf 'Content-Type: application/json\r\n\r\n{"orders": [{"id": %s}], "query": "%s"}' $last "$QUERY_STRING"
fi
"#;

const ORDERS: &str = r#"name: Orders
sequential: true
variables: { store: 'http://localhost:18940/cgi-bin/orders', run: 'r-{{uuid}}' }
setup:
  - waitHealthy:
  - waitForPort: { port: 18940, timeout: 30s }
  - { name: clean, exec: { container: yaml-web, command: 'rm -f /tmp/last /tmp/seen' } }
  - { name: unmet, exec: { container: yaml-web, command: 'exit 3' } }
cases:
  - name: create
    request: { method: POST, url: '{{store}}', body: { item: book } }
    save: { id: order.id }
    expect: { status: [200, 201], headers: { content-type: { contains: json } }, body: { order: { id: 1, tags: { contains: new } } } }
  - name: list
    request: { method: GET, path: '/cgi-bin/orders?run={{run}}' }
    expect: { status: 200, body: { orders: { some: { id: { gte: 1 } } }, query: { startsWith: run=r- } }, expr: body.orders.0.id == 1 }
  - { name: redirect, request: { method: GET, url: 'http://127.0.0.1:18940/docs' }, expect: { status: 200, headers: { location: { exists: false } } } }
  - { name: state, exec: { container: yaml-web, command: 'echo "last: $(cat /tmp/last)"' }, expect: { exitCode: 0, output: { contains: 'last: {{id}}' } } }
  - { name: default container, exec: { command: 'hostname >&2; exit 4' }, expect: { exitCode: 4, output: { length: '==1' } } }
  - { name: service name, exec: { container: web, command: 'sleep 600 & echo started' }, expect: { output: { matches: ^started$ } } }
  - { name: file, file: { container: yaml-web, path: /tmp/last, exists: true, contains: '{{id}}', size: '>0', permissions: '-rw-r--r--' } }
  - { name: no file, file: { container: yaml-web, path: /tmp/none, exists: false } }
  - { name: process, process: { container: yaml-web, name: httpd, running: true, count: '>=1' } }
  - { name: port, port: { container: yaml-web, port: 8080 } }
  - { name: no port, port: { port: 1, listening: false } }
  - { name: retried, exec: { command: 'test -e /tmp/seen || { touch /tmp/seen; exit 1; }' }, retry: { maxAttempts: 3, delay: 100ms } }
  - { name: tolerated, request: { url: 'http://localhost:1/' }, ignoreError: true }
teardown:
  - { name: last, exec: { container: yaml-web, command: 'touch /tmp/torn-down' } }
"#;

const BROKEN: &str = r"name: Broken
sequential: true
cases:
  - { name: good, request: { path: /healthz }, expect: { status: 200 } }
  - name: bad
    request: { method: GET, path: /cgi-bin/orders, headers: { Authorization: 'Bearer hunter22' } }
    expect: { status: 418, body: { orders: { length: 9 } } }
  - { name: never, request: { path: /healthz } }
";

const PAGES: &str = r"name: Pages
sequential: true
cases:
  - { name: page, browser: { action: goto, url: / } }
  - { name: after, request: { path: /healthz }, expect: { status: 200 } }
";

fn spec() -> String {
    let script = SERVICE.replace('\n', "\n        ");
    format!(
        r#"version: "1"
project: {{ name: yaml }}
service:
  name: web
  image: {IMAGE}
  command:
    - sh
    - -c
    - |
        mkdir -p /www/cgi-bin /www/docs && cp /www/index.html /www/docs/ && cat > /www/cgi-bin/orders <<'END'
        {script}
        END
        chmod +x /www/cgi-bin/orders && exec httpd -f -p 8080 -h /www
  container:
    name: yaml-web
    ports: ["18940:8080"]
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
tests:
  suites:
    - {{ name: Orders, id: orders, file: suites/orders.yaml }}
    - {{ name: Broken, id: broken, file: suites/broken.yaml }}
    - {{ name: Pages, id: pages, file: suites/pages.yaml, runner: yaml }}
    - {{ name: Invalid, id: invalid, file: suites/invalid.yaml }}
"#
    )
}

fn output(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Verdicts of the cases of a suite, with the number of attempts.
fn verdicts(suite: &Value) -> Vec<String> {
    let cases = suite["attempts"][0]["cases"].as_array();
    let verdict = |case: &Value| {
        let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("name"), text("result"), case["attempts"])
    };
    cases.into_iter().flatten().map(verdict).collect()
}

#[test]
fn yaml_suites_run_with_the_verdicts_of_their_format() {
    let engine = engine();
    // The requested port is taken, so the service gets another one.
    let _holder = PortHolder::silent(engine, 18940);
    let argus = Controller::start(engine, RunOptions::default());
    for (name, text) in [
        ("orders", ORDERS),
        ("broken", BROKEN),
        ("pages", PAGES),
        ("invalid", "name: Invalid\ncases: none\n"),
    ] {
        argus.write_spec(&format!("suites/{name}.yaml"), text);
    }
    argus.write_spec("e2e.yaml", &spec());
    argus.wait_ready("yaml", LIMIT);
    let ran = argus.cli(&["test", "run", "yaml", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(1), "{}", output(&ran));
    let report: Value = serde_json::from_slice(&ran.stdout).expect("a report");
    let suites = report["suites"].as_array().expect("suites");
    let results: Vec<String> = suites
        .iter()
        .map(|suite| format!("{} {}", suite["name"], suite["result"]))
        .collect();
    assert_eq!(
        results,
        [
            r#""invalid" "failed""#,
            r#""orders" "passed""#,
            r#""broken" "failed""#,
            r#""pages" "skipped""#
        ],
        "{report:#}"
    );
    let [_, orders, broken, pages] = suites.as_slice() else {
        panic!("{report:#}");
    };
    assert_eq!(
        verdicts(orders),
        [
            "create passed 1",
            "list passed 1",
            "redirect passed 1",
            "state passed 1",
            "default container passed 1",
            "service name passed 1",
            "file passed 1",
            "no file passed 1",
            "process passed 1",
            "port passed 1",
            "no port passed 1",
            "retried passed 2",
            "tolerated (error ignored) passed 1",
        ],
        "{report:#}"
    );
    assert_eq!(orders["attempts"][0]["notes"][0]["step"], "unmet", "{orders:#}");
    engine.docker_ok(&["exec", "yaml-web", "test", "-e", "/tmp/torn-down"]);

    assert_eq!(
        verdicts(broken),
        ["good passed 1", "bad failed 1", "never skipped 0"],
        "{broken:#}"
    );
    let bad = &broken["attempts"][0]["cases"][1];
    assert_eq!(
        bad["failures"][0]["message"], "expected `status` to be `418`, got `200`",
        "{bad:#}"
    );
    assert_eq!(bad["failures"][1]["at"], "body.orders", "{bad:#}");
    assert_eq!(
        (&bad["line"], &bad["exchange"]["received"]["status"]),
        (&5.into(), &200.into()),
        "{bad:#}"
    );
    assert!(!report.to_string().contains("hunter22"), "{bad:#}");
    assert_eq!(
        verdicts(pages),
        ["page unsupported 0", "after passed 1"],
        "{pages:#}"
    );

    let error = output(&ran);
    assert!(error.contains("suites/invalid.yaml:2:8"), "{error}");
    // A skipped case is not a pass, unless the user accepts it.
    let pages = argus.cli(&["test", "run", "yaml", "--suite", "pages"]);
    assert_eq!(pages.status.code(), Some(1), "{}", output(&pages));
    assert!(
        output(&pages).contains("not supported: steps with `browser`"),
        "{}",
        output(&pages)
    );
    let accepted = argus.cli(&["test", "run", "yaml", "--suite", "pages", "--allow-skipped"]);
    assert!(accepted.status.success(), "{}", output(&accepted));
    let failed = argus.cli(&["test", "run", "yaml", "--suite", "broken"]);
    assert!(
        output(&failed)
            .contains("failed bad (suites/broken.yaml:5)\n    expected `status` to be `418`, got `200`"),
        "{}",
        output(&failed)
    );
}

#[test]
fn suite_with_a_time_limit_ends_and_tears_down() {
    let argus = Controller::start(engine(), RunOptions::default());
    let suite = r"name: Slow
cases:
  - { name: slow, delay: 600s, request: { path: / } }
  - { name: later, request: { path: / } }
teardown:
  - { name: last, exec: { command: 'touch /tmp/torn-down' } }
";
    argus.write_spec("slow.yaml", suite);
    let spec = format!(
        "project: {{ name: slow }}\nservice: {{ name: web, image: {IMAGE}, container: {{ name: slow-web }} }}\ntests: {{ suites: [{{ name: slow, file: slow.yaml }}] }}\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_ready("slow", LIMIT);
    let ran = argus.cli(&["test", "run", "slow", "--ttl", "2s", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(1), "{}", output(&ran));
    let report: Value = serde_json::from_slice(&ran.stdout).expect("a report");
    let suite = &report["suites"][0];
    assert_eq!(
        verdicts(suite),
        ["slow failed 1", "later skipped 0"],
        "{report:#}"
    );
    assert_eq!(suite["attempts"][0]["timedOut"], true, "{report:#}");
    engine().docker_ok(&["exec", "slow-web", "test", "-e", "/tmp/torn-down"]);
}

#[test]
fn interrupted_suite_tears_down_and_reports() {
    let argus = Controller::start(engine(), RunOptions::default());
    let suite = r"name: Halted
cases:
  - { name: first, exec: { command: 'touch /tmp/first' } }
  - { name: slow, delay: 600s, request: { path: / } }
teardown:
  - { name: last, exec: { command: 'touch /tmp/torn-down' } }
";
    argus.write_spec("halted.yaml", suite);
    let spec = format!(
        "project: {{ name: halted }}\nservice: {{ name: web, image: {IMAGE}, container: {{ name: halted-web }} }}\ntests: {{ suites: [{{ name: halted, file: halted.yaml }}, {{ name: later, runner: shell, command: 'true' }}] }}\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_ready("halted", LIMIT);
    let out = argus.state.join("report");
    let mut running = argus
        .command()
        .args(["test", "run", "halted", "--out"])
        .arg(&out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    let exists = |path: &str| {
        engine()
            .docker(&["exec", "halted-web", "test", "-e", path])
            .status
            .success()
    };
    wait::until(LIMIT, "the first case has ended", || {
        exists("/tmp/first").then_some(())
    });
    kill_process(Pid::from_child(&running), Signal::INT).expect("a signal");
    assert_eq!(running.wait().expect("an exit code").code(), Some(130));
    assert!(exists("/tmp/torn-down"));
    let report = std::fs::read(out.join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("a report");
    assert_eq!(report["interrupted"], true, "{report:#}");
    assert_eq!(
        verdicts(&report["suites"][0]),
        ["first passed 1", "slow failed 1"],
        "{report:#}"
    );
    assert_eq!(
        report["suites"][1]["reason"], "the run was interrupted",
        "{report:#}"
    );
}

#[test]
fn selected_cases_run_with_the_cases_that_they_need() {
    let argus = Controller::start(engine(), RunOptions::default());
    let suite = |name: &str, sequential: bool| {
        format!(
            "name: {name}
sequential: {sequential}
cases:
  - {{ name: one, exec: {{ command: 'true' }} }}
  - {{ name: two, exec: {{ command: 'exit 1' }} }}
  - {{ name: three, exec: {{ command: 'true' }} }}
"
        )
    };
    argus.write_spec("a.yaml", &suite("a", true));
    argus.write_spec("b.yaml", &suite("b", false));
    let spec = format!(
        "project: {{ name: chosen }}\nservice: {{ name: web, image: {IMAGE}, container: {{ name: chosen-web }} }}\ntests:\n  parallel: {{ enabled: true, concurrency: 2 }}\n  suites: [{{ name: a, file: a.yaml }}, {{ name: b, file: b.yaml }}]\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_ready("chosen", LIMIT);
    let run = |arguments: &[&str]| {
        let ran = argus.cli(&[&["test", "run", "chosen", "-o", "json"], arguments].concat());
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let suites = report["suites"].as_array().cloned().unwrap_or_default();
        let text = |suite: &Value| format!("{}: {}", suite["name"], verdicts(suite).join(", "));
        let suites: Vec<String> = suites.iter().map(text).collect();
        (suites.join("; "), output(&ran))
    };
    let (all, _) = run(&[]);
    assert_eq!(
        all,
        r#""a": one passed 1, two failed 1, three skipped 0; "b": one passed 1, two failed 1, three passed 1"#
    );
    let (three, _) = run(&["--case", "three"]);
    assert_eq!(
        three,
        r#""a": one passed 1, two failed 1, three skipped 0; "b": three passed 1"#
    );
    let (part, _) = run(&["--shard", "2/2", "--grep", "^t", "--fail-fast"]);
    assert_eq!(part, r#""b": two failed 1, three skipped 0"#);
    let (_, unknown) = run(&["--case", "thre"]);
    assert!(unknown.contains("did you mean `three`?"), "{unknown}");
}

#[test]
fn case_without_memory_is_confirmed_and_attributed() {
    let argus = Controller::start(engine(), RunOptions::default());
    // The first run of the case lets the service exceed its memory limit.
    let suite = r"name: Memory
cases:
  - { name: calm, exec: { command: 'true' } }
  - { name: large, exec: { command: 'test -e /tmp/seen || { touch /tmp/seen /tmp/grow; sleep 600; }' } }
";
    argus.write_spec("memory.yaml", suite);
    let spec = format!(
        r#"project: {{ name: memory }}
service:
  name: web
  image: {IMAGE}
  command: ["sh", "-c", "rm -f /tmp/grow; until test -e /tmp/grow; do sleep 0.1; done; (x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done); sleep 1; exit 137"]
  container: {{ name: memory-web }}
  memory: 32m
tests: {{ suites: [{{ name: memory, file: memory.yaml }}] }}
"#
    );
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_ready("memory", LIMIT);
    let ran = argus.cli(&["test", "run", "memory", "-o", "json"]);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    assert!(ran.status.success(), "{}", output(&ran));
    let suite = &report["suites"][0];
    assert_eq!(suite["flaky"], true, "{report:#}");
    let found = &suite["attempts"][0]["attributions"][0];
    assert_eq!(
        (&found["case"], &found["attribution"]),
        (&"large".into(), &"resource".into()),
        "{report:#}"
    );
    assert_eq!(found["evidence"][0]["code"], "CONTAINER_OOM", "{report:#}");
    // The confirmation repeats only the failed case.
    let again = &suite["attempts"][1];
    assert_eq!(again["confirmation"], true, "{report:#}");
    assert_eq!(again["cases"].as_array().map(Vec::len), Some(1), "{report:#}");
}

// Issue 34: a repository contains the suite, and a person runs it.
#[test]
fn suites_of_the_command_line_reach_only_their_environment() {
    let engine = engine();
    engine.docker_ok(&[
        "run",
        "-d",
        "--name",
        "yaml-stranger",
        "busybox:local",
        "sleep",
        "3600",
    ]);
    let suite = "name: Orders
cases:
  - { name: own, exec: { container: web, command: 'true' }, expect: { exitCode: 0 } }
  - { name: exec, exec: { container: yaml-stranger, command: 'touch /tmp/reached' } }
  - { name: file, file: { container: yaml-stranger, path: /tmp/reached, exists: true } }
  - { name: process, process: { container: yaml-stranger, name: sleep, running: true } }
  - { name: port, port: { container: yaml-stranger, port: 1, listening: false } }
  - { name: variable, exec: { container: web, command: 'test \"{{env.ARGUS_SECRET_OF_SHELL}}\" = leaked' }, expect: { exitCode: 1 } }
  - { name: permitted, exec: { container: web, command: 'test \"{{env.ARGUS_ENV_X}}\" = given' }, expect: { exitCode: 0 } }
";
    let options = RunOptions {
        env: [("ARGUS_SECRET_OF_SHELL", "leaked"), ("ARGUS_ENV_X", "given")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    argus.write_spec("suites/orders.yaml", suite);
    argus.write_spec("e2e.yaml", &spec());
    argus.wait_ready("yaml", LIMIT);
    let run = |more: &[&str]| {
        let words = [&["test", "run", "yaml", "--suite", "orders", "-o", "json"], more].concat();
        let ran = argus.cli(&words);
        let report: Value = serde_json::from_slice(&ran.stdout).expect("a report");
        (output(&ran), report)
    };
    let (text, report) = run(&[]);
    let results = |report: &Value| {
        let all = verdicts(&report["suites"][0]);
        let results = all.iter().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} {}", words[0], words[1])
        });
        results.collect::<Vec<_>>()
    };
    let expected = |foreign: &str| {
        let foreign = ["exec", "file", "process", "port"].map(|name| format!("{name} {foreign}"));
        let own = ["variable passed", "permitted passed"].map(str::to_owned);
        [vec!["own passed".to_owned()], foreign.into(), own.into()].concat()
    };
    assert_eq!(results(&report), expected("failed"), "{text}");
    let failure = &report["suites"][0]["attempts"][0]["cases"][1]["failures"][0];
    assert_eq!(failure["code"], "POLICY_VIOLATION", "{report:#}");
    let message = failure["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("--allow-test-containers yaml-stranger"),
        "{message}"
    );
    let reached = engine.docker(&["exec", "yaml-stranger", "test", "-e", "/tmp/reached"]);
    assert!(!reached.status.success(), "a command ran in another container");

    let (text, report) = run(&["--allow-test-containers", "yaml-stranger"]);
    assert_eq!(results(&report), expected("passed"), "{text}");
    engine.docker_ok(&["rm", "-f", "yaml-stranger"]);
}

#[test]
fn validate_reports_mistakes_in_suite_files() {
    let argus = Controller::start(engine(), RunOptions::default());
    let folder = argus.state.join("checked");
    std::fs::create_dir_all(folder.join("suites")).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write("e2e.yaml", &spec());
    write("suites/orders.yaml", ORDERS);
    write(
        "suites/broken.yaml",
        "name: Broken\ncases:\n  - request: { path: /, mehtod: PUT }\n",
    );
    write("suites/invalid.yaml", "name: Invalid\ncases: none\n");
    let spec = folder.join("e2e.yaml");
    let checked = argus.cli(&["validate", spec.to_str().expect("a path")]);
    let text = output(&checked);
    assert_eq!(checked.status.code(), Some(3), "{text}");
    for part in [
        "suites/orders.yaml: ok suite `Orders`, 13 cases",
        "suites/broken.yaml:3:25",
        "did you mean `method`?",
        "suites/invalid.yaml:2:8",
        "suites/invalid.yaml: rejected (1 error)",
        "suites/pages.yaml",
        "e2e.yaml: ok environment `yaml`",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}
