//! `argus demo-service`: a small HTTP service for examples and tests. Its image contains only this binary.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use argus_reconciler::shutdown::Signals;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use clap::Args;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct DemoService {
    /// Listen address
    #[arg(long, env = "DEMO_LISTEN", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Greeting in responses
    #[arg(long, env = "DEMO_GREETING", default_value = "hello")]
    greeting: String,
    /// Other services to reach: http://HOST:PORT/PATH or tcp://HOST:PORT
    #[arg(long, env = "DEMO_DEPENDS_ON", value_delimiter = ',')]
    depends_on: Vec<String>,
    /// Exit after this time
    #[arg(long, env = "DEMO_CRASH_AFTER", value_parser = humantime::parse_duration)]
    crash_after: Option<Duration>,
    /// Exit code after a crash
    #[arg(long, env = "DEMO_EXIT_WITH", default_value_t = 1)]
    exit_with: u8,
    /// Enable `GET /crash` (exit) and `GET /fill` (exhaust memory)
    #[arg(long, env = "DEMO_BREAKABLE")]
    breakable: bool,
    /// Check the dependencies once, print the greeting, and exit with 0
    #[arg(long, env = "DEMO_RUN_ONCE")]
    run_once: bool,
}

impl DemoService {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        runtime::block_on(self.serve()).map(Exit::Code)
    }

    async fn serve(self) -> Result<u8, Failure> {
        let fault = |doing: &str, error: std::io::Error| Failure::operation_failed(doing, &error);
        // Process 1 of a container ignores signals without a handler.
        let signals = Signals::subscribe().map_err(|error| fault("cannot take signals", error))?;
        let stop = CancellationToken::new();
        if self.run_once {
            output::print_note(&format!(
                "{}: {}",
                self.greeting,
                check_urls(&self.depends_on).await
            ));
            return Ok(0);
        }
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| fault(&format!("cannot listen on {}", self.listen), error))?;
        output::print_note(&format!("listening on {}", self.listen));
        let shared = Arc::new((self.greeting, self.depends_on));
        let mut app = Router::new()
            .route("/", get(hello))
            .route("/healthz", get(async || "ok\n"))
            .with_state(shared);
        let crash_request = Arc::new(Notify::new());
        if self.breakable {
            let sender = crash_request.clone();
            let crash = async move || sender.notify_one();
            app = app
                .route("/crash", get(crash))
                .route("/fill", get(async || fill_memory()));
        }
        let stopped = stop.clone().cancelled_owned();
        let crash = async move {
            match self.crash_after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            served = axum::serve(listener, app).with_graceful_shutdown(stopped).into_future() => {
                served.map_err(|error| fault("cannot serve", error))?;
                Ok(0)
            }
            () = signals.wait_for_second(stop) => Ok(130),
            () = wait_for_either(crash, crash_request.notified()) => {
                output::print_note("crashing on request");
                Ok(self.exit_with)
            }
        }
    }
}

async fn wait_for_either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// Allocates memory until the kernel kills the process. Never returns.
fn fill_memory() {
    let mut blocks = Vec::new();
    loop {
        // A page of zeros uses no memory before the first write.
        blocks.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

async fn hello(State(shared): State<Arc<(String, Vec<String>)>>) -> impl IntoResponse {
    let reached = check_urls(&shared.1).await;
    let all = reached
        .as_object()
        .is_none_or(|map| map.values().all(|result| result == "ok"));
    let status = if all {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(json!({ "greeting": shared.0, "dependsOn": reached })),
    )
}

async fn check_urls(urls: &[String]) -> Value {
    let mut results = serde_json::Map::new();
    for url in urls {
        let result = match tokio::time::timeout(Duration::from_secs(2), check_url(url)).await {
            Ok(Ok(())) => "ok".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in 2 s".to_owned(),
        };
        results.insert(url.clone(), Value::String(result));
    }
    Value::Object(results)
}

/// Connects to the address. For HTTP it also sends a GET request and checks the status.
async fn check_url(url: &str) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (http, rest) = match (url.strip_prefix("http://"), url.strip_prefix("tcp://")) {
        (Some(rest), _) => (true, rest),
        (None, rest) => (false, rest.unwrap_or(url)),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut stream = TcpStream::connect(&address).await?;
    if !http {
        return Ok(());
    }
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = [0; 12];
    stream.read_exact(&mut response).await?;
    let good = response.starts_with(b"HTTP/1.") && matches!(response[9], b'2' | b'3');
    let code = || String::from_utf8_lossy(&response[9..]).into_owned();
    if good {
        Ok(())
    } else {
        Err(std::io::Error::other(format!("status {}", code())))
    }
}
