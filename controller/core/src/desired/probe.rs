//! Health probe of a service, with all defaults; also the parsing of commands.

use std::time::Duration;

use argus_crds::{Command, Diagnostic, Healthcheck, ProbeType};
use serde::{Deserialize, Serialize};

use crate::desired::identity::shown;
use crate::desired::template::{PortReferences, TemplateResolver, trim_placeholders};
use crate::desired::{Port, shell_words};
use crate::ident::Protocol;

mod http;
mod log;

pub use http::HttpOptions;
pub use log::LogSearch;

/// Maximum number of consecutive failures and successes in a file.
const MAX_RETRIES: u32 = 1000;
const MAX_SUCCESSES: u32 = 100;
/// Shorter times are probably a bare number that was meant in seconds.
const SUSPICIOUS: Duration = Duration::from_millis(100);

/// Health probe of a running container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Type of the probe with its parameters.
    pub kind: ProbeHandler,
    /// Time between two probes of a healthy container; probes are more frequent before the first success.
    pub interval: Duration,
    /// Time limit of one probe.
    pub timeout: Duration,
    /// Number of consecutive failures that make the container unhealthy.
    pub retries: u32,
    /// Number of consecutive successes that make the container healthy.
    pub success_threshold: u32,
    /// Time after the start in which failures do not count.
    pub start_period: Duration,
}

/// Type of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeHandler {
    /// HTTP request that succeeds with an expected status.
    Http {
        /// Path with a leading slash.
        path: String,
        /// Port inside the container.
        port: u16,
        /// Other options of the request.
        #[serde(default, skip_serializing_if = "crate::desired::is_default")]
        options: HttpOptions,
    },
    /// TCP connection that succeeds if it is accepted.
    Tcp {
        /// Port inside the container.
        port: u16,
    },
    /// Command in the container that succeeds with exit code 0.
    Exec {
        /// Program and its arguments, without a shell.
        command: Vec<String>,
    },
    /// Output of the run that succeeds with matching lines, and then succeeds until the container stops.
    Log {
        /// Regular expression of a line.
        pattern: String,
        /// Number of matching lines.
        times: u32,
    },
    /// `HEALTHCHECK` of the image.
    Docker,
    /// `HEALTHCHECK` of the image, or a TCP connection if the image has none.
    DockerOrTcp {
        /// Port inside the container.
        port: u16,
    },
}

impl ProbeHandler {
    /// Port in the container; `None` for a probe without a connection.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Http { port, .. } | Self::Tcp { port } | Self::DockerOrTcp { port } => Some(*port),
            Self::Exec { .. } | Self::Log { .. } | Self::Docker => None,
        }
    }
}

