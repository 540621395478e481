//! Requests to a mock, with parsed query, headers and body.

use std::sync::OnceLock;

use argus_crds::number::{self, Keep};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::path;

/// Complete request. Its body is parsed once, on first use.
#[derive(Debug, Default)]
pub struct Request {
    /// HTTP method, in upper case.
    pub method: String,
    /// Path as received, without the query.
    pub path: String,
    /// Decoded query parameters in their order.
    pub query: Vec<(String, String)>,
    /// Headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Raw body.
    pub body: Bytes,
    content: OnceLock<Content>,
}

/// Parsed content of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Empty body.
    Empty,
    /// JSON value.
    Json(Value),
    /// Fields of a form in their order.
    Form(Vec<(String, String)>),
    /// Other text.
    Text(String),
    /// Bytes that are not valid UTF-8.
    Bytes,
}

impl Request {
    /// Creates a request. `target` is the target of the request line and can contain a query.
    pub fn new(method: &str, target: &str, headers: Vec<(String, String)>, body: Bytes) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name.to_lowercase(), value));
        Self {
            method: method.to_uppercase(),
            path: path.to_owned(),
            query: pairs(query),
            headers: headers.collect(),
            body,
            content: OnceLock::new(),
        }
    }

    /// Returns the first header of this name, in any letter case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns all values of a query parameter.
    pub fn query_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(found, _)| found == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns the media type of the body in lower case, without its parameters.
    pub fn media_type(&self) -> Option<String> {
        let written = self.header("content-type")?.split(';').next()?.trim();
        (!written.is_empty()).then(|| written.to_lowercase())
    }

    /// Returns the parsed body.
    ///
    /// Valid JSON is JSON, whatever its media type. There are two exceptions: plain text stays text, and a form is JSON only
    /// if its value is an object or a list. `curl -d` and similar clients send every body as a form.
    pub fn content(&self) -> &Content {
        self.content.get_or_init(|| {
            if self.body.is_empty() {
                return Content::Empty;
            }
            let Ok(text) = std::str::from_utf8(&self.body) else {
                return Content::Bytes;
            };
            match self.media_type().as_deref() {
                Some("application/x-www-form-urlencoded") => match number::parse(text, Keep::Spelling) {
                    Ok(value @ (Value::Object(_) | Value::Array(_))) => Content::Json(value),
                    Ok(_) | Err(_) => Content::Form(pairs(text)),
                },
                Some("text/plain") => Content::Text(text.to_owned()),
                _ => number::parse(text, Keep::Spelling)
                    .map_or_else(|_| Content::Text(text.to_owned()), Content::Json),
            }
        })
    }

    /// Returns the body as one value: a form becomes a map of strings. An empty body and bytes have no value.
    pub fn value(&self) -> Option<Value> {
        match self.content() {
            Content::Empty | Content::Bytes => None,
            Content::Json(value) => Some(value.clone()),
            Content::Form(fields) => {
                let mut map = Map::new();
                for (name, value) in fields {
                    map.entry(name.clone())
                        .or_insert_with(|| Value::String(value.clone()));
                }
                Some(Value::Object(map))
            }
            Content::Text(text) => Some(Value::String(text.clone())),
        }
    }
}

/// Decodes the pairs of a query or a form. `+` means a space.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let decoded = |part: &str| path::decode(&part.replace('+', " "));
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pair = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
    pair.map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(kind: &str, body: &str) -> Request {
        let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
        Request::new(
            "post",
            "/x?a=1&a=2&b=%26+c&flag",
            headers,
            Bytes::from(body.to_owned()),
        )
    }

    #[test]
    fn target_is_split_and_decoded() {
        let request = request("text/plain; charset=utf-8", "hi");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/x"));
        assert_eq!(request.query_values("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(request.query_values("b").collect::<Vec<_>>(), ["& c"]);
        assert_eq!(request.query_values("flag").collect::<Vec<_>>(), [""]);
        assert_eq!(request.header("CONTENT-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(request.media_type().as_deref(), Some("text/plain"));
    }

    #[test]
    fn body_is_parsed_by_media_type_and_content() {
        let cases = [
            ("application/json", r#"{"a":1}"#, Some(json!({ "a": 1 }))),
            ("application/octet-stream", "[1]", Some(json!([1]))),
            ("text/plain", "[1]", Some(json!("[1]"))),
            ("application/json", "{half", Some(json!("{half"))),
            (
                "application/x-www-form-urlencoded",
                "a=1&b=x+y",
                Some(json!({ "a": "1", "b": "x y" })),
            ),
            (
                "application/x-www-form-urlencoded",
                r#"{"a":"1"}"#,
                Some(json!({ "a": "1" })),
            ),
            ("application/x-www-form-urlencoded", "7", Some(json!({ "7": "" }))),
            ("application/json", "", None),
        ];
        for (kind, body, wanted) in cases {
            assert_eq!(request(kind, body).value(), wanted, "{kind}: {body}");
        }
    }
}
