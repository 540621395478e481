//! Passes a request on to the real service, and records what it answers.

use std::path::Path;
use std::time::Duration;

use argus_crds::error::Code;
use argus_mock::{MockReply, Pair, Request, Target, end_to_end};
use argus_reconciler::clock;
use argus_reconciler::supervise::task_set::TaskSet;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

use super::recordings;

/// How long the real service may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest answer that is taken, in bytes.
const LARGEST: usize = 10 << 20;

/// What the target answers, after it is recorded; `asked` is the path with the query, as it was sent.
pub(super) async fn pass_on(request: &Request, asked: &str, to: &Target, folder: &Path) -> MockReply {
    let said = tokio::time::timeout(LIMIT, ask(request, asked, to)).await;
    let answer = match said.unwrap_or_else(|_| Err(format!("no answer within {} s", LIMIT.as_secs()).into()))
    {
        Ok(answer) => answer,
        Err(error) => {
            let message = format!("the target `{}` does not answer: {error}", to.authority);
            return MockReply::refusal(
                502,
                Code::MockNoAnswer,
                &message,
                &json!({ "target": to.authority }),
            );
        }
    };
    let pair = Pair::new(request, &answer, clock::now());
    if let Err(error) = recordings::write(folder, &pair).await {
        tracing::error!(folder = %folder.display(), %error, "an answer cannot be recorded");
    }
    answer
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

async fn ask(request: &Request, asked: &str, to: &Target) -> Result<MockReply, Broken> {
    let stream = TcpStream::connect((to.address.0.as_str(), to.address.1)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Dropped with this function, and the connection with it.
    let mut carrier: TaskSet<(), _> = TaskSet::default();
    carrier.start((), connection);
    let mut passed = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(to.path(asked));
    for (name, value) in to.headers(request) {
        passed = passed.header(name, value);
    }
    let response = sender
        .send_request(passed.body(Full::new(request.body.clone()))?)
        .await?;
    let (head, body) = response.into_parts();
    let body: Bytes = Limited::new(body, LARGEST).collect().await?.to_bytes();
    let headers = head.headers.iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let headers = end_to_end(&headers.collect::<Vec<_>>());
    Ok(MockReply {
        status: head.status.as_u16(),
        headers: headers
            .into_iter()
            .filter(|(name, _)| name != "content-length")
            .collect(),
        body,
        delay: Duration::ZERO,
        by: Some(format!("recorded from {}", to.authority)),
    })
}
