//! Responses of a mock: prepared from the file, completed per request.

use std::time::Duration;

use argus_crds::MockResponse;
use argus_crds::error::Code;
use argus_crds::number;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::fill::{TemplateContext, is_template};

/// Complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockReply {
    /// HTTP status.
    pub status: u16,
    /// Headers, without those of the HTTP framing.
    pub headers: Vec<(String, String)>,
    /// Complete body.
    pub body: Bytes,
    /// Delay before the response.
    pub delay: Duration,
    /// Source of the response, such as `routes[2] GET /users/:id`; `None` if nothing matched.
    pub by: Option<String>,
    /// Message of an error response.
    pub refusal: Option<String>,
}

/// Headers of the HTTP framing. Only the server sets them.
pub(crate) const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
];
/// Media type of JSON values.
pub(crate) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl MockReply {
    /// Creates an error response: a JSON object with code, message and details.
    pub fn refusal(status: u16, code: Code, message: &str, details: &Value) -> Self {
        let body = json!({ "error": { "code": code, "message": message, "details": details } });
        Self {
            status,
            headers: vec![("content-type".to_owned(), JSON.to_owned())],
            body: Bytes::from(body.to_string()),
            delay: Duration::ZERO,
            by: None,
            refusal: Some(message.to_owned()),
        }
    }
}

/// Response from the file, prepared as far as possible without a request.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    delay: Duration,
}

#[derive(Clone, Debug)]
enum Body {
    Fixed {
        bytes: Bytes,
        kind: Option<&'static str>,
    },
    Template(Value),
}

impl Prepared {
    pub(crate) fn new(spec: &MockResponse) -> Self {
        let headers = spec
            .headers
            .iter()
            .filter(|(name, _)| !FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)));
        let body = match &spec.body {
            Some(body) if is_template(body) => Body::Template(body.clone()),
            body => {
                let (bytes, kind) = encode(body.as_ref());
                Body::Fixed { bytes, kind }
            }
        };
        Self {
            status: spec.status,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.clone()))
                .collect(),
            body,
            delay: spec.delay.map(Duration::from).unwrap_or_default(),
        }
    }

    pub(crate) fn answer(&self, context: &TemplateContext<'_>, by: &str) -> MockReply {
        let (body, kind) = match &self.body {
            Body::Fixed { bytes, kind } => (bytes.clone(), *kind),
            Body::Template(value) => encode(Some(&context.fill(value))),
        };
        let mut headers: Vec<(String, String)> = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            headers.push((name.clone(), one_line(&context.text(value))));
        }
        if let Some(exceeded) = context.budget.borrow().exceeded() {
            let message = format!("cannot create the response of `{by}`: its templates need {exceeded}");
            let refusal = MockReply::refusal(500, Code::MockNoAnswer, &message, &json!({ "route": by }));
            return MockReply {
                by: Some(by.to_owned()),
                ..refusal
            };
        }
        if let Some(kind) = kind
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        MockReply {
            status: self.status,
            headers,
            body,
            delay: self.delay,
            by: Some(by.to_owned()),
            refusal: None,
        }
    }
}

/// Encodes a string unchanged, and any other value as JSON. Returns the body and its media type.
fn encode(body: Option<&Value>) -> (Bytes, Option<&'static str>) {
    match body {
        None => (Bytes::new(), None),
        Some(value @ Value::String(text)) if !number::is_number(value) => {
            (Bytes::from(text.clone()), Some(TEXT))
        }
        Some(value) => (Bytes::from(number::to_json(value)), Some(JSON)),
    }
}

/// Replaces control characters, because values from a request must not end a header.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
