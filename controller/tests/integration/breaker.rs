//! The engine's circuit breaker: its states, its reset, and commands that need the engine while it is open.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli::{Home, Running, code, err, out};

const SPEC: &str = "version: '1'\nproject: { name: shop }\nservices:\n  web: { image: nginx }\n";

fn engine_breaker(home: &Home, target: &[&str]) -> Value {
    let output = home.run(&[&["breaker", "status", "-o", "json"], target].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    serde_json::from_str::<Value>(&out(&output)).unwrap()["engine"].clone()
}

/// Calls a tool over MCP. Returns the text of its result.
pub(crate) fn call_tool(home: &Home, tool: &str, arguments: &Value) -> String {
    let mut server = home
        .command(&["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let start = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let mut input = server.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": tool, "arguments": arguments } }),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let mut answers = BufReader::new(server.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let answer = answers.find(|line| serde_json::from_str::<Value>(line).unwrap()["id"] == 2);
    drop(input);
    server.wait().unwrap();
    let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer:#}"))
        .to_owned()
}

#[test]
fn open_breaker_is_shown_reset_and_respected() {
    let home = Home::new();
    home.spec("e2e.yaml", SPEC);
    let (running, _lines) = Running::start(&home);
    let mut reads = (0..2000).map(|_| engine_breaker(&home, &[]));
    let open = reads.find(|breaker| breaker["state"] == "open");
    let open = open.unwrap_or_else(|| panic!("{}", engine_breaker(&home, &[])));
    assert_eq!(open["lastFailures"][0]["operation"], "ping", "{open:#}");
    let table = home.run(&["breaker", "status"]);
    assert!(
        out(&table).contains("engine") && out(&table).contains("open"),
        "{}",
        out(&table)
    );
    // The status of the environment contains the engine's breaker, because it is not closed.
    let status = (0..2000).map(|_| home.run(&["breaker", "status", "shop", "-o", "json"]));
    let status = status.into_iter().find(|status| code(status) == 0).unwrap();
    assert!(out(&status).contains("\"scope\": \"engine\""), "{}", out(&status));

    for command in ["plan", "prune"] {
        let output = home.run(&[command]);
        assert_eq!(code(&output), 4, "{}", err(&output));
        assert!(
            err(&output).contains("the circuit breaker of the engine is not closed")
                && err(&output).contains("hint: test the engine now with `argus breaker reset`"),
            "{}",
            err(&output)
        );
    }

    let reset = home.run(&["breaker", "reset"]);
    assert_eq!(code(&reset), 0, "{}", err(&reset));
    assert!(
        out(&reset).contains("the breaker of the engine is open after the reset"),
        "{}",
        out(&reset)
    );
    let text = call_tool(&home, "argus_reset_circuit", &json!({}));
    assert!(text.contains("is open after the reset"), "{text}");
    for verb in ["status", "reset"] {
        let output = home.run(&["breaker", verb, "shop/web"]);
        assert_eq!(code(&output), 2, "{}", err(&output));
        assert!(
            err(&output).contains("a circuit breaker counts the calls of its whole environment"),
            "{}",
            err(&output)
        );
    }

    // A breaker that a dead controller left behind blocks nothing.
    assert_eq!(running.stop(), Some(0));
    let prune = home.run(&["prune"]);
    assert_eq!(code(&prune), 4, "{}", err(&prune));
    assert!(!err(&prune).contains("circuit breaker"), "{}", err(&prune));
}