/// Returns the probe; `None` if a diagnostic rejects it.
pub(super) fn resolve_probe(
    healthcheck: &Healthcheck,
    ports: &[Port],
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Probe> {
    let before = diagnostics.len();
    check_times(healthcheck, path, diagnostics);
    let kind = match (healthcheck.kind, &healthcheck.path, &healthcheck.command) {
        (ProbeType::Http, Some(request_path), _) => {
            resolve_http(request_path, healthcheck, ports, path, resolver, diagnostics)
        }
        (ProbeType::Http, None, _) => {
            let message = "a `healthcheck` of type `http` requires `path`";
            let hint = "add `path: /health`, or set `type: tcp` to check only the port";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
        (ProbeType::Tcp, _, _) => {
            port(healthcheck, ports, path, diagnostics).map(|port| ProbeHandler::Tcp { port })
        }
        (ProbeType::Exec, _, Some(command)) => exec(command, path, resolver, diagnostics),
        (ProbeType::Exec, _, None) => {
            let message = "a `healthcheck` of type `exec` requires `command`";
            diagnostics.push(Diagnostic::error(path, message).hint("add `command: […]`"));
            None
        }
        (ProbeType::Log, _, _) => log::resolve_log(healthcheck, path, diagnostics),
        (ProbeType::Docker, _, _) if healthcheck.port.is_some() => {
            port(healthcheck, ports, path, diagnostics).map(|port| ProbeHandler::DockerOrTcp { port })
        }
        (ProbeType::Docker, _, _) => Some(ProbeHandler::Docker),
    };
    let kind = kind?;
    report_unused_keys(healthcheck, &kind, path, diagnostics);
    let refused = diagnostics[before..].iter().any(Diagnostic::is_error);
    let is_log = matches!(kind, ProbeHandler::Log { .. });
    (!refused).then(|| Probe {
        kind,
        interval: healthcheck.interval.get(),
        timeout: healthcheck.timeout.get(),
        retries: healthcheck.retries,
        success_threshold: if is_log { 1 } else { healthcheck.success_threshold },
        start_period: healthcheck.start_period.get(),
    })
}

fn resolve_http(
    request_path: &str,
    healthcheck: &Healthcheck,
    ports: &[Port],
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ProbeHandler> {
    let key_path = format!("{path}.path");
    let mut request_path = resolver.fill(request_path, &key_path, PortReferences::Final, diagnostics);
    if request_path.contains("://") && !request_path.starts_with('/') {
        let message = format!(
            "`{}` is a full address, but `path` must be a path",
            shown(&request_path)
        );
        let hint = "write a path such as `/health`, and set `port` separately";
        diagnostics.push(Diagnostic::error(key_path, message).hint(hint));
        return None;
    }
    if request_path.is_empty() || request_path.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let message = format!("`{}` is not a valid request path", shown(&request_path));
        let hint = "write a path without blanks, such as `/health`";
        diagnostics.push(Diagnostic::error(key_path, message).hint(hint));
        return None;
    }
    if !request_path.starts_with('/') {
        let message = format!(
            "`{}` does not begin with `/`, so the probe requests `/{}`",
            shown(&request_path),
            shown(&request_path)
        );
        diagnostics.push(Diagnostic::warning(key_path, message).hint("write a path that begins with `/`"));
        request_path.insert(0, '/');
    }
    let options = http::resolve_options(healthcheck, path, resolver, diagnostics);
    port(healthcheck, ports, path, diagnostics).map(|port| ProbeHandler::Http {
        path: request_path,
        port,
        options,
    })
}

fn exec(
    command: &Command,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ProbeHandler> {
    let key_path = format!("{path}.command");
    let command = resolve_command(command, &key_path, resolver, PortReferences::Final, diagnostics)?;
    if command.is_empty() {
        let message = "the `command` of the `healthcheck` is empty";
        diagnostics.push(Diagnostic::error(key_path, message).hint("write a program in the container"));
        return None;
    }
    Some(ProbeHandler::Exec { command })
}

/// Returns the port of the probe: as written, else the first TCP port that the container publishes.
fn port(
    healthcheck: &Healthcheck,
    ports: &[Port],
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<u16> {
    let first = ports
        .iter()
        .find(|port| port.protocol == Protocol::Tcp)
        .map(|port| port.container);
    let port = healthcheck.port.or(first).filter(|port| *port != 0);
    if port.is_none() {
        let message = "the `healthcheck` has no `port`, and the container publishes none";
        diagnostics
            .push(Diagnostic::error(path, message).hint("add `port: …` with a port inside the container"));
    }
    port
}

fn check_times(healthcheck: &Healthcheck, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    for (name, time) in [
        ("interval", healthcheck.interval),
        ("timeout", healthcheck.timeout),
    ] {
        let key_path = format!("{path}.{name}");
        if time.get().is_zero() {
            let hint = "write a time with its unit, such as `5s`";
            diagnostics.push(Diagnostic::error(key_path, format!("`{name}` is zero")).hint(hint));
        } else if time.get() < SUSPICIOUS {
            let message = format!("`{name}` is only {time}");
            let hint = "write `5s` for seconds, because a bare number is in milliseconds";
            diagnostics.push(Diagnostic::warning(key_path, message).hint(hint));
        }
    }
    let counts = [
        ("retries", healthcheck.retries, MAX_RETRIES),
        ("successThreshold", healthcheck.success_threshold, MAX_SUCCESSES),
    ];
    for (name, count, most) in counts {
        if count == 0 || count > most {
            let message = format!("`{name}` is {count}");
            let hint = format!("write a number from 1 to {most}");
            diagnostics.push(Diagnostic::error(format!("{path}.{name}"), message).hint(hint));
        }
    }
}

/// Warns about keys that the type of probe does not use.
fn report_unused_keys(
    healthcheck: &Healthcheck,
    kind: &ProbeHandler,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let (kind, used): (_, &[&str]) = match kind {
        ProbeHandler::Http { .. } => ("http", &["path", "port", "scheme", "method", "headers", "status"]),
        ProbeHandler::Tcp { .. } => ("tcp", &["port"]),
        ProbeHandler::Exec { .. } => ("exec", &["command"]),
        ProbeHandler::Log { .. } => ("log", &["pattern", "times"]),
        ProbeHandler::Docker | ProbeHandler::DockerOrTcp { .. } => ("docker", &["port"]),
    };
    let given = [
        ("path", healthcheck.path.is_some()),
        ("port", healthcheck.port.is_some()),
        ("scheme", healthcheck.scheme.is_some()),
        ("method", healthcheck.method.is_some()),
        ("headers", !healthcheck.headers.is_empty()),
        ("status", healthcheck.status.is_some()),
        ("pattern", healthcheck.pattern.is_some()),
        ("times", healthcheck.times.is_some()),
        (
            "successThreshold",
            kind == "log" && healthcheck.success_threshold > 1,
        ),
        ("command", healthcheck.command.is_some()),
    ];
    for (name, _) in given
        .iter()
        .filter(|(name, given)| *given && !used.contains(name))
    {
        let message = format!("a `healthcheck` of type `{kind}` does not use `{name}`");
        diagnostics
            .push(Diagnostic::warning(format!("{path}.{name}"), message).hint("remove it, or change `type`"));
    }
}

/// Returns the words of a command with resolved templates; `None` if a diagnostic rejects it.
pub(super) fn resolve_command(
    command: &Command,
    path: &str,
    resolver: &TemplateResolver<'_>,
    port_references: PortReferences,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<String>> {
    let words: Vec<(String, String)> = match command {
        // The split comes before the resolution, so that a value with a blank stays one word.
        Command::Text(line) => match shell_words::split(&trim_placeholders(line)) {
            Ok(words) => words.into_iter().map(|word| (path.to_owned(), word)).collect(),
            Err(why) => {
                let message = format!("`{}` {why}", shown(line));
                let hint = "add the missing character, or write the command as a list";
                diagnostics.push(Diagnostic::error(path, message).hint(hint));
                return None;
            }
        },
        Command::List(words) => {
            let with_path = |(index, word): (usize, &String)| (format!("{path}[{index}]"), word.clone());
            words.iter().enumerate().map(with_path).collect()
        }
    };
    let mut filled = Vec::new();
    for (index, (path, word)) in words.iter().enumerate() {
        let word = resolver.fill(word, path, port_references, diagnostics);
        // A script is a later word, and can have many lines.
        let problem = if word.contains('\0') {
            Some(("contains a zero byte", "remove the zero byte"))
        } else if index == 0 && word.contains(['\n', '\r']) {
            Some((
                "is a program name with a line break",
                "remove the line break, or run a script with `sh -c`",
            ))
        } else {
            None
        };
        if let Some((problem, hint)) = problem {
            let message = format!("`{}` {problem}", shown(&word));
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            return None;
        }
        filled.push(word);
    }
    Some(filled)
}
