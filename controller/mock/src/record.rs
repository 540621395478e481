//! Recordings: requests with their responses, without secrets, and the lookup by request.

use std::collections::HashMap;

use argus_core::hex::hex;
use argus_core::time::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::answer::MockReply;
use crate::path;
use crate::request::{Content, Request};
use crate::secret;

/// Version of the format of a recording file.
const VERSION: u32 = 1;

/// Recording: a request and its response, stored in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    version: u32,
    /// Time of the recording (RFC 3339).
    recorded_at: String,
    request: RecordedRequest,
    response: RecordedResponse,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedRequest {
    method: String,
    path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    query: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedResponse {
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Stored>,
}

/// Stored body: its text, or base64 if it is not text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stored {
    Text(String),
    Base64(String),
}

impl Recording {
    /// Creates a recording and redacts its secrets.
    pub fn new(request: &Request, answer: &MockReply, now: Timestamp) -> Self {
        let response = Request::new("", "", answer.headers.clone(), answer.body.clone());
        Self {
            version: VERSION,
            recorded_at: now.to_string(),
            request: RecordedRequest {
                method: request.method.clone(),
                path: request.path.clone(),
                query: secret::redact_pairs(&request.query),
                headers: secret::redact_pairs(&request.headers),
                body: stored_body(request),
            },
            response: RecordedResponse {
                status: answer.status,
                headers: secret::redact_pairs(&answer.headers),
                body: stored_body(&response),
            },
        }
    }

    /// Parses the content of a recording file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let pair: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if pair.version != VERSION {
            return Err(format!(
                "version {} is not supported, only {VERSION}",
                pair.version
            ));
        }
        Ok(pair)
    }

    /// Returns the content of the recording file.
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: the type has only strings and numbers.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the name of the file. Equal requests have the same name, so a repeated request replaces its recording.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let path: String = self
            .request
            .path
            .trim_matches('/')
            .chars()
            .map(plain)
            .take(80)
            .collect();
        format!("{}_{path}_{}.json", self.request.method, &self.exact_key()[..16])
    }

    fn exact_key(&self) -> String {
        let body = match &self.request.body {
            None => "",
            Some(Stored::Text(text) | Stored::Base64(text)) => text,
        };
        key(
            &self.request.method,
            &self.request.path,
            &self.request.query,
            Some(body),
        )
    }

    fn answer(&self) -> MockReply {
        let body = match &self.response.body {
            None => Bytes::new(),
            Some(Stored::Text(text)) => Bytes::from(text.clone()),
            Some(Stored::Base64(text)) => STANDARD.decode(text).map(Bytes::from).unwrap_or_default(),
        };
        MockReply {
            status: self.response.status,
            headers: self.response.headers.clone(),
            body,
            delay: std::time::Duration::ZERO,
            by: Some(format!("recording {}", self.file_name())),
            refusal: None,
        }
    }
}

/// Index of recordings by request.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    pairs: Vec<Recording>,
    /// Index by method, path, query and body.
    exact: HashMap<String, usize>,
    /// Index by method, path and query.
    loose: HashMap<String, usize>,
}

impl Recordings {
    /// Creates the index. Of several recordings of one request, the newest one applies.
    pub(crate) fn new(mut pairs: Vec<Recording>) -> Self {
        pairs.sort_by(|one, other| one.recorded_at.cmp(&other.recorded_at));
        let (mut exact, mut loose) = (HashMap::new(), HashMap::new());
        for (index, pair) in pairs.iter().enumerate() {
            exact.insert(pair.exact_key(), index);
            loose.insert(
                key(
                    &pair.request.method,
                    &pair.request.path,
                    &pair.request.query,
                    None,
                ),
                index,
            );
        }
        Self { pairs, exact, loose }
    }

    /// Returns the response to an equal request, otherwise to a request that differs only in its body.
    pub(crate) fn answer(&self, request: &Request) -> Option<MockReply> {
        let query = secret::redact_pairs(&request.query);
        let body = match stored_body(request) {
            None => String::new(),
            Some(Stored::Text(text) | Stored::Base64(text)) => text,
        };
        let exact = self
            .exact
            .get(&key(&request.method, &request.path, &query, Some(&body)));
        let found = exact.or_else(|| self.loose.get(&key(&request.method, &request.path, &query, None)));
        found
            .and_then(|index| self.pairs.get(*index))
            .map(Recording::answer)
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }
}

