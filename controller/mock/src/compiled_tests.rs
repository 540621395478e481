//! Compiled mocks: from requests to responses.

use argus_core::time::Timestamp;
use bytes::Bytes;
use serde_json::Value;

use super::*;

const NOW: Moment = Moment {
    now: Timestamp(0),
    random: 0,
};

fn compile(mock: &Value) -> CompiledMock {
    let config = MockConfig::new("m", serde_json::from_value(mock.clone()).unwrap(), None);
    let (compiled, diagnostics) = CompiledMock::new(&config, Vec::new());
    compiled.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn get(compiled: &CompiledMock, path: &str) -> MockReply {
    match compiled.decide(&Request::new("GET", path, Vec::new(), Bytes::new()), NOW) {
        Decision::Reply(answer) => answer,
        Decision::Forward(target) => panic!("{target:?}"),
    }
}

#[test]
fn general_override_wins_over_specific_route() {
    let mock = json!({
        "port": 1,
        "routes": [{ "method": "GET", "path": "/a", "response": { "body": "route" } }],
        "overrides": [{ "method": "ANY", "path": "/*", "response": { "body": "override" } }],
    });
    assert_eq!(get(&compile(&mock), "/a").body, "override");
}

#[test]
fn unmatched_request_gets_json_with_the_nearest_route() {
    let mock = json!({ "port": 1, "routes": [{ "method": "GET", "path": "/users/:id" }] });
    let answer = get(&compile(&mock), "/user/1");
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(body["error"]["code"], "MOCK_NO_ROUTE");
    assert_eq!(
        body["error"]["details"]["nearest"]["route"],
        "routes[0] GET /users/:id"
    );
    assert_eq!(
        body["error"]["message"],
        "no route matches `GET /user/1`; the nearest is `routes[0] GET /users/:id`: segment 1 is `user`, not `users`"
    );
}

#[test]
fn reserved_path_is_detected_in_every_spelling() {
    let reserved = |path: &str| is_reserved(&Request::new("GET", path, Vec::new(), Bytes::new()));
    assert!(reserved("/__argus") && reserved("/__argus/requests?x") && reserved("/a/../%5f_argus/health"));
    assert!(!reserved("/__arguse") && !reserved("/a/__argus") && !reserved("/"));
}

fn send(
    compiled: &CompiledMock,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> MockReply {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let request = Request::new(method, path, headers.collect(), Bytes::from(body.to_owned()));
    match compiled.decide(&request, NOW) {
        Decision::Reply(answer) => answer,
        Decision::Forward(target) => panic!("{target:?}"),
    }
}

fn header<'a>(reply: &'a MockReply, name: &str) -> Option<&'a str> {
    let mut named = reply.headers.iter().filter(|(found, _)| found == name);
    named.next().map(|(_, value)| value.as_str())
}

/// Compiles the mock `m` of a spec file.
fn of_file(mock: &str) -> CompiledMock {
    let text = format!("project: {{ name: a }}\nmocks:\n  m: {mock}\n");
    let parsed = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let spec = parsed.spec.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    // The configuration reaches the mock server as JSON.
    let config = MockConfig::new("m", spec.mocks["m"].clone(), None);
    let config: MockConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    CompiledMock::new(&config, Vec::new()).0.unwrap()
}

#[test]
fn numbers_are_sent_as_they_are_written() {
    let mock = of_file(
        "{ port: 1, routes: [{ method: GET, path: /id, response: { body: { id: 738421905561190401, wide: 123456789012345678901234567890, price: 2.50, whole: 3.0, list: [1e5, -0.10] } } }, \
         { method: POST, path: /echo, response: { body: { got: '{{request.body}}', p: '{{request.body.p}}', text: 'p={{request.body.p}}' } } }, \
         { method: POST, path: /p, response: { body: '{{request.body.p}}' } }, { method: GET, path: /one, response: { body: 2.50 } }] }",
    );
    let wanted = r#"{"id":738421905561190401,"wide":123456789012345678901234567890,"price":2.50,"whole":3.0,"list":[1e5,-0.10]}"#;
    assert_eq!(get(&mock, "/id").body, wanted);
    let body = r#"{"n":123456789012345678901234567890,"p":2.50}"#;
    let reply = send(&mock, "POST", "/echo", &[], body);
    assert_eq!(
        reply.body,
        format!("{{\"got\":{body},\"p\":2.50,\"text\":\"p=2.50\"}}")
    );
    for reply in [send(&mock, "POST", "/p", &[], body), get(&mock, "/one")] {
        assert_eq!(reply.body, "2.50");
        assert_eq!(header(&reply, "content-type"), Some("application/json"));
    }
}

