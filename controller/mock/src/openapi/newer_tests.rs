//! Documents of newer versions, data that resembles references, and schemas that contain themselves.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

fn read(text: &str, max_depth: u32) -> (Document, Vec<String>) {
    let (document, diagnostics) = Document::read(text, max_depth);
    let lines = diagnostics.iter().map(|found| {
        let line = found.location.map_or(0, |location| location.line);
        format!("{line}: {}", found.message)
    });
    let lines = lines.collect();
    (document.unwrap_or_else(|| panic!("{diagnostics:?}")), lines)
}

fn answer(document: &Document, method: &str, path: &str) -> (u16, String) {
    let request = Request::new(method, path, Vec::new(), Bytes::new());
    let segments = crate::path::segments(path);
    let (operation, params) = document.find(&request, &segments).unwrap();
    let reply = document.answer(operation, &request, &params, false);
    (reply.status, String::from_utf8(reply.body.to_vec()).unwrap())
}

const NEW: &str = r#"openapi: 3.2.0
info: { title: New parts, version: "1" }
paths:
  /rooms:
    query:
      requestBody: { content: { application/json: { schema: { type: object } } } }
      responses: { "200": { content: { application/json: { schema: { const: found } } } } }
    additionalOperations:
      LOCK: { responses: { "200": { content: { application/json: { schema: { const: locked } } } } } }
    get:
      parameters: [{ name: all, in: querystring, content: { application/x-www-form-urlencoded: {} } }]
      responses: { "200": { content: { application/json: { examples: { one: { dataValue: [1] } } } } } }
  /feed:
    get:
      responses:
        "200":
          content:
            text/event-stream:
              itemSchema: { type: object }
              examples: { one: { serializedValue: "data: x\n\n" } }
"#;

#[test]
fn parts_of_openapi_3_2_are_served_or_named() {
    let (document, lines) = read(NEW, 3);
    assert_eq!(
        lines,
        [
            "11: parameters in `querystring` are not supported, so requests are not checked for them",
            "19: `itemSchema` is not supported, so only examples are sent",
        ]
    );
    for (method, path, body) in [
        ("QUERY", "/rooms", "\"found\""),
        ("LOCK", "/rooms", "\"locked\""),
        ("GET", "/rooms", "[1]"),
        ("GET", "/feed", "data: x\n\n"),
    ] {
        assert_eq!(
            answer(&document, method, path),
            (200, body.to_owned()),
            "{method} {path}"
        );
    }
    // In older versions, these keys have no meaning.
    let (old, _) = read(&NEW.replace("3.2.0", "3.1.0").replace("querystring", "query"), 3);
    let request = Request::new("QUERY", "/rooms", Vec::new(), Bytes::new());
    assert!(old.find(&request, &["rooms".to_owned()]).is_err());
}

#[test]
fn reference_in_data_is_data() {
    let text = r##"openapi: 3.1.0
info: { title: Shelves, version: "1" }
x-guides: [{ title: Start, content: { $ref: ./guides/start.md } }]
paths:
  /shelves:
    x-owner: { $ref: ./owners.yaml }
    get:
      x-samples: [{ lang: sh, source: { $ref: samples/list.sh } }]
      responses:
        "200":
          description: ok
          headers: { x-next: { schema: { x-source: { $ref: a.md }, type: string } } }
          content:
            application/json:
              schema: { type: object, x-go: { $ref: b.go }, properties: { $ref: { type: string } } }
              examples: { one: { value: { $ref: shelf.json } }, two: { $ref: "#/components/examples/E" } }
components:
  examples: { E: { value: { $ref: other.json } } }
"##;
    let (document, lines) = read(text, 3);
    assert_eq!(lines, [""; 0]);
    assert_eq!(
        answer(&document, "GET", "/shelves"),
        (200, r#"{"$ref":"shelf.json"}"#.to_owned())
    );
}

#[test]
fn name_of_a_data_key_hides_no_reference() {
    let schema = |properties: &str| {
        format!(
            "openapi: 3.1.0\npaths: {{}}\ncomponents:\n  schemas:\n    A: {{ properties: {properties} }}\n"
        )
    };
    for properties in [
        "{ example: { $ref: other.yaml } }",
        "{ x-rate: { $ref: other.yaml } }",
        "{ value: { items: { $ref: other.yaml } } }",
    ] {
        let found = check_openapi(&schema(properties));
        assert!(found.iter().any(Diagnostic::is_error), "{properties}: {found:?}");
    }
    let header = "openapi: 3.1.0\npaths: { /a: { get: { responses: { '200': { headers: { x-rate: { $ref: other.yaml } } } } } } }\n";
    assert!(
        check_openapi(header)[0]
            .message
            .contains("refers to another document")
    );
}

fn people(version: &str, member: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a: {{ get: {{ responses: {{ '200': {{ description: ok, content: {{ application/json: {{ schema: {{ $ref: '#/components/schemas/A' }} }} }} }} }} }} }}\ncomponents:\n  schemas:\n    A: {{ type: object, required: [boss], properties: {{ boss: {member} }} }}\n"
    )
}

