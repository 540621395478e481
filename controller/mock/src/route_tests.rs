//! Tables of routes, requests and the matching route.

use argus_core::time::Timestamp;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::path::segments;

const NOW: Moment = Moment {
    now: Timestamp(0),
    random: 0,
};

fn table(routes: &Value) -> (Table, Vec<Diagnostic>) {
    let routes: Vec<MockRoute> = serde_json::from_value(routes.clone()).unwrap();
    let mut diagnostics = Vec::new();
    let table = Table::new(&routes, "routes", "mocks.m", &mut diagnostics);
    (table, diagnostics)
}

fn send(table: &Table, method: &str, target: &str, body: &str) -> Result<MockReply, Option<Nearest>> {
    let request = Request::new(method, target, Vec::new(), Bytes::from(body.to_owned()));
    table.answer(&request, &segments(&request.path), NOW)
}

/// Returns the name of the matching route, otherwise the nearest one with the difference.
fn match_name(table: &Table, method: &str, target: &str, body: &str) -> String {
    match send(table, method, target, body) {
        Ok(answer) => answer.by.unwrap_or_default(),
        Err(Some(nearest)) => format!("{}: {}", nearest.route, nearest.because),
        Err(None) => "nothing near".to_owned(),
    }
}

#[test]
fn response_of_repeated_request_bodies_is_bounded() {
    let echo = |times: usize| {
        let body = "{{request.body}}".repeat(times);
        let (table, _) = table(&json!([{ "method": "POST", "path": "/", "response": { "body": [body] } }]));
        let answer = send(&table, "POST", "/", &format!("\"{}\"", "x".repeat(100_000))).unwrap();
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    let (status, body) = echo(100);
    assert!(
        status == 200 && body.len() > 10_000_000,
        "{status} {}",
        body.len()
    );
    let (status, body) = echo(1_000);
    assert!(
        status == 500 && body.contains("its templates need more than"),
        "{status} {body}"
    );
}

#[test]
fn most_specific_route_matches_then_the_first_in_the_file() {
    let (table, diagnostics) = table(&json!([
        { "method": "*", "path": "*" },
        { "method": "get", "path": "/users/:id" },
        { "method": "GET", "path": "/users/me" },
        { "method": "ANY", "path": "/users/me" },
        { "method": "POST", "path": "/users", "when": { "body": { "kind": "a" } } },
        { "method": "POST", "path": "/users", "when": { "body": { "kind": "a", "size": 1 } } },
        { "method": "POST", "path": "/users" },
        { "method": "GET", "path": "/users/{user}" },
        { "method": "POST", "path": "/users", "when": { "query": { "x": "1" } } },
    ]));
    let [unused] = diagnostics.as_slice() else {
        panic!("{diagnostics:?}")
    };
    assert_eq!(unused.path, "mocks.m.routes[7].path");
    let cases = [
        ("GET", "/users/me", "", "routes[2] GET /users/me"),
        ("HEAD", "/users/me", "", "routes[3] ANY /users/me"),
        ("DELETE", "/users/me", "", "routes[3] ANY /users/me"),
        ("GET", "/users/7", "", "routes[1] GET /users/:id"),
        ("POST", "/users", "{\"kind\":\"a\"}", "routes[4] POST /users"),
        ("POST", "/users?x=1", "{\"kind\":\"a\"}", "routes[4] POST /users"),
        ("POST", "/users?x=1", "{\"kind\":\"b\"}", "routes[8] POST /users"),
        (
            "POST",
            "/users",
            "{\"kind\":\"a\",\"size\":1}",
            "routes[5] POST /users",
        ),
        ("POST", "/users", "", "routes[6] POST /users"),
        ("PATCH", "/users/7", "", "routes[0] * *"),
    ];
    for (method, target, body, wanted) in cases {
        assert_eq!(
            match_name(&table, method, target, body),
            wanted,
            "{method} {target} {body}"
        );
    }
}

#[test]
fn unmatched_request_names_nearest_route_and_difference() {
    let (table, _) = table(&json!([
        { "method": "GET", "path": "/users/:id/posts" },
        { "method": "POST", "path": "/login", "when": { "headers": { "x-key": "k" } } },
        { "method": "GET", "path": "/health" },
    ]));
    let cases = [
        (
            "GET",
            "/user/7/posts",
            "routes[0] GET /users/:id/posts: segment 1 is `user`, not `users`",
        ),
        (
            "GET",
            "/users/7",
            "routes[0] GET /users/:id/posts: the path has 2 segments, not 3",
        ),
        (
            "POST",
            "/login",
            "routes[1] POST /login: header `x-key` is missing",
        ),
        (
            "POST",
            "/health",
            "routes[2] GET /health: the method is POST, not GET",
        ),
        (
            "GET",
            "//health",
            "routes[2] GET /health: segment 1 is ``, not `health`",
        ),
    ];
    for (method, target, wanted) in cases {
        assert_eq!(
            match_name(&table, method, target, ""),
            wanted,
            "{method} {target}"
        );
    }
    assert_eq!(match_name(&Table::default(), "GET", "/", ""), "nothing near");
}

#[test]
fn content_type_follows_the_body_unless_the_file_sets_it() {
    let cases = [
        (json!({}), "", None),
        (json!({ "body": "hi" }), "hi", Some("text/plain; charset=utf-8")),
        (
            json!({ "body": { "a": 1 } }),
            "{\"a\":1}",
            Some("application/json"),
        ),
        (json!({ "body": [1, null] }), "[1,null]", Some("application/json")),
        (json!({ "body": false }), "false", Some("application/json")),
        (
            json!({ "body": "<a/>", "headers": { "Content-Type": "text/xml" } }),
            "<a/>",
            Some("text/xml"),
        ),
        (
            json!({ "body": "{{request.query.n}}" }),
            "4",
            Some("text/plain; charset=utf-8"),
        ),
        (json!({ "body": "{{timestamp}}" }), "0", Some("application/json")),
    ];
    for (response, body, kind) in cases {
        let (table, _) = table(&json!([{ "method": "GET", "path": "/", "response": response }]));
        let answer = send(&table, "GET", "/?n=4", "").unwrap();
        let found = answer.headers.iter().find(|(name, _)| name == "content-type");
        assert_eq!(answer.body, body, "{response}");
        assert_eq!(found.map(|(_, value)| value.as_str()), kind, "{response}");
    }
}

#[test]
fn header_resolves_templates_without_line_breaks() {
    let response = json!({ "status": 201, "headers": { "Location": "/users/{{request.query.id}}", "Content-Length": 3 } });
    let (table, diagnostics) = table(&json!([{ "method": "GET", "path": "/", "response": response }]));
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    let answer = send(&table, "GET", "/?id=7%0d%0aX:%20y", "").unwrap();
    assert_eq!(
        answer.headers,
        [("location".to_owned(), "/users/7  X: y".to_owned())]
    );
}

#[test]
fn invalid_route_is_reported_with_its_path() {
    let cases = [
        (
            json!({ "method": "GET", "path": "/__argus/requests" }),
            "mocks.m.routes[0].path",
            true,
        ),
        (
            json!({ "method": "GET", "path": "/%5f_argus" }),
            "mocks.m.routes[0].path",
            true,
        ),
        (
            json!({ "method": "G T", "path": "/" }),
            "mocks.m.routes[0].method",
            true,
        ),
        (
            json!({ "method": "", "path": "/" }),
            "mocks.m.routes[0].method",
            true,
        ),
        (
            json!({ "method": "GET", "path": "/", "response": { "status": 101 } }),
            "mocks.m.routes[0].response.status",
            true,
        ),
        (
            json!({ "method": "GET", "path": "/", "response": { "headers": { "a b": "c" } } }),
            "mocks.m.routes[0].response.headers.a b",
            true,
        ),
        (
            json!({ "method": "GET", "path": "/", "response": { "headers": { "a": "c\nd" } } }),
            "mocks.m.routes[0].response.headers.a",
            true,
        ),
        (
            json!({ "method": "GET", "path": "/a?b=c" }),
            "mocks.m.routes[0].path",
            false,
        ),
        (
            json!({ "method": "GET", "path": "/:a(x)" }),
            "mocks.m.routes[0].path",
            false,
        ),
        (
            json!({ "method": "GET", "path": "/:id", "response": { "body": [{ "a": "{{request.params.i}}" }] } }),
            "mocks.m.routes[0].response.body[0].a",
            false,
        ),
    ];
    for (route, path, is_error) in cases {
        let (_, diagnostics) = table(&json!([route]));
        let [diagnostic] = diagnostics.as_slice() else {
            panic!("{route}: {diagnostics:?}")
        };
        assert_eq!(
            (diagnostic.path.as_str(), diagnostic.is_error()),
            (path, is_error),
            "{diagnostic:?}"
        );
        assert!(diagnostic.hint.is_some(), "{diagnostic:?}");
    }
    let duplicates = json!([
        { "method": "get", "path": "/a" },
        { "method": "GET", "path": "/:b" },
        { "method": "GET", "path": "/a/" },
        { "method": "GET", "path": "/{c}" },
        { "method": "GET", "path": "/a", "when": { "query": { "x": "1" } } },
    ]);
    let (_, diagnostics) = table(&duplicates);
    let messages: Vec<&str> = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "this route never matches: `routes[0] GET /a` matches the same requests first",
            "this route never matches: `routes[1] GET /:b` matches the same requests first",
        ]
    );
}

proptest! {
    #[test]
    fn lower_rank_wins_in_any_order_of_the_file(
        parts in prop::collection::vec(("[a-c]", 0..4_u8, 0..4_u8), 1..5),
        turned in any::<bool>(),
    ) {
        let text = |which: fn(&(String, u8, u8)) -> u8| {
            let piece = |part: &(String, u8, u8)| match which(part) {
                0 | 3 => format!("/{}", part.0),
                1 => format!("/:p{}", part.0),
                _ => "/*".to_owned(),
            };
            parts.iter().map(piece).collect::<String>()
        };
        let (one, two) = (text(|part| part.1), text(|part| part.2));
        let target = format!("/{}", parts.iter().map(|part| part.0.as_str()).collect::<Vec<_>>().join("/"));
        let order = if turned { [&two, &one] } else { [&one, &two] };
        let (table, _) = table(&json!([
            { "method": "GET", "path": order[0] },
            { "method": "GET", "path": order[1] },
        ]));
        let by = send(&table, "GET", &target, "").unwrap().by.unwrap();
        let best = Pattern::new(&one).rank().min(Pattern::new(&two).rank());
        let path = by.rsplit(' ').next().unwrap();
        prop_assert_eq!(Pattern::new(path).rank(), best);
    }
}
