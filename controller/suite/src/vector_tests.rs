//! Test vectors of the format: an expectation, a response or an output, and the verdict.

use std::time::Duration;

use argus_core::time::Timestamp;

use crate::{Action, CommandOutput, Moment, Response, Scope, Step, parse};

fn step(text: &str) -> Step {
    let text = format!("name: vectors\ncases:\n  - {}\n", text.replace('\n', "\n    "));
    let parsed = parse("vectors.yaml", text.as_bytes());
    let suite = parsed
        .suite
        .unwrap_or_else(|| panic!("{text}: {:#?}", parsed.diagnostics));
    suite.cases[0].clone()
}

fn action(text: &str, scope: &Scope) -> Action {
    let mut moment = Moment {
        now: Timestamp(0),
        random: &mut || 7,
    };
    step(text)
        .resolve(scope, &mut moment, "http://localhost:8080")
        .unwrap_or_else(|failure| panic!("{text}: {failure:?}"))
}

fn response(status: u16, kind: &str, body: &str) -> Response {
    let headers = [
        ("Content-Type", kind),
        ("X-A", "1"),
        ("x-a", "2"),
        ("Set-Cookie", "a=1"),
        ("set-cookie", "b=2"),
    ];
    let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
    Response {
        status,
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: body.as_bytes().to_vec(),
        elapsed: Duration::from_millis(40),
    }
}

const JSON: &str = "application/json";

/// Checks verdicts about a response; `P` means passed.
fn check(response: &Response, expect: &str, verdict: &str) {
    let mut scope = Scope::default();
    scope.save([("five".to_owned(), "5".to_owned())]);
    let text = format!("request: {{ method: GET, url: \"http://localhost/\" }}\nexpect: {expect}");
    let Action::Request(request) = action(&text, &scope) else {
        panic!("{text}");
    };
    let failures = request.assess(response).failures;
    let found = if failures.is_empty() { "P" } else { "F" };
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!(found, verdict, "{expect} on {body}: {failures:?}");
}

