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
