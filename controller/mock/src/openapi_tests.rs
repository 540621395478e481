//! Tables of request violations, smart responses, and diagnostics about documents.

use bytes::Bytes;
use serde_json::json;

use super::*;

const SHOP: &str = r##"
openapi: 3.0.3
info: { title: shop, version: "1" }
paths:
  /orders/{orderId}:
    parameters:
      - { name: orderId, in: path, required: true, schema: { type: integer, minimum: 1 } }
    put:
      parameters:
        - { name: dry, in: query, schema: { type: boolean } }
        - { name: tags, in: query, schema: { type: array, items: { type: string, enum: [a, b] } } }
        - { name: ids, in: query, explode: false, schema: { type: array, items: { type: integer } } }
        - { name: filter, in: query, style: deepObject, schema: { type: object, required: [from], properties: { from: { type: integer } } } }
        - { name: X-Trace, in: header, required: true, schema: { type: string, format: uuid } }
        - { name: sid, in: cookie, schema: { type: string, minLength: 3 } }
      requestBody:
        required: true
        content:
          application/json:
            schema: { $ref: "#/components/schemas/Order" }
          application/x-www-form-urlencoded:
            schema: { $ref: "#/components/schemas/Order" }
      responses:
        "200": { description: ok, content: { application/json: { schema: { $ref: "#/components/schemas/Order" } } } }
components:
  schemas:
    Order:
      type: object
      required: [id, lines, amount]
      properties:
        id: { type: integer, readOnly: true }
        amount: { type: number, minimum: 0 }
        note: { type: string, nullable: true, maxLength: 5 }
        lines: { type: array, items: { type: object, required: [sku], properties: { sku: { type: string } } } }
"##;
const TRACE: &str = "x-trace: 00000000-0000-4000-8000-000000000000";