#[test]
fn nullable_member_ends_at_the_maximum_depth() {
    let nested = |levels: usize| (0..levels).fold(json!(null), |inner, _| json!({ "boss": inner }));
    for (version, member) in [
        (
            "3.0.3",
            "{ nullable: true, allOf: [{ $ref: '#/components/schemas/A' }] }",
        ),
        ("3.0.3", "{ $ref: '#/components/schemas/A', nullable: true }"),
        (
            "3.1.0",
            "{ oneOf: [{ $ref: '#/components/schemas/A' }, { type: 'null' }] }",
        ),
        (
            "3.1.0",
            "{ anyOf: [{ type: 'null' }, { $ref: '#/components/schemas/A' }] }",
        ),
        (
            "3.1.0",
            "{ type: [object, 'null'], required: [boss], properties: { boss: { $ref: '#/components/schemas/A/properties/boss' } } }",
        ),
    ] {
        for depth in [1, 2, 5] {
            let (document, _) = read(&people(version, member), depth);
            let (status, body) = answer(&document, "GET", "/a");
            assert_eq!(status, 200, "{version} {member}: {body}");
            let value: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                value,
                nested(usize::try_from(depth).unwrap()),
                "{version} {member} {depth}"
            );
        }
    }
    // Null is not an end for a value that does not nest.
    let (document, _) = read(&people("3.1.0", "{ type: [integer, 'null'] }"), 1);
    assert!(!answer(&document, "GET", "/a").1.contains("null"));
}

#[test]
fn mark_next_to_a_reference_hides_the_property() {
    let member = |mark: &str| {
        let pin = format!("{{ $ref: '#/components/schemas/P', {mark}: true }}");
        format!("{{ type: string }}, pin: {pin} }} }}\n    P: {{ properties: {{ a: {{ type: string }}")
    };
    for mark in ["writeOnly", "deprecated"] {
        let (document, _) = read(&people("3.1.0", &member(mark)), 3);
        let (status, body) = answer(&document, "GET", "/a");
        assert_eq!(status, 200, "{body}");
        assert!(
            body.starts_with("{\"boss\":") && !body.contains("pin"),
            "{mark}: {body}"
        );
    }
}

#[test]
fn nullable_next_to_a_reference_is_a_warning_of_openapi_3_0() {
    let member = "{ $ref: '#/components/schemas/A', nullable: true }";
    let (_, lines) = read(&people("3.0.3", member), 3);
    assert_eq!(
        lines,
        ["7: `nullable` next to `$ref` has no effect in OpenAPI 3.0; the mock applies it"]
    );
}

#[test]
fn error_names_the_member_that_never_ends() {
    for (member, path) in [
        ("{ $ref: '#/components/schemas/A' }", "`/boss`"),
        (
            "{ type: object, required: [team], properties: { team: { $ref: '#/components/schemas/A' } } }",
            "`/boss/team`",
        ),
    ] {
        let (document, _) = read(&people("3.1.0", member), 2);
        let (status, body) = answer(&document, "GET", "/a");
        assert_eq!(status, 500);
        assert!(
            body.contains(path) && body.contains("contains itself without end"),
            "{body}"
        );
    }
}

#[test]
fn example_keeps_the_spelling_of_its_numbers() {
    let text = "openapi: 3.0.3\ninfo: { title: t, version: '1' }\npaths:\n  /a: { get: { responses: { '200': { description: ok, content: { application/json: { schema: { type: object, properties: { price: { type: number, minimum: 2.50 }, id: { type: integer } } }, example: { price: 2.50, id: 123456789012345678901234567890 } } } } } } }\n";
    let (document, lines) = read(text, 3);
    assert_eq!(lines, [""; 0]);
    let body = r#"{"price":2.50,"id":123456789012345678901234567890}"#;
    assert_eq!(answer(&document, "GET", "/a"), (200, body.to_owned()));
    let invalid = text.replace("example: { price: 2.50", "example: { price: 2.49");
    let (_, lines) = read(&invalid, 3);
    assert!(lines[0].contains("this example violates its schema"), "{lines:?}");
}
