//! Mode `smart`: copies values from the request into the response, from the query, the body and the path.

use argus_core::budget::Budget;
use argus_crds::number::{self, Keep};
use serde_json::Value;

use super::schemas::BoundedValidator;
use crate::path::Params;
use crate::request::Request;

/// Copies values from the request into fields of the same name, if the result still matches the schema.
///
/// Only existing fields change. The path wins over the body, and the body wins over the query. A path parameter whose name
/// ends in `id` sets the field `id` if no field has its own name.
pub(super) fn into(
    mut value: Value,
    request: &Request,
    params: &Params,
    validator: Option<&BoundedValidator<'_>>,
    budget: &mut Budget,
) -> Value {
    let texts = |pairs: &[(String, String)]| {
        let candidates = pairs
            .iter()
            .map(|(name, text)| (name.clone(), interpretations(text)));
        candidates.collect::<Vec<_>>()
    };
    let mut sources = texts(&request.query);
    if let Some(Value::Object(body)) = request.value() {
        sources.extend(body.into_iter().map(|(name, value)| match value {
            value if number::is_number(&value) => (name, vec![value]),
            Value::String(text) => (name, interpretations(&text)),
            other => (name, vec![other]),
        }));
    }
    sources.extend(texts(params));
    for (name, candidates) in sources {
        if budget.exceeded().is_some() {
            return value;
        }
        let is_id = name.to_lowercase().ends_with("id") && params.iter().any(|(param, _)| *param == name);
        let Value::Object(map) = &value else { return value };
        let key = match (map.contains_key(&name), is_id && map.contains_key("id")) {
            (true, _) => name,
            (false, true) => "id".to_owned(),
            (false, false) => continue,
        };
        for candidate in candidates {
            let mut changed = value.clone();
            changed[&key] = candidate;
            if validator.is_none_or(|validator| validator.is_valid(budget, &changed)) {
                value = changed;
                break;
            }
        }
    }
    value
}

/// Returns the possible values of a string: the string itself, then its number or boolean.
fn interpretations(text: &str) -> Vec<Value> {
    let mut found = vec![Value::from(text)];
    if let Ok(value) = number::parse(text, Keep::Spelling)
        && (number::is_number(&value) || value.is_boolean())
    {
        found.push(value);
    }
    found
}
