//! Refusals: every surface gives the same machine-readable reason.

use std::fs;

use argus_crds::error::Reason;
use argus_tests::fixture::{LIMIT, engine};
use argus_tests::http::exchange;
use argus_tests::{Controller, RunOptions};
use serde_json::{Value, json};

use super::queries;

/// The surface of a request.
enum By {
    /// Arguments of a command.
    Cli(&'static [&'static str]),
    /// Method, path and body, over the socket.
    Http(&'static str, &'static str, String),
    /// Further lines of the head, over TCP.
    Tcp(&'static str, &'static str, &'static str),
    /// Tool and arguments.
    Mcp(&'static str, Value),
}

fn cases() -> Vec<(By, &'static str)> {
    let get = |path| By::Http("GET", path, String::new());
    let action = |body: &str| By::Http("POST", "/api/v1/commands", body.to_owned());
    let long = format!(r#"{{"verb":"retry","environment":"{}"}}"#, "x".repeat(100_000));
    let no_one = || json!({ "environment": "missing" });
    vec![
        (By::Cli(&["get", "missing"]), "notFound"),
        (get("/api/v1/environments/missing"), "notFound"),
        (By::Mcp("argus_status", no_one()), "notFound"),
        (By::Cli(&["retry", "missing"]), "notFound"),
        (action(r#"{"verb":"retry","environment":"missing"}"#), "notFound"),
        (By::Mcp("argus_retry", no_one()), "notFound"),
        (By::Cli(&["plan", "missing"]), "notFound"),
        (get("/api/v1/plan?environment=missing"), "notFound"),
        (By::Mcp("argus_plan", no_one()), "notFound"),
        (get("/api/v1/errors/NOTHING"), "notFound"),
        (By::Mcp("argus_explain", json!({ "code": "NOTHING" })), "notFound"),
        (get("/nowhere"), "notFound"),
        (By::Cli(&["get", "../x"]), "usage"),
        (By::Cli(&["get", "--moon"]), "usage"),
        (By::Cli(&["hold", "missing", "--for", "long"]), "usage"),
        (get("/api/v1/environments?detail=some"), "badRequest"),
        (action(r#"{"verb":"explode"}"#), "badRequest"),
        (action("half {"), "badRequest"),
        (By::Mcp("argus_status", json!({ "moon": 1 })), "badRequest"),
        (
            By::Http("DELETE", "/api/v1/controller", String::new()),
            "methodNotAllowed",
        ),
        (By::Http("POST", "/api/v1/commands", long), "tooLarge"),
        (By::Tcp("POST", "/api/v1/commands", ""), "unauthorized"),
        (
            By::Tcp("POST", "/api/v1/commands", "Authorization: Bearer x\r\n"),
            "unauthorized",
        ),
        (
            By::Tcp("GET", "/api/v1/controller", "Origin: http://evil.example\r\n"),
            "forbidden",
        ),
        (
            By::Tcp("GET", "/api/v1/controller", "Host: evil.example\r\n"),
            "misdirected",
        ),
        (By::Cli(&["--config", "/nowhere/argus.toml", "get"]), "settings"),
    ]
}

fn over_tcp(argus: &Controller<'_>, method: &str, path: &str, head: &str) -> Value {
    let output = argus.controller_status()["http"].clone();
    let at = output.as_str().and_then(|output| output.strip_prefix("http://"));
    let at = at.expect("the address is published");
    let host = if head.contains("Host:") {
        String::new()
    } else {
        format!("Host: {at}\r\n")
    };
    let stream = engine()
        .connect(at.parse().expect("an address"))
        .expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    let text =
        format!("{method} {path} HTTP/1.1\r\n{host}{head}Connection: close\r\nContent-Length: 0\r\n\r\n");
    exchange(stream, text.as_bytes()).expect("a response").json()
}

fn reason(output: &Value) -> &Value {
    assert!(output["code"].is_string(), "{output:#}");
    &output["details"]["reason"]
}

#[test]
fn missing_objects_have_one_reason_on_every_interface() {
    let argus = Controller::start(
        engine(),
        RunOptions {
            args: ["--listen", "127.0.0.1:0"].map(str::to_owned).to_vec(),
            ..RunOptions::default()
        },
    );
    argus.wait_until(LIMIT, "the address is published", || {
        argus.controller_status()["http"].is_string().then_some(())
    });
    let words: Vec<Value> = Reason::ALL.iter().map(|reason| json!(reason)).collect();
    for (by, word) in cases() {
        let (output, how) = match &by {
            By::Cli(words) => (queries::cli(&argus, words), format!("{words:?}")),
            By::Http(method, path, body) => (
                queries::sent(&argus, method, path, body),
                format!("{method} {path}"),
            ),
            By::Tcp(method, path, head) => (
                over_tcp(&argus, method, path, head),
                format!("{method} {path} {head}"),
            ),
            By::Mcp(tool, arguments) => (
                queries::mcp(&argus, tool, arguments),
                format!("{tool} {arguments}"),
            ),
        };
        assert_eq!(reason(&output), word, "{how}: {output:#}");
        assert!(
            words.contains(&json!(word)),
            "`{word}` is not a value of `Reason`"
        );
    }
    argus.stop();
    let away = queries::cli(&argus, &["retry", "missing"]);
    assert_eq!(reason(&away), "notRunning", "{away:#}");
}

#[test]
fn every_reason_is_in_docs_and_schema() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let page = fs::read_to_string(format!("{root}/docs/interfaces.md")).expect("a page");
    let schema = fs::read_to_string(format!("{root}/crds/error.schema.json")).expect("a schema");
    for reason in Reason::ALL {
        let word = json!(reason);
        let word = word.as_str().expect("a word");
        assert!(
            page.contains(&format!("| `{word}` |")),
            "docs/interfaces.md lacks `{word}`"
        );
        assert!(schema.contains(&format!("`{word}`")), "the schema lacks `{word}`");
    }
}
