//! `argus mock`: serves a mock from its file, and shows the requests of a mock in an environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::call;
use crate::api::mock_requests::MockRequests;
use crate::api::mock_requests::page::Request;
use crate::app::telemetry;
use crate::mock;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{LogFormat, Options, SpecOptions};

const REQUESTS: &[Column<Request>] = &[
    ("AT", |request| request.time.clone()),
    ("METHOD", |request| request.method.clone()),
    ("PATH", |request| request.path.clone()),
    ("STATUS", |request| request.status.to_string()),
    ("MS", |request| request.duration_ms.to_string()),
    ("ROUTE", |request| {
        let matched = request.matched.as_ref().or(request.refusal.as_ref());
        matched.cloned().unwrap_or_default()
    }),
];

#[derive(Debug, Args)]
pub(crate) struct Mock {
    #[command(subcommand)]
    command: MockCommand,
}

#[derive(Debug, Subcommand)]
enum MockCommand {
    /// Serve one mock from its file until stopped (used by mock containers)
    Serve(Serve),
    /// Show the requests of a mock, and the route that matched each
    Requests(Requests),
}

#[derive(Debug, Args)]
struct Serve {
    /// File with the mock as JSON; reloaded on changes and on SIGHUP
    #[arg(long, env = "ARGUS_MOCK_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// Listen address [default: the mock's containerPort on all addresses]
    #[arg(long, env = "ARGUS_MOCK_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
struct Requests {
    /// Environment name
    environment: String,
    /// Mock name
    mock: String,
    /// Maximum number of requests, newest last
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: usize,
    #[command(flatten)]
    output: OutputArgs,
}

impl Mock {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        match self.command {
            MockCommand::Serve(serve) => {
                telemetry::start(options.log_format.unwrap_or(LogFormat::Human), "info", None);
                runtime::block_on(mock::run(serve.config, serve.listen))
            }
            MockCommand::Requests(requests) => requests.execute(options),
        }
    }
}

impl Requests {
    fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = MockRequests {
            environment: self.environment,
            mock: self.mock,
            tail: self.tail,
            headers: true,
        };
        let page = call::run(&context, &operation)?;
        let table = table::format_columns(REQUESTS, &page.requests, output::terminal_width());
        self.output.print(&page, table.lines(), || table.clone())?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmatched_request_shows_the_nearest_route() {
        let request = |matched: Option<&str>| {
            let value = serde_json::json!({
                "number": 1, "time": "t", "method": "GET", "path": "/charges/7", "query": [], "headers": [], "bodyBytes": 0,
                "matched": matched, "refusal": "the nearest is `routes[1] GET /charge/:id`", "status": 404, "durationMs": 1,
            });
            serde_json::from_value::<Request>(value).unwrap()
        };
        let table = table::format_columns(REQUESTS, &[request(None), request(Some("routes[0] GET /"))], None);
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert!(
            lines[1].ends_with("   the nearest is `routes[1] GET /charge/:id`"),
            "{table}"
        );
        assert!(lines[2].ends_with("   routes[0] GET /"), "{table}");
    }
}