fn shop() -> Document {
    let (document, diagnostics) = Document::read(SHOP, 3);
    document.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn request(target: &str, headers: &[&str], body: &str) -> Request {
    let pair = |header: &&str| {
        header
            .split_once(": ")
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let headers = headers.iter().filter_map(pair).collect();
    Request::new("PUT", target, headers, Bytes::from(body.to_owned()))
}

/// Returns one line per violation: part of the request, name, pointer and message.
fn violations(target: &str, headers: &[&str], body: &str) -> Vec<String> {
    let (document, request) = (shop(), request(target, headers, body));
    let segments = crate::path::segments(&request.path);
    let (operation, params) = document.find(&request, &segments).unwrap();
    let found = document.violations(operation, &request, &params);
    let line = |violation: &Violation| {
        let name = violation.name.clone().unwrap_or_default();
        format!(
            "{} {name}{}: {}",
            violation.place, violation.pointer, violation.message
        )
    };
    found.iter().map(line).collect()
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table of cases")]
fn violations_are_reported_with_their_location() {
    let good = r#"{"lines":[{"sku":"a"}],"amount":1,"note":null}"#;
    let form = "content-type: application/x-www-form-urlencoded";
    let cases: &[(&str, &[&str], &str, &[&str])] = &[
        (
            "/orders/7?dry=true&tags=a&tags=b&ids=1,2&filter[from]=3",
            &[TRACE, "cookie: a=b; sid=abc"],
            good,
            &[],
        ),
        (
            "/orders/x",
            &[TRACE],
            good,
            &["path orderId: \"x\" is not of type \"integer\""],
        ),
        (
            "/orders/0",
            &[TRACE],
            good,
            &["path orderId: 0 is less than the minimum of 1"],
        ),
        (
            "/orders/7",
            &[],
            good,
            &["header X-Trace: it is required but missing"],
        ),
        (
            "/orders/7",
            &["x-trace: u"],
            good,
            &["header X-Trace: \"u\" is not a \"uuid\""],
        ),
        (
            "/orders/7?dry=yes",
            &[TRACE],
            good,
            &["query dry: \"yes\" is not of type \"boolean\""],
        ),
        (
            "/orders/7?tags=a&tags=c",
            &[TRACE],
            good,
            &["query tags/1: \"c\" is not one of \"a\" or \"b\""],
        ),
        (
            "/orders/7?ids=1,b",
            &[TRACE],
            good,
            &["query ids/1: \"b\" is not of type \"integer\""],
        ),
        (
            "/orders/7?filter[to]=1",
            &[TRACE],
            good,
            &["query filter: \"from\" is a required property"],
        ),
        (
            "/orders/7",
            &[TRACE, "cookie: sid=x"],
            good,
            &["cookie sid: \"x\" is shorter than 3 characters"],
        ),
        ("/orders/7", &[TRACE], "", &["body : it is required but missing"]),
        (
            "/orders/7",
            &[TRACE],
            "{",
            &["body : it is not valid JSON: EOF while parsing an object at line 1 column 1"],
        ),
        (
            "/orders/7",
            &[TRACE],
            r#"{"lines":[{}],"amount":-1}"#,
            &[
                "body /lines/0: \"sku\" is a required property",
                "body /amount: -1 is less than the minimum of 0",
            ],
        ),
        ("/orders/7", &[TRACE, form], "amount=3&lines={\"sku\":\"a\"}", &[]),
        (
            "/orders/7",
            &[TRACE, form],
            "amount=x&lines={\"sku\":\"a\"}",
            &["body /amount: \"x\" is not of type \"number\""],
        ),
        (
            "/orders/7",
            &[TRACE, "content-type: text/csv"],
            "a,b",
            &[
                "body : its type is `text/csv`, but the document accepts only `application/json`, `application/x-www-form-urlencoded`",
            ],
        ),
    ];
    for (target, headers, body, wanted) in cases {
        assert_eq!(
            violations(target, headers, body),
            *wanted,
            "{target} {headers:?} {body}"
        );
    }
}

#[test]
fn smart_response_copies_valid_values_from_the_request() {
    let document = shop();
    let answer = |body: &str, smart: bool| -> Value {
        let request = request("/orders/7", &[TRACE], body);
        let (operation, params) = document
            .find(&request, &crate::path::segments(&request.path))
            .unwrap();
        serde_json::from_slice(&document.answer(operation, &request, &params, smart).body).unwrap()
    };
    let body = r#"{"lines":[{"sku":"mine"}],"amount":"12.5","note":"far too long","other":1}"#;
    let smart = answer(body, true);
    assert_eq!((&smart["id"], &smart["amount"]), (&json!(7), &json!(12.5)));
    assert_eq!(smart["lines"], json!([{ "sku": "mine" }]));
    assert_ne!(smart["note"], "far too long");
    assert!(smart.get("other").is_none(), "{smart}");
    assert_ne!(answer(body, false)["lines"], smart["lines"]);
    assert_eq!(answer("", true)["id"], 7);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table of cases")]
fn document_errors_are_reported_with_their_line() {
    let head = "openapi: 3.1.0\ninfo: { title: t, version: \"1\" }\n";
    let with = |rest: &str| format!("{head}{rest}");
    let ok = "responses: { \"200\": { description: ok } }";
    let cases = [
        ("swagger: \"2.0\"\n".to_owned(), 1, "Swagger 2.0 is not supported"),
        (
            "openapi: 4.0.0\n".to_owned(),
            1,
            "OpenAPI version `4.0.0` is not supported",
        ),
        (
            "a: 1\n".to_owned(),
            1,
            "this is not an OpenAPI document, because it has no `openapi`",
        ),
        (with("paths: [a]\n"), 3, "`paths` must be a map"),
        (
            with(&format!("paths:\n  users:\n    get: {{ {ok} }}\n")),
            4,
            "the path `users` does not start with `/`",
        ),
        (
            with(&format!("paths:\n  /__argus/x:\n    get: {{ {ok} }}\n")),
            4,
            "the path `/__argus/x` is below `/__argus`, which is reserved for the mock server",
        ),
        (
            with(&format!("paths:\n  /a/{{id}}:\n    get: {{ {ok} }}\n")),
            5,
            "`GET /a/{id}` declares no parameter `id` in `path`",
        ),
        (
            with("paths:\n  /a:\n    get: { responses: { \"20\": { description: d } } }\n"),
            5,
            "`20` of `GET /a` is not a valid status",
        ),
        (
            with("paths:\n  /a:\n    get: {}\n"),
            5,
            "`GET /a` has no responses, so its response is an empty 200",
        ),
        (
            with(
                "paths:\n  /a:\n    get:\n      responses:\n        \"200\": { $ref: \"#/components/x\" }\n",
            ),
            7,
            "`#/components/x` does not exist in this document",
        ),
        (
            with("paths:\n  /a:\n    get:\n      responses:\n        \"200\": { $ref: \"other.yaml#/x\" }\n"),
            7,
            "`other.yaml#/x` refers to another document, only `#/…` is supported",
        ),
        (
            with(&format!(
                "paths:\n  /a:\n    get:\n      parameters: [{{ name: a, in: body }}]\n      {ok}\n"
            )),
            6,
            "a parameter of `GET /a` needs a `name`, and `in` with one of `path`, `query`, `header`, `cookie`",
        ),
        (
            with("paths: {}\ncomponents:\n  schemas:\n    A:\n      properties: { a: { pattern: \"(\" } }\n"),
            7,
            "`(` is not a valid regular expression: \"(\" is not a \"regex\"",
        ),
        (
            with("paths: {}\ncomponents:\n  schemas:\n    A:\n      type: strnig\n"),
            7,
            "this schema is invalid: \"strnig\" is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
        (
            with(
                "paths:\n  /a:\n    get:\n      responses:\n        \"200\":\n          description: ok\n          content:\n            application/json:\n              schema: { type: integer }\n              example: x\n",
            ),
            12,
            "this example violates its schema and is ignored: ``: \"x\" is not of type \"integer\"",
        ),
        (
            "openapi: [\n".to_owned(),
            1,
            "this is not valid YAML: while parsing a flow sequence, expected ',' or ']'",
        ),
    ];
    for (text, line, message) in cases {
        let diagnostics = check_openapi(&text);
        let found: Vec<_> = diagnostics
            .iter()
            .map(|found| (found.location.map(|place| place.line), found.message.as_str()))
            .collect();
        let [(line_found, message_found)] = found.as_slice() else {
            panic!("{text}\n{found:?}")
        };
        if text.contains('[') && message.contains("not valid YAML") {
            assert!(
                message_found.starts_with("this is not valid YAML"),
                "{message_found}"
            );
            continue;
        }
        assert_eq!((*line_found, *message_found), (Some(line), message), "{text}");
    }
}

#[test]
fn unusual_documents_never_panic() {
    let document = SHOP.as_bytes();
    for end in (0..document.len()).step_by(7) {
        let _ = check_openapi(&String::from_utf8_lossy(&document[..end]));
    }
    let deep = format!("openapi: 3.1.0\npaths: {}{}\n", "{a: ".repeat(40), "}".repeat(40));
    assert!(check_openapi(&deep)[0].message.contains("nests deeper"));
    // A schema that only refers to itself, and an infinitely nested one.
    for schema in [
        "{ $ref: \"#/components/schemas/A\" }",
        "{ type: object, required: [a], properties: { a: { $ref: \"#/components/schemas/A\" } } }",
    ] {
        let text = format!(
            "openapi: 3.1.0\npaths:\n  /a:\n    put:\n      responses:\n        \"200\":\n          description: ok\n          content: {{ application/json: {{ schema: {{ $ref: \"#/components/schemas/A\" }} }} }}\ncomponents:\n  schemas:\n    A: {schema}\n"
        );
        let (document, diagnostics) = Document::read(&text, 3);
        let Some(document) = document else {
            assert_eq!(diagnostics[0].message, "this schema refers to itself without end");
            continue;
        };
        let request = request("/a", &[], "");
        let (operation, params) = document.find(&request, &["a".to_owned()]).unwrap();
        let answer = document.answer(operation, &request, &params, false);
        assert!([200, 500].contains(&answer.status), "{diagnostics:?} {answer:?}");
    }
}
