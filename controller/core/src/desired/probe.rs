//! The probe of a service, with every default settled.

use std::time::Duration;

use argus_crds::{Command, Diagnostic, Healthcheck, ProbeType};

use crate::desired::identity::shown;
use crate::desired::template::{Deferral, Filler, tight};
use crate::desired::{Port, Probe, ProbeKind, shell_words};
use crate::ident::Protocol;

/// The most failures and successes in a row that can be asked for.
const MOST_RETRIES: u32 = 1000;
const MOST_SUCCESSES: u32 = 100;
/// Times below this are mostly a bare number that was meant in seconds.
const SUSPICIOUS: Duration = Duration::from_millis(100);

/// What decides that the container is healthy.
pub(super) fn of(
    written: &Healthcheck,
    ports: &[Port],
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<Probe> {
    let before = to.len();
    times(written, path, to);
    let kind = match (written.kind, &written.path, &written.command) {
        (ProbeType::Http, Some(asked), _) => http(asked, written, ports, path, filler, to),
        (ProbeType::Http, None, _) => {
            let message = "a `healthcheck` of type `http` needs `path`";
            let hint = "add `path: /health`, or `type: tcp` to check only the port";
            to.push(Diagnostic::error(path, message).hint(hint));
            None
        }
        (ProbeType::Tcp, _, _) => tcp(written, ports, path, to),
        (ProbeType::Exec, _, Some(command)) => exec(command, path, filler, to),
        (ProbeType::Exec, _, None) => {
            let message = "a `healthcheck` of type `exec` needs `command`";
            to.push(Diagnostic::error(path, message).hint("add `command: […]`"));
            None
        }
        (ProbeType::Docker, _, _) => Some(ProbeKind::Docker),
    };
    let kind = kind?;
    superfluous(written, &kind, path, to);
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
    asked: &str,
    written: &Healthcheck,
    ports: &[Port],
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<ProbeKind> {
    let place = format!("{path}.path");
    let mut asked = filler.fill(asked, &place, Deferral::Final, to);
    if asked.contains("://") && !asked.starts_with('/') {
        let message = format!(
            "`{}` is a whole address, and only its path is asked for",
            shown(&asked)
        );
        to.push(
            Diagnostic::error(place, message)
                .hint("write only the path, as in `/health`, and `port` beside it"),
        );
        return None;
    }
    if asked.is_empty() || asked.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let message = format!("`{}` is no path of an HTTP request", shown(&asked));
        to.push(Diagnostic::error(place, message).hint("write it without blanks, as in `/health`"));
        return None;
    }
    if !asked.starts_with('/') {
        let message = format!(
            "`{}` does not begin with `/`, so `/{}` is asked",
            shown(&asked),
            shown(&asked)
        );
        to.push(Diagnostic::warning(place, message).hint("begin it with `/`"));
        asked.insert(0, '/');
    }
    port(written, ports, path, to).map(|port| ProbeKind::Http { path: asked, port })
}

fn tcp(written: &Healthcheck, ports: &[Port], path: &str, to: &mut Vec<Diagnostic>) -> Option<ProbeKind> {
    port(written, ports, path, to).map(|port| ProbeKind::Tcp { port })
}

fn exec(command: &Command, path: &str, filler: &Filler<'_>, to: &mut Vec<Diagnostic>) -> Option<ProbeKind> {
    let place = format!("{path}.command");
    let command = self::command(command, &place, filler, Deferral::Final, to)?;
    if command.is_empty() {
        let message = "the `command` of the `healthcheck` is empty";
        to.push(Diagnostic::error(place, message).hint("name a program in the container"));
        return None;
    }
    Some(ProbeKind::Exec { command })
}

/// The port that is asked: as written, else the first that the container publishes over TCP.
fn port(written: &Healthcheck, ports: &[Port], path: &str, to: &mut Vec<Diagnostic>) -> Option<u16> {
    let first = ports
        .iter()
        .find(|port| port.protocol == Protocol::Tcp)
        .map(|port| port.container);
    let port = written.port.or(first).filter(|port| *port != 0);
    if port.is_none() {
        let message = "the `healthcheck` has no port to ask, and the container publishes none";
        to.push(Diagnostic::error(path, message).hint("add `port: …` with the port inside the container"));
    }
    port
}

fn times(written: &Healthcheck, path: &str, to: &mut Vec<Diagnostic>) {
    for (name, time) in [("interval", written.interval), ("timeout", written.timeout)] {
        let place = format!("{path}.{name}");
        if time.get().is_zero() {
            to.push(
                Diagnostic::error(place, format!("`{name}` is zero"))
                    .hint("write a time with its unit, as in `5s`"),
            );
        } else if time.get() < SUSPICIOUS {
            let message = format!("`{name}` is only {time}");
            to.push(
                Diagnostic::warning(place, message)
                    .hint("a bare number is milliseconds: write `5s` for seconds"),
            );
        }
    }
    let counts = [
        ("retries", written.retries, MOST_RETRIES),
        ("successThreshold", written.success_threshold, MOST_SUCCESSES),
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

/// Says what the kind of probe has no use for.
fn superfluous(written: &Healthcheck, kind: &ProbeKind, path: &str, to: &mut Vec<Diagnostic>) {
    let (kind, useless): (_, &[&str]) = match kind {
        ProbeKind::Http { .. } => ("http", &["command"]),
        ProbeKind::Tcp { .. } => ("tcp", &["path", "command"]),
        ProbeKind::Exec { .. } => ("exec", &["path", "port"]),
        ProbeKind::Docker => ("docker", &["path", "port", "command"]),
    };
    let there = [
        ("path", written.path.is_some()),
        ("port", written.port.is_some()),
        ("command", written.command.is_some()),
    ];
    for (name, _) in there
        .iter()
        .filter(|(name, there)| *there && useless.contains(name))
    {
        let message = format!("a `healthcheck` of type `{kind}` has no use for `{name}`");
        to.push(
            Diagnostic::warning(format!("{path}.{name}"), message).hint("leave it out, or change `type`"),
        );
    }
}

/// A command as its words, with templates filled in.
pub(super) fn command(
    written: &Command,
    path: &str,
    filler: &Filler<'_>,
    later: Deferral,
    to: &mut Vec<Diagnostic>,
) -> Option<Vec<String>> {
    match written {
        // Split before filling in: a value with a blank stays one word.
        Command::Text(line) => match shell_words::split(&tight(line)) {
            Ok(words) => Some(
                words
                    .iter()
                    .map(|word| filler.fill(word, path, later, to))
                    .collect(),
            ),
            Err(why) => {
                let message = format!("`{}` {why}", shown(line));
                to.push(
                    Diagnostic::error(path, message)
                        .hint("give it its partner, or put the words of the command into a list"),
                );
                None
            }
        },
        Command::List(words) => {
            let fill =
                |(index, word): (usize, &String)| filler.fill(word, &format!("{path}[{index}]"), later, to);
            Some(words.iter().enumerate().map(fill).collect())
        }
    }
}
