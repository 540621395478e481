//! A real Prometheus inside an engine's network namespace.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::fixture::LIMIT;
use crate::{PrivateEngine, binary, wait};

/// A running Prometheus. Drop ends it; the engine removes its directory.
#[derive(Debug)]
pub struct Prometheus<'e> {
    engine: &'e PrivateEngine,
    port: u16,
    log: PathBuf,
    child: Child,
}

impl<'e> Prometheus<'e> {
    /// Starts Prometheus on this port of loopback with `config`, and waits until it answers.
    #[must_use]
    pub fn start(engine: &'e PrivateEngine, port: u16, config: &str) -> Self {
        let home = engine.scratch(&format!("prometheus-{port}"));
        let (written, log) = (home.join("prometheus.yml"), home.join("log"));
        fs::write(&written, config).expect("a configuration can be written");
        let out = File::create(&log).expect("a log file");
        let mut command = engine.command_in_netns(program("prometheus"));
        command
            .arg(format!("--config.file={}", written.display()))
            .arg(format!("--storage.tsdb.path={}", home.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle"))
            .stderr(out);
        let child = command.spawn().expect("prometheus starts");
        let prometheus = Self {
            engine,
            port,
            log,
            child,
        };
        let ready = || get(engine, &format!("http://127.0.0.1:{port}/-/ready"));
        let answers = wait::poll(LIMIT, ready).is_some();
        assert!(answers, "prometheus does not answer:\n{}", prometheus.logs());
        prometheus
    }

    /// The `data` of a response of its HTTP API.
    #[must_use]
    pub fn api(&self, path: &str) -> Value {
        let url = format!("http://127.0.0.1:{}/api/v1/{path}", self.port);
        let text = get(self.engine, &url).unwrap_or_else(|| panic!("{url}:\n{}", self.logs()));
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["status"], "success", "{url}: {answer:#}");
        answer["data"].clone()
    }

    /// The samples that a query returns now.
    #[must_use]
    pub fn query(&self, query: &str) -> Vec<Value> {
        let data = self.api(&format!("query?query={}", escaped(query)));
        data["result"].as_array().cloned().expect("a vector of samples")
    }

    /// The value of a query that returns one sample; `None` if it returns none.
    #[must_use]
    pub fn value(&self, query: &str) -> Option<f64> {
        let found = self.query(query);
        assert!(found.len() < 2, "{query} returns {found:#?}");
        found.first()?["value"][1].as_str()?.parse().ok()
    }

    /// Waits until a query has this value.
    pub fn wait_for(&self, query: &str, wanted: f64) {
        let mut last = None;
        let found = wait::poll(LIMIT, || {
            last = self.value(query);
            last.filter(|value| (value - wanted).abs() < 1e-9)
        });
        assert!(
            found.is_some(),
            "timed out after {LIMIT:?}: {query} is {wanted}; it is {last:?}\n{}",
            self.logs()
        );
    }

    /// Everything that it wrote.
    #[must_use]
    pub fn logs(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The body of a successful GET inside the engine's namespace.
#[must_use]
pub fn get(engine: &PrivateEngine, url: &str) -> Option<String> {
    let mut client: Command = engine.command_in_netns("busybox");
    let output = client.args(["wget", "-q", "-O", "-", url]).output().ok()?;
    let text = || String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(text)
}

/// Runs promtool in the directory of the rules.
#[must_use]
pub fn promtool(args: &[&str], input: &str) -> Output {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../charts/prometheus");
    let scratch = tempfile::NamedTempFile::new().expect("a file for the input");
    fs::write(scratch.path(), input).expect("the input can be written");
    let input = File::open(scratch.path()).expect("the input can be read");
    let mut command = Command::new(program("promtool"));
    command.args(args).current_dir(folder).stdin(input);
    command.output().expect("promtool runs")
}

fn program(name: &str) -> PathBuf {
    let ours = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/prometheus/bin");
    let found = Some(ours.join(name)).filter(|path| path.is_file());
    found
        .or_else(|| binary::find(name))
        .unwrap_or_else(|| panic!("no `{name}` on this machine; hint: ./scripts/prometheus"))
}

fn escaped(query: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let byte = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    query.bytes().map(byte).collect()
}
