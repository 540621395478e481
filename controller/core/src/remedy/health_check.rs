//! Ports, paths and delays of health checks that do not fit the program.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use argus_crds::error::SpecEdit;

use super::case::contains;
use super::listeners::{LOCAL, open_variable, option_for};
use super::shell::with_words;
use super::{EditContext, probe, recovery_time, reported, seconds};
use crate::desired::ProbeHandler;
use crate::failed_run::FailedRun;
use crate::ident::Protocol;
use crate::outcome::Evidence;

/// A program that did not listen for this long is not only slow, so a longer `startPeriod` is no longer the first remedy.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The same, if its output reports that it starts.
const MAX_REPORTED: Duration = Duration::from_secs(300);

impl EditContext<'_> {
    /// Longer start of a service whose later probe succeeded with the same settings.
    pub(super) fn slow_start(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let took = recovery_time(failed_run)?;
        let reason = format!("the service was healthy {} s after its start", seconds(took));
        Some(self.start_period(self.service.probe.as_ref()?, took * 3 / 2, reason))
    }

    /// Longer start of a service whose processes do not listen yet.
    pub(super) fn silent_start(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let ran = failed_run.run_duration();
        let is_reported = failed_run.evidence.as_ref().is_some_and(reports_start);
        let max = if is_reported { MAX_REPORTED } else { MAX_SILENCE };
        let settings = self.service.probe.as_ref().filter(|_| ran < max)?;
        let reason = format!("no process listened on a TCP port after {} s", seconds(ran));
        Some(self.start_period(settings, ran * 2, reason))
    }

    /// Change of the health check that fits the observed program.
    pub(super) fn healthcheck(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let settings = self.service.probe.as_ref()?;
        if self.was_healthy() {
            return None;
        }
        if let Some(edit) = probe::late(self, failed_run) {
            return Some(edit);
        }
        let evidence = failed_run.evidence.as_ref()?;
        let (is_http, port) = match &settings.kind {
            ProbeHandler::Http { port, .. } => (true, *port),
            ProbeHandler::Tcp { port } | ProbeHandler::DockerOrTcp { port } => (false, *port),
            ProbeHandler::Log { times, .. } => return probe::unmatched_log(self, failed_run, *times),
            ProbeHandler::Exec { .. } | ProbeHandler::Docker => return None,
        };
        match evidence.listening.as_deref() {
            Some(listening) if is_starting(listening, port, evidence) => {
                let is_unseen = listening.is_empty();
                let is_local = is_unseen && reported::is_local(evidence, port);
                let local = is_local.then(|| self.local_address(evidence, port)).flatten();
                let other = reported::other_port(evidence, port);
                let other = other.or_else(|| reported::image_port(self.service, port));
                let other = other.filter(|_| is_unseen);
                let other = || Some(self.reported_port(port, other?));
                local.or_else(other).or_else(|| self.silent_start(failed_run))
            }
            Some(listening) if listening.iter().all(|address| address.port() != port) => {
                self.probe_port(port, listening)
            }
            Some(listening) if is_local_only(port, listening) => self.local_address(evidence, port),
            Some(listening) if is_refused(failed_run) && is_ipv6_only(port, listening) => {
                self.ipv6_address(port)
            }
            Some(_) | None if is_http => self
                .not_ready(failed_run)
                .or_else(|| self.other_protocol(evidence, failed_run, port))
                .or_else(|| self.probe_path(evidence, failed_run)),
            Some(_) | None => None,
        }
    }

    /// Address of the command or of a variable that makes the process listen on the loopback interface only.
    fn local_address(&self, evidence: &Evidence, port: u16) -> Option<SpecEdit> {
        let reason = format!("the process listens on port {port} only inside its container");
        if let Some((key, local)) = self.listen_address(port, &LOCAL) {
            return Some(self.edit(&key, reason).now(local).suggest("0.0.0.0"));
        }
        let option = |word: &str| option_for(word, port);
        let words = self.service.command.iter().flatten();
        let in_command = words.flat_map(|word| word.split_whitespace()).find_map(option);
        // Runners of scripts repeat the command of the script, such as `> vite`.
        let mut scripts = evidence.stdout.iter().filter_map(|line| line.strip_prefix("> "));
        let in_script = scripts.find_map(|line| line.split_whitespace().find_map(option));
        match in_command.or_else(|| in_script.map(|option| format!("-- {option}"))) {
            Some(added) => Some(with_words(self, &added, reason)),
            None => open_variable(self, evidence, port, reason),
        }
    }

    /// Address of the command or of a variable that makes the process listen on IPv6 only.
    fn ipv6_address(&self, port: u16) -> Option<SpecEdit> {
        let (key, any) = self.listen_address(port, &["[::]", "::"])?;
        let reason =
            format!("the process listens on port {port} only on IPv6, and its network has IPv4 addresses");
        Some(self.edit(&key, reason).now(any).suggest("0.0.0.0"))
    }

    /// Place of the address on which the process listens. The address of a server that it uses is none.
    pub(super) fn listen_address(
        &self,
        port: u16,
        addresses: &[&'static str],
    ) -> Option<(String, &'static str)> {
        let words = self.service.command.as_deref().unwrap_or_default();
        let in_command = || {
            words.iter().enumerate().find_map(|(index, word)| {
                let before = index.checked_sub(1).map_or("", |before| words[before].as_str());
                addresses
                    .iter()
                    .find(|address| listens(before, word, address, port))
            })
        };
        let in_variable = |(name, value): (&String, &String)| {
            let address = addresses.iter().find(|address| value.starts_with(**address))?;
            let rest = &value[address.len()..];
            let is_own =
                rest.is_empty() && names_listener(name) || is_own_variable(name) && is_port(rest, port);
            is_own.then(|| (format!("container.environment.{name}"), *address))
        };
        match in_command() {
            Some(address) => Some(("command".to_owned(), *address)),
            None => self.service.env_vars.iter().find_map(in_variable),
        }
    }

    fn reported_port(&self, port: u16, other: u16) -> SpecEdit {
        let reason = format!("no process listens on port {port}, the program has the port {other}");
        self.other_port(port, other, reason)
    }

    /// Port of the health check, or the published one that it has without a port of its own.
    fn other_port(&self, port: u16, other: u16, reason: String) -> SpecEdit {
        let edit = self.edit("container.healthcheck.port", reason.clone());
        let entry = self.edit("container.ports[0]", reason);
        let is_published = matches!(&self.service.ports[..], [only] if only.container == port);
        // A health check of a Compose file has no port of its own.
        let is_compose = self.accepted.lines.is_compose();
        let written = entry
            .now
            .as_deref()
            .filter(|_| is_published && (is_compose || edit.now.is_none()));
        let meant =
            written.and_then(|written| Some(format!("{}{other}", written.strip_suffix(&port.to_string())?)));
        match meant {
            Some(meant) => entry.suggest(meant),
            None if is_compose => entry.hint(format!("publish the port {other} of the container")),
            None => edit.suggest(other.to_string()),
        }
    }

    fn probe_port(&self, port: u16, listening: &[SocketAddr]) -> Option<SpecEdit> {
        // The probe connects from outside, which a loopback address refuses.
        let reachable: BTreeSet<u16> = listening
            .iter()
            .filter(|address| !is_loopback(address))
            .map(SocketAddr::port)
            .collect();
        let published = self
            .service
            .ports
            .iter()
            .filter(|port| port.protocol == Protocol::Tcp);
        let published = published
            .map(|port| port.container)
            .find(|port| reachable.contains(port));
        let best = published.or_else(|| reachable.first().copied())?;
        let all: Vec<String> = reachable.iter().map(ToString::to_string).collect();
        let reason = format!(
            "no process listens on port {port}, the container listens on {}",
            all.join(", ")
        );
        Some(self.other_port(port, best, reason))
    }

    /// Longer start of a service that answers, but is not ready yet.
    fn not_ready(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let ran = failed_run.run_duration();
        let is_meant = probe::is_status(failed_run.last_probe_output()?, "503") && ran < MAX_SILENCE;
        let reason = format!(
            "it answers with status 503 after {} s, so it is not ready yet",
            seconds(ran)
        );
        let settings = self.service.probe.as_ref().filter(|_| is_meant)?;
        Some(self.start_period(settings, ran * 2, reason))
    }

    /// Health check of a port whose process does not speak HTTP.
    fn other_protocol(&self, evidence: &Evidence, failed_run: &FailedRun, port: u16) -> Option<SpecEdit> {
        let last = failed_run.last_probe_output()?;
        let is_other = contains(
            last,
            &[
                "closed before message completed",
                "invalid http",
                "connection reset",
            ],
        );
        let reason = format!("the process does not speak HTTP on port {port}");
        if !is_other {
            return None;
        }
        Some(match named_port(evidence, port, &["http"]) {
            Some(other) => {
                let edit = self.edit("container.healthcheck.port", reason);
                edit.suggest(other.to_string())
            }
            None => self.edit("container.healthcheck.type", reason).suggest("tcp"),
        })
    }

    fn probe_path(&self, evidence: &Evidence, failed_run: &FailedRun) -> Option<SpecEdit> {
        let ProbeHandler::Http { path, port, options } = &self.service.probe.as_ref()?.kind else {
            return None;
        };
        let last = failed_run.last_probe_output()?;
        if let Some(status) = probe::http_status(last).filter(|status| status.starts_with(['2', '3'])) {
            let reason =
                format!("`{path}` answers with status {status}, which the health check does not expect");
            return Some(probe::accepting(self, options, status, reason));
        }
        let mut statuses = ["404", "405", "410"].iter();
        let status = statuses.find(|status| probe::is_status(last, status))?;
        let path = path.split('?').next().unwrap_or(path);
        let method = options.method.as_str();
        if *status == "405" && method != "GET" {
            let reason = format!("`{path}` does not permit the method {method}");
            let edit = self.edit("container.healthcheck.method", reason);
            return Some(edit.now(method).suggest("GET"));
        }
        if let Some(other) = named_port(evidence, *port, &["management", "actuator"]) {
            let reason = format!(
                "`{path}` does not exist on port {port}, and the program reports its management port"
            );
            let edit = self.edit("container.healthcheck.port", reason);
            return Some(edit.suggest(other.to_string()));
        }
        let key = "container.healthcheck.path";
        let mut healthy = evidence.healthy_paths.iter().map(String::as_str);
        Some(
            match healthy
                .find(|healthy| *healthy != path)
                .or_else(|| probe::known_path(self, path))
            {
                // A path that exists may fail for a good reason.
                Some(best) => {
                    let reason = format!("`{path}` does not succeed, `{best}` does");
                    self.edit(key, reason).suggest(best)
                }
                None => match reported::path(self, evidence, path) {
                    Some(other) => {
                        let reason = format!("`{path}` does not exist, and the output reports `{other}`");
                        self.edit(key, reason).suggest(other)
                    }
                    None => self.edit(key, format!("`{path}` does not exist in the container")),
                },
            },
        )
    }
}