#[test]
fn condition_on_a_number_compares_all_digits() {
    let mock = of_file(
        "{ port: 1, routes: [{ method: POST, path: /, when: { body: { id: 123456789012345678901234567890, rows.0: 9007199254740993, price: 2.5 } }, response: { body: ok } }] }",
    );
    for (body, status) in [
        (
            r#"{"id":123456789012345678901234567890,"rows":[9007199254740993],"price":2.50}"#,
            200,
        ),
        (
            r#"{"id":123456789012345678901234567891,"rows":[9007199254740993],"price":2.5}"#,
            404,
        ),
        (
            r#"{"id":123456789012345678901234567890,"rows":[9007199254740992],"price":2.5}"#,
            404,
        ),
        (
            r#"{"id":"123456789012345678901234567890","rows":[9007199254740993],"price":2.5}"#,
            404,
        ),
    ] {
        assert_eq!(send(&mock, "POST", "/", &[], body).status, status, "{body}");
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let form_mock =
        of_file("{ port: 1, routes: [{ method: POST, path: /, when: { body: { price: 2.50 } } }] }");
    assert_eq!(send(&form_mock, "POST", "/", &form, "price=2.50").status, 200);
    assert_eq!(send(&form_mock, "POST", "/", &form, "price=2.51").status, 404);
}

#[test]
fn preflight_of_a_browser_is_answered() {
    let mock = json!({ "port": 1, "routes": [
        { "method": "POST", "path": "/a", "response": { "headers": { "X-Total": "3" }, "body": { "n": 1 } } },
        { "method": "ANY", "path": "/any" },
        { "method": "OPTIONS", "path": "/own", "response": { "status": 200, "headers": { "access-control-allow-origin": "https://own" } } },
    ] });
    let mut mock = mock;
    let compiled = compile(&mock);
    let origin = ("Origin", "http://localhost:5173");
    let preflight = [
        origin,
        ("Access-Control-Request-Method", "DELETE"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    for path in ["/a", "/any", "/none"] {
        let reply = send(&compiled, "OPTIONS", path, &preflight, "");
        assert_eq!(reply.status, 204, "{path}");
        assert_eq!(header(&reply, "access-control-allow-origin"), Some(origin.1));
        assert_eq!(header(&reply, "access-control-allow-methods"), Some("DELETE"));
        assert_eq!(
            header(&reply, "access-control-allow-headers"),
            Some("authorization,content-type")
        );
        assert_eq!(header(&reply, "access-control-allow-credentials"), Some("true"));
    }
    let own = send(&compiled, "OPTIONS", "/own", &preflight, "");
    assert_eq!(
        (own.status, header(&own, "access-control-allow-origin")),
        (200, Some("https://own"))
    );
    // A request without the headers of a preflight is an ordinary one.
    assert_eq!(send(&compiled, "OPTIONS", "/a", &[origin], "").status, 404);
    let reply = send(&compiled, "POST", "/a", &[origin], "{}");
    assert_eq!(header(&reply, "access-control-allow-origin"), Some(origin.1));
    assert_eq!(
        header(&reply, "access-control-expose-headers"),
        Some("x-total, content-type")
    );
    // Errors are readable too, and pages of other hosts get no credentials.
    let error = send(
        &compiled,
        "GET",
        "/none",
        &[("Origin", "https://example.org")],
        "",
    );
    assert_eq!(
        (error.status, header(&error, "access-control-allow-origin")),
        (404, Some("*"))
    );
    assert_eq!(header(&error, "access-control-allow-credentials"), None);
    // Other clients get the headers of the file only.
    assert_eq!(
        header(
            &send(&compiled, "POST", "/a", &[], "{}"),
            "access-control-allow-origin"
        ),
        None
    );
    mock["cors"] = json!(false);
    let off = compile(&mock);
    assert_eq!(send(&off, "OPTIONS", "/a", &preflight, "").status, 404);
    assert_eq!(
        header(
            &send(&off, "POST", "/a", &[origin], "{}"),
            "access-control-allow-origin"
        ),
        None
    );
}
