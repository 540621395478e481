//! Requests that a mock received.

pub(crate) mod page;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::summary::clip;
use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_lines;
use page::MockRequestsPage;

/// Default and maximum number of requests.
const DEFAULT_REQUESTS: usize = 20;
const MAX_REQUESTS: usize = 1_000;
/// Maximum number of requests in a summary.
const MAX_SUMMARY: usize = 200;
/// Maximum length of a path and of a body, in characters.
const MAX_PATH: usize = 300;
const MAX_BODY: usize = 500;

fn default_tail() -> usize {
    DEFAULT_REQUESTS
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MockRequests {
    /// Environment name
    pub(crate) environment: String,
    /// Mock name
    pub(crate) mock: String,
    /// Number of latest requests, at most 200
    #[serde(default = "default_tail")]
    #[schemars(range(max = 200))]
    pub(crate) tail: usize,
    /// Include the headers
    #[serde(default)]
    pub(crate) headers: bool,
}

/// Requests that a mock received.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MockRequestsSummary {
    environment: String,
    mock: String,
    /// Number of requests since the start of the mock.
    total: u64,
    /// The latest requests, oldest first.
    requests: Vec<Row>,
}

/// One request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Number of the request, from 1.
    number: u64,
    /// Time of the complete request (RFC 3339).
    time: String,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    query: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    /// Beginning of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Matching route; absent if nothing matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    /// Message of an error response, such as the nearest route and its difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    /// Status of the response.
    status: u16,
    duration_ms: u64,
}

impl Operation for MockRequests {
    const EFFECT: Effect = Effect::ReadOnly;
    // `http` has the route, because it also streams new requests.
    const ROUTES: &'static [Route] = &[];
    const IS_PRIVATE: bool = true;
    type Output = MockRequestsPage;

    async fn run(&self, context: &Context) -> Result<MockRequestsPage, Failure> {
        let (env, _) = target::parse_target(&self.environment, None)?;
        let status = context.client.find_environment(&env).await?;
        let tail = self.tail.min(MAX_REQUESTS);
        let state = context.client.state();
        Box::pin(page::read_requests(state, &status, &self.mock, tail)).await
    }
}

impl Tool for MockRequests {
    const NAME: &'static str = "argus_mock_requests";
    const TITLE: &'static str = "Requests to a mock";
    const ABOUT: &'static str = "Returns the latest requests to a mock of an environment: method, path, body without secrets, matching route \
and status. Use it if a service receives an unexpected response, or to check that it sends requests at all. It queries the mock on its \
published port.";
    type Data = MockRequestsSummary;

    async fn summarize(&self, page: MockRequestsPage, _context: &Context) -> Summary<MockRequestsSummary> {
        let surplus = page.requests.len().saturating_sub(MAX_SUMMARY);
        let requests = page.requests.into_iter().skip(surplus);
        let rows: Vec<Row> = requests.map(|request| self.create_row(request)).collect();
        let mut text: String = rows.iter().map(Row::format_line).collect();
        if rows.is_empty() {
            "no requests\n".clone_into(&mut text);
        }
        let has_unmatched = rows.iter().any(|row| row.matched.is_none());
        let data = MockRequestsSummary {
            environment: self.environment.clone(),
            mock: self.mock.clone(),
            total: page.total,
            requests: rows,
        };
        let summary = Summary::new(data, text);
        if has_unmatched {
            let code = json!({ "code": "MOCK_NO_ROUTE" });
            let reason = "remedies for unmatched requests";
            return summary.with_next(NextStep::new(reason, "argus_explain", code));
        }
        summary
    }
}

impl MockRequests {
    fn create_row(&self, request: page::Request) -> Row {
        Row {
            number: request.number,
            time: request.time,
            method: request.method,
            path: clip(&request.path, MAX_PATH),
            query: request.query,
            headers: if self.headers { request.headers } else { Vec::new() },
            body: request.body.map(|body| clip(&body, MAX_BODY)),
            matched: request.matched,
            refusal: request.refusal.map(|text| clip(&text, MAX_BODY)),
            status: request.status,
            duration_ms: request.duration_ms,
        }
    }
}

impl Row {
    fn format_line(&self) -> String {
        let by = self.matched.as_deref().unwrap_or("nothing matched");
        let head = format!(
            "{} {} -> {} ({by}, {} ms)\n",
            self.number, self.time, self.status, self.duration_ms
        );
        let body = self.body.as_ref().map(|body| format!(" {body}"));
        let refusal = self.refusal.as_ref().map(|text| format!("\n{text}"));
        let sent = [body, refusal].map(Option::unwrap_or_default).concat();
        head + &mark_lines(&format!("{} {}{sent}", self.method, self.path))
    }
}
