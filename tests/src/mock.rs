//! The real `argus mock`, and a client that uses one connection.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{self, Answer};
use crate::{binary, wait};

const LIMIT: Duration = Duration::from_secs(20);

/// A mock that serves a file in a directory of its own. Drop kills the process.
#[derive(Debug)]
pub struct MockServer {
    home: TempDir,
    process: Child,
    /// The address it listens on.
    pub address: SocketAddr,
}

impl MockServer {
    /// Serves a configuration on a free port.
    #[must_use]
    pub fn start(config: &Value) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("mock.json"), config.to_string()).expect("a file");
        let log = File::create(home.path().join("log")).expect("a log file");
        // As in a container from scratch: no variables, and a useless working directory.
        let process = Command::new(binary::argus())
            .args([
                "mock",
                "serve",
                "--log-format",
                "json",
                "--listen",
                "127.0.0.1:0",
                "--config",
            ])
            .arg(home.path().join("mock.json"))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("argus starts");
        let mut server = Self {
            home,
            process,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        server.address = wait::until(LIMIT, "the mock listens", || {
            let lines = server.log();
            let mut events = lines
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            events.find_map(|event| event["address"].as_str()?.parse().ok())
        });
        server
    }

    /// Everything that the process wrote.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Path of a file or directory next to the configuration.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Replaces the file atomically, by a rename.
    pub fn replace(&self, text: &str) {
        let temporary = self.path("mock.json.new");
        fs::write(&temporary, text).expect("a file");
        fs::rename(temporary, self.path("mock.json")).expect("a file that is renamed");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("our own child takes a signal");
    }

    /// Waits until the process exits.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        wait::until(limit, "the mock ends", || {
            self.process.try_wait().expect("our own child")
        })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Opens a connection.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends one request on a separate connection.
    #[must_use]
    pub fn request(&self, method: &str, target: &str, body: &str) -> Answer {
        self.connect()
            .request(method, target, &[], body)
            .expect("a response")
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(None)) {
            // The process has ended; another one may have its pid now.
            return;
        }
        // A clean end writes the profile of a coverage run.
        let _gone = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let process = &mut self.process;
        if wait::poll(LIMIT, || process.try_wait().ok().flatten()).is_none() {
            drop(self.process.kill());
            drop(self.process.wait());
        }
    }
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the mock takes connections");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream.set_nodelay(true).expect("an option");
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends a request and reads the response.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[&str],
        body: &str,
    ) -> std::io::Result<Answer> {
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nhost: mock\r\ncontent-length: {}\r\n",
            body.len()
        );
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        let sent = self
            .stream
            .get_mut()
            .write_all(format!("{head}\r\n{body}").as_bytes());
        // A server that refuses a body early may respond before all of it is sent.
        let read = self.read();
        if read.is_err() { sent.and(read) } else { read }
    }

    /// Sends bytes that need not be a valid request.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one response.
    pub fn read(&mut self) -> std::io::Result<Answer> {
        http::next(&mut self.stream)
    }
}