/// Another port on which the container listens, and that a line of its output with one of these parts names.
pub(super) fn named_port(evidence: &Evidence, port: u16, parts: &[&str]) -> Option<u16> {
    // Without the sockets, the output is enough.
    let is_open = |other: &u16| {
        let is_one = |at: &SocketAddr| !is_loopback(at) && at.port() == *other;
        *other != port
            && evidence
                .listening
                .as_ref()
                .is_none_or(|all| all.iter().any(is_one))
    };
    let lines = evidence.stdout.iter().chain(&evidence.stderr);
    let mut named = lines.filter(|line| contains(line, parts));
    named.find_map(|line| reported::ports(line).find(is_open))
}

parts! {
    /// Names of variables that are the address of the program itself, in upper case.
    OWN_NAMES: "HOST" "HOSTNAME" "ADDR" "ADDRESS" "IP" "SERVER_HOST" "SERVER_ADDRESS" "HTTP_HOST";
    /// Parts of names of servers that a program uses, in upper case.
    SERVERS: "REDIS" "DB" "DATABASE" "PG" "POSTGRES" "MYSQL" "MARIADB" "MONGO" "MONGODB" "RABBITMQ" "AMQP"
        "KAFKA" "CACHE" "SMTP" "MAIL" "UPSTREAM";
}