/// Computes the lookup key of a request. The order of its query parameters is irrelevant.
fn key(method: &str, path: &str, query: &[(String, String)], body: Option<&str>) -> String {
    let mut query = query.to_vec();
    query.sort();
    let all = serde_json::json!([method, path::segments(path), query, body]);
    let digest = Sha256::digest(all.to_string());
    hex(&digest[..16])
}

/// Returns the body of a request without secrets.
fn stored_body(request: &Request) -> Option<Stored> {
    match request.content() {
        Content::Bytes => Some(Stored::Base64(STANDARD.encode(&request.body))),
        Content::Empty | Content::Json(_) | Content::Form(_) | Content::Text(_) => {
            secret::redact_body(request).map(Stored::Text)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(method: &str, target: &str, body: &str) -> Request {
        let headers = vec![("Authorization".to_owned(), "Bearer hunter2".to_owned())];
        Request::new(method, target, headers, Bytes::from(body.to_owned()))
    }

    fn pair(request: &Request, body: &str, at: i64) -> Recording {
        let mut answer = MockReply::refusal(200, argus_crds::error::Code::Internal, "", &json!({}));
        answer.body = Bytes::from(body.to_owned());
        answer
            .headers
            .push(("set-cookie".to_owned(), "sid=hunter2".to_owned()));
        Recording::new(request, &answer, Timestamp(at))
    }

    fn replay(recordings: &Recordings, request: &Request) -> Option<String> {
        let answer = recordings.answer(request)?;
        Some(String::from_utf8_lossy(&answer.body).into_owned())
    }

    #[test]
    fn recorded_request_finds_its_response() {
        let recordings = Recordings::new(vec![
            pair(&request("GET", "/a?x=1&y=2", ""), "old", 1),
            pair(&request("GET", "/a?x=1&y=2", ""), "new", 2),
            pair(&request("POST", "/a", "one"), "for one", 3),
            pair(&request("POST", "/a", "two"), "for two", 4),
        ]);
        let cases = [
            (request("GET", "/a?y=2&x=1", ""), Some("new")),
            (request("GET", "/./a/?x=1&y=2", ""), Some("new")),
            (request("GET", "/a?x=1", ""), None),
            (request("POST", "/a", "one"), Some("for one")),
            (request("POST", "/a", "three"), Some("for two")),
            (request("PUT", "/a", "one"), None),
        ];
        for (request, wanted) in cases {
            assert_eq!(replay(&recordings, &request).as_deref(), wanted, "{request:?}");
        }
    }

    #[test]
    fn secrets_are_redacted_and_ignored_by_the_lookup() {
        let login = request(
            "POST",
            "/login?token=hunter2",
            "{\"user\":\"ann\",\"password\":\"hunter2\"}",
        );
        let pair = pair(&login, "{\"access_token\":\"hunter2\",\"user\":\"ann\"}", 1);
        let text = pair.to_json();
        assert!(!text.contains("hunter2") && text.contains("ann"), "{text}");
        let read = Recording::parse(text.as_bytes()).unwrap();
        assert_eq!(read, pair);
        let again = request(
            "POST",
            "/login?token=other",
            "{\"user\":\"ann\",\"password\":\"other\"}",
        );
        let answer = replay(&Recordings::new(vec![read]), &again).unwrap();
        assert_eq!(answer, "{\"access_token\":\"[redacted]\",\"user\":\"ann\"}");
    }

    #[test]
    fn bytes_survive_and_the_file_name_is_plain() {
        let request = request("GET", "/img/%2e%2e/../etc passwd", "");
        let mut answer = MockReply::refusal(200, argus_crds::error::Code::Internal, "", &json!({}));
        answer.body = Bytes::from_static(&[0xff, 0, 1]);
        let pair = Recording::new(&request, &answer, Timestamp(0));
        let name = pair.file_name();
        assert!(
            !name.contains('/') && !name.contains("..") && name.starts_with("GET_img-"),
            "{name}"
        );
        let answer = Recordings::new(vec![pair]).answer(&request).unwrap();
        assert_eq!(answer.body.as_ref(), [0xff, 0, 1]);
    }
}
