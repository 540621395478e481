//! Short documents that describe huge evaluations: each one is refused, or its response is, within the budget.

use std::fmt::Write as _;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// Number of schemas of which each one refers twice to the next one.
const LEVELS: usize = 20;

/// Document whose schema `S0` refers to `S1`, and so on. `link` is a schema with `NEXT` in place of the reference to the next one.
fn chain(levels: usize, link: &str, media: &str) -> String {
    let mut text = format!(
        "openapi: 3.1.0\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a:\n    get:\n      responses:\n        '200':\n          \
         description: d\n          content:\n            application/json:\n              \
         schema: {{ $ref: '#/components/schemas/S0' }}\n{media}components:\n  schemas:\n"
    );
    for level in 0..levels {
        let next = format!("{{ $ref: '#/components/schemas/S{}' }}", level + 1);
        writeln!(text, "    S{level}: {}", link.replace("NEXT", &next)).unwrap();
    }
    writeln!(text, "    S{levels}: {{ type: string }}").unwrap();
    text
}

/// Errors of a document with their lines, and the steps and bytes of its check.
fn check(text: &str) -> (Vec<(usize, String)>, (u64, u64)) {
    let mut budget = Budget::new(CHECK_STEPS, CHECK_BYTES);
    let (document, diagnostics) = Document::read_within(text, 3, &mut budget);
    let errors = diagnostics.into_iter().filter(Diagnostic::is_error);
    let errors: Vec<_> = errors
        .map(|error| (error.location.map_or(0, |at| at.line), error.message))
        .collect();
    assert_eq!(document.is_none(), !errors.is_empty(), "{errors:?}");
    (errors, budget.used())
}

