//! Results of works, which the driver passes to a run, such as responses to requests with their headers and bodies.

use std::time::Duration;

use argus_crds::number::{self, Keep};
use serde_json::{Map, Value};

use crate::check::Failure;
use crate::container::CommandOutput;
use crate::value::shortened;

/// Result of a [`Work`](crate::Work).
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The wait has ended.
    Done,
    /// Response to a request, after its redirects.
    Response(Response),
    /// Outputs of all commands.
    Outputs(Vec<CommandOutput>),
    /// True if the port accepts connections.
    Port(bool),
    /// The work was not possible.
    Failed(Failure),
    /// Argus does not support the work, for this reason. The case has no verdict.
    Unsupported(String),
}

/// Response to a request, after all redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers in their order. A name can occur several times.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
    /// Time from sending the request until the headers arrived.
    pub elapsed: Duration,
}

impl Response {
    /// Returns the value of a header. Repeated headers are joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let named = self
            .headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let values: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Returns the reason why the body cannot be read: it is compressed.
    pub fn unsupported(&self) -> Option<String> {
        let encoding = self.header("content-encoding")?;
        let is_plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
        let is_compressed = !is_plain && !self.body.is_empty();
        is_compressed.then(|| {
            format!(
                "not supported: bodies with the encoding `{}`",
                shortened(&encoding)
            )
        })
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
    }

    /// Returns the body: a JSON value if its type says so, else its text.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        let kind = self.header("content-type").unwrap_or_default();
        let text = self.text();
        if !kind.contains("application/json") {
            return Ok(Value::String(text));
        }
        number::parse(&text, Keep::Value).map_err(|error| {
            let message = format!(
                "the body is not valid JSON, but its type is `{}`: {error}",
                shortened(&kind)
            );
            Failure::new("body", message)
        })
    }

    /// Returns the headers by their names in lower case.
    pub(crate) fn headers_by_name(&self) -> Map<String, Value> {
        let mut headers: Map<String, Value> = Map::new();
        for (name, value) in &self.headers {
            let name = name.to_ascii_lowercase();
            let joined = match headers.get(&name).and_then(Value::as_str) {
                // Of several cookies, only the last one is visible.
                Some(first) if name != "set-cookie" => format!("{first}, {value}"),
                _ => value.clone(),
            };
            headers.insert(name, Value::String(joined));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_body_is_unsupported() {
        let unsupported = |encoding: &str, body: &[u8]| {
            let response = Response {
                status: 200,
                headers: vec![("Content-Encoding".to_owned(), encoding.to_owned())],
                body: body.to_vec(),
                elapsed: Duration::ZERO,
            };
            response.unsupported()
        };
        let gzip = unsupported("gzip", b"\x1f\x8b").unwrap();
        assert_eq!(gzip, "not supported: bodies with the encoding `gzip`");
        assert_eq!(unsupported("gzip", b""), None);
        assert_eq!(unsupported("identity", b"a"), None);
    }
}
