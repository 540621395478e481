//! Calls of every tool by the command line of the MCP Inspector, over both transports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use argus_tests::binary;
use argus_tests::fixture::text;
use serde_json::Value;

use super::agent::{McpFixture, Over, error};
use super::tour;

/// Tools that must refuse the arguments of the tour.
const REFUSED: [&str; 5] = [
    "argus_evidence",
    "argus_fix",
    "argus_mock_requests",
    "argus_rollback",
    "argus_test_run",
];

/// Each call is a process of Node.js, so the transports take turns: `mcp::tour` calls every tool over each of them.
#[test]
fn inspector_drives_every_tool() {
    let fixture = McpFixture::start();
    let [stdio, http] = [Over::Stdio, Over::Http].map(|over| list(&fixture, over));
    assert_eq!(stdio, http);
    let tools: BTreeMap<String, &Value> = stdio
        .as_array()
        .expect("a list")
        .iter()
        .map(|tool| (text(&tool["name"]), tool))
        .collect();
    let mut called = BTreeSet::new();
    for (index, (tool, arguments, _)) in tour::steps("inspected", 18_680).into_iter().enumerate() {
        let mut words = ["--method", "tools/call", "--tool-name", tool]
            .map(str::to_owned)
            .to_vec();
        for (key, value) in arguments.as_object().expect("an object") {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words.extend(["--tool-arg".to_owned(), format!("{key}={value}")]);
        }
        let over = if index % 2 == 0 { Over::Stdio } else { Over::Http };
        let result = call_inspector(&fixture, over, &words);
        let output = &result["structuredContent"];
        if REFUSED.contains(&tool) {
            error(&result);
        } else {
            assert_ne!(result["isError"], true, "{tool} {arguments}: {result:#}");
            let schema = jsonschema::validator_for(&tools[tool]["outputSchema"]).expect("a schema");
            schema
                .validate(output)
                .unwrap_or_else(|why| panic!("{tool} {arguments}: {why}: {output:#}"));
        }
        called.insert(tool.to_owned());
    }
    assert_eq!(called, tools.keys().cloned().collect(), "every tool is called");
}

fn list(fixture: &McpFixture, over: Over) -> Value {
    let listed = call_inspector(fixture, over, &["--method".to_owned(), "tools/list".to_owned()]);
    listed["tools"].clone()
}

/// The server's response, as the Inspector prints it.
fn call_inspector(fixture: &McpFixture, over: Over, words: &[String]) -> Value {
    let cli = inspector();
    let mut command = fixture.engine.command_in_netns("node");
    command.arg(cli.join("cli.js")).arg("--cli");
    match over {
        Over::Stdio => command.arg(binary::argus()).arg("mcp"),
        Over::Http | Over::Socket => {
            let token = std::fs::read_to_string(fixture.argus.state.join("private/token")).expect("a token");
            let http = text(&fixture.argus.controller_status()["http"]);
            command
                .arg(format!("{http}/mcp"))
                .args(["--header", &format!("Authorization: Bearer {}", token.trim())])
        }
    };
    command
        .args(words)
        .env("ARGUS_STATE", &fixture.argus.state)
        .env("ARGUS_SPECS", &fixture.argus.specs)
        .env("DOCKER_HOST", fixture.engine.host())
        // The Inspector finds its own version only from this directory.
        .current_dir(&cli)
        .stdin(Stdio::null());
    let output = command.output().expect("node runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
        let text = String::from_utf8_lossy(&output.stderr);
        panic!("{words:?}: {why}: {text}")
    })
}

/// The Inspector that `scripts/setup` installs.
fn inspector() -> PathBuf {
    let path = "../target/npm-tools/node_modules/@modelcontextprotocol/inspector-cli/build";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(
        path.exists(),
        "no Inspector at {}\nhint: ./scripts/setup",
        path.display()
    );
    path
}
