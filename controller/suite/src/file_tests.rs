//! Diagnostics about suite files: place, message and hint.

use argus_crds::diagnostic::Diagnostic;

use crate::lint::{FILE_KEYS, keys_of};
use crate::step::STEP_KEYS;
use crate::{Connect, SetupItem, StepKind, parse};

fn lines(diagnostics: &[Diagnostic]) -> Vec<String> {
    let line = |diagnostic: &Diagnostic| {
        let word = if diagnostic.is_error() { "error" } else { "warning" };
        let place = diagnostic.location.map_or_else(
            || "?".to_owned(),
            |place| format!("{}:{}", place.line, place.column),
        );
        format!("{word} {place} {}", diagnostic.message)
    };
    diagnostics.iter().map(line).collect()
}

fn rejected(text: &str, wanted: &[&str]) {
    let parsed = parse("suite.yaml", text.as_bytes());
    assert!(parsed.suite.is_none(), "{text}");
    assert_eq!(lines(&parsed.diagnostics), wanted, "{text}");
}

#[test]
fn file_without_cases_or_name_is_rejected() {
    rejected("", &["error ? the file is empty"]);
    rejected("- a\n", &["error 1:1 a suite is a map"]);
    rejected(
        "cases: 5\n",
        &[
            "error 1:1 `name` is missing",
            "error 1:8 `cases` is missing or not a list",
        ],
    );
    rejected(
        "name: a\nname: b\ncases: []\n",
        &[
            "error 2:1 duplicate key `name`",
            "warning 3:1 the suite has no cases, so it passes always",
        ],
    );
    rejected(
        "name: a\ncases: []\n---\nname: b\n",
        &["error 3:1 the file has more than one document"],
    );
    let parsed = parse("suite.yaml", b"name: a\ncases:\n\t- b\n");
    assert!(
        parsed.diagnostics[0]
            .location
            .is_some_and(|place| place.line == 3),
        "{parsed:?}"
    );
}

#[test]
fn parts_that_stop_a_suite_are_errors() {
    rejected(
        "name: a
variables: { a: [1], b: null }
setup:
  - waitForPort:
  - waitHealthy: { timeout: 5S }
  - delay: 1m30s
cases:
  - null
  - { name: x, request: { path: / }, retry: { maxAttempts: 3 } }
  - { name: y, request: { path: / }, retry: 3 }
",
        &[
            "error 2:14 the variable `a` is not a text",
            "error 2:25 the variable `b` is not a text",
            "error 4:16 the port is missing",
            "error 5:29 `5S` is not a valid time",
            "error 6:12 `1m30s` is not a valid time",
            "error 8:5 a step is a map, not `null`",
            "error 9:38 `retry` has no `delay`",
            "error 10:45 `retry` is a map, not `3`",
        ],
    );
}

