//! Random messages over HTTP and MCP: every connection ends without a panic and without an internal error.
//!
//! By default, a run takes the first seeds. `ARGUS_FUZZ_SECONDS=3600` continues for that time (see `scripts/fuzz`). A failure prints the
//! seed and the message; `ARGUS_FROM` repeats a run from a seed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use argus_reconciler::clock::Stopwatch;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listen::serve_connection;
use super::{Guard, MCP, routes};
use crate::api::{Method, operation_list};
use crate::client::ControllerClient;
use crate::client::remote::COMMANDS;
use crate::settings::{Options, Settings, SpecOptions};

/// Seeds of a run without a time.
const SEEDS: u64 = 2_000;
/// Maximum time of one connection.
const LIMIT: Duration = Duration::from_secs(60);
/// Parts that parsers treat specially.
const PARTS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"%00",
    b"%2e%2e%2f",
    b"..",
    b"?",
    b"&",
    b"=",
    b"{",
    b"}",
    b"[[[[[[[[[[[[[[[[",
    b"\"",
    b"\\ud800",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Host: evil\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n",
];

/// Deterministic random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A request: its first line, and its body.
type Message = (String, Vec<u8>);

/// A valid request for each route and for each tool.
fn valid_messages() -> Vec<Message> {
    let mut all: Vec<Message> = [
        "/healthz",
        "/readyz",
        "/metrics",
        "/events",
        "/api/v1/openapi.json",
        "/x",
    ]
    .map(|path| (format!("GET {path}"), Vec::new()))
    .into();
    for entry in operation_list::all() {
        for route in entry.routes {
            let path = route.path.replace(['{', '}'], "");
            match route.method {
                Method::Get => all.push((format!("GET {path}?debug=true&tail=1"), Vec::new())),
                Method::Post => {
                    all.push((
                        format!("POST {path}"),
                        json!({ "environment": "shop" }).to_string().into(),
                    ));
                }
            }
        }
    }
    let command = json!({ "verb": "retry", "environment": "shop", "service": "api" });
    all.push((format!("POST {COMMANDS}"), command.to_string().into()));
    all.extend(
        mcp_messages()
            .into_iter()
            .map(|body| (format!("POST {MCP}"), body)),
    );
    all
}

/// Valid messages of MCP: the start of a session, the lists, and a call of each tool.
fn mcp_messages() -> Vec<Vec<u8>> {
    let about = json!({ "name": "fuzz", "version": "1" });
    let start = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    let mut all = vec![
        ("initialize", start),
        ("notifications/initialized", json!({})),
        ("ping", json!({})),
        ("tools/list", json!({ "cursor": "x" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "argus://evidence/shop/api/1" })),
    ];
    for tool in operation_list::all()
        .iter()
        .filter_map(|entry| entry.tool.as_ref())
    {
        let arguments = json!({ "environment": "shop", "service": "api", "tail": 3, "maxTextBytes": 100 });
        all.push(("tools/call", json!({ "name": tool.name, "arguments": arguments })));
    }
    let message = |(method, params): (&str, Value)| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
            .to_string()
            .into_bytes()
    };
    all.into_iter().map(message).collect()
}

