//! Request log of a mock: the latest requests, truncated and without secrets.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::quoting::start_of;
use argus_core::time::Timestamp;
use serde::Serialize;

use crate::answer::MockReply;
use crate::request::Request;
use crate::secret;

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 1_000;
/// Maximum length of a stored body, in bytes.
pub const MAX_BODY: usize = 4 * 1024;
/// Maximum length of a stored path, of all stored headers, and of all stored parameters, in bytes each.
const HEAD: usize = 2 * 1024;

/// Ring buffer of the latest requests.
#[derive(Debug, Default)]
pub struct Journal {
    ring: VecDeque<Entry>,
    /// Number of requests since the start.
    total: u64,
}

/// Request with a summary of its response.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Number of the request, from 1.
    pub number: u64,
    /// Time at which the request was complete (RFC 3339).
    pub time: String,
    /// HTTP method, in upper case.
    pub method: String,
    /// Path as received, without the query.
    pub path: String,
    /// Query parameters, redacted.
    pub query: Vec<(String, String)>,
    /// Headers, redacted.
    pub headers: Vec<(String, String)>,
    /// Start of the body, redacted; absent if the body is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Length of the whole body, in bytes.
    pub body_bytes: usize,
    /// Source of the response; `None` if nothing matched.
    pub matched: Option<String>,
    /// Message of an error response, such as the nearest route and its difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// HTTP status of the response.
    pub status: u16,
    /// Duration in milliseconds, including the configured delay.
    pub duration_ms: u64,
}

/// Result of [`Journal::page`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// Number of requests since the start of the mock.
    pub total: u64,
    /// Selected requests, oldest first.
    pub requests: Vec<Entry>,
}

impl Journal {
    /// Adds a request, and removes the oldest one if the journal is full.
    pub fn record(&mut self, request: &Request, answer: &MockReply, now: Timestamp, took: Duration) {
        self.total += 1;
        if self.ring.len() >= MAX_ENTRIES {
            self.ring.pop_front();
        }
        self.ring.push_back(Entry {
            number: self.total,
            time: now.to_string(),
            method: start_of(&request.method, 32).to_owned(),
            path: start_of(&request.path, HEAD).to_owned(),
            query: cut_pairs(&secret::redact_pairs(&request.query)),
            headers: cut_pairs(&secret::redact_pairs(&request.headers)),
            body: secret::redact_body(request).map(|text| start_of(&text, MAX_BODY).to_owned()),
            body_bytes: request.body.len(),
            matched: answer.by.clone(),
            refusal: answer
                .refusal
                .as_ref()
                .map(|text| start_of(text, HEAD).to_owned()),
            status: answer.status,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// Returns at most `most` of the newest requests after the request with number `after`.
    pub fn page(&self, after: u64, most: usize) -> Page {
        let newer = self.ring.iter().filter(|entry| entry.number > after);
        let skip = newer.clone().count().saturating_sub(most);
        Page {
            total: self.total,
            requests: newer.skip(skip).cloned().collect(),
        }
    }

    /// Removes all requests, but keeps their total number.
    pub fn clear(&mut self) {
        self.ring = VecDeque::new();
    }
}

fn cut_pairs(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let mut left = HEAD;
    let mut kept = Vec::new();
    for (name, value) in pairs {
        if left == 0 {
            break;
        }
        let (name, value) = (start_of(name, left.min(256)), start_of(value, left.min(1024)));
        left = left.saturating_sub(name.len() + value.len() + 16);
        kept.push((name.to_owned(), value.to_owned()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn keep(journal: &mut Journal, target: &str, headers: &[(&str, &str)], body: &str) {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let request = Request::new("POST", target, headers.collect(), Bytes::from(body.to_owned()));
        let answer = MockReply::refusal(404, Code::MockNoRoute, "no", &json!(null));
        journal.record(&request, &answer, Timestamp(0), Duration::from_millis(7));
    }

    #[test]
    fn journal_keeps_the_newest_thousand_and_counts_all() {
        let mut journal = Journal::default();
        for number in 0..1_500 {
            keep(&mut journal, &format!("/{number}"), &[], "");
        }
        let page = journal.page(0, usize::MAX);
        assert_eq!((page.total, page.requests.len()), (1_500, MAX_ENTRIES));
        assert_eq!(
            (page.requests[0].number, page.requests[0].path.as_str()),
            (501, "/500")
        );
        assert_eq!(page.requests[0].refusal.as_deref(), Some("no"));
        let page = journal.page(1_490, 3);
        assert_eq!(
            page.requests.iter().map(|entry| entry.number).collect::<Vec<_>>(),
            [1_498, 1_499, 1_500]
        );
        journal.clear();
        assert_eq!(journal.page(0, 9).total, 1_500);
    }

    #[test]
    fn entry_size_is_bounded_for_every_request() {
        let mut journal = Journal::default();
        let long = "ü".repeat(100_000);
        let headers: Vec<(String, String)> = (0..500).map(|n| (format!("h{n}"), long.clone())).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        keep(&mut journal, &format!("/{long}?{long}={long}"), &headers, &long);
        let text = serde_json::to_string(&journal.page(0, 1)).unwrap();
        assert!(text.len() < 16 * 1024, "{}", text.len());
        assert_eq!(journal.page(0, 1).requests[0].body_bytes, 200_000);
    }

    #[test]
    fn journal_contains_no_secrets() {
        let mut journal = Journal::default();
        let headers = [
            ("Authorization", "Bearer hunter2"),
            ("Cookie", "hunter2"),
            ("X-Api-Key", "hunter2"),
        ];
        keep(
            &mut journal,
            "/?token=hunter2&a=b",
            &headers,
            "{\"password\": \"hunter2\", \"user\": \"ann\"}",
        );
        let form = [("content-type", "application/x-www-form-urlencoded")];
        keep(&mut journal, "/", &form, "password=hunter2&user=ann");
        let json = r#"{ "password": "hunter2", "user": "ann" }"#;
        keep(&mut journal, "/", &form, json);
        keep(&mut journal, "/", &[("content-type", "text/plain")], json);
        let text = serde_json::to_string(&journal.page(0, 9)).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(text.matches("ann").count(), 4, "{text}");
    }
}
