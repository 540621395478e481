//! Checks inside a container: commands to run, and the assertions on their outputs.

mod outputs;

use std::time::Duration;

use serde_json::{Map, Value};

use self::outputs::{CONTENT_KEYS, STAT_KEYS, check_exec, check_file, check_process, is_listening};
use crate::check::{Check, Failure, failures};
use crate::problem::{Problem, map_field, required_text, text_field, time_field};
use crate::value::{is_truthy, shortened, shown, to_number};

/// Maximum time of an `exec` step.
const EXEC_LIMIT: Duration = Duration::from_secs(15);
/// Maximum time of a command that reads a file.
const READ_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time of other commands.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time to connect to a port, by default.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Check of a container: the driver runs all commands and passes their outputs to [`ContainerCheck::assess`].
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerCheck {
    /// Name of the container. `None` means the default container.
    pub container: Option<String>,
    /// Commands in their order.
    pub commands: Vec<ContainerCommand>,
    /// Port to connect to if no container is known.
    pub connect: Option<Connect>,
    kind: Kind,
}

/// Command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerCommand {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Maximum time.
    pub limit: Duration,
}

/// Result of a command. The error of a missing container is an exit code 1 with the message on stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code.
    pub exit_code: i64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// True if the output was too large, so that its end is missing.
    pub is_cut: bool,
}

/// Port of a host to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Maximum time.
    pub limit: Duration,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Exec { expect: Option<Value> },
    File(Map<String, Value>),
    Process(Map<String, Value>),
    Port { port: u16, listening: bool },
}

impl CommandOutput {
    /// Output of a command that did not run.
    pub fn failed(reason: String) -> Self {
        Self {
            exit_code: 1,
            stdout: String::new(),
            stderr: reason,
            is_cut: false,
        }
    }

    /// Output as `expect.output` sees it: stdout, or after a failure stderr if stdout is empty.
    pub fn shown(&self) -> &str {
        let out = self.stdout.trim();
        if self.exit_code != 0 && out.is_empty() {
            self.stderr.trim()
        } else {
            out
        }
    }

    /// Reason of a failure: stderr, or stdout if stderr is empty.
    fn reason(&self) -> &str {
        Some(self.stderr.trim())
            .filter(|reason| !reason.is_empty())
            .unwrap_or(self.stdout.trim())
    }
}

fn shell(script: &str, arguments: &[&str], limit: Duration) -> ContainerCommand {
    let words = ["sh", "-c", script].into_iter().chain(arguments.iter().copied());
    ContainerCommand {
        words: words.map(str::to_owned).collect(),
        limit,
    }
}

impl ContainerCheck {
    /// Reads the resolved value of `exec`.
    pub(crate) fn exec(step: &Map<String, Value>) -> Result<Self, Problem> {
        let exec = map_field(step, "exec")?;
        let command = required_text(exec, "exec", "command")?;
        Ok(Self {
            container: container(exec, "exec")?,
            commands: vec![shell(&command, &[], EXEC_LIMIT)],
            connect: None,
            kind: Kind::Exec {
                expect: step.get("expect").filter(|expect| is_truthy(expect)).cloned(),
            },
        })
    }

