//! Random messages over HTTP and MCP: every connection ends without a panic and without an internal error.

use std::time::Duration;

use argus_backend::sim::Rng;
use argus_tests::fuzz::{Seeds, below, mutate, one_of};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listen::serve_connection;
use super::{Guard, MCP, routes};
use crate::api::Method;
use crate::client::ControllerClient;
use crate::client::remote::COMMANDS;
use crate::operations;
use crate::settings::{Options, Settings, SpecOptions};

/// Number of seeds of a run without a time.
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
    for entry in operations::all() {
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
    for tool in operations::all().iter().filter_map(|entry| entry.tool.as_ref()) {
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

/// Builds the bytes of a connection: some requests, with changes in their heads or only in their bodies.
fn connection_bytes(random: &mut Rng, valid: &[Message], bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..=below(random, 3) {
        let (line, body) = one_of(random, valid);
        let mut body = body.clone();
        mutate(random, &mut body, PARTS, bodies);
        let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
        let head = format!(
            "{line} HTTP/1.1\r\nHost: argus\r\n{accept}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend(body);
        if below(random, 2) == 0 {
            mutate(random, &mut request, PARTS, bodies);
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
    let (mut succeeded, mut called) = (0_u64, 0_u64);
    for seed in Seeds::new("messages", SEEDS) {
        let bytes = connection_bytes(&mut Rng::new(seed), &valid, &bodies);
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
        succeeded += u64::from(answers.contains("HTTP/1.1 200 "));
        called += u64::from(answers.contains("structuredContent"));
    }
    // Messages reach the operations and the tools.
    println!("{succeeded} and {called} connections with a response 200 and with the result of a tool");
    assert!(succeeded > 0 && called > 0, "{succeeded} {called}");
}

#[tokio::test]
async fn random_mcp_messages_end_the_session_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let client = client_without_controller(&dir);
    let valid = mcp_messages();
    let mut called = 0_u64;
    for seed in Seeds::new("messages", SEEDS) {
        let random = &mut Rng::new(seed);
        let mut bytes = Vec::new();
        for index in 0..4 + below(random, 6) {
            // Most sessions begin correctly.
            let begins = index < 2 && below(random, 4) > 0;
            let mut message = if begins {
                valid[index].clone()
            } else {
                one_of(random, &valid).clone()
            };
            if !begins {
                mutate(random, &mut message, PARTS, &valid);
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
            called += u64::from(message["result"]["structuredContent"].is_object());
        }
    }
    println!("{called} results of tools");
    assert!(called > 0);
}
