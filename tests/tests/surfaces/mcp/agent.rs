//! An agent: the official client, which executes a script step by step.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, PrivateEngine, RunOptions, binary};
use serde_json::{Value, json};

/// The transport to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// `argus mcp`, which connects to the controller of the state directory.
    Stdio,
    /// The address, with the token.
    Http,
    /// The unix socket, without a token.
    Socket,
}

/// A controller that listens, and the means to reach it.
pub(crate) struct McpFixture {
    pub(crate) engine: &'static PrivateEngine,
    pub(crate) argus: Controller<'static>,
}

impl McpFixture {
    pub(crate) fn start() -> Self {
        Self::start_with(RunOptions::default())
    }

    /// The same with further options.
    pub(crate) fn start_with(mut options: RunOptions) -> Self {
        let engine = engine();
        options
            .args
            .extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
        let argus = Controller::start(engine, options);
        argus.wait_until(LIMIT, "the address is published", || {
            argus.controller_status()["http"].is_string().then_some(())
        });
        Self { engine, argus }
    }

    /// The script of these steps, with endpoint and token.
    pub(crate) fn script(&self, over: Over, steps: &[Value]) -> Value {
        let http = text(&self.argus.controller_status()["http"]);
        let mut script = match over {
            Over::Stdio => json!({ "stdio": [binary::argus(), "mcp"] }),
            Over::Http => {
                let token = std::fs::read_to_string(self.argus.state.join("private/token")).expect("a token");
                json!({ "http": format!("{http}/mcp"), "token": token.trim() })
            }
            Over::Socket => {
                let socket = self.argus.state.join("private/argus.sock");
                json!({ "http": "http://argus/mcp", "socket": socket })
            }
        };
        script["steps"] = json!(steps);
        script
    }

    /// Executes a script.
    pub(crate) fn run(&self, script: &Value) -> Value {
        let mut command = self.engine.command_in_netns(python());
        command
            .env("ARGUS_STATE", &self.argus.state)
            .env("ARGUS_SPECS", &self.argus.specs)
            .env("DOCKER_HOST", self.engine.host());
        drive(command, script)
    }

    /// The responses to these steps.
    pub(crate) fn run_steps(&self, over: Over, steps: &[Value]) -> Vec<Value> {
        let output = self.run(&self.script(over, steps));
        let answers = output["answers"].as_array().cloned();
        let answers = answers.unwrap_or_else(|| panic!("{over:?}: {output:#}"));
        assert_eq!(answers.len(), steps.len());
        answers
    }

    /// The response to one call.
    pub(crate) fn call(&self, over: Over, tool: &str, arguments: &Value) -> Value {
        let answers = self.run_steps(over, &[json!({ "call": tool, "arguments": arguments })]);
        let result = answers[0].get("result");
        result
            .unwrap_or_else(|| panic!("{tool}: {:#}", answers[0]))
            .clone()
    }
}

/// The Python interpreter of the environment that `scripts/setup` creates.
pub(crate) fn python() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mcp-client/bin/python");
    assert!(
        path.exists(),
        "no MCP client at {}\nhint: ./scripts/setup",
        path.display()
    );
    path
}

/// Runs the driver on a script. Returns its output.
pub(crate) fn drive(mut command: Command, script: &Value) -> Value {
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/surfaces/mcp/drive.py"
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the client starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(script.to_string().as_bytes())
        .expect("the client reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the client ends");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The data of a successful response.
pub(crate) fn data(result: &Value) -> &Value {
    assert_eq!(result["isError"], false, "{result:#}");
    &result["structuredContent"]
}

/// The error of a failed response.
pub(crate) fn error(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result:#}");
    let error = &result["structuredContent"];
    let parsed: Result<argus_crds::StructuredError, _> = serde_json::from_value(error.clone());
    assert!(parsed.is_ok(), "{error:#}");
    error
}

/// Size of everything in a response that a model may read, in characters.
pub(crate) fn size(result: &Value) -> usize {
    let words = result["content"][0]["text"].as_str().unwrap_or_default();
    result["structuredContent"].to_string().chars().count() + words.chars().count()
}