    /// Reads the resolved value of `file`.
    pub(crate) fn file(step: &Map<String, Value>) -> Result<Self, Problem> {
        let file = map_field(step, "file")?;
        let path = required_text(file, "file", "path")?;
        let has = |keys: &[&str]| keys.iter().any(|key| file.get(*key).is_some_and(is_truthy));
        let mut commands = Vec::new();
        let exists = file.get("exists").filter(|exists| !exists.is_null());
        if exists.is_some() {
            commands.push(shell(r#"test -e "$1""#, &["sh", &path], CHECK_LIMIT));
        }
        // The other keys of an absent file are not checked.
        let is_absent = exists.is_some_and(|exists| !is_truthy(exists));
        if !is_absent && has(&STAT_KEYS) {
            let script = r#"stat -c "%A %U %s" "$1""#;
            commands.push(shell(script, &["sh", &path], CHECK_LIMIT));
        }
        if !is_absent && has(&CONTENT_KEYS) {
            commands.push(shell(r#"cat "$1""#, &["sh", &path], READ_LIMIT));
        }
        Ok(Self {
            container: container(file, "file")?,
            commands,
            connect: None,
            kind: Kind::File(file.clone()),
        })
    }

    /// Reads the resolved value of `process`.
    pub(crate) fn process(step: &Map<String, Value>) -> Result<Self, Problem> {
        let process = map_field(step, "process")?;
        required_text(process, "process", "name")?;
        Ok(Self {
            container: container(process, "process")?,
            commands: vec![shell("ps aux 2>/dev/null || ps -ef", &[], CHECK_LIMIT)],
            connect: None,
            kind: Kind::Process(process.clone()),
        })
    }

    /// Reads the resolved value of `port`.
    pub(crate) fn port(step: &Map<String, Value>) -> Result<Self, Problem> {
        let port = map_field(step, "port")?;
        let number = read_port(port.get("port")).map_err(|message| Problem::new("port.port", message))?;
        // The kernel has no `tcp6` without IPv6.
        let script = "ss -tlnp 2>/dev/null || netstat -tlnp 2>/dev/null || \
                      { cat /proc/net/tcp && { cat /proc/net/tcp6 2>/dev/null || true; }; }";
        let host = text_field(port, "port", "host")?.filter(|host| !host.is_empty());
        let listening = port.get("listening").filter(|listening| !listening.is_null());
        Ok(Self {
            container: container(port, "port")?,
            commands: vec![shell(script, &[], CHECK_LIMIT)],
            connect: Some(Connect {
                host: host.unwrap_or_else(|| "localhost".to_owned()),
                port: number,
                limit: time_field(port, "port", "timeout")?.unwrap_or(CONNECT_LIMIT),
            }),
            kind: Kind::Port {
                port: number,
                listening: listening.is_none_or(is_truthy),
            },
        })
    }

    /// Returns true for `exec`. The driver reports a command that did not run, or not within its limit, as
    /// [`CommandOutput::failed`]. For other checks it is a failure, because the state is unknown.
    pub fn is_exec(&self) -> bool {
        matches!(self.kind, Kind::Exec { .. })
    }

    /// Checks the outputs of the commands.
    pub fn assess(&self, outputs: &[CommandOutput]) -> Vec<Failure> {
        let none = CommandOutput::default();
        let first = outputs.first().unwrap_or(&none);
        let checks = match &self.kind {
            Kind::Exec { expect } => check_exec(first, expect.as_ref()),
            Kind::File(file) => check_file(file, outputs),
            Kind::Process(process) => Ok(check_process(first, process)),
            Kind::Port { port, .. } => {
                let is_open = is_listening(&first.stdout, *port);
                if !is_open && first.exit_code != 0 {
                    let message = format!("cannot list the listening ports: {}", shortened(first.reason()));
                    return vec![Failure::new(format!("port {port}"), message)];
                }
                return self.assess_port(is_open);
            }
        };
        match checks {
            Ok(checks) => failures(checks),
            Err(problem) => vec![Failure::new("expect", problem)],
        }
    }

    /// Checks if a port accepts connections.
    pub fn assess_port(&self, is_open: bool) -> Vec<Failure> {
        let Kind::Port { port, listening } = self.kind else {
            return Vec::new();
        };
        let state = |open| if open { "to listen" } else { "not to listen" };
        let found = if is_open { "a listener" } else { "no listener" };
        let at = format!("port {port}");
        failures([Check::new(&at, is_open == listening, state(listening), found)])
    }
}

fn container(map: &Map<String, Value>, parent: &str) -> Result<Option<String>, Problem> {
    Ok(text_field(map, parent, "container")?.filter(|name| !name.is_empty()))
}

/// Reads a port number.
pub(crate) fn read_port(value: Option<&Value>) -> Result<u16, String> {
    let Some(given) = value.filter(|value| !value.is_null()) else {
        return Err("the port is missing".to_owned());
    };
    let number = to_number(given);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    if number.fract() == 0.0 && (1.0..=65_535.0).contains(&number) {
        return Ok(number as u16);
    }
    Err(format!("{} is not a port number", shown(value)))
}
