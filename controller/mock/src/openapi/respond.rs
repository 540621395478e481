//! Responses from a document: status, media type, and a valid value, examples first.

use std::time::Duration;

use argus_core::budget::Budget;
use argus_crds::error::Code;
use argus_crds::number;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::json_pointer::Cursor;
use super::request_validation::{covers, is_json};
use super::schemas::BoundedValidator;
use super::{Document, Operation, REQUEST_BYTES, REQUEST_STEPS, examples, make, reflect_request};
use crate::answer::{MockReply, one_line};
use crate::path::Params;
use crate::request::Request;

impl Document {
    /// Creates the response to a request for an operation. `smart` copies values from the request.
    pub(crate) fn answer(
        &self,
        operation: &Operation,
        request: &Request,
        params: &Params,
        smart: bool,
    ) -> MockReply {
        let by = format!("openapi {}", operation.name);
        // The schemas of this root are JSON Schema; everything else is unchanged.
        let root = &self.responses.root;
        let found = Cursor::at(root, &operation.pointer).and_then(|operation| operation.get("responses"));
        let Some((status, response)) = found.and_then(|responses| select_response(&responses)) else {
            return MockReply {
                status: 200,
                headers: Vec::new(),
                body: Bytes::new(),
                delay: Duration::ZERO,
                by: Some(by),
                refusal: None,
            };
        };
        let seed = seed(&operation.name, request);
        let budget = &mut Budget::new(REQUEST_STEPS, REQUEST_BYTES);
        let mut headers = self.headers(&response, seed, budget);
        let media = response
            .get("content")
            .and_then(|content| select_media_type(&content, request.header("accept")));
        let body = match media {
            None => Bytes::new(),
            Some((kind, media)) => match self.body(&kind, &media, seed, (request, params), smart, budget) {
                Ok(body) => {
                    headers.push(("content-type".to_owned(), kind));
                    body
                }
                Err(cause) => {
                    let message = format!("cannot create a response to `{}`: {cause}", operation.name);
                    let details = json!({ "operation": operation.name, "status": status, "schema": format!("#{}/schema", media.pointer) });
                    let refusal = MockReply::refusal(500, Code::MockNoAnswer, &message, &details);
                    return MockReply {
                        by: Some(by),
                        ..refusal
                    };
                }
            },
        };
        MockReply {
            status,
            headers,
            body,
            delay: Duration::ZERO,
            by: Some(by),
            refusal: None,
        }
    }

    fn body(
        &self,
        kind: &str,
        media: &Cursor<'_>,
        seed: u64,
        (request, params): (&Request, &Params),
        smart: bool,
        budget: &mut Budget,
    ) -> Result<Bytes, String> {
        let pointer = format!("{}/schema", media.pointer);
        let validator = match media.value.get("schema") {
            Some(_) => Some(self.responses.validator(&pointer)?),
            None => None,
        };
        let fits = |value: &&Value| {
            let is_valid = |validator: &BoundedValidator<'_>| validator.is_valid(budget, value);
            validator.as_ref().is_none_or(is_valid)
        };
        let example = examples::of_media(media)
            .into_iter()
            .map(|(_, value)| value)
            .find(fits);
        let value = match (example, &validator) {
            (Some(example), _) => example.clone(),
            (None, Some(validator)) if is_json(kind) || !kind.contains("xml") => {
                make::value(validator, self.max_depth, seed, budget)?
            }
            (None, None) if is_json(kind) => json!({}),
            (None, _) => {
                return Err(format!("`{kind}` needs a valid example in the document"));
            }
        };
        let value = if smart {
            reflect_request::into(value, request, params, validator.as_ref(), budget)
        } else {
            value
        };
        if number::is_number(&value) {
            return Ok(Bytes::from(number::to_json(&value)));
        }
        Ok(match value {
            Value::String(text) if !is_json(kind) => {
                let binary = media
                    .get("schema")
                    .is_some_and(|schema| schema.text("contentEncoding") == Some("base64"));
                let bytes = binary.then(|| STANDARD.decode(&text).ok()).flatten();
                bytes.map_or_else(|| Bytes::from(text), Bytes::from)
            }
            value => Bytes::from(number::to_json(&value)),
        })
    }

    /// Returns the headers that are required or have an example.
    fn headers(&self, response: &Cursor<'_>, seed: u64, budget: &mut Budget) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let headers = response
            .get("headers")
            .map(|headers| headers.entries().collect::<Vec<_>>());
        for (name, header) in headers.into_iter().flatten() {
            if name.eq_ignore_ascii_case("content-type") {
                continue;
            }
            let example = examples::of_media(&header)
                .into_iter()
                .next()
                .map(|(_, value)| value.clone());
            let pointer = format!("{}/schema", header.pointer);
            let of_schema = || {
                let wanted = header.is("required") || header.value.pointer("/schema/example").is_some();
                let validator = self
                    .responses
                    .validator(&pointer)
                    .ok()
                    .filter(|_| wanted && header.value.get("schema").is_some())?;
                make::value(&validator, 1, seed, budget).ok()
            };
            match example.or_else(of_schema) {
                Some(Value::String(text)) if number::spelled(&Value::from(text.as_str())).is_none() => {
                    found.push((name.to_lowercase(), one_line(&text)));
                }
                Some(value) => found.push((name.to_lowercase(), number::to_json(&value))),
                None => {}
            }
        }
        found
    }
}

/// Selects the lowest 2xx status, otherwise `default` as 200, otherwise the lowest status.
fn select_response<'a>(responses: &Cursor<'a>) -> Option<(u16, Cursor<'a>)> {
    let mut all: Vec<(u16, Cursor<'a>)> = Vec::new();
    let mut default = None;
    for (status, response) in responses.entries() {
        let number = status.replace(['X', 'x'], "0").parse::<u16>().ok();
        match number {
            Some(number) if number >= 200 => all.push((number, response)),
            _ if status == "default" => default = Some((200, response)),
            _ => {}
        }
    }
    all.sort_by_key(|(status, _)| *status);
    let good = all.iter().position(|(status, _)| (200..300).contains(status));
    match good {
        Some(at) => Some(all.swap_remove(at)),
        None => default.or_else(|| all.into_iter().next()),
    }
}

/// Selects the first accepted media type, JSON before others. If none is accepted, it selects the first one.
fn select_media_type<'a>(content: &Cursor<'a>, accept: Option<&str>) -> Option<(String, Cursor<'a>)> {
    let mut all: Vec<(String, Cursor<'a>)> = content.entries().collect();
    all.sort_by_key(|(kind, _)| !is_json(kind));
    let accepts = |kind: &str| {
        let kind = kind.to_lowercase();
        let mut ranges = accept.unwrap_or("*/*").split(',');
        ranges.any(|range| {
            covers(range, &kind) || covers(&kind, range.split(';').next().unwrap_or_default().trim())
        })
    };
    let at = all.iter().position(|(kind, _)| accepts(kind)).unwrap_or(0);
    let (kind, media) = all.into_iter().nth(at)?;
    let kind = if kind.contains('*') {
        "application/json".to_owned()
    } else {
        kind
    };
    Some((kind, media))
}

/// Computes the seed from operation and path, so a request gets the same response in every run and every order.
fn seed(operation: &str, request: &Request) -> u64 {
    let mut hash = Sha256::new();
    hash.update(operation);
    hash.update([0]);
    hash.update(&request.path);
    let digest = hash.finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}