#[test]
fn parts_without_effect_are_warnings_with_place_and_hint() {
    let text = "name: a
service: web
sequental: true
cases:
  - name: request
    timeout: 5s
    request: { method: GET, path: /, expectedStatus: 200, timeout: 500 }
    save: { id: $.id, t: headers.x }
    expect:
      status: { oneOf: [200] }
      body: { a: $exists, b: { eq: 5 }, c: { type: integer, length: '2' }, d: { matches: '[' }, e: { in: 5 } }
      code: 1
  - name: exec
    exec: { command: ls, contains: x }
    request: { path: / }
    save: { a: b }
    expect: { output: { equals: x, length: '3' } }
  - { name: file, file: { path: /f, size: '> 3' }, expect: { exists: true } }
  - { name: late, delay: soon, request: { url: 'no address' } }
  - { name: template, request: { url: '{{config.base_url}}/x', timeout: '{{t}}' } }
  - { name: page, browser: { action: goto } }
  - { name: judge, llm-judge: {} }
  - { name: none, requests: { path: / } }
teardown:
  - { request: { path: / }, retry: { maxAttempts: 2 } }
";
    let parsed = parse("suite.yaml", text.as_bytes());
    let suite = parsed.suite.expect("warnings reject nothing");
    assert_eq!(
        lines(&parsed.diagnostics),
        [
            "warning 2:1 the key `service` has no effect in a suite file",
            "warning 3:1 the key `sequental` has no effect",
            "warning 6:5 the key `timeout` has no effect",
            "warning 7:38 the key `expectedStatus` has no effect",
            "warning 7:68 `timeout: 500` is read as milliseconds",
            "warning 8:17 the path `$.id` begins at the body of the response",
            "warning 8:26 the path `headers.x` begins at the body of the response",
            "warning 10:7 `status: {\"oneOf\":[200]}` fails always",
            "warning 11:18 `$exists` is compared as text",
            "warning 11:32 `eq` is not an operator, but the name of a field",
            "warning 11:52 `\"integer\"` is not a type",
            "warning 11:69 a text as `length` fails always",
            "warning 11:90 `[` is not a valid pattern: Parsing error at position 1: Invalid character class",
            "warning 11:106 `in` needs a list",
            "warning 12:7 the key `code` has no effect",
            "warning 14:26 the key `contains` has no effect",
            "warning 15:5 `request` has no effect, because the step has `exec`",
            "warning 16:5 `save` has an effect in requests only",
            "warning 17:25 the key `equals` has no effect",
            "warning 17:44 `3` is not a comparison",
            "warning 18:43 `> 3` is not a comparison",
            "warning 18:52 `expect` has no effect in a step with `file`",
            "warning 19:26 `soon` is not a valid time",
            "warning 19:48 `no address` is not a valid address: relative URL without a base",
            "warning 21:19 steps with `browser` are not supported",
            "warning 22:20 steps with `llm-judge` are not supported",
            "warning 23:5 the step has no `request`, `exec`, `file`, `process` or `port`",
            "warning 23:19 the key `requests` has no effect",
            "warning 25:29 `retry` has an effect in cases only",
        ]
    );
    let hint = |line: usize| {
        let at = |it: &&Diagnostic| it.location.is_some_and(|place| place.line == line);
        parsed
            .diagnostics
            .iter()
            .find(at)
            .and_then(|it| it.hint.as_deref())
    };
    assert_eq!(hint(3), Some("did you mean `sequential`?"));
    assert_eq!(hint(8), Some("write `id: id`"));
    assert_eq!(
        suite.cases[6].kind,
        Some(StepKind::Unsupported("llm-judge".to_owned()))
    );
    assert_eq!(suite.cases[7].kind, None);
    assert_eq!((suite.cases[1].line, suite.cases[2].line), (13, 18));
}

#[test]
fn schema_has_the_keys_that_are_read() {
    let schema = argus_crds::schema::suite_schema();
    let keys = |pointer: &str| {
        let properties = schema.pointer(pointer).and_then(serde_json::Value::as_object);
        let mut keys: Vec<&str> = properties.unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    };
    for kind in ["request", "exec", "file", "process", "port"] {
        let mut known = keys_of(kind).to_vec();
        known.sort_unstable();
        assert_eq!(keys(&format!("/definitions/{kind}/properties")), known, "{kind}");
    }
    let step = keys("/definitions/step/properties");
    assert!(STEP_KEYS.iter().all(|key| step.contains(key)), "{step:?}");
    let file = keys("/properties");
    assert!(FILE_KEYS.iter().all(|key| file.contains(key)), "{file:?}");
}