/// Parts of the option before an address, in lower case.
const OPTIONS: [&str; 4] = ["host", "bind", "listen", "addr"];

/// Returns whether a variable names the address on which its program listens.
fn names_listener(name: &str) -> bool {
    let name = name.to_uppercase();
    let mut parts = name.split('_');
    let is_listening = parts.any(|part| part.starts_with("LISTEN") || part.starts_with("BIND"));
    is_own_variable(&name)
        && (is_listening || OWN_NAMES.contains(&name.as_str()) || name.ends_with("_RUN_HOST"))
}

/// Returns whether the name of a variable contains no server that the program uses.
fn is_own_variable(name: &str) -> bool {
    let name = name.to_uppercase();
    name.split('_').all(|part| !SERVERS.contains(&part))
}

/// Returns whether a word of a command, or an option before it, makes the process listen on an address.
fn listens(before: &str, word: &str, address: &str, port: u16) -> bool {
    let Some((start, end)) = word.split_once(address) else {
        return false;
    };
    // A longer address, such as `10.127.0.0.1`, is another one.
    if start.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.') {
        return false;
    }
    let option = if start.is_empty() {
        before.to_lowercase()
    } else {
        let last = start.rsplit([' ', ';', '&']).find(|part| !part.is_empty());
        last.unwrap_or_default().to_lowercase()
    };
    let is_option = option.starts_with('-') || option.ends_with('=');
    let is_client = SERVERS
        .iter()
        .any(|server| option.contains(&server.to_lowercase()));
    let is_named = is_option && (OPTIONS.iter().any(|part| option.contains(part)) || option == "-b");
    !is_client && (is_named || is_port(end, port))
}

