//! `argus_mock_requests`: what a mock was asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::summary::clipped;
use super::tool::{Effect, Tool};
use crate::cli::{mock, target};
use crate::exit::Failure;

/// Requests where nobody says how many, and the most.
const REQUESTS: usize = 20;
const MOST: usize = 200;
/// How much of a path and of a body is told.
const PATH: usize = 300;
const BODY: usize = 500;

fn tail() -> usize {
    REQUESTS
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MockRequests {
    /// Environment
    environment: String,
    /// Mock
    mock: String,
    /// Last requests, at most 200
    #[serde(default = "tail")]
    #[schemars(range(max = 200))]
    tail: usize,
    /// Headers as well
    #[serde(default)]
    headers: bool,
}

/// What a mock was asked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MockRequestsOutput {
    environment: String,
    mock: String,
    /// How many requests there were since the mock was started.
    total: u64,
    /// The last of them, oldest first.
    requests: Vec<Row>,
}

/// One request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Its number, from 1.
    number: u64,
    /// When it was complete (RFC 3339).
    time: String,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    query: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    /// The start of its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// What answered; nothing matched where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    /// The status of the answer.
    status: u16,
    duration_ms: u64,
}

impl Tool for MockRequests {
    const NAME: &'static str = "argus_mock_requests";
    const TITLE: &'static str = "What a mock was asked";
    const ABOUT: &'static str = "Shows the last requests that a mock of an environment got: method, path, body without secrets, which \
route answered and with what. For when a service gets another answer than you expect, or to see that it called at all. The mock itself \
is asked, on its published port.";
    const EFFECT: Effect = Effect::Looks;
    type Output = MockRequestsOutput;

    async fn call(self, call: Call) -> Result<Output<MockRequestsOutput>, Failure> {
        let (env, _) = target::parts(&self.environment, None)?;
        let status = call.client.find_environment(&env).await?;
        let asked = Box::pin(mock::asked(&status, &self.mock, self.tail.min(MOST))).await?;
        let rows = asked.requests.into_iter().map(|request| self.row(request));
        let rows: Vec<Row> = rows.collect();
        let mut text: String = rows.iter().map(Row::line).collect();
        if rows.is_empty() {
            "nothing was asked\n".clone_into(&mut text);
        }
        let unanswered = rows.iter().any(|row| row.matched.is_none());
        let told = MockRequestsOutput {
            environment: env,
            mock: self.mock,
            total: asked.total,
            requests: rows,
        };
        let said = Output::new(told, text);
        if unanswered {
            let code = json!({ "code": "MOCK_NO_ROUTE" });
            let why = "what to do about requests that nothing matched";
            return Ok(said.then(NextStep::new(why, "argus_explain", code)));
        }
        Ok(said)
    }
}

impl MockRequests {
    fn row(&self, request: mock::Request) -> Row {
        Row {
            number: request.number,
            time: request.time,
            method: request.method,
            path: clipped(&request.path, PATH),
            query: request.query,
            headers: if self.headers { request.headers } else { Vec::new() },
            body: request.body.map(|body| clipped(&body, BODY)),
            matched: request.matched,
            status: request.status,
            duration_ms: request.duration_ms,
        }
    }
}

impl Row {
    fn line(&self) -> String {
        let by = self.matched.as_deref().unwrap_or("nothing matched");
        let body = self.body.as_ref().map(|body| format!(" {body}"));
        format!(
            "{} {} {} {}{} -> {} ({by}, {} ms)\n",
            self.number,
            self.time,
            self.method,
            self.path,
            body.unwrap_or_default(),
            self.status,
            self.duration_ms
        )
    }
}