#[test]
fn real_forms_are_read_without_diagnostics() {
    let text = "# the common parts of real suites
name: Orders
description: create and list
sequential: true
variables: { baseUrl: 'http://localhost:8080', adminKey: '{{env.KEY}}', port: 8080, version: 1.10 }
setup:
  - waitHealthy:
  - waitForPort: { port: 5432, timeout: 30s }
  - name: reset
    exec: { container: db, command: 'psql -c \"delete from orders\"' }
    ignoreError: true
  - delay: 2s
cases:
  - name: create
    delay: 100ms
    request: &create
      method: POST
      url: '{{baseUrl}}/orders'
      headers: { Content-Type: application/json, Authorization: 'Bearer {{adminKey}}' }
      body: { item: book, count: 2, at: 2026-01-01 }
    save: { id: order.id, first: items.0.id }
    expect: { status: [200, 201], body: { order: { id: { exists: true }, items: { length: { gte: 1 }, every: { price: { gt: 0 } } } } } }
    retry: { maxAttempts: 3, delay: 1s, backoff: exponential }
  - name: again
    request: { <<: *create, method: PUT }
    expect: { status: 409, responseTime: 500, headers: { content-type: { contains: json } } }
  - { name: log, file: { container: api, path: /tmp/log, exists: true, contains: [created, book] } }
  - { name: alive, process: { container: api, name: node, running: true, count: '>=1' } }
  - { name: open, port: { container: api, port: 8080 } }
  - { name: rows, exec: { container: db, command: 'docker inspect {{.Name}}' }, expect: { exitCode: 0, output: { contains: '1' } } }
teardown:
  - { name: clean, request: { method: DELETE, url: '{{baseUrl}}/orders/{{id}}' }, ignoreError: true }
";
    let parsed = parse("suite.yaml", text.as_bytes());
    assert_eq!(lines(&parsed.diagnostics), [""; 0]);
    let suite = parsed.suite.unwrap();
    assert!(suite.sequential);
    assert_eq!(suite.variables[3], ("version".to_owned(), "1.10".to_owned()));
    assert_eq!(suite.setup.len(), 4);
    assert!(matches!(
        &suite.setup[1],
        SetupItem::WaitForPort(Connect { port: 5432, .. })
    ));
    assert_eq!(suite.cases.len(), 6);
    assert_eq!(suite.cases[0].retry.map(|retry| retry.max_attempts), Some(3));
    assert!(suite.teardown[0].ignore_error);
}

#[test]
fn selection_keeps_the_cases_that_it_builds_on() {
    let suite = |sequential: bool| {
        let text = format!(
            "name: Orders
sequential: {sequential}
cases:
  - {{ name: create, request: {{ path: /orders }}, save: {{ id: id }} }}
  - {{ name: list, request: {{ path: /orders }} }}
  - {{ name: read, request: {{ path: '/orders/{{{{id}}}}' }} }}
  - {{ name: delete, request: {{ path: /orders }}, save: {{ gone: id }} }}
"
        );
        parse("suite.yaml", text.as_bytes()).suite.unwrap()
    };
    let select = |sequential: bool, wanted: &str| {
        let selected = suite(sequential).select(|case| case.name == wanted)?;
        let names = selected.cases.into_iter().map(|case| case.name);
        Some(names.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(select(true, "read").as_deref(), Some("create list read"));
    assert_eq!(select(false, "read").as_deref(), Some("create read"));
    assert_eq!(select(false, "create").as_deref(), Some("create"));
    assert_eq!(select(false, "update"), None);
}

#[test]
fn spec_file_is_rejected_as_a_suite() {
    let cases = "name: Checks\ncases: [{ name: a, request: { path: / } }]\n";
    for (key, text) in [
        ("project", "project: { name: shop }\n"),
        ("services", "services: [{ name: web, image: a }]\n"),
        ("services", "services: { web: { image: a } }\n"),
        ("service", "service: { image: a }\n"),
        ("mocks", "mocks: { pay: { port: 9 } }\n"),
    ] {
        for text in [text.to_owned(), format!("{cases}{text}")] {
            let parsed = parse("e2e.yaml", text.as_bytes());
            assert_eq!(parsed.suite, None, "{text}");
            let [error] = parsed.diagnostics.as_slice() else {
                panic!("{:?}", parsed.diagnostics);
            };
            assert!(error.is_error());
            assert_eq!(
                error.message,
                format!("a spec file, which has `{key}`, is not a suite")
            );
        }
    }
    // Real suites name a service, which has no effect.
    let named = parse("a.yaml", format!("{cases}service: web\n").as_bytes());
    assert!(named.suite.is_some(), "{:?}", named.diagnostics);
}
