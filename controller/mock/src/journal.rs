//! The requests that a mock answered lately: the newest of them, cut to a size, without secrets.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::time::Timestamp;
use serde::Serialize;

use crate::answer::MockReply;
use crate::request::{Content, Request};
use crate::secret;

/// How many requests are kept.
pub const KEPT: usize = 1_000;
/// How much of a body is kept, in bytes.
pub const BODY: usize = 4 * 1024;
/// How much of a path, and of all headers and of all parameters, is kept.
const HEAD: usize = 2 * 1024;

/// The newest requests.
#[derive(Debug, Default)]
pub struct Journal {
    ring: VecDeque<Entry>,
    /// How many there were in all.
    total: u64,
}

/// One request, and what it was answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// When it was complete, in RFC 3339.
    pub time: String,
    /// The method.
    pub method: String,
    /// The path, as it was sent.
    pub path: String,
    /// The parameters of the query.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The start of the body, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How many bytes the whole body has.
    pub body_bytes: usize,
    /// What answered; nothing where nothing matched.
    pub matched: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// How long the answer took, in milliseconds, with the delay that the file asks for.
    pub duration_ms: u64,
}

/// What the journal shows to those who ask.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// How many requests there were since the mock was started.
    pub total: u64,
    /// The newest of them, oldest first.
    pub requests: Vec<Entry>,
}

impl Journal {
    /// Keeps a request and forgets the oldest one beyond the bound.
    pub fn keep(&mut self, request: &Request, answer: &MockReply, now: Timestamp, took: Duration) {
        self.total += 1;
        if self.ring.len() >= KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(Entry {
            number: self.total,
            time: now.to_string(),
            method: cut(&request.method, 32),
            path: cut(&request.path, HEAD),
            query: cut_pairs(&secret::blacked(&request.query)),
            headers: cut_pairs(&secret::blacked(&request.headers)),
            body: body(request),
            body_bytes: request.body.len(),
            matched: answer.by.clone(),
            status: answer.status,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// The newest requests after the one with this number, at most `most` of them.
    pub fn page(&self, after: u64, most: usize) -> Page {
        let newer = self.ring.iter().filter(|entry| entry.number > after);
        let skip = newer.clone().count().saturating_sub(most);
        Page {
            total: self.total,
            requests: newer.skip(skip).cloned().collect(),
        }
    }

    /// Forgets all requests, but not how many there were.
    pub fn clear(&mut self) {
        self.ring = VecDeque::new();
    }
}

fn body(request: &Request) -> Option<String> {
    match request.content() {
        Content::Nothing | Content::Bytes => None,
        Content::Json(value) if secret::holds_secrets(value) => {
            Some(cut(&secret::blacked_value(value).to_string(), BODY))
        }
        Content::Form(fields) => {
            let fields = secret::blacked(fields);
            let text: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            Some(cut(&text.join("&"), BODY))
        }
        Content::Text(text) => Some(cut(&secret::blacked_text(text), BODY)),
        Content::Json(_) => std::str::from_utf8(&request.body)
            .ok()
            .map(|text| cut(text, BODY)),
    }
}

/// The start of a text, cut between characters.
fn cut(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn cut_pairs(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let mut left = HEAD;
    let mut kept = Vec::new();
    for (name, value) in pairs {
        if left == 0 {
            break;
        }
        let pair = (cut(name, left.min(256)), cut(value, left.min(1024)));
        left = left.saturating_sub(pair.0.len() + pair.1.len() + 16);
        kept.push(pair);
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
        journal.keep(&request, &answer, Timestamp(0), Duration::from_millis(7));
    }

    #[test]
    fn the_newest_thousand_stay_and_all_are_counted() {
        let mut journal = Journal::default();
        for number in 0..1_500 {
            keep(&mut journal, &format!("/{number}"), &[], "");
        }
        let page = journal.page(0, usize::MAX);
        assert_eq!((page.total, page.requests.len()), (1_500, KEPT));
        assert_eq!(
            (page.requests[0].number, page.requests[0].path.as_str()),
            (501, "/500")
        );
        let page = journal.page(1_490, 3);
        assert_eq!(
            page.requests.iter().map(|entry| entry.number).collect::<Vec<_>>(),
            [1_498, 1_499, 1_500]
        );
        journal.clear();
        assert_eq!(journal.page(0, 9).total, 1_500);
    }

    #[test]
    fn no_entry_is_large_whatever_is_sent() {
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
    fn secrets_are_not_kept() {
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
