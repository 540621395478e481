//! What a mock answers.

use std::time::Duration;

use argus_crds::MockResponse;
use argus_crds::error::Code;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::fill::{TemplateContext, is_template};

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockReply {
    /// The HTTP status.
    pub status: u16,
    /// The headers, those of the framing not among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// How long to wait before it.
    pub delay: Duration,
    /// What made it, as in ``routes[2] GET /users/:id``; nothing for what nobody answers.
    pub by: Option<String>,
}

/// Headers that say how an answer is framed: the server knows them better.
pub(crate) const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
];
/// The type of a value.
pub(crate) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl MockReply {
    /// An answer that says in JSON why there is no other; `argus explain CODE` tells more.
    pub fn refusal(status: u16, code: Code, message: &str, details: &Value) -> Self {
        let body = json!({ "error": { "code": code, "message": message, "details": details } });
        Self {
            status,
            headers: vec![("content-type".to_owned(), JSON.to_owned())],
            body: Bytes::from(body.to_string()),
            delay: Duration::ZERO,
            by: None,
        }
    }
}

/// A response of a file, with all work done that needs no request.
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
    pub(crate) fn new(written: &MockResponse) -> Self {
        let headers = written
            .headers
            .iter()
            .filter(|(name, _)| !FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)));
        let body = match &written.body {
            Some(body) if is_template(body) => Body::Template(body.clone()),
            body => {
                let (bytes, kind) = encoded(body.as_ref());
                Body::Fixed { bytes, kind }
            }
        };
        Self {
            status: written.status,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.clone()))
                .collect(),
            body,
            delay: written.delay.map(Duration::from).unwrap_or_default(),
        }
    }

    pub(crate) fn answer(&self, facts: &TemplateContext<'_>, by: &str) -> MockReply {
        let (body, kind) = match &self.body {
            Body::Fixed { bytes, kind } => (bytes.clone(), *kind),
            Body::Template(value) => encoded(Some(&facts.fill(value))),
        };
        let mut headers: Vec<(String, String)> = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            headers.push((name.clone(), one_line(&facts.text(value))));
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
        }
    }
}

/// A text as it is, anything else as JSON.
fn encoded(body: Option<&Value>) -> (Bytes, Option<&'static str>) {
    match body {
        None => (Bytes::new(), None),
        Some(Value::String(text)) => (Bytes::from(text.clone()), Some(TEXT)),
        Some(value) => (Bytes::from(value.to_string()), Some(JSON)),
    }
}

/// What a request brought along must not end a header.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
