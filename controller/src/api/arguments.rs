//! Arguments of operations: their schema, and their values in the path and the query of a request.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{Method, Route};

/// JSON object.
pub(crate) type Object = Map<String, Value>;

/// Returns the schema of the arguments, without references and without `null` as a type, because some models support less.
pub(crate) fn schema_of<T: JsonSchema>() -> Object {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    for removed in ["$schema", "title", "description"] {
        schema.remove(removed);
    }
    // An empty object also needs the field.
    schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut() {
            let types = property["type"].as_array().cloned().unwrap_or_default();
            if let Some(one) = types.into_iter().find(|kind| kind != "null") {
                property["type"] = one;
            }
        }
    }
    without_formats(schema)
}

/// Returns the schema of an output.
pub(crate) fn output_schema_of<T: JsonSchema>() -> Object {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    for removed in ["$schema", "title", "description"] {
        schema.remove(removed);
    }
    without_formats(schema)
}

/// Removes `uint32` and the like, which are not formats of JSON Schema.
pub(crate) fn without_formats(schema: Object) -> Object {
    let inside = |value| match value {
        Value::Object(inside) => Value::Object(without_formats(inside)),
        other => other,
    };
    let each = |(name, value): (String, Value)| {
        let value = match value {
            Value::Array(all) => Value::Array(all.into_iter().map(inside).collect()),
            other => inside(other),
        };
        (name, value)
    };
    let no_format = |(name, value): &(String, Value)| name != "format" || !value.is_string();
    schema.into_iter().filter(no_format).map(each).collect()
}

/// Builds the arguments of a request from its path variables, its query (GET) or body (POST), and the fixed values.
pub(crate) fn of_request(
    schema: &Object,
    route: &Route,
    variables: impl IntoIterator<Item = (String, String)>,
    query: impl IntoIterator<Item = (String, String)>,
    body: Object,
) -> Result<Object, String> {
    let is_known = |name: &str| parameters(schema, route).any(|(known, _)| known == name);
    let mut arguments = Object::new();
    for (name, text) in query {
        if route.method == Method::Post || !is_known(&name) {
            return Err(format!(
                "unknown query parameter `{name}`{}",
                expected(schema, route)
            ));
        }
        if arguments
            .insert(name.clone(), parse(schema, &name, &text))
            .is_some()
        {
            return Err(format!("query parameter `{name}` is given twice"));
        }
    }
    // `null` stands for an absent field.
    for (name, value) in body.into_iter().filter(|(_, value)| !value.is_null()) {
        if !is_known(&name) {
            return Err(format!("unknown field `{name}`{}", expected(schema, route)));
        }
        arguments.insert(name, value);
    }
    for (name, text) in variables {
        arguments.insert(name, Value::String(text));
    }
    for (name, text) in route.fixed {
        arguments.insert((*name).to_owned(), parse(schema, name, text));
    }
    if let Some(missing) = route.required.iter().find(|name| !arguments.contains_key(**name)) {
        return Err(format!("missing field `{missing}`"));
    }
    Ok(arguments)
}

/// Returns the parameters of the route for an error message.
fn expected(schema: &Object, route: &Route) -> String {
    let names: Vec<String> = parameters(schema, route)
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if names.is_empty() {
        "; expected none".to_owned()
    } else {
        format!("; expected {}", names.join(", "))
    }
}

/// Returns the names and schemas of the arguments in the query or in the body of a route.
pub(crate) fn parameters<'a>(
    schema: &'a Object,
    route: &'a Route,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .filter(|(name, _)| route.has_parameter(name))
}

/// Converts the text of a parameter into the type of its schema. A text of another form stays a text, which the
/// operation rejects.
fn parse(schema: &Object, name: &str, text: &str) -> Value {
    let kind = schema
        .get("properties")
        .and_then(|properties| properties[name]["type"].as_str());
    match kind {
        Some("integer" | "number" | "boolean") => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
        }
        Some("array") => text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .collect(),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only the schema is used")]
    struct Arguments {
        environment: String,
        tail: Option<u32>,
        #[serde(default)]
        types: Vec<String>,
        #[serde(default)]
        verify: bool,
    }

    const GET: Route = Route::get("/environments/{environment}", "").fixed(&[("verify", "false")]);

    fn query(pairs: &[(&str, &str)]) -> Result<Value, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = [("environment".to_owned(), "7".to_owned())];
        let query = pairs.iter().map(owned);
        of_request(&schema_of::<Arguments>(), &GET, variables, query, Object::new()).map(Value::Object)
    }

    #[test]
    fn query_values_get_the_types_of_the_schema() {
        let given = query(&[("tail", "5"), ("types", "phase, error,")]).unwrap();
        let expected = json!({ "tail": 5, "types": ["phase", "error"], "environment": "7", "verify": false });
        assert_eq!(given, expected);
        assert_eq!(query(&[("tail", "many")]).unwrap()["tail"], "many");
    }

    #[test]
    fn unknown_fixed_and_repeated_parameters_are_rejected() {
        for pairs in [
            &[("tails", "5")][..],
            &[("verify", "true")],
            &[("environment", "other")],
            &[("tail", "1"), ("tail", "2")],
        ] {
            assert!(query(pairs).is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn null_does_not_replace_a_required_field() {
        let post = Route::post("/resume", "").requires(&["environment"]);
        let body = |value: Value| Object::from_iter([("environment".to_owned(), value)]);
        let of = |body| of_request(&schema_of::<Arguments>(), &post, [], [], body);
        assert!(of(body(Value::Null)).is_err());
        assert!(of(body(json!("shop"))).is_ok());
    }

    #[test]
    fn template_matches_paths_of_the_same_form() {
        assert!(GET.matches("/environments/shop"));
        assert!(!GET.matches("/environments"));
        assert!(!GET.matches("/environments/shop/logs"));
    }
}
