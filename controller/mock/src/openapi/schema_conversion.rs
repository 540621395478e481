//! Conversion of the schemas in an `OpenAPI` document to JSON Schema 2020-12.
//!
//! It replaces keywords that only `OpenAPI` 3.0 has, and applies `readOnly` and `writeOnly` for one direction.

use serde_json::{Map, Value, json};

use super::json_pointer::{Cursor, target};
use super::subschemas::{self, outermost};

/// Direction of a value. Requests need no `readOnly` properties, and responses omit `writeOnly` ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

/// Keys that make a schema a document of its own, or a target without a pointer.
const EMBEDDED: [&str; 4] = ["$id", "$schema", "$anchor", "$dynamicAnchor"];

/// Returns the whole document with its schemas as JSON Schema. All JSON pointers stay valid.
pub(super) fn plain(root: &Value, is_30: bool, direction: Direction) -> Value {
    let mut plain = root.clone();
    for outer in outermost(root) {
        // Inner schemas come first, because the conversion of a schema can move them.
        for (pointer, _) in subschemas::all(root, &outer).into_iter().rev() {
            let Some(Value::Object(schema)) = plain.pointer_mut(&pointer) else {
                continue;
            };
            // Within a document of its own, references of a schema would lead elsewhere.
            for key in EMBEDDED {
                schema.shift_remove(key);
            }
            if is_30 {
                modern(schema);
            }
            bounded(schema);
            directed(schema, root, direction);
        }
    }
    plain
}

/// Replaces keywords of `OpenAPI` 3.0 with those of JSON Schema.
fn modern(schema: &mut Map<String, Value>) {
    let is_nullable = schema.shift_remove("nullable") == Some(Value::Bool(true));
    if let Some(reference) = schema.get("$ref").cloned() {
        // OpenAPI 3.0 ignores all siblings of a reference.
        *schema = Map::from_iter([("$ref".to_owned(), reference)]);
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = schema.get(exclusive).cloned() {
            schema.shift_remove(exclusive);
            if is_exclusive && let Some(limit) = schema.shift_remove(bound) {
                schema.insert(exclusive.to_owned(), limit);
            }
        }
    }
    if !is_nullable {
        return;
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match schema.get("type").cloned() {
        Some(Value::String(kind)) => drop(schema.insert("type".to_owned(), json!([kind, "null"]))),
        // By the specification, `nullable` has no effect without a type, but its intention is clear.
        None if ["$ref", "allOf", "anyOf", "oneOf"]
            .iter()
            .any(|key| schema.contains_key(*key)) =>
        {
            let inner = Value::Object(std::mem::take(schema));
            schema.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
        }
        Some(_) | None => {}
    }
}

/// Adds the bounds of the format `int32`.
fn bounded(schema: &mut Map<String, Value>) {
    if schema.get("format") != Some(&json!("int32")) {
        return;
    }
    for (bound, exclusive, limit) in [
        ("minimum", "exclusiveMinimum", i32::MIN),
        ("maximum", "exclusiveMaximum", i32::MAX),
    ] {
        if !schema.contains_key(bound) && !schema.contains_key(exclusive) {
            schema.insert(bound.to_owned(), json!(limit));
        }
    }
}

/// Removes the properties of the other direction from `required`.
fn directed(schema: &mut Map<String, Value>, root: &Value, direction: Direction) {
    let other = match direction {
        Direction::Request => "readOnly",
        Direction::Response => "writeOnly",
    };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    let mut dropped = Vec::new();
    for (name, property) in properties {
        let reference = property.get("$ref").and_then(Value::as_str).and_then(target);
        let target = reference.and_then(|pointer| Cursor::at(root, &pointer));
        if property.get(other) != Some(&Value::Bool(true)) && !target.is_some_and(|target| target.is(other)) {
            continue;
        }
        dropped.push(Value::from(name.as_str()));
        if let (Direction::Response, Value::Object(property)) = (direction, property) {
            // The mark must be on the property itself, because a reference can hide it.
            property.insert(other.to_owned(), Value::Bool(true));
        }
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !dropped.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &Value, direction: Direction, wanted: &Value) {
        let root = json!({ "components": { "schemas": { "S": schema, "Id": { "type": "string", "readOnly": true } } } });
        let plain = plain(&root, true, direction);
        assert_eq!(plain["components"]["schemas"]["S"], *wanted, "{schema}");
    }

    #[test]
    fn keywords_of_openapi_3_0_become_json_schema() {
        let direction = Direction::Request;
        check(
            &json!({ "type": "string", "nullable": true }),
            direction,
            &json!({ "type": ["string", "null"] }),
        );
        check(
            &json!({ "type": "string", "nullable": true, "enum": ["a"] }),
            direction,
            &json!({ "type": ["string", "null"], "enum": ["a", null] }),
        );
        check(
            &json!({ "nullable": true, "allOf": [{ "$ref": "#/x" }] }),
            direction,
            &json!({ "anyOf": [{ "allOf": [{ "$ref": "#/x" }] }, { "type": "null" }] }),
        );
        check(
            &json!({ "minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": false }),
            direction,
            &json!({ "exclusiveMinimum": 1, "maximum": 3 }),
        );
        check(
            &json!({ "$ref": "#/x", "description": "d" }),
            direction,
            &json!({ "$ref": "#/x" }),
        );
        check(
            &json!({ "$ref": "#/x", "nullable": true }),
            direction,
            &json!({ "anyOf": [{ "$ref": "#/x" }, { "type": "null" }] }),
        );
        check(
            &json!({ "items": { "properties": { "a": { "type": "number", "nullable": true } } } }),
            direction,
            &json!({ "items": { "properties": { "a": { "type": ["number", "null"] } } } }),
        );
        // A property with that name is not a keyword, and an example is data.
        let odd =
            json!({ "properties": { "nullable": { "type": "string" } }, "example": { "nullable": true } });
        check(&odd, direction, &odd);
    }

    #[test]
    fn properties_of_the_other_direction_are_optional() {
        let schema = json!({
            "required": ["id", "name", "password"],
            "properties": {
                "id": { "$ref": "#/components/schemas/Id" },
                "name": { "type": "string" },
                "password": { "type": "string", "writeOnly": true },
            },
        });
        let with = |required: Value| {
            let mut changed = schema.clone();
            changed["required"] = required;
            changed
        };
        check(&schema, Direction::Request, &with(json!(["name", "password"])));
        check(&schema, Direction::Response, &with(json!(["id", "name"])));
    }
}