/// Response to the only request of a document that is accepted.
fn respond(text: &str, max_depth: u32) -> (u16, String) {
    let (document, diagnostics) = Document::read(text, max_depth);
    let document = document.unwrap_or_else(|| panic!("{diagnostics:?}"));
    let request = Request::new("GET", "/a", Vec::new(), Bytes::new());
    let (operation, params) = document.find(&request, &["a".to_owned()]).unwrap();
    let answer = document.answer(operation, &request, &params, false);
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

#[test]
fn doubling_schemas_for_one_value_are_refused_with_line() {
    let links = [
        "{ allOf: [NEXT, NEXT] }",
        "{ anyOf: [NEXT, NEXT] }",
        "{ oneOf: [NEXT, { not: NEXT }] }",
        "{ if: NEXT, then: NEXT }",
        "{ dependentSchemas: { a: NEXT, b: NEXT } }",
        "{ allOf: [{ allOf: [NEXT] }, { anyOf: [NEXT] }] }",
    ];
    for link in links {
        for media in ["", "              example: 1\n"] {
            let text = chain(LEVELS, link, media);
            let (errors, (steps, bytes)) = check(&text);
            let [(line, message)] = errors.as_slice() else {
                panic!("{link}: {errors:?}")
            };
            assert!(text.len() < 2_800, "{} bytes", text.len());
            let needs = format!("the evaluation of this schema needs more than {CHECK_STEPS} steps");
            assert_eq!((*message).as_str(), needs, "{link}");
            assert_eq!(*line, 11, "{link}");
            assert!(
                steps < 100_000 && bytes < 200_000,
                "{link}: {steps} steps, {bytes} bytes"
            );
        }
    }
}

#[test]
fn doubling_validation_of_an_example_is_a_warning_with_line() {
    let nested = "{ a: ".repeat(18) + "1" + &" }".repeat(18);
    let media = format!("              example: {nested}\n");
    let link = "{ properties: { a: { allOf: [NEXT, NEXT] } } }";
    let own = "{ properties: { a: { anyOf: [{ $ref: '#/components/schemas/S0' }, { $ref: '#/components/schemas/S0' }] } } }";
    for text in [chain(LEVELS, link, &media), chain(1, own, &media)] {
        let mut budget = Budget::new(CHECK_STEPS, CHECK_BYTES);
        let (document, warnings) = Document::read_within(&text, 3, &mut budget);
        let needs =
            format!("this example is not checked: its validation needs more than {CHECK_STEPS} steps");
        let warnings = warnings.into_iter();
        let warnings: Vec<_> = warnings
            .map(|it| (it.location.map(|at| at.line), it.message))
            .collect();
        assert_eq!(warnings, [(Some(12), needs)]);
        let (steps, _) = budget.used();
        assert!(document.is_some() && steps < 100_000, "{steps} steps");
    }
    // The same example once per level takes few steps.
    let (errors, (steps, _)) = check(&chain(LEVELS, "{ properties: { a: NEXT } }", &media));
    assert!(errors.is_empty() && steps < 10_000, "{errors:?} {steps}");
}

/// Violations of a request with this list, by a document with the schema of an item.
fn violations_of(items: &[Value], schema: &str) -> Vec<String> {
    let text = format!(
        "openapi: 3.1.0\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a:\n    put:\n      requestBody:\n        content:\n          \
         application/json:\n            schema: {{ type: array, items: {schema} }}\n      responses: {{ '204': {{ description: d }} }}\n"
    );
    let (document, diagnostics) = Document::read(&text, 3);
    let document = document.unwrap_or_else(|| panic!("{diagnostics:?}"));
    let body = Bytes::from(serde_json::json!(items).to_string());
    let header = ("content-type".to_owned(), "application/json".to_owned());
    let request = Request::new("PUT", "/a", vec![header], body);
    let (operation, params) = document.find(&request, &["a".to_owned()]).unwrap();
    let violations = document.violations(operation, &request, &params).into_iter();
    violations
        .map(|it| format!("{}: {}", it.pointer, it.message))
        .collect()
}

#[test]
fn large_request_is_validated_within_its_budget() {
    let numbers = |count: usize, last: u32| {
        let mut items = vec![serde_json::json!(1); count];
        items.push(serde_json::json!(last));
        // Five visits per item.
        violations_of(
            &items,
            "{ allOf: [{ anyOf: [{ not: { type: string } }] }, { minimum: 1 }] }",
        )
    };
    assert!(numbers(10, 1).is_empty());
    assert_eq!(numbers(10, 0), ["/10: 0 is less than the minimum of 1"]);
    // More than 200,000 visits describe no error.
    assert!(numbers(60_000, 1).is_empty());
    assert_eq!(numbers(60_000, 0), [": it does not match its schema"]);
    let needs = format!(": its validation needs more than {REQUEST_BYTES} bytes");
    assert_eq!(numbers(200_000, 1), [needs]);
    let texts = vec![serde_json::json!("a"); 3_000];
    let needs = format!(": its validation needs more than {REQUEST_STEPS} steps");
    assert_eq!(violations_of(&texts, "{ pattern: '(?=a)a' }"), [needs]);
}

#[test]
fn doubling_values_end_with_an_error_response() {
    let links = [
        "{ type: object, required: [a, b], properties: { a: NEXT, b: NEXT } }",
        "{ type: array, minItems: 2, items: NEXT }",
        "{ type: array, prefixItems: [NEXT, NEXT], minItems: 2 }",
        "{ type: object, minProperties: 2, additionalProperties: NEXT }",
        "{ allOf: [{ required: [a, b], properties: { a: NEXT } }, { properties: { b: NEXT } }] }",
    ];
    for link in links {
        let (status, body) = respond(&chain(20, link, ""), 3);
        assert_eq!(status, 500, "{link}: {body}");
        assert!(body.contains("it needs more than"), "{link}: {body}");
    }
}

#[test]
fn long_texts_end_with_an_error_response() {
    let texts = [
        "{ type: string, minLength: 60000 }".to_owned(),
        "{ type: string, pattern: '^[a-f]{9000}$' }".to_owned(),
        format!("{{ type: string, example: {} }}", "x".repeat(9_000)),
    ];
    for text in texts {
        let link = format!(
            "{{ type: array, minItems: 1000, items: {{ type: array, minItems: 9, items: {text} }} }}"
        );
        let (status, body) = respond(&chain(1, &link, ""), 3);
        assert_eq!(status, 500, "{body}");
        assert!(body.contains("it needs more than"), "{body}");
    }
}

#[test]
fn huge_expressions_and_keys_are_refused_with_line() {
    let cases = [
        (
            "{ pattern: '((a{1,300}){1,300}){1,300}' }".to_owned(),
            "this regular expression",
        ),
        (
            format!("{{ pattern: '{}' }}", "\\p{L}".repeat(10_000)),
            "this regular expression",
        ),
        (
            "{ patternProperties: { '([a-z]{9000}){9000}': {} } }".to_owned(),
            "this regular expression",
        ),
    ];
    for (link, part) in cases {
        let (errors, _) = check(&chain(1, &link, ""));
        let needs = format!("the evaluation of {part} needs more than {CHECK_STEPS} steps");
        assert_eq!(errors, [(14, needs)], "{link}");
    }
    // The pointers to all values below long keys would take their length each time.
    let leaves: Vec<String> = (0..5_000).map(|number| format!("p{number}: {{}}")).collect();
    let leaves = format!("{{ properties: {{ {} }} }}", leaves.join(", "));
    let link = (0..9).fold(leaves, |inner, _| {
        format!("{{ properties: {{ {}: {inner} }} }}", "k".repeat(1_000))
    });
    let (errors, _) = check(&chain(1, &link, ""));
    let needs = format!("the evaluation of the document needs more than {CHECK_BYTES} bytes");
    assert_eq!(
        errors.into_iter().map(|(_, message)| message).collect::<Vec<_>>(),
        [needs]
    );
}

#[test]
fn long_chain_of_references_is_refused() {
    let (errors, _) = check(&chain(5_000, "{ allOf: [NEXT] }", ""));
    assert_eq!(errors[0].1, "this schema refers to more than 200 others in a row");
    // The longest chain fits on the stack of a validation.
    let (errors, _) = check(&chain(98, "{ allOf: [NEXT] }", "              example: a\n"));
    assert!(errors.is_empty(), "{errors:?}");
    let (errors, _) = check(&chain(1, "{ $dynamicRef: '#/components/schemas/S0' }", ""));
    assert_eq!(errors, [(14, "`$dynamicRef` is not supported".to_owned())]);
}

#[test]
fn long_lists_and_repeated_visits_are_counted() {
    let used = |schema: Value, value: &Value| {
        let mut budget = Budget::new(u64::MAX - 1, u64::MAX);
        let counted = steps::Visits::new(&schema).count(&schema, value, &mut budget);
        counted.map(|(visits, _)| budget.used().0 + visits)
    };
    let text = serde_json::json!("a");
    let list: Vec<u32> = (0..1_600).collect();
    let plain = used(serde_json::json!({ "type": "string" }), &text).unwrap();
    let long = used(serde_json::json!({ "enum": list }), &text).unwrap();
    assert!(long >= plain + 100, "{plain} {long}");
    let properties: serde_json::Map<_, _> = (0..100)
        .map(|number| (number.to_string(), serde_json::json!({})))
        .collect();
    let value = Value::Object(properties.clone());
    let once = used(serde_json::json!({ "properties": properties }), &value).unwrap();
    let again = serde_json::json!({ "properties": properties, "unevaluatedProperties": false });
    let again = used(again, &value).unwrap();
    assert!(again >= once + 200, "{once} {again}");
    // The validator finds other targets of references.
    let foreign = serde_json::json!({ "$id": "https://example.com/x", "not": {} });
    assert!(used(foreign, &text).is_err());
}

#[test]
fn schema_with_an_own_identity_refers_to_the_document() {
    let link = "{ $id: 'https://example.com/x', $schema: 'https://json-schema.org/draft/2019-09/schema', allOf: [NEXT] }";
    let (status, body) = respond(&chain(1, link, ""), 3);
    assert!(status == 200 && body.starts_with('"'), "{status} {body}");
}

/// A document as large as the format permits, with examples and shared schemas.
#[test]
fn large_document_uses_a_small_part_of_the_budget() {
    let mut text = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths:\n".to_owned();
    for number in 0..300 {
        writeln!(
            text,
            "  /a{number}:\n    get:\n      responses:\n        '200':\n          description: d\n          content:\n            \
             application/json:\n              schema: {{ $ref: '#/components/schemas/S{number}' }}\n              \
             example: {{ id: 1, name: n, tags: [a, b], next: {{ id: 2, name: m, tags: [] }} }}"
        )
        .unwrap();
    }
    text.push_str("components:\n  schemas:\n    Base: { type: object, required: [id], properties: { id: { type: integer } } }\n");
    for number in 0..300 {
        let next = (number + 1) % 300;
        writeln!(
            text,
            "    S{number}:\n      allOf:\n        - $ref: '#/components/schemas/Base'\n        - type: object\n          properties:\n            \
             name: {{ type: string, pattern: '^[a-z0-9-]{{1,63}}$' }}\n            tags: {{ type: array, items: {{ type: string }} }}\n            \
             next: {{ oneOf: [{{ $ref: '#/components/schemas/S{next}' }}, {{ type: 'null' }}] }}"
        )
        .unwrap();
    }
    let (errors, (steps, bytes)) = check(&text);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(steps < CHECK_STEPS / 10, "{steps} steps");
    assert!(
        bytes < CHECK_BYTES / 4,
        "{bytes} bytes for {} bytes of text",
        text.len()
    );
}

/// Strategy for the schemas of a document, which refer to each other.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0..6_usize)
            .prop_map(|number| serde_json::json!({ "$ref": format!("#/components/schemas/S{number}") })),
        Just(serde_json::json!({ "type": "string", "pattern": "^(a|b{1,9}){1,9}$" })),
        Just(serde_json::json!({ "enum": ["a", 1] })),
        Just(serde_json::json!(true)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (
                prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf"), Just("prefixItems")],
                some.clone()
            )
                .prop_map(|(key, parts)| serde_json::json!({ key: parts })),
            (
                prop_oneof![
                    Just("items"),
                    Just("not"),
                    Just("additionalProperties"),
                    Just("unevaluatedProperties")
                ],
                inner.clone()
            )
                .prop_map(|(key, inner)| serde_json::json!({ key: inner })),
            some.prop_map(|parts| {
                let named = ["a", "b", "c"].into_iter().zip(parts);
                let named: serde_json::Map<_, _> =
                    named.map(|(name, part)| (name.to_owned(), part)).collect();
                serde_json::json!({ "type": "object", "required": ["a", "b"], "properties": named })
            }),
            inner.prop_map(|items| serde_json::json!({ "type": "array", "minItems": 2, "items": items })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_document_is_checked_within_its_budget(
        schemas in prop::collection::vec(schema(), 6), levels in 0..12_usize, steps in 0..40_000_u64
    ) {
        let named = schemas.into_iter().enumerate().map(|(number, schema)| (format!("S{number}"), schema));
        let named: serde_json::Map<_, _> = named.collect();
        let example = (0..levels).fold(serde_json::json!("a"), |inner, _| serde_json::json!({ "a": [inner], "b": 1 }));
        let media = serde_json::json!({ "schema": { "$ref": "#/components/schemas/S0" }, "example": example });
        let response = serde_json::json!({ "description": "d", "content": { "application/json": media } });
        let document = serde_json::json!({
            "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
            "paths": { "/a": { "get": { "responses": { "200": response } } } },
            "components": { "schemas": named },
        });
        let mut budget = Budget::new(steps, CHECK_BYTES);
        let (found, diagnostics) = Document::read_within(&document.to_string(), 3, &mut budget);
        prop_assert!(budget.used().0 <= steps);
        prop_assert_eq!(found.is_none(), diagnostics.iter().any(Diagnostic::is_error));
        if budget.exceeded().is_some() {
            let is_reported = diagnostics.iter().any(|it| it.message.contains("needs more than"));
            prop_assert!(is_reported, "{diagnostics:?}");
        }
    }
}
