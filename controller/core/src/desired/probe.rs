//! Health probe of a service, with all defaults; also the parsing of commands.

use std::time::Duration;

use argus_crds::{Command, Diagnostic, Healthcheck, ProbeType};

use crate::desired::identity::shown;
use crate::desired::template::{Deferral, Filler, trim_slots};
use crate::desired::{Port, Probe, ProbeKind, shell_words};
use crate::ident::Protocol;

/// Maximum number of consecutive failures and successes in a file.
const MAX_RETRIES: u32 = 1000;
const MAX_SUCCESSES: u32 = 100;
/// Shorter times are probably a bare number that was meant in seconds.
const SUSPICIOUS: Duration = Duration::from_millis(100);

/// Returns the probe; `None` if a diagnostic rejects it.
pub(super) fn resolve_probe(
    written: &Healthcheck,
    ports: &[Port],
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<Probe> {
    let before = to.len();
    check_times(written, path, to);
    let kind = match (written.kind, &written.path, &written.command) {
        (ProbeType::Http, Some(request_path), _) => http(request_path, written, ports, path, filler, to),
        (ProbeType::Http, None, _) => {
            let message = "a `healthcheck` of type `http` requires `path`";
            let hint = "add `path: /health`, or set `type: tcp` to check only the port";
            to.push(Diagnostic::error(path, message).hint(hint));
            None
        }
        (ProbeType::Tcp, _, _) => tcp(written, ports, path, to),
        (ProbeType::Exec, _, Some(command)) => exec(command, path, filler, to),
        (ProbeType::Exec, _, None) => {
            let message = "a `healthcheck` of type `exec` requires `command`";
            to.push(Diagnostic::error(path, message).hint("add `command: […]`"));
            None
        }
        (ProbeType::Docker, _, _) => Some(ProbeKind::Docker),
    };
    let kind = kind?;
    report_unused_keys(written, &kind, path, to);
    let refused = to[before..].iter().any(Diagnostic::is_error);
    (!refused).then(|| Probe {
        kind,
        interval: written.interval.get(),
        timeout: written.timeout.get(),
        retries: written.retries,
        success_threshold: written.success_threshold,
        start_period: written.start_period.get(),
    })
}

fn http(
    request_path: &str,
    written: &Healthcheck,
    ports: &[Port],
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<ProbeKind> {
    let key_path = format!("{path}.path");
    let mut request_path = filler.fill(request_path, &key_path, Deferral::Final, to);
    if request_path.contains("://") && !request_path.starts_with('/') {
        let message = format!(
            "`{}` is a full address, but `path` must be a path",
            shown(&request_path)
        );
        to.push(
            Diagnostic::error(key_path, message)
                .hint("write a path such as `/health`, and set `port` separately"),
        );
        return None;
    }
    if request_path.is_empty() || request_path.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let message = format!("`{}` is not a valid request path", shown(&request_path));
        to.push(Diagnostic::error(key_path, message).hint("write a path without blanks, such as `/health`"));
        return None;
    }
    if !request_path.starts_with('/') {
        let message = format!(
            "`{}` does not begin with `/`, so the probe requests `/{}`",
            shown(&request_path),
            shown(&request_path)
        );
        to.push(Diagnostic::warning(key_path, message).hint("write a path that begins with `/`"));
        request_path.insert(0, '/');
    }
    port(written, ports, path, to).map(|port| ProbeKind::Http {
        path: request_path,
        port,
    })
}

fn tcp(written: &Healthcheck, ports: &[Port], path: &str, to: &mut Vec<Diagnostic>) -> Option<ProbeKind> {
    port(written, ports, path, to).map(|port| ProbeKind::Tcp { port })
}

fn exec(command: &Command, path: &str, filler: &Filler<'_>, to: &mut Vec<Diagnostic>) -> Option<ProbeKind> {
    let key_path = format!("{path}.command");
    let command = resolve_command(command, &key_path, filler, Deferral::Final, to)?;
    if command.is_empty() {
        let message = "the `command` of the `healthcheck` is empty";
        to.push(Diagnostic::error(key_path, message).hint("write a program in the container"));
        return None;
    }
    Some(ProbeKind::Exec { command })
}

/// Returns the port of the probe: as written, else the first TCP port that the container publishes.
fn port(written: &Healthcheck, ports: &[Port], path: &str, to: &mut Vec<Diagnostic>) -> Option<u16> {
    let first = ports
        .iter()
        .find(|port| port.protocol == Protocol::Tcp)
        .map(|port| port.container);
    let port = written.port.or(first).filter(|port| *port != 0);
    if port.is_none() {
        let message = "the `healthcheck` has no `port`, and the container publishes none";
        to.push(Diagnostic::error(path, message).hint("add `port: …` with a port inside the container"));
    }
    port
}

fn check_times(written: &Healthcheck, path: &str, to: &mut Vec<Diagnostic>) {
    for (name, time) in [("interval", written.interval), ("timeout", written.timeout)] {
        let key_path = format!("{path}.{name}");
        if time.get().is_zero() {
            to.push(
                Diagnostic::error(key_path, format!("`{name}` is zero"))
                    .hint("write a time with its unit, such as `5s`"),
            );
        } else if time.get() < SUSPICIOUS {
            let message = format!("`{name}` is only {time}");
            to.push(
                Diagnostic::warning(key_path, message)
                    .hint("write `5s` for seconds, because a bare number is in milliseconds"),
            );
        }
    }
    let counts = [
        ("retries", written.retries, MAX_RETRIES),
        ("successThreshold", written.success_threshold, MAX_SUCCESSES),
    ];
    for (name, count, most) in counts {
        if count == 0 || count > most {
            let message = format!("`{name}` is {count}");
            to.push(
                Diagnostic::error(format!("{path}.{name}"), message)
                    .hint(format!("write a number from 1 to {most}")),
            );
        }
    }
}

/// Warns about keys that the type of probe does not use.
fn report_unused_keys(written: &Healthcheck, kind: &ProbeKind, path: &str, to: &mut Vec<Diagnostic>) {
    let (kind, unused): (_, &[&str]) = match kind {
        ProbeKind::Http { .. } => ("http", &["command"]),
        ProbeKind::Tcp { .. } => ("tcp", &["path", "command"]),
        ProbeKind::Exec { .. } => ("exec", &["path", "port"]),
        ProbeKind::Docker => ("docker", &["path", "port", "command"]),
    };
    let given = [
        ("path", written.path.is_some()),
        ("port", written.port.is_some()),
        ("command", written.command.is_some()),
    ];
    for (name, _) in given
        .iter()
        .filter(|(name, given)| *given && unused.contains(name))
    {
        let message = format!("a `healthcheck` of type `{kind}` does not use `{name}`");
        to.push(Diagnostic::warning(format!("{path}.{name}"), message).hint("remove it, or change `type`"));
    }
}

/// Returns the words of a command with resolved templates.
pub(super) fn resolve_command(
    written: &Command,
    path: &str,
    filler: &Filler<'_>,
    deferral: Deferral,
    to: &mut Vec<Diagnostic>,
) -> Option<Vec<String>> {
    match written {
        // The split comes before the resolution, so that a value with a blank stays one word.
        Command::Text(line) => match shell_words::split(&trim_slots(line)) {
            Ok(words) => Some(
                words
                    .iter()
                    .map(|word| filler.fill(word, path, deferral, to))
                    .collect(),
            ),
            Err(why) => {
                let message = format!("`{}` {why}", shown(line));
                to.push(
                    Diagnostic::error(path, message)
                        .hint("add the missing character, or write the command as a list"),
                );
                None
            }
        },
        Command::List(words) => {
            let fill = |(index, word): (usize, &String)| {
                filler.fill(word, &format!("{path}[{index}]"), deferral, to)
            };
            Some(words.iter().enumerate().map(fill).collect())
        }
    }
}