fn check_bodies(body: &str, kind: &str, vectors: &[(&str, &str)]) {
    for (expect, verdict) in vectors {
        check(
            &response(200, kind, body),
            &format!("{{ body: {expect} }}"),
            verdict,
        );
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "the vectors are one table")]
fn body_vectors_have_their_verdicts() {
    let vectors: &[(&str, &[(&str, &str)])] = &[
        (
            r#"{"a":1}"#,
            &[("{a: 1}", "P"), (r#"{a: "1"}"#, "F"), ("{a: 1.0}", "P")],
        ),
        (
            r#"{"a":null}"#,
            &[
                ("{a: null}", "P"),
                ("{a: {exists: false}}", "P"),
                (r#"{a: {type: "null"}}"#, "P"),
            ],
        ),
        (
            "{}",
            &[
                ("{a: null}", "F"),
                ("{a: {exists: false}}", "P"),
                ("{a: {type: undefined}}", "P"),
                ("{a: {notContains: x}}", "P"),
                ("{a: {not: null}}", "P"),
            ],
        ),
        (
            r#"{"a":{"b":1,"c":2}}"#,
            &[
                ("{a: {b: 1}}", "P"),
                ("{a: {}}", "F"),
                (r#"{"a.b": 1}"#, "F"),
                ("{a: {length: 2}}", "P"),
            ],
        ),
        (
            r#"{"a":[{"b":1,"c":2}]}"#,
            &[
                ("{a: [{b: 1}]}", "F"),
                ("{a: {0: {b: 1}}}", "P"),
                ("{a: {some: {b: 1}}}", "P"),
                ("{a: {contains: {b: 1}}}", "F"),
                ("{a: {contains: {c: 2, b: 1}}}", "P"),
            ],
        ),
        (
            r#"{"a":[1,2]}"#,
            &[("{a: [1,2]}", "P"), ("{a: [2,1]}", "F"), ("{a: [1]}", "F")],
        ),
        (
            r#"{"a":[]}"#,
            &[
                ("{a: {}}", "P"),
                ("{a: []}", "P"),
                ("{a: {every: {x: 1}}}", "P"),
                ("{a: {some: {x: 1}}}", "F"),
                ("{a: {length: 0}}", "P"),
            ],
        ),
        (
            r#"{"type":"x","u":{"type":"x"}}"#,
            &[
                ("{type: x}", "P"),
                ("{u: {type: x}}", "F"),
                ("{u: {type: object}}", "P"),
            ],
        ),
        (
            r#"{"a":5}"#,
            &[
                ("{a: {gt: 3, lt: 9}}", "P"),
                (r#"{a: {gt: "3"}}"#, "P"),
                (r#"{a: {gt: "x"}}"#, "F"),
                ("{a: {eq: 5}}", "F"),
                ("{a: {length: 1}}", "F"),
                ("{a: {not: 5}}", "F"),
                ("{a: {not: {b: 1}}}", "P"),
                ("{a: {in: [5]}}", "P"),
                ("{a: {in: 5}}", "F"),
                ("{a: {not: {in: 5}}}", "F"),
                (r#"{a: "{{five}}"}"#, "F"),
                (r#"{a: {matches: "["}}"#, "F"),
                (r#"{a: {not: {matches: "5"}}}"#, "P"),
            ],
        ),
        (
            r#"{"a":"5"}"#,
            &[
                ("{a: {gt: 3}}", "F"),
                ("{a: {contains: 5}}", "F"),
                (r#"{a: "{{ five }}"}"#, "P"),
            ],
        ),
        (
            r#"{"a":["x","y"]}"#,
            &[
                ("{a: {some: x}}", "P"),
                ("{a: {every: {type: string}}}", "P"),
                ("{a: {length: 2, some: y}}", "P"),
                ("{a: {contains: x}}", "P"),
                ("{a: {1: y, exists: true}}", "P"),
            ],
        ),
        (
            r#"{"a":[{"t":1}]}"#,
            &[
                ("{a: {every: {type: object}}}", "F"),
                ("{a: {every: {t: {type: number}}}}", "P"),
                ("{a: {some: 5}}", "P"),
            ],
        ),
        (
            r#"{"a":[1,2]}"#,
            &[
                ("{a: {length: 2}}", "P"),
                (r#"{a: {length: "2"}}"#, "F"),
                ("{a: {length: {gte: 1}}}", "P"),
                ("{a: {length: {eq: 9}}}", "P"),
                ("{a: {length: {}}}", "P"),
            ],
        ),
        (
            r#"{"a":"日本😀"}"#,
            &[
                ("{a: {length: 4}}", "P"),
                ("{a: {startsWith: 日, endsWith: 😀}}", "P"),
            ],
        ),
        (
            r#"{"a":{"x":1,"y":2}}"#,
            &[
                ("{a: {not: {x: 1, y: 3}}}", "F"),
                ("{a: {not: {x: 0, y: 0}}}", "P"),
            ],
        ),
        (
            r#"[{"id":1},{"id":2}]"#,
            &[
                ("[{id: 1}]", "P"),
                ("{0: {id: 1}, length: 2}", "P"),
                ("{length: {gte: 3}}", "F"),
            ],
        ),
    ];
    for (body, vectors) in vectors {
        check_bodies(body, JSON, vectors);
    }
    let text = [
        (r#""ok""#, "P"),
        (r#""other""#, "F"),
        ("{status: ok}", "F"),
        ("{status: {exists: false}}", "P"),
        ("7", "P"),
        (r#""""#, "P"),
        ("null", "P"),
    ];
    check_bodies("ok", "text/plain", &text);
}

#[test]
fn response_vectors_have_their_verdicts() {
    let ok = |status| response(status, "application/json; charset=utf-8", "{}");
    let empty = |kind| response(204, kind, "");
    let vectors = [
        (ok(201), "{ status: [200, 201] }", "P"),
        (ok(201), r#"{ status: "201" }"#, "F"),
        (ok(201), "{ status: 201.0 }", "P"),
        (ok(201), "{ status: { oneOf: [200, 201] } }", "F"),
        (ok(201), "{ status: null }", "F"),
        (ok(500), "{ }", "P"),
        (ok(500), "null", "P"),
        (ok(200), "{ headers: { content-type: application/json } }", "F"),
        (
            ok(200),
            "{ headers: { Content-Type: { contains: application/json } } }",
            "P",
        ),
        (
            ok(200),
            r#"{ headers: { X-A: "1, 2", set-cookie: b=2, x-b: { exists: false } } }"#,
            "P",
        ),
        (ok(200), "{ responseTime: 40 }", "P"),
        (ok(200), "{ responseTime: 39 }", "F"),
        (ok(200), "{ responseTime: { gt: 30, lte: 40 } }", "P"),
        (ok(200), "{ responseTime: { under: 90 } }", "F"),
        (ok(200), r#"{ responseTime: "1" }"#, "P"),
        (empty(""), "{ status: 204 }", "P"),
        (empty("application/problem+json"), "{ status: 204 }", "P"),
        (empty("Application/JSON"), "{ status: 204 }", "P"),
        (empty(JSON), "{ status: 204 }", "F"),
        (response(200, JSON, "{"), "{ status: 200 }", "F"),
    ];
    for (response, expect, verdict) in vectors {
        check(&response, expect, verdict);
    }
}

#[test]
fn expression_vectors_have_their_verdicts() {
    let body = r#"{"n":2,"m":1,"s":"b","l":[1,2],"z":null}"#;
    let vectors = [
        ("status == 200", "P"),
        (r#"status == "200""#, "F"),
        ("n == 2", "P"),
        ("body.n==2", "P"),
        ("body.x == null", "F"),
        ("body.z == null", "P"),
        ("body.x != null", "P"),
        ("body.n == 2 || body.n == 1 && body.m == 3", "F"),
        ("body.n == 1 || body.n == 2 && body.m >= 1", "P"),
        ("body.n", "F"),
        ("body.l.length > 1 && l.1 == 2", "P"),
        ("length == 5", "P"),
        (r#"s > "a" && s < 'c'"#, "P"),
        ("body.n > body.m", "P"),
        ("s > 1", "F"),
        (r#"headers.x-a == "1, 2""#, "P"),
        ("== 2", "F"),
        ("body.l == body.l", "F"),
    ];
    for (expression, verdict) in vectors {
        let expect = format!("{{ expr: {expression:?} }}");
        check(&response(200, JSON, body), &expect, verdict);
    }
    let vectors = [
        (r#"{ expr: ["n == 2", "m == 1"] }"#, "P"),
        (r#"{ expr: ["n == 2", "m == 2"] }"#, "F"),
        ("{ all: [{ n: 2 }, { m: 1 }] }", "P"),
        ("{ all: [{ n: 2 }, { m: 2 }] }", "F"),
        ("{ any: [{ n: 9 }, { m: 1 }] }", "P"),
        ("{ any: [{ n: 9 }, { m: 9 }] }", "F"),
        ("{ any: [] }", "F"),
        ("{ all: [] }", "P"),
        ("{ any: [{ status: 200 }] }", "F"),
    ];
    for (expect, verdict) in vectors {
        check(&response(200, JSON, body), expect, verdict);
    }
}

fn output(exit_code: i64, stdout: &str, stderr: &str) -> CommandOutput {
    CommandOutput {
        exit_code,
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        is_cut: false,
    }
}

fn cut_output(stdout: &str) -> CommandOutput {
    CommandOutput {
        is_cut: true,
        ..output(1, stdout, "the output exceeds 1 MiB")
    }
}

/// Checks a verdict about outputs of commands.
fn check_outputs(text: &str, outputs: &[CommandOutput], verdict: &str) {
    let Action::Container(check) = action(text, &Scope::default()) else {
        panic!("{text}");
    };
    let failures = check.assess(outputs);
    let found = if failures.is_empty() { "P" } else { "F" };
    assert_eq!(found, verdict, "{text} on {outputs:?}: {failures:?}");
}

#[test]
fn exec_vectors_have_their_verdicts() {
    let vectors = [
        ("", output(3, "", ""), "F"),
        ("expect: null", output(3, "", ""), "F"),
        ("expect: {}", output(3, "", ""), "P"),
        ("expect: { output: { contains: x } }", output(3, "x", ""), "P"),
        ("expect: { output: { contains: x } }", output(3, " ", "x"), "P"),
        ("expect: { output: { contains: x } }", output(0, "", "x"), "F"),
        ("expect: { exitCode: 3 }", output(3, "", ""), "P"),
        (r#"expect: { exitCode: "3" }"#, output(3, "", ""), "F"),
        (
            r#"expect: { output: { length: "==0" } }"#,
            output(0, "\n", ""),
            "P",
        ),
        (r#"expect: { output: { length: "0" } }"#, output(0, "a", ""), "P"),
        (
            r#"expect: { output: { length: "=>3" } }"#,
            output(0, "a\nb\nc", ""),
            "F",
        ),
        (
            r#"expect: { output: { length: ">=3" } }"#,
            output(0, "a\nb\nc\n", ""),
            "P",
        ),
        ("expect: { output: { length: 2 } }", output(0, "a\nb", ""), "P"),
        (
            "expect: { output: { length: { gt: 1, eq: 3 } } }",
            output(0, "a\nb", ""),
            "F",
        ),
        (r#"expect: { output: { contains: "" } }"#, output(0, "", ""), "P"),
        (
            "expect: { output: { contains: [a, b] } }",
            output(0, "a", ""),
            "F",
        ),
        (
            "expect: { output: { notContains: [a, b] } }",
            output(0, "c", ""),
            "P",
        ),
        ("expect: { output: { matches: ^c$ } }", output(0, "c\n", ""), "P"),
        (
            "expect: { output: { json: { n: { gt: 1 } } } }",
            output(0, r#"{"n":2}"#, ""),
            "P",
        ),
        ("expect: { output: { json: { n: 1 } } }", output(0, "n", ""), "F"),
        ("expect: { output: { anyOf: [a] } }", output(0, "c", ""), "P"),
        ("expect: { output: c }", output(0, "c", ""), "F"),
        ("expect: { output: { notContains: a } }", cut_output("c"), "F"),
        ("expect: { output: { contains: c } }", cut_output("c"), "P"),
    ];
    for (expect, output, verdict) in vectors {
        let text = format!("exec: {{ command: x }}\n{expect}");
        check_outputs(&text, &[output], verdict);
    }
}

#[test]
fn file_vectors_have_their_verdicts() {
    let (there, absent) = (output(0, "", ""), output(1, "", ""));
    let no_container = output(1, "", "No such container: x");
    let stat = output(0, "-rw-r--r-- root 12\n", "");
    let content = output(0, "{\"a\": 1}\n", "");
    let vectors: &[(&str, &[&CommandOutput], &str)] = &[
        ("path: /f", &[], "P"),
        ("path: /f, exists: true", &[&there], "P"),
        ("path: /f, exists: true", &[&absent], "F"),
        (
            "path: /f, exists: true, contains: x",
            &[&absent, &no_container],
            "F",
        ),
        ("path: /f, exists: false", &[&absent], "P"),
        ("path: /f, exists: false", &[&no_container], "P"),
        ("path: /f, exists: false, contains: x", &[&there], "F"),
        (
            "path: /f, permissions: -rw-r--r--, owner: root, size: \">0\"",
            &[&stat],
            "P",
        ),
        ("path: /f, owner: web", &[&stat], "F"),
        ("path: /f, size: \"=0\"", &[&stat], "F"),
        ("path: /f, size: 12", &[&stat], "F"),
        ("path: /f, size: \">0\"", &[&absent], "F"),
        (
            "path: /f, contains: ['\"a\"', ''], notContains: b, matches: '\\n$', json: { a: 1 }",
            &[&content],
            "P",
        ),
        (
            "path: /f, exists: true, owner: root, contains: 1",
            &[&there, &stat, &content],
            "P",
        ),
        ("path: /f, json: { a: 2 }", &[&content], "F"),
        ("path: /f, contains: x", &[&absent], "F"),
    ];
    for (file, outputs, verdict) in vectors {
        let outputs: Vec<CommandOutput> = outputs.iter().map(|output| (*output).clone()).collect();
        check_outputs(&format!("file: {{ {file} }}"), &outputs, verdict);
    }
}

#[test]
fn process_and_port_vectors_have_their_verdicts() {
    let ps = output(
        0,
        "USER PID COMMAND\nroot 1 httpd -f\nweb 9 httpd\nroot 20 grep httpd\n",
        "",
    );
    let vectors = [
        ("name: httpd, running: true", "P"),
        ("name: nginx, running: true", "F"),
        ("name: nginx, running: false", "P"),
        ("name: httpd, count: \"==2\"", "P"),
        ("name: httpd, count: \">2\"", "F"),
        ("name: httpd, count: 2", "F"),
        ("name: httpd, user: web", "P"),
        ("name: httpd, user: db", "F"),
        ("name: nginx, user: db", "P"),
    ];
    for (process, verdict) in vectors {
        check_outputs(
            &format!("process: {{ {process} }}"),
            std::slice::from_ref(&ps),
            verdict,
        );
    }
    let no_ps = [output(127, "", "ps: not found")];
    check_outputs("process: { name: nginx, running: false }", &no_ps, "F");
    let no_list = [output(1, "", "cat: can't open '/proc/net/tcp'")];
    check_outputs("port: { port: 80, listening: false }", &no_list, "F");
    let no_shell = [output(127, "exec: \"sh\": not found", "")];
    check_outputs("file: { path: /a, exists: false }", &no_shell, "F");
    let no_container = [output(1, "", "the container `a` does not exist")];
    check_outputs("file: { path: /a, exists: false }", &no_container, "P");

    let ss = output(
        0,
        "State Recv-Q Send-Q Local Peer\nLISTEN 0 128 0.0.0.0:8080 0.0.0.0:*\n",
        "",
    );
    let kernel = output(
        0,
        "  sl  local_address rem_address   st\n   0: 00000000:1F90 00000000:0000 0A 0\n   1: 00000000:0050 00000000:0000 01 0\n",
        "",
    );
    for output in [ss, kernel] {
        let one = [output];
        check_outputs("port: { port: 8080 }", &one, "P");
        check_outputs("port: { port: \"8080\", listening: true }", &one, "P");
        check_outputs("port: { port: 80 }", &one, "F");
        check_outputs("port: { port: 80, listening: false }", &one, "P");
        check_outputs("port: { port: 8080, listening: false }", &one, "F");
    }
}

#[test]
fn request_is_sent_as_the_format_defines() {
    let mut scope = Scope::default();
    scope.save([("id".to_owned(), "7".to_owned())]);
    let request = |text: &str| {
        let Action::Request(request) = action(&format!("request: {text}"), &scope) else {
            panic!("{text}");
        };
        let body = request.body.map(|body| String::from_utf8(body).unwrap());
        let headers: Vec<String> = request
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        format!(
            "{} {} {headers:?} {}",
            request.method,
            request.url,
            body.unwrap_or_default()
        )
    };
    let vectors = [
        (
            "{ path: '/a/{{id}}?q={{none}}' }",
            "GET http://localhost:8080/a/7?q={{none}} [] ",
        ),
        (
            "{ method: post, path: /a, body: abc }",
            r#"POST http://localhost:8080/a ["Content-Type: application/json"] "abc""#,
        ),
        (
            "{ method: PUT, url: 'http://h/', path: /a, headers: { content-type: x, X-N: 5 }, body: { n: 1.0, id: '{{id}}' } }",
            r#"PUT http://h/ ["content-type: x", "X-N: 5"] {"n":1,"id":"7"}"#,
        ),
        (
            "{ method: GET, path: /a, body: {} }",
            "GET http://localhost:8080/a [] ",
        ),
        (
            "{ method: DELETE, path: /a, body: false }",
            r#"DELETE http://localhost:8080/a ["Content-Type: application/json"] false"#,
        ),
        ("{ method: patch, path: /a }", "PATCH http://localhost:8080/a [] "),
    ];
    for (text, wanted) in vectors {
        assert_eq!(request(text), wanted, "{text}");
    }
    let refused = |text: &str| {
        let mut moment = Moment {
            now: Timestamp(0),
            random: &mut || 7,
        };
        step(&format!("request: {text}")).resolve(&scope, &mut moment, "http://h")
    };
    for text in [
        "{ method: POST }",
        "{ url: '{{config.base_url}}/x' }",
        "{ path: /a, body: {} }",
        "{ method: HEAD, path: /a, body: {} }",
        "{ path: /a, headers: { x: 日 } }",
        "{ path: /a, timeout: soon }",
        "[]",
    ] {
        assert!(refused(text).is_err(), "{text}");
    }
}

#[test]
fn redirect_keeps_or_drops_method_and_body() {
    let text =
        "request: { method: POST, url: 'http://h/a/b', headers: { Authorization: t, X: y }, body: {} }";
    let Action::Request(request) = action(text, &Scope::default()) else {
        panic!("{text}");
    };
    let next = |status, location: &str| {
        let mut response = response(status, "", "");
        response
            .headers
            .push(("Location".to_owned(), location.to_owned()));
        let next = request.redirect(&response).unwrap()?;
        let names: Vec<&str> = next.headers.iter().map(|(name, _)| name.as_str()).collect();
        Some(format!(
            "{} {} {} {}",
            next.method,
            next.url,
            names.join(","),
            next.body.is_some()
        ))
    };
    assert_eq!(
        next(302, "c?x=1").as_deref(),
        Some("GET http://h/a/c?x=1 Authorization,X false")
    );
    assert_eq!(
        next(307, "/c").as_deref(),
        Some("POST http://h/c Authorization,X,Content-Type true")
    );
    assert_eq!(
        next(303, "http://other/").as_deref(),
        Some("GET http://other/ X false")
    );
    assert_eq!(next(304, "/c"), None);
    let mut broken = response(301, "", "");
    assert_eq!(request.redirect(&broken), Ok(None));
    broken
        .headers
        .push(("location".to_owned(), "http://[".to_owned()));
    assert!(request.redirect(&broken).is_err());
}
