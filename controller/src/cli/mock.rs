//! `argus mock`: one mock served from its file, and what the mocks of an environment were asked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use argus_crds::error::{Code, Reason};
use argus_crds::mock::config::RESERVED;
use argus_crds::status::{EnvironmentStatus, ServiceRole};
use argus_reconciler::state_dir::StateDir;
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::output::{self, Format};
use super::{evidence_store, status, table};
use crate::exit::{Exit, Failure};
use crate::http::client;
use crate::settings::{LogFormat, Options, Settings, SpecOptions};
use crate::{mock, telemetry};

const HEAD: &[&str] = &["AT", "METHOD", "PATH", "STATUS", "MS", "ROUTE"];

#[derive(Debug, Args)]
pub(crate) struct Mock {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve one mock from its file, until stopped; what the containers of mocks run
    Serve(Serve),
    /// Show what a mock of an environment was asked, and which route answered
    Requests(Requests),
}

#[derive(Debug, Args)]
struct Serve {
    /// The file with the mock, as JSON; it is read again when it is replaced, and on SIGHUP
    #[arg(long, env = "ARGUS_MOCK_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// Where it listens [default: the mock's containerPort on all addresses]
    #[arg(long, env = "ARGUS_MOCK_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
struct Requests {
    /// Environment
    environment: String,
    /// Mock
    mock: String,
    /// Only the last requests
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: usize,
    /// Format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

impl Mock {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Serve(serve) => {
                telemetry::start(options.log_format.unwrap_or(LogFormat::Human), "info", None);
                super::block_on(mock::run(serve.config, serve.listen))
            }
            Verb::Requests(requests) => requests.carry_out(options),
        }
    }

    /// The format that was asked for.
    pub(crate) fn output(&self) -> Option<Format> {
        match &self.verb {
            Verb::Serve(_) => None,
            Verb::Requests(requests) => requests.output,
        }
    }
}

/// The newest requests of a mock.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MockRequestsPage {
    /// How many there were since the mock was started.
    pub(crate) total: u64,
    /// The newest of them, oldest first.
    pub(crate) requests: Vec<Request>,
}

/// One request, and what answered it, as the mock's journal has it: without secrets, and cut to a size.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// When it was complete (RFC 3339).
    pub(crate) time: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    /// The start of its body, where that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// How many bytes the whole body has.
    pub(crate) body_bytes: u64,
    /// What answered; nothing where nothing matched.
    pub(crate) matched: Option<String>,
    /// The status of the answer.
    pub(crate) status: u16,
    /// How long the answer took, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl Requests {
    fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let status = status::existing(&StateDir::at(settings.state), &self.environment)?;
        let page = super::block_on(asked(&status, &self.mock, self.tail))?;
        match self.output {
            Some(Format::Json) => output::json(&page)?,
            Some(Format::Yaml) => output::yaml(&page)?,
            Some(Format::Table | Format::Wide | Format::Name) | None => output::data(&text(&page))?,
        }
        Ok(Exit::Done)
    }
}

/// What a mock of an environment was asked last; the mock itself tells.
pub(crate) async fn asked(
    status: &EnvironmentStatus,
    mock: &str,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    asked_after(status, mock, 0, tail).await
}

/// The newest of what it was asked after the request with this number.
pub(crate) async fn asked_after(
    status: &EnvironmentStatus,
    mock: &str,
    after: u64,
    tail: usize,
) -> Result<MockRequestsPage, Failure> {
    let at = place(status, mock)?;
    let path = format!("{RESERVED}/requests?after={after}&limit={tail}");
    let answer = client::ask(at, &path).await.map_err(|error| away(at, &error))?;
    serde_json::from_slice(&answer).map_err(|error| {
        let error = client::ClientError::Broken(error.to_string());
        away(at, &error)
    })
}

/// Where its port is published.
fn place(status: &EnvironmentStatus, mock: &str) -> Result<SocketAddr, Failure> {
    let row = status.services.iter().find(|row| row.name == mock);
    let row = row.ok_or_else(|| evidence_store::no_service(status, mock))?;
    let env = &status.environment;
    if row.role != ServiceRole::Mock {
        let message = format!("`{mock}` is a service, and no mock");
        return Err(Failure::missing(Reason::NotPossible, message)
            .exit(Exit::Usage)
            .hint(format!("`argus logs {env} {mock}` shows what a service writes")));
    }
    let port = row.ports.iter().find(|port| port.actual_port != 0);
    let port = port.ok_or_else(|| {
        let message = format!("mock `{mock}` has no port on the host yet");
        Failure::missing(Reason::NotReady, message)
            .exit(Exit::Unexpected)
            .hint(format!("`argus wait {env}` waits until it has"))
    })?;
    let host = port.host.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
    let host = host.filter(|ip| !ip.is_unspecified());
    Ok(SocketAddr::new(
        host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port.actual_port,
    ))
}

fn away(at: SocketAddr, error: &client::ClientError) -> Failure {
    let message = format!("mock at {at} does not tell what it was asked: {error}");
    Failure::of(Code::ConnectionLost, message)
        .about(serde_json::json!({ "address": at.to_string(), "reason": error.to_string() }))
        .exit(Exit::Unexpected)
        .hint("only mocks with routes or `openapi` keep what they are asked")
}

fn text(page: &MockRequestsPage) -> String {
    let rows: Vec<Vec<String>> = page
        .requests
        .iter()
        .map(|request| {
            vec![
                request.time.clone(),
                request.method.clone(),
                request.path.clone(),
                request.status.to_string(),
                request.duration_ms.to_string(),
                request.matched.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    table::text(HEAD, &rows, output::width())
}
