//! Parity of the surfaces: the CLI's JSON, the HTTP body and the content of an MCP response have the same value.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use argus_tests::fixture::{LIMIT, images, shop};
use argus_tests::http::call;
use argus_tests::{Controller, PrivateEngine, wait};
use serde_json::{Value, json};

use super::{HttpFixture, listening};

/// Fields that differ from one response to the next.
const VARYING_FIELDS: [&str; 6] = [
    "tookMs",
    "errorId",
    "correlationId",
    "timestamp",
    "since",
    "until",
];
/// Members that RFC 9457 adds to an error over HTTP.
const PROBLEM: [&str; 4] = ["type", "title", "status", "detail"];

/// One query or command, and its form on each surface.
struct Request {
    cli: &'static str,
    http: Option<(&'static str, &'static str, Value)>,
    mcp: Option<(&'static str, Value)>,
    /// The part that MCP returns, if that is less than the whole.
    brief: fn(&Value) -> Value,
    /// Each request checks again, so the check time differs.
    checks: bool,
}

fn whole(value: &Value) -> Value {
    value.clone()
}

fn request(cli: &'static str) -> Request {
    Request {
        cli,
        http: None,
        mcp: None,
        brief: whole,
        checks: false,
    }
}

impl Request {
    fn get(self, path: &'static str) -> Self {
        let http = Some(("GET", path, Value::Null));
        Self { http, ..self }
    }

    fn post(self, path: &'static str, body: Value) -> Self {
        let http = Some(("POST", path, body));
        Self { http, ..self }
    }

    fn mcp(self, tool: &'static str, arguments: Value) -> Self {
        let mcp = Some((tool, arguments));
        Self { mcp, ..self }
    }

    fn checks(self) -> Self {
        Self { checks: true, ..self }
    }

