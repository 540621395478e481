//! Property tests of the generator: for every schema, the value is valid or an error is returned.

use std::sync::Arc;

use argus_core::budget::Budget;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::openapi::steps::{NULL, Visits};
use crate::openapi::{REQUEST_BYTES, REQUEST_STEPS, subschemas};

/// Strategy for common and unusual schemas.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({ "type": "null" })),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "$ref": "#" })),
        (any::<i8>(), any::<i8>())
            .prop_map(|(low, high)| json!({ "type": "integer", "minimum": low, "maximum": high })),
        (any::<i8>(), 1..5_u8).prop_map(|(low, step)| json!({ "exclusiveMinimum": low, "multipleOf": step })),
        (0..9_usize, 0..9_usize)
            .prop_map(|(least, most)| json!({ "type": "string", "minLength": least, "maxLength": most })),
        "[a-c]{1,3}[+*]?[a-c]?"
            .prop_map(|pattern| json!({ "type": ["string", "null"], "pattern": format!("^{pattern}$") })),
        prop_oneof![
            Just("date"),
            Just("uuid"),
            Just("email"),
            Just("ipv6"),
            Just("odd")
        ]
        .prop_map(|format| json!({ "type": "string", "format": format })),
        Just(json!({ "enum": [1, "a", null] })),
        Just(json!({ "type": "integer", "example": "wrong", "default": 3 })),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (inner.clone(), 0..4_usize, any::<bool>())
                .prop_map(|(items, least, unique)| json!({ "type": "array", "items": items, "minItems": least, "uniqueItems": unique })),
            (prop::collection::btree_map("[a-d]", inner.clone(), 0..4), prop::collection::vec("[a-e]", 0..3)).prop_map(
                |(properties, required)| json!({ "type": "object", "properties": properties, "required": required })
            ),
            inner.clone().prop_map(|each| json!({ "type": "object", "additionalProperties": each, "minProperties": 2 })),
            some.clone().prop_map(|parts| json!({ "allOf": parts })),
            some.clone().prop_map(|parts| json!({ "anyOf": parts })),
            (some, inner.clone()).prop_map(|(parts, then)| json!({ "oneOf": parts, "then": then, "if": true })),
            inner.prop_map(|not| json!({ "not": not })),
        ]
    })
}

fn made(schema: &Value, seed: u64, max_depth: usize) -> Result<Value, String> {
    made_within(
        schema,
        seed,
        max_depth,
        &Budget::new(REQUEST_STEPS, REQUEST_BYTES),
    )
}

fn made_within(schema: &Value, seed: u64, max_depth: usize, budget: &Budget) -> Result<Value, String> {
    let (mut visits, mut unbounded) = (Visits::new(schema), Budget::new(u64::MAX, u64::MAX));
    let mut all = subschemas::all(schema, "").into_iter();
    if all.any(|(_, schema)| visits.count(schema, &NULL, &mut unbounded).is_err()) {
        return Err("circular schema".to_owned());
    }
    let options = jsonschema::options().should_validate_formats(true).build(schema);
    let Ok(validator) = options else {
        return Err("invalid schema".to_owned());
    };
    let bounded = BoundedValidator {
        root: schema,
        pointer: "",
        validator: Arc::new(validator),
    };
    let run = || {
        let mut used = budget.clone();
        (value(&bounded, max_depth, seed, &mut used), used)
    };
    let (made, used) = run();
    if let Ok(made) = &made {
        assert!(bounded.validator.is_valid(made), "{schema}: {made}");
        assert_eq!(used.exceeded(), None, "{schema}: {made}");
    }
    assert_eq!(run(), (made.clone(), used), "{schema}");
    made
}

#[test]
fn recursive_schemas_terminate() {
    let tree = json!({ "type": "object", "properties": { "l": { "$ref": "#" }, "r": { "$ref": "#" }, "v": { "type": "integer" } } });
    assert!(made(&tree, 1, 32).is_ok());
    let many = |items: Value| json!({ "type": "array", "minItems": 1000, "items": items });
    assert!(made(&many(many(many(json!({ "type": "integer" })))), 1, 3).is_err());
    assert!(made(&json!({ "$ref": "#" }), 1, 3).is_err());
    assert!(
        made(
            &json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#" } } }),
            1,
            3
        )
        .is_err()
    );
}

#[test]
fn combined_choices_are_satisfied() {
    let number = json!({ "type": "integer", "minimum": 40, "maximum": 40 });
    let choices = |one: Value, other: Value| json!({ "allOf": [{ "anyOf": one }, { "anyOf": other }] });
    assert_eq!(
        made(
            &choices(
                json!([{ "type": "null" }, number]),
                json!([{ "type": "integer" }])
            ),
            1,
            3
        ),
        Ok(json!(40))
    );
    let three = json!({ "allOf": [
        { "oneOf": [{ "required": ["a"] }], "properties": { "a": { "const": 1 } } },
        { "oneOf": [{ "required": ["b"] }], "properties": { "b": { "const": 2 } } },
        { "oneOf": [{ "required": ["c"] }], "properties": { "c": { "const": 3 } } },
    ], "type": "object" });
    assert_eq!(made(&three, 1, 3), Ok(json!({ "a": 1, "b": 2, "c": 3 })));
    // The first branches of both choices exclude each other.
    let exactly = |number: i32| json!({ "type": "integer", "minimum": number, "maximum": number });
    let (one, other) = (json!([exactly(1), exactly(2)]), json!([exactly(2), exactly(1)]));
    assert_eq!(made(&choices(one, other), 1, 3), Ok(json!(2)));
    // A schema without a valid value returns an error.
    assert!(made(&choices(json!([{ "type": "null" }]), json!([number])), 1, 3).is_err());
    let mut deep = number;
    for _ in 0..400 {
        deep = json!({ "anyOf": [deep] });
    }
    assert!(made(&deep, 1, 3).is_err());
}

/// Each level of nesting merges the items of three parts, which contain the whole schema again.
#[test]
fn merged_schemas_are_bounded() {
    let part = |least: usize| {
        json!({ "type": "object", "required": ["a", "b"], "properties": {
        "a": { "allOf": [{ "$ref": "#" }, { "minProperties": least }] },
        "b": { "$ref": "#" },
    } })
    };
    let growing = json!({ "allOf": [part(1), part(2), part(3)] });
    assert!(made(&growing, 1, 3).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn generated_value_is_valid_and_deterministic(schema in schema(), seed in any::<u64>(), depth in 1..5_usize) {
        let _ignored_error = made(&schema, seed, depth);
    }

    #[test]
    fn value_is_made_within_any_budget(
        schema in schema(), seed in any::<u64>(), steps in 0..20_000_u64, bytes in 0..40_000_u64
    ) {
        if let Ok(made) = made_within(&schema, seed, 3, &Budget::new(steps, bytes)) {
            prop_assert!(made.to_string().len() as u64 <= bytes.max(64), "{schema}: {made}");
        }
    }
}