/// Changes a message at some places.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(6) {
            0 => {
                bytes.drain(at..end);
            }
            1 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            2 => {
                let part = random.one_of(PARTS).to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let other = random.one_of(others);
                let from = random.below(other.len() + 1);
                bytes.splice(at..end, other[from..].iter().copied());
            }
            4 => bytes.truncate(at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// Builds the bytes of a connection: some requests, with changes in their heads or only in their bodies.
fn connection_bytes(random: &mut Random, valid: &[Message], bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..=random.below(3) {
        let (line, body) = random.one_of(valid);
        let mut body = body.clone();
        mutate(random, &mut body, bodies);
        let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
        let head = format!(
            "{line} HTTP/1.1\r\nHost: argus\r\n{accept}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend(body);
        if random.below(2) == 0 {
            mutate(random, &mut request, bodies);
        }
        all.extend(request);
    }
    all
}

fn client_without_controller(dir: &tempfile::TempDir) -> ControllerClient {
    for folder in ["state/environments", "specs"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    let options = Options {
        state: Some(dir.path().join("state")),
        docker_host: Some("unix:///nonexistent/docker.sock".to_owned()),
        ..Options::default()
    };
    let specs = SpecOptions {
        specs: Some(dir.path().join("specs")),
        ..SpecOptions::default()
    };
    ControllerClient::remote(Settings::resolve(&options, &specs).unwrap())
}

/// Calls `run` with each seed until the time or the number of seeds is over.
async fn for_each_seed(run: impl AsyncFn(u64)) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let watch = Stopwatch::start();
    let from = number("ARGUS_FROM").unwrap_or_default();
    let seconds = number("ARGUS_FUZZ_SECONDS").map(|seconds| Duration::from_secs(seconds).as_secs_f64());
    let mut seed = from;
    while seconds.map_or(seed < from + SEEDS, |seconds| watch.seconds() < seconds) {
        run(seed).await;
        seed += 1;
    }
    println!("{} seeds from {from} in {:.0} s", seed - from, watch.seconds());
}

#[tokio::test]
async fn random_http_messages_cause_no_internal_error() {
    let dir = tempfile::tempdir().unwrap();
    let app = routes(
        client_without_controller(&dir),
        Guard::Socket,
        CancellationToken::new(),
    );
    let valid = valid_messages();
    let bodies: Vec<Vec<u8>> = valid.iter().map(|(_, body)| body.clone()).collect();
    let (succeeded, called) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each_seed(async |seed| {
        let bytes = connection_bytes(&mut Random(seed), &valid, &bodies);
        let (server, client) = duplex(64 * 1024);
        let mut serving = JoinSet::new();
        serving.spawn(serve_connection(
            server,
            app.clone(),
            CancellationToken::new(),
            true,
        ));
        let (mut reader, mut writer) = tokio::io::split(client);
        let sent = async {
            // The server may close the connection early.
            drop(writer.write_all(&bytes).await);
            drop(writer.shutdown().await);
        };
        let mut received = Vec::new();
        let exchange = async { tokio::join!(sent, reader.read_to_end(&mut received)) };
        let in_time = tokio::time::timeout(LIMIT, exchange).await.is_ok();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(in_time, "seed {seed}: no end of {shown:?}");
        let ended = serving.join_next().await.unwrap();
        assert!(ended.is_ok(), "seed {seed}: {ended:?} after {shown:?}");
        let answers = String::from_utf8_lossy(&received);
        assert!(
            received.is_empty() || answers.starts_with("HTTP/1."),
            "seed {seed}: {answers:?}"
        );
        assert!(
            !answers.contains(" 500 Internal Server Error"),
            "seed {seed}: {answers} after {shown:?}"
        );
        succeeded.fetch_add(u64::from(answers.contains("HTTP/1.1 200 ")), Relaxed);
        called.fetch_add(u64::from(answers.contains("structuredContent")), Relaxed);
    })
    .await;
    // Messages reach the operations and the tools.
    let counts = (succeeded.into_inner(), called.into_inner());
    println!("{counts:?} connections with a response 200 and with the result of a tool");
    assert!(counts.0 > 0 && counts.1 > 0, "{counts:?}");
}

#[tokio::test]
async fn random_mcp_messages_end_the_session_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let client = client_without_controller(&dir);
    let valid = mcp_messages();
    let called = AtomicU64::new(0);
    for_each_seed(async |seed| {
        let random = &mut Random(seed);
        let mut bytes = Vec::new();
        for index in 0..4 + random.below(6) {
            // Most sessions begin correctly.
            let begins = index < 2 && random.below(4) > 0;
            let mut message = if begins {
                valid[index].clone()
            } else {
                random.one_of(&valid).clone()
            };
            if !begins {
                mutate(random, &mut message, &valid);
            }
            bytes.extend(message);
            bytes.push(b'\n');
        }
        let (mut input, server_input) = duplex(64 * 1024);
        let (server_output, mut output) = duplex(64 * 1024);
        let mut serving = JoinSet::new();
        serving.spawn(crate::mcp::serve_streams(
            client.clone(),
            server_input,
            server_output,
        ));
        let sent = async {
            drop(input.write_all(&bytes).await);
            drop(input);
        };
        let mut received = Vec::new();
        let exchange = async { tokio::join!(sent, output.read_to_end(&mut received)) };
        let in_time = tokio::time::timeout(LIMIT, exchange).await.is_ok();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(in_time, "seed {seed}: no end of {shown:?}");
        let ended = serving.join_next().await.unwrap();
        assert!(ended.is_ok(), "seed {seed}: {ended:?} after {shown:?}");
        for line in String::from_utf8_lossy(&received).lines() {
            let message: Value = serde_json::from_str(line).unwrap_or_default();
            assert_eq!(message["jsonrpc"], "2.0", "seed {seed}: {line}");
            called.fetch_add(
                u64::from(message["result"]["structuredContent"].is_object()),
                Relaxed,
            );
        }
    })
    .await;
    let called = called.into_inner();
    println!("{called} results of tools");
    assert!(called > 0);
}
