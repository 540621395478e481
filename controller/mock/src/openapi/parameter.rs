//! Parameters of operations: from strings in a request to typed values for validation.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::json_pointer::Cursor;
use crate::path::Params;
use crate::request::Request;

/// Parameter of an operation.
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) place: &'a str,
    pub(super) required: bool,
    pub(super) cursor: Cursor<'a>,
}

/// Returns the parameters of an operation and its path. The operation's parameter wins over an equal one of the path.
pub(super) fn all<'a>(path: Option<Cursor<'a>>, operation: Option<Cursor<'a>>) -> Vec<Parameter<'a>> {
    let mut found: Vec<Parameter<'a>> = Vec::new();
    for owner in [operation, path].into_iter().flatten() {
        let Some(list) = owner.get("parameters") else {
            continue;
        };
        for (_, cursor) in list.entries() {
            let (Some(name), Some(place)) = (cursor.text("name"), cursor.text("in")) else {
                continue;
            };
            let known = found
                .iter()
                .any(|known| known.name == name && known.place == place);
            // OpenAPI ignores parameters with these names.
            let ignored = place == "header"
                && ["accept", "content-type", "authorization"].contains(&name.to_lowercase().as_str());
            if !known && !ignored {
                found.push(Parameter {
                    name,
                    place,
                    required: cursor.is("required") || place == "path",
                    cursor,
                });
            }
        }
    }
    found
}

impl Parameter<'_> {
    /// Returns the value from a request: `None` if it is missing, an error if it is malformed.
    pub(super) fn value(&self, request: &Request, params: &Params) -> Result<Option<Value>, String> {
        let schema = self.cursor.get("schema");
        if let Some(content) = self.cursor.get("content") {
            let Some(text) = self.texts(request, params, self.name).into_iter().next() else {
                return Ok(None);
            };
            let is_json = content
                .value
                .as_object()
                .is_some_and(|content| content.keys().any(|kind| kind.contains("json")));
            return if is_json {
                serde_json::from_str(&text)
                    .map(Some)
                    .map_err(|error| format!("it is not valid JSON: {error}"))
            } else {
                Ok(Some(Value::from(text)))
            };
        }
        let Some(schema) = schema else {
            return Ok(self
                .texts(request, params, self.name)
                .into_iter()
                .next()
                .map(Value::from));
        };
        let default_style = if ["query", "cookie"].contains(&self.place) {
            "form"
        } else {
            "simple"
        };
        let style = self.cursor.text("style").unwrap_or(default_style);
        let explode = self
            .cursor
            .value
            .get("explode")
            .and_then(Value::as_bool)
            .unwrap_or(style == "form");
        let kinds = kinds(&schema);
        if kinds.iter().any(|kind| kind == "object")
            && style != "deepObject"
            && self.place == "query"
            && explode
        {
            return Ok(Self::spread(request, &schema));
        }
        if style == "deepObject" {
            return Ok(self.deep(request, &schema));
        }
        let texts = self.texts(request, params, self.name);
        let Some(first) = texts.first() else {
            return Ok(None);
        };
        if kinds.iter().any(|kind| kind == "array") {
            let separator = match style {
                "spaceDelimited" => ' ',
                "pipeDelimited" => '|',
                _ => ',',
            };
            let items: Vec<String> = if explode && self.place == "query" {
                texts
            } else {
                first.split(separator).map(str::to_owned).collect()
            };
            let each = schema.get("items");
            return Ok(Some(
                items.iter().map(|item| typed(item, each.as_ref())).collect(),
            ));
        }
        if kinds.iter().any(|kind| kind == "object") {
            let parts: Vec<&str> = first.split(',').collect();
            let pairs: Vec<(&str, &str)> = if explode {
                parts.iter().filter_map(|part| part.split_once('=')).collect()
            } else {
                parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
            };
            return Ok(Some(object(pairs.into_iter(), &schema)));
        }
        Ok(Some(typed(first, Some(&schema))))
    }

    fn texts(&self, request: &Request, params: &Params, name: &str) -> Vec<String> {
        let owned = |(_, value): &(String, String)| value.clone();
        match self.place {
            "path" => params
                .iter()
                .filter(|(found, _)| found == name)
                .map(owned)
                .collect(),
            "query" => {
                // Clients often send lists as `ids[]`.
                let listed = format!("{name}[]");
                request
                    .query
                    .iter()
                    .filter(|(found, _)| found == name || *found == listed)
                    .map(owned)
                    .collect()
            }
            "header" => request
                .headers
                .iter()
                .filter(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(owned)
                .collect(),
            _ => {
                let cookies = request
                    .headers
                    .iter()
                    .filter(|(found, _)| found == "cookie")
                    .flat_map(|(_, all)| all.split(';'));
                let pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
                pairs
                    .filter(|(found, _)| *found == name)
                    .map(|(_, value)| value.to_owned())
                    .collect()
            }
        }
    }

    /// Collects an exploded object, whose properties are separate query parameters.
    fn spread(request: &Request, schema: &Cursor<'_>) -> Option<Value> {
        let properties = schema.get("properties")?;
        let named = |name: &str| properties.value.get(name).is_some();
        let pairs = request.query.iter().filter(|(name, _)| named(name));
        let found = object(pairs.map(|(name, value)| (name.as_str(), value.as_str())), schema);
        found
            .as_object()
            .is_some_and(|map| !map.is_empty())
            .then_some(found)
    }

    /// Collects an object of style `deepObject`, such as `filter[a]=1`.
    fn deep(&self, request: &Request, schema: &Cursor<'_>) -> Option<Value> {
        let pairs = request.query.iter().filter_map(|(name, value)| {
            let key = name
                .strip_prefix(self.name)?
                .strip_prefix('[')?
                .strip_suffix(']')?;
            Some((key, value.as_str()))
        });
        let found = object(pairs, schema);
        found
            .as_object()
            .is_some_and(|map| !map.is_empty())
            .then_some(found)
    }
}

