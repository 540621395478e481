//! `argus mock`: one mock served from its file, and what the mocks of an environment were asked.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use argus_crds::error::Code;
use argus_crds::mock::config::RESERVED;
use argus_crds::status::ServiceRole;
use argus_reconciler::state::StateDir;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::output::{self, Format};
use super::{kept, status, table};
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

impl Requests {
    fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        let at = self.place(&state)?;
        let path = format!("{RESERVED}/requests?limit={}", self.tail);
        let answer =
            super::block_on(async { client::ask(at, &path).await.map_err(|error| away(at, &error)) })?;
        let page: Value = serde_json::from_slice(&answer)
            .map_err(|error| Failure::fault("cannot read what the mock answered", &error))?;
        match self.output {
            Some(Format::Json) => output::json(&page)?,
            Some(Format::Yaml) => output::yaml(&page)?,
            Some(Format::Table | Format::Wide | Format::Name) | None => output::data(&text(&page))?,
        }
        Ok(Exit::Done)
    }

    /// Where its port is published.
    fn place(&self, state: &StateDir) -> Result<SocketAddr, Failure> {
        let status = status::existing(state, &self.environment)?;
        let row = status.services.iter().find(|row| row.name == self.mock);
        let row = row.ok_or_else(|| kept::no_service(&status, &self.mock))?;
        if row.role != ServiceRole::Mock {
            return Err(Failure::usage(format!(
                "`{}` is a service, and no mock",
                self.mock
            )));
        }
        let port = row.ports.iter().find(|port| port.actual_port != 0);
        let port = port.ok_or_else(|| {
            let message = format!("mock `{}` has no port on the host yet", self.mock);
            Failure::of(Code::PrereqMissing, message)
                .exit(Exit::Unexpected)
                .hint(format!("`argus wait {}` waits until it has", self.environment))
        })?;
        let host = port.host.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
        let host = host.filter(|ip| !ip.is_unspecified());
        Ok(SocketAddr::new(
            host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port.actual_port,
        ))
    }
}

fn away(at: SocketAddr, error: &client::ClientError) -> Failure {
    let message = format!("mock at {at} does not tell what it was asked: {error}");
    Failure::of(Code::ConnectionLost, message)
        .exit(Exit::Unexpected)
        .hint("only mocks with routes or `openapi` keep what they are asked")
}

fn text(page: &Value) -> String {
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let requests = page["requests"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = requests
        .iter()
        .map(|request| {
            ["time", "method", "path", "status", "durationMs", "matched"]
                .map(|key| word(&request[key]))
                .to_vec()
        })
        .collect();
    table::text(HEAD, &rows, output::width())
}