/// Returns whether a text begins with this port after its colon.
fn is_port(text: &str, port: u16) -> bool {
    let digits = text.strip_prefix(':').unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse() == Ok(port)
}

/// Returns whether no process listens yet for others, except on other ports of the container itself, while the output reports no listener.
fn is_starting(listening: &[SocketAddr], port: u16, evidence: &Evidence) -> bool {
    let is_local = listening.iter().all(|at| is_loopback(at) && at.port() != port);
    listening.is_empty() || (is_local && reports_start(evidence))
}

/// Returns whether the output reports that the program still starts.
fn reports_start(evidence: &Evidence) -> bool {
    parts! {
        STARTS: "starting" "waiting for" "waiting on" "initializ" "booting" "loading" "migrat" "applying";
    }
    let mut lines = evidence.stdout.iter().chain(&evidence.stderr);
    lines.any(|line| contains(line, STARTS))
}

fn is_refused(failed_run: &FailedRun) -> bool {
    let last = failed_run.last_probe_output();
    last.is_some_and(|output| output.ends_with(": connection refused"))
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// True if all listeners of a port refuse connections from outside.
fn is_local_only(port: u16, listening: &[SocketAddr]) -> bool {
    let mut of_port = listening.iter().filter(|address| address.port() == port);
    of_port.all(is_loopback)
}

/// True if a port has listeners, and all of them are on IPv6.
fn is_ipv6_only(port: u16, listening: &[SocketAddr]) -> bool {
    let mut of_port = listening.iter().filter(|address| address.port() == port);
    of_port.all(SocketAddr::is_ipv6)
}

#[cfg(test)]
#[path = "health_check_tests.rs"]
mod tests;