/// Builds an object from strings, with each value converted to the type of its property.
pub(super) fn object<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, schema: &Cursor<'_>) -> Value {
    let properties = schema.get("properties");
    let mut map = Map::new();
    for (name, text) in pairs {
        let property = properties.as_ref().and_then(|properties| properties.get(name));
        let is_list = property
            .as_ref()
            .is_some_and(|property| kinds(property).iter().any(|kind| kind == "array"));
        if is_list {
            let item = typed(text, property.and_then(|property| property.get("items")).as_ref());
            match map.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(items) => items.push(item),
                other => *other = item,
            }
        } else {
            map.insert(name.to_owned(), typed(text, property.as_ref()));
        }
    }
    Value::Object(map)
}

/// Converts a string to a type of its schema. Otherwise it stays a string, and the validation reports it.
pub(super) fn typed(text: &str, schema: Option<&Cursor<'_>>) -> Value {
    let kinds = schema.map(kinds).unwrap_or_default();
    let has = |wanted: &str| kinds.iter().any(|kind| kind == wanted);
    if (has("integer") || has("number"))
        && let Ok(Value::Number(number)) = serde_json::from_str(text)
    {
        return Value::Number(number);
    }
    if has("boolean")
        && let Ok(truth) = text.parse::<bool>()
    {
        return Value::Bool(truth);
    }
    if has("null") && !has("string") && (text.is_empty() || text == "null") {
        return Value::Null;
    }
    if (has("object") || has("array"))
        && let Ok(value) = serde_json::from_str(text)
    {
        return value;
    }
    Value::from(text)
}

/// Returns the types that a schema permits explicitly, also through `allOf`, `oneOf` and `anyOf`.
fn kinds(schema: &Cursor<'_>) -> Vec<String> {
    let (mut found, mut seen, mut pending) = (Vec::new(), BTreeSet::new(), vec![schema.clone()]);
    while let Some(schema) = pending.pop() {
        if !seen.insert(schema.pointer.clone()) {
            continue;
        }
        match schema.value.get("type") {
            Some(Value::String(kind)) => found.push(kind.clone()),
            Some(Value::Array(kinds)) => {
                found.extend(kinds.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {
                let parts = ["allOf", "oneOf", "anyOf"].map(|key| schema.get(key));
                for part in parts.iter().flatten() {
                    pending.extend(part.entries().map(|(_, part)| part));
                }
            }
        }
    }
    found
}
