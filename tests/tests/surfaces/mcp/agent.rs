//! An agent: the official client, which executes a script step by step.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};

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
        let variables = json!({
            "ARGUS_STATE": self.argus.state,
            "ARGUS_SPECS": self.argus.specs,
            "DOCKER_HOST": self.engine.host(),
        });
        Clients::of(self.engine).run(&variables, script)
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

/// A process with the modules of the client, which executes scripts in copies of itself. It ends with the test program.
struct Clients {
    socket: PathBuf,
    /// Its standard input is the sign that the test program lives.
    _process: Child,
}

impl Clients {
    /// The clients in the network of an engine.
    fn of(engine: &PrivateEngine) -> Arc<Self> {
        static ALL: LazyLock<Mutex<BTreeMap<String, Arc<Clients>>>> = LazyLock::new(Mutex::default);
        let mut all = ALL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let clients = all
            .entry(engine.host())
            .or_insert_with(|| Arc::new(Self::start(engine)));
        Arc::clone(clients)
    }

    fn start(engine: &PrivateEngine) -> Self {
        // The process removes its directory at its end.
        let folder = tempfile::tempdir().expect("a directory").keep();
        let socket = folder.join("clients.sock");
        let mut process = engine
            .command_in_netns(python())
            .arg(DRIVER)
            .arg("--serve")
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the clients start");
        let stdout = process.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self {
            socket,
            _process: process,
        }
    }

    fn run(&self, variables: &Value, script: &Value) -> Value {
        let mut stream = UnixStream::connect(&self.socket).expect("the clients listen");
        let request = json!({ "env": variables, "script": script });
        stream
            .write_all(request.to_string().as_bytes())
            .expect("the client reads");
        stream.shutdown(Shutdown::Write).expect("the client listens");
        let mut output = Vec::new();
        stream.read_to_end(&mut output).expect("the client answers");
        serde_json::from_slice(&output).expect("the client ends without an error")
    }
}

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/surfaces/mcp/drive.py");

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
        .arg(DRIVER)
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