    fn brief(self, brief: fn(&Value) -> Value) -> Self {
        Self { brief, ..self }
    }
}

/// Over MCP, journal records lack the fields that are equal in all of them.
fn without_what_is_the_same_in_each(output: &Value) -> Value {
    let mut output = output.clone();
    for record in output["items"].as_array_mut().expect("a list") {
        without(record, &["v", "run", "kind"]);
    }
    output
}

/// The newest first, in one line each.
fn in_a_line(output: &Value) -> Value {
    let row = |incident: &Value| {
        let count = |list: &str| incident[list].as_array().map_or(0, Vec::len);
        json!({
            "id": incident["id"], "at": incident["at"], "lastSeen": incident["lastSeen"],
            "openIntents": count("openIntents"), "adopted": count("adopted"), "quarantined": count("quarantined"),
        })
    };
    let all = output["items"].as_array().expect("a list");
    json!({ "items": all.iter().rev().map(row).collect::<Vec<_>>() })
}

/// Each code with its summary.
fn summaries(output: &Value) -> Value {
    let all = output.as_array().expect("a list").iter();
    let line = |about: &Value| {
        let code = about["code"].as_str().unwrap_or_default().to_owned();
        (code, about["summary"].clone())
    };
    json!({ "codes": all.map(line).collect::<serde_json::Map<_, _>>() })
}

/// Page of a key over MCP, which marks all lines of a text after the first one.
fn with_marked_example(page: &Value) -> Value {
    let mut page = page.clone();
    let example = page["example"].as_str().unwrap_or_default();
    page["example"] = json!(example.trim_end().replace('\n', "\n  | ") + "\n");
    json!({ "key": page })
}

/// Object with the members of both.
fn joined(one: &Value, more: &Value) -> Value {
    let mut all = one.as_object().cloned().expect("an object");
    all.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

/// Every query of more than one surface about an environment `same`, in which `web` failed once.
fn shown() -> Vec<Request> {
    let env = json!({ "environment": "same" });
    let of = |more: Value| joined(&env, &more);
    let web = |more: Value| joined(&of(more), &json!({ "service": "web" }));
    vec![
        request("get").get("/api/v1/environments?detail=full"),
        request("get same")
            .get("/api/v1/environments/same")
            .mcp("argus_status", of(json!({ "detail": "full" }))),
        request("describe same").get("/api/v1/environments/same"),
        request("wait same").get("/api/v1/environments/same/wait"),
        request("wait same same").get("/api/v1/environments/same,same/wait"),
        request("wait same/web").get("/api/v1/environments/same/services/web/wait"),
        request("why same")
            .get("/api/v1/environments/same/why")
            .mcp("argus_why", env.clone()),
        request("why same web")
            .get("/api/v1/environments/same/services/web/why")
            .mcp("argus_why", web(json!({}))),
        request("diff same")
            .get("/api/v1/environments/same/diff")
            .mcp("argus_diff", env.clone()),
        request("network same")
            .get("/api/v1/environments/same/network")
            .mcp("argus_network", env.clone()),
        request("test results same")
            .get("/api/v1/environments/same/tests")
            .mcp("argus_test_results", env.clone()),
        request("network same/web")
            .get("/api/v1/environments/same/services/web/network")
            .mcp("argus_network", web(json!({}))),
        request("network same --verify")
            .post("/api/v1/environments/same/network", json!({}))
            .mcp("argus_network", of(json!({ "verify": true })))
            .checks(),
        request("plan").get("/api/v1/plan").mcp("argus_plan", json!({})),
        request("plan same")
            .get("/api/v1/plan?environment=same")
            .mcp("argus_plan", env.clone()),
        request("plan same/web")
            .get("/api/v1/plan?environment=same&service=web")
            .mcp("argus_plan", web(json!({}))),
        request("validate")
            .get("/api/v1/validate")
            .mcp("argus_validate", json!({})),
        request("events same --tail 20")
            .get("/api/v1/events?environment=same&tail=20")
            .mcp("argus_events", of(json!({ "tail": 20 })))
            .brief(without_what_is_the_same_in_each),
        request("events --type phase,error --tail 5")
            .get("/api/v1/events?type=phase,error&tail=5")
            .mcp("argus_events", json!({ "type": ["phase", "error"], "tail": 5 }))
            .brief(without_what_is_the_same_in_each),
        request("incidents")
            .get("/api/v1/incidents")
            .mcp("argus_incidents", json!({}))
            .brief(in_a_line),
        request("incidents --repairs").get("/api/v1/repairs"),
        request("evidence same --list")
            .get("/api/v1/environments/same/evidence")
            .mcp("argus_evidence", env.clone()),
        request("evidence same web --list").get("/api/v1/environments/same/evidence?service=web"),
        request("evidence same web --tail 7")
            .get("/api/v1/environments/same/services/web/evidence?tail=7")
            .mcp("argus_evidence", web(json!({ "tail": 7 }))),
        request("logs same --tail 5")
            .get("/api/v1/environments/same/logs?tail=5")
            .mcp("argus_logs", of(json!({ "tail": 5 }))),
        request("logs same web --tail 5")
            .get("/api/v1/environments/same/services/web/logs?tail=5")
            .mcp("argus_logs", web(json!({ "tail": 5 }))),
        request("breaker status").get("/api/v1/breaker"),
        request("breaker status same").get("/api/v1/breaker?environment=same"),
        request("orphans")
            .get("/api/v1/orphans")
            .mcp("argus_orphans", json!({})),
        request("preflight --skip disk,clock")
            .get("/api/v1/preflight?skip=disk,clock")
            .mcp("argus_preflight_check", json!({ "skip": ["disk", "clock"] }))
            .checks(),
        request("doctor").get("/api/v1/doctor"),
        request("prune --dry-run").get("/api/v1/prune"),
        request("explain")
            .get("/api/v1/errors")
            .mcp("argus_explain", json!({}))
            .brief(summaries),
        request("explain PORT_CONFLICT")
            .get("/api/v1/errors/PORT_CONFLICT")
            .mcp("argus_explain", json!({ "code": "PORT_CONFLICT" })),
        request("explain --key argus.policy")
            .get("/api/v1/keys/argus.policy")
            .mcp("argus_explain", json!({ "key": "argus.policy" }))
            .brief(with_marked_example),
    ]
}

/// Commands with their responses.
fn output() -> Vec<Request> {
    let env = json!({ "environment": "same" });
    let case = |verb: &str| json!({ "environment": "same", "case": "one", "action": verb });
    vec![
        request("retry same")
            .post("/api/v1/commands/retry", env.clone())
            .mcp("argus_retry", env.clone()),
        request("retry same/web")
            .post(
                "/api/v1/commands/retry",
                json!({ "environment": "same", "service": "web" }),
            )
            .mcp("argus_retry", json!({ "environment": "same/web" })),
        request("hold same --for 1h")
            .post(
                "/api/v1/commands/hold",
                json!({ "environment": "same", "forSeconds": 3600 }),
            )
            .mcp("argus_hold", json!({ "environment": "same", "forSeconds": 3600 })),
        request("resume same")
            .post("/api/v1/commands/resume", env.clone())
            .mcp("argus_resume", env.clone()),
        request("breaker reset same")
            .post("/api/v1/commands/resetBreaker", env.clone())
            .mcp("argus_reset_circuit", env.clone()),
        request("breaker reset")
            .post("/api/v1/commands/resetBreaker", json!({}))
            .mcp("argus_reset_circuit", json!({})),
        request("test begin same --case two --holder agent-1 --purpose debugging")
            .post(
                "/api/v1/commands/beginTest",
                json!({ "environment": "same", "case": "two", "holder": "agent-1", "purpose": "debugging" }),
            )
            .mcp(
                "argus_test",
                json!({ "environment": "same", "case": "two", "action": "begin", "holder": "agent-1", "purpose": "debugging" }),
            ),
        request("get same")
            .get("/api/v1/environments/same")
            .mcp("argus_status", json!({ "environment": "same", "detail": "full" })),
        request("test end same --case two").post(
            "/api/v1/commands/endTest",
            json!({ "environment": "same", "case": "two" }),
        ),
        request("test begin same --case one")
            .post(
                "/api/v1/commands/beginTest",
                json!({ "environment": "same", "case": "one" }),
            )
            .mcp("argus_test", case("begin")),
        request("test end same --case one").post(
            "/api/v1/commands/endTest",
            json!({ "environment": "same", "case": "one" }),
        ),
        request("wait same --for gone --timeout 1s")
            .get("/api/v1/environments/same/wait?for=gone&timeoutSeconds=1")
            .mcp(
                "argus_wait",
                json!({ "environment": "same", "for": "gone", "timeoutSeconds": 1 }),
            ),
        request("cancel same")
            .post("/api/v1/commands/cancel", env.clone())
            .mcp("argus_cancel", env.clone()),
        request("resume same")
            .post("/api/v1/commands/resume", env.clone())
            .mcp("argus_resume", env.clone()),
        request("resume")
            .post("/api/v1/commands/resumeController", json!({}))
            .mcp("argus_resume", json!({})),
        request("orphans --clean").mcp("argus_orphans", json!({ "clean": true })),
        request("mock requests same web")
            .get("/api/v1/environments/same/mocks/web/requests")
            .mcp(
                "argus_mock_requests",
                json!({ "environment": "same", "mock": "web" }),
            ),
        request("restart same")
            .post("/api/v1/commands/restart", env.clone())
            .mcp("argus_restart", env.clone()),
        request("rollback same")
            .post("/api/v1/commands/rollback", env.clone())
            .mcp("argus_rollback", env),
    ]
}

/// Queries and commands about missing objects, with their errors.
fn missing() -> Vec<Request> {
    let no_one = json!({ "environment": "missing" });
    vec![
        request("fork missing copy")
            .post(
                "/api/v1/commands/fork",
                json!({ "environment": "missing", "to": "copy" }),
            )
            .mcp("argus_fork", json!({ "environment": "missing", "to": "copy" })),
        request("down missing")
            .post("/api/v1/commands/down", no_one.clone())
            .mcp("argus_down", no_one.clone()),
        request("cancel missing")
            .post("/api/v1/commands/cancel", no_one.clone())
            .mcp("argus_cancel", no_one.clone()),
        request("get missing")
            .get("/api/v1/environments/missing")
            .mcp("argus_status", no_one.clone()),
        request("why missing")
            .get("/api/v1/environments/missing/why")
            .mcp("argus_why", no_one.clone()),
        request("diff missing")
            .get("/api/v1/environments/missing/diff")
            .mcp("argus_diff", no_one.clone()),
        request("test results missing")
            .get("/api/v1/environments/missing/tests")
            .mcp("argus_test_results", no_one.clone()),
        request("network missing")
            .get("/api/v1/environments/missing/network")
            .mcp("argus_network", no_one.clone()),
        request("network missing --verify")
            .post("/api/v1/environments/missing/network", json!({}))
            .mcp(
                "argus_network",
                json!({ "environment": "missing", "verify": true }),
            ),
        request("plan missing")
            .get("/api/v1/plan?environment=missing")
            .mcp("argus_plan", no_one.clone()),
        request("network same/queue")
            .get("/api/v1/environments/same/services/queue/network")
            .mcp(
                "argus_network",
                json!({ "environment": "same", "service": "queue" }),
            ),
        request("plan same/queue")
            .get("/api/v1/plan?environment=same&service=queue")
            .mcp("argus_plan", json!({ "environment": "same", "service": "queue" })),
        request("wait same/queue")
            .get("/api/v1/environments/same/services/queue/wait")
            .mcp("argus_wait", json!({ "environment": "same", "service": "queue" })),
        request("retry same/queue")
            .post("/api/v1/commands/retry", json!({ "environment": "same/queue" }))
            .mcp(
                "argus_retry",
                json!({ "environment": "same", "service": "queue" }),
            ),
        request("down same/web")
            .post("/api/v1/commands/down", json!({ "environment": "same/web" }))
            .mcp("argus_down", json!({ "environment": "same/web" })),
        request("cancel web")
            .post("/api/v1/commands/cancel", json!({ "environment": "web" }))
            .mcp("argus_cancel", json!({ "environment": "web" })),
        request("evidence same db")
            .get("/api/v1/environments/same/services/db/evidence")
            .mcp(
                "argus_evidence",
                json!({ "environment": "same", "service": "db" }),
            ),
        request("incidents nothing")
            .get("/api/v1/incidents/nothing")
            .mcp("argus_incidents", json!({ "id": "nothing" })),
        request("retry missing")
            .post("/api/v1/commands/retry", no_one.clone())
            .mcp("argus_retry", no_one),
    ]
}

/// An object without some of its fields.
fn without(value: &mut Value, names: &[&str]) {
    for name in names {
        value.as_object_mut().map(|fields| fields.remove(*name));
    }
}

/// Removes the fields that differ from one response to the next, at any depth.
fn without_varying_fields(value: Value, checks: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let differs = |name: &str| VARYING_FIELDS.contains(&name) || (checks && name == "asOf");
            let kept = fields.into_iter().filter(|(name, _)| !differs(name));
            Value::Object(
                kept.map(|(name, value)| (name, without_varying_fields(value, checks)))
                    .collect(),
            )
        }
        Value::Array(all) => all
            .into_iter()
            .map(|value| without_varying_fields(value, checks))
            .collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// The CLI's JSON: from stdout, or an error from stderr.
fn by_cli(fixture: &HttpFixture<'_>, words: &str) -> Value {
    let mut args: Vec<&str> = words.split(' ').collect();
    args.extend(["-o", "json"]);
    let output = fixture.argus.cli(&args);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = if out.trim().is_empty() {
        // Notes precede the error.
        err.find('{').map_or("", |at| &err[at..])
    } else {
        &out
    };
    serde_json::from_str(text).unwrap_or_else(|why| panic!("argus {words}: {why}: {out}{err}"))
}

fn by_http(fixture: &HttpFixture<'_>, (method, path, body): &(&str, &str, Value)) -> Value {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = fixture.send(method, path, &body);
    let mut output = answer.json();
    assert!(!output.is_null(), "{method} {path}: {answer:?}");
    if !answer.ok() {
        without(&mut output, &PROBLEM);
    }
    output
}

/// The structured content, without the suggested next steps.
pub(crate) fn by_mcp(fixture: &HttpFixture<'_>, (tool, arguments): &(&str, Value)) -> Value {
    let mut output = call(&fixture.socket, tool, arguments, LIMIT);
    without(&mut output, &["nextSteps"]);
    match output.get("full").and_then(Value::as_array) {
        Some(full) => full[0].clone(),
        None => output,
    }
}

/// Queries all surfaces until they agree, because the state may change between two of them. Returns their values if
/// they do not within the limit.
fn difference(fixture: &HttpFixture<'_>, request: &Request, limit: Duration) -> Option<String> {
    let mut last = Value::Null;
    let same = wait::poll(limit, || {
        let plain = |value| without_varying_fields(value, request.checks);
        let cli = plain(by_cli(fixture, request.cli));
        let http = request.http.as_ref().map(|call| plain(by_http(fixture, call)));
        let mcp = request.mcp.as_ref().map(|call| plain(by_mcp(fixture, call)));
        let brief = (request.brief)(&cli);
        let same = |output: &Option<Value>, as_by_cli: &Value| {
            output.as_ref().is_none_or(|output| output == as_by_cli)
        };
        if same(&http, &cli) && same(&mcp, &brief) {
            return Some(());
        }
        last = json!({ "cli": cli, "http": http, "mcp": mcp });
        None
    });
    same.is_none()
        .then(|| format!("`argus {}` is {last:#}", request.cli))
}

/// Commands that work only once: each surface applies them to a copy of its own.
fn copies_are_made_and_removed_alike(fixture: &HttpFixture<'_>) {
    let plain = |name: &str, output: Value| -> Value {
        serde_json::from_str(&output.to_string().replace(name, "copy")).expect("JSON")
    };
    let to = |name: &str| json!({ "environment": "same", "to": name });
    let cli = plain("same-cli", by_cli(fixture, "fork same same-cli"));
    assert_eq!(
        (&cli["verb"], &cli["kind"]),
        (&json!("fork"), &json!("forked")),
        "{cli:#}"
    );
    let http = by_http(fixture, &("POST", "/api/v1/commands/fork", to("same-http")));
    let mcp = by_mcp(fixture, &("argus_fork", to("same-mcp")));
    assert_eq!(
        [plain("same-http", http), plain("same-mcp", mcp)],
        [cli.clone(), cli]
    );

    let of = |name: &str| json!({ "environment": name });
    let http = by_http(fixture, &("POST", "/api/v1/commands/down", of("same-http")));
    let mcp = by_mcp(fixture, &("argus_down", of("same-mcp")));
    assert_eq!(plain("same-http", http), plain("same-mcp", mcp));
    // The command waits for completion, so its output describes the result.
    assert_eq!(by_cli(fixture, "down same-cli"), json!({ "gone": ["same-cli"] }));
    let cleaned = by_http(fixture, &("POST", "/api/v1/commands/cleanOrphans", json!({})));
    assert_eq!(cleaned, json!({ "verb": "cleanOrphans", "kind": "done" }));
}

#[test]
fn interfaces_return_the_same_json() {
    // Some answers describe the whole engine.
    let engine = PrivateEngine::start();
    images(&engine);
    let fixture = HttpFixture::of(Controller::start(&engine, listening(&[])));
    fixture.argus.write_spec("e2e.yaml", &shop("same", 18750, "one"));
    fixture.argus.wait_ready("same", LIMIT);
    engine.kill_all_in("same-web");
    fixture.argus.wait_status("same", LIMIT, "healed", |status| {
        status["phase"] == "Ready" && Controller::service(status, "web")["restarts"] == 1
    });
    // A run without a clean end leaves an incident.
    fixture.argus.kill9();
    fixture.argus.start_again();
    fixture.argus.wait_until(LIMIT, "the controller works again", || {
        let answer = by_cli(&fixture, "incidents");
        let ready =
            UnixStream::connect(&fixture.socket).is_ok() && fixture.send("GET", "/readyz", "").status == 200;
        (ready && !answer["items"].as_array()?.is_empty()).then_some(())
    });
    let id = by_cli(&fixture, "incidents")["items"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let one = [
        by_cli(&fixture, &format!("incidents {id}")),
        by_http(
            &fixture,
            &("GET", &format!("/api/v1/incidents/{id}"), Value::Null),
        ),
        by_mcp(&fixture, &("argus_incidents", json!({ "id": id }))),
    ];
    assert!(one[0] == one[1] && one[1] == one[2], "{one:#?}");
    copies_are_made_and_removed_alike(&fixture);
    let all = shown().into_iter().chain(output()).chain(missing());
    let mut differences = Vec::new();
    for request in all {
        // The test fails anyway, so a further difference is not waited for.
        let limit = if differences.is_empty() {
            LIMIT
        } else {
            Duration::ZERO
        };
        differences.extend(difference(&fixture, &request, limit));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
