//! Health checks by a command that cannot succeed: a wrong address, login or file, or the syntax of a shell. With those of images.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use argus_crds::ProbeScheme;
use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;

use super::EditContext;
use super::case::{Case, contains, is_plain, mount_of, paths, unambiguous};
use super::classes::UNRESOLVED;
use super::command::script_in;
use super::health_check::named_port as reported_port;
use super::network::siblings;
use super::probe_client::{Address, address, client_of, is_own, named_port, words};
use super::reported;
use super::shell::{OPERATORS, SHELLS, list};
use crate::desired::hosts::dns_names;
use crate::desired::{Image, Mount, ProbeHandler};
use crate::ident::Protocol;
use crate::quoting::shell_word;

mod login;

pub(super) use login::login;

use login::without_login;

/// Key of the command.
pub(super) const KEY: &str = "container.healthcheck.command";

parts! {
    /// Parts of a result of a client that reached no listener, in lower case.
    UNREACHED: "connection refused" "econnrefused" "couldn't connect" "could not connect" "can't connect"
        "failed to connect" "unable to connect" "no response" "cannot assign requested address";
    /// Parts of a result of a client that does not know the name of a host, in lower case.
    UNKNOWN_HOST: "could not resolve" "unable to resolve" "bad address";
    /// Parts of a result of a client that does not trust a certificate, in lower case.
    UNTRUSTED: "ssl certificate problem" "self-signed" "self signed";
    /// Parts of a result of a request without TLS to a port with TLS, in lower case.
    TLS_SERVER: "to an https server" "sent to https port" "received http/0.9";
    /// Parts of a result of a request with TLS to a port without TLS, in lower case.
    PLAIN_SERVER: "wrong version number" "packet length too long" "record layer failure";
}

/// A command that never succeeded, with its last result.
struct Check<'a> {
    context: EditContext<'a>,
    command: &'a [String],
    output: &'a str,
}

impl<'a> Check<'a> {
    fn new(case: &Case<'a>) -> Option<Self> {
        let ProbeHandler::Exec { command } = &case.context.service.probe.as_ref()?.kind else {
            return None;
        };
        (!case.context.was_healthy()).then_some(Self {
            context: case.context,
            command,
            output: case.run.last_probe_output()?,
        })
    }

    fn has(&self, parts: &[&str]) -> bool {
        contains(self.output, parts)
    }

    fn edit(&self, reason: String) -> SpecEdit {
        self.context.edit(KEY, reason)
    }

    /// Returns whether a shell interprets the command.
    fn is_shell(&self) -> bool {
        let program = self.command.first().and_then(|word| word.rsplit('/').next());
        program.is_some_and(|program| SHELLS.contains(&program))
    }

    /// The command with another text for a part of it.
    fn replace(&self, part: &str, meant: &str, reason: String) -> SpecEdit {
        let (now, meant) = unambiguous(&self.command.join(" "), part, meant);
        self.edit(reason).now(now).suggest(meant)
    }

    /// The command as a list of these words. That of a Compose file has another form.
    fn write(&self, words: &[&str], reason: String) -> Option<SpecEdit> {
        let edit = self.edit(reason);
        Some(if self.context.accepted.lines.is_compose() {
            edit.hint(format!("run `{}`", words.join(" ")))
        } else {
            edit.suggest(list(words)?)
        })
    }

    /// The command with an option after its client.
    fn insert(&self, client: &str, option: &[&str], reason: String) -> Option<SpecEdit> {
        if self.is_shell() {
            let meant = format!("{client} {}", option.join(" "));
            return Some(self.replace(client, &meant, reason));
        }
        let (first, rest) = self.command.split_first()?;
        let rest = rest.iter().map(String::as_str);
        let all = [first.as_str()]
            .into_iter()
            .chain(option.iter().copied())
            .chain(rest);
        self.write(&all.collect::<Vec<_>>(), reason)
    }

    /// Address of its request to the container itself.
    fn own_address(&self) -> Option<Address<'a>> {
        address(self.command).filter(|address| is_own(self.context.service, address.host))
    }

    /// Hosts of its address and of its options that are not the container itself.
    fn other_hosts(&self) -> Vec<&'a str> {
        let all: Vec<&str> = words(self.command).collect();
        let options = all.windows(2).filter(|pair| ["-h", "--host"].contains(&pair[0]));
        let address = address(self.command).map(|address| address.host);
        let hosts = options.map(|pair| pair[1]).chain(address);
        hosts.filter(|host| !is_own(self.context.service, host)).collect()
    }
}

/// Operators of a shell in a command without a shell, or the text of a shell as its program.
pub(super) fn shell(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case)?;
    let is_operator = |word: &str| OPERATORS.contains(&word);
    let (text, reason) = match check.command {
        [text] if text.contains(char::is_whitespace) => {
            let reason = "the engine runs one element as the name of a program, without a shell";
            (text.clone(), reason.to_owned())
        }
        all => {
            let operator = all.iter().find(|word| is_operator(word) && !check.is_shell())?;
            let quoted = |word: &String| Some(word.clone()).filter(|word| is_operator(word));
            let word = |word: &String| quoted(word).unwrap_or_else(|| shell_word(word));
            let text: Vec<String> = all.iter().map(word).collect();
            let reason = format!("without a shell, `{operator}` is an argument of the program");
            (text.join(" "), reason)
        }
    };
    check.write(&["sh", "-c", &text], reason)
}

/// Script that is mounted at another place, or that the container cannot run.
pub(super) fn script(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case)?;
    let mut named = words(check.command)
        .flat_map(paths)
        .filter(|path| check.output.contains(path) && mount_of(&check.context, path).is_none());
    let elsewhere = named.find_map(|path| {
        let name = path.rsplit('/').next().filter(|name| name.contains('.'));
        let mut targets = check.context.service.mounts.iter().map(Mount::target);
        let target = targets.find(|target| target.rsplit('/').next() == name)?;
        let reason = format!("the container has no `{path}`, a mount is at `{target}`");
        Some(check.replace(path, target, reason))
    });
    let mut lines = check.output.lines();
    elsewhere.or_else(|| lines.find_map(|line| script_in(&check.context, line)))
}

/// Host that DNS does not know. A health check usually means its own container.
pub(super) fn host(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case)?;
    let names = dns_names(siblings(case));
    let is_unknown = |host: &&str| {
        let is_word = |line: &str| {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            words.any(|word| word.trim_end_matches('.') == *host)
        };
        let is_reported = |line: &str| contains(line, UNKNOWN_HOST) || contains(line, &UNRESOLVED);
        let mut lines = check.output.lines();
        is_plain(host) && !names.contains(host) && lines.any(|line| is_word(line) && is_reported(line))
    };
    let host = check.other_hosts().into_iter().find(is_unknown)?;
    let sibling = || nearest(host, names.iter().copied());
    let meant = nearest(host, ["localhost"])
        .or_else(sibling)
        .unwrap_or("localhost");
    let reason = format!("`{host}` is not a name of this environment");
    Some(check.replace(host, meant, reason))
}

/// Port on which no process of the container listens, or a container without a listener.
pub(super) fn port(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case).filter(|check| check.has(UNREACHED) && check.other_hosts().is_empty())?;
    let evidence = case.run.evidence.as_ref()?;
    let address = check.own_address();
    let in_address = address.as_ref().map(|address| address.port);
    let named = in_address.or_else(|| named_port(check.command));
    let client = client_of(check.command);
    let port = named.or(client.map(|(_, port, _)| port));
    let listening = evidence.listening.as_deref().unwrap_or_default();
    let Some(first) = listening.first() else {
        return unseen(&check, case, address.as_ref(), port);
    };
    let port = port?;
    let is_open = |port: u16| listening.iter().any(|at| at.port() == port);
    if is_open(port) {
        return other_loopback(&check, listening, &address?);
    }
    let mut published = check.context.service.ports.iter().map(|port| port.container);
    let best = published.find(|port| is_open(*port)).unwrap_or(first.port());
    let reason = format!("no process listens on port {port}, the container listens on {best}");
    let best = best.to_string();
    match (address, named) {
        (Some(address), _) => {
            let meant = format!("{}:{best}", address.host);
            Some(check.replace(address.authority, &meant, reason))
        }
        (None, Some(_)) => Some(check.replace(&port.to_string(), &best, reason)),
        (None, None) => {
            let (word, _, option) = client?;
            check.insert(word, &[option, &best], reason)
        }
    }
}

/// `HEALTHCHECK` of the image that reaches no process, although the container listens. Its own request is unknown.
pub(super) fn of_image(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let probe = service.probe.as_ref();
    let is_of_image = probe.is_none_or(|probe| probe.kind == ProbeHandler::Docker);
    let output = case.run.last_probe_output().filter(|_| is_of_image)?;
    let listening = case.run.evidence.as_ref()?.listening.as_deref()?;
    let open: BTreeSet<u16> = listening.iter().map(SocketAddr::port).collect();
    if open.is_empty() || !contains(output, UNREACHED) || case.context.was_healthy() {
        return None;
    }
    let tcp = service.ports.iter().filter(|port| port.protocol == Protocol::Tcp);
    let closed = tcp.map(|port| port.container).find(|port| !open.contains(port));
    let (end, hint) = match closed {
        Some(port) => (
            format!(", and not on its published port {port}"),
            format!(
                "let the program listen on {port}, or change the port in the `HEALTHCHECK` and in the file"
            ),
        ),
        None => (String::new(), "correct the port in the `HEALTHCHECK`".to_owned()),
    };
    let open: Vec<String> = open.iter().map(ToString::to_string).collect();
    let reason = format!(
        "its `HEALTHCHECK` reaches no process, the container listens on {}{end}",
        open.join(", ")
    );
    Some(match &service.image {
        Image::Built(build) if build.options.inline.is_none() => {
            Case::host_edit(build.shown_dockerfile(), reason, hint)
        }
        Image::Built(_) | Image::Named(_) => {
            let edit = case.context.edit("container.healthcheck", reason);
            edit.hint("write a health check, which replaces that of the image")
        }
    })
}

/// Change for a container whose sockets are unknown, or that has none: by the result of the client and by the output.
fn unseen(
    check: &Check<'_>,
    case: &Case<'_>,
    address: Option<&Address<'_>>,
    port: Option<u16>,
) -> Option<SpecEdit> {
    let evidence = case.run.evidence.as_ref()?;
    if let Some(address) = address.filter(|address| address.host == "localhost" && check.has(&["::1"])) {
        let reason = format!(
            "`localhost` is `::1`, and nothing listens on port {} there",
            address.port
        );
        return Some(check.replace("localhost", "127.0.0.1", reason));
    }
    let other = port.and_then(|port| reported::other_port(evidence, port));
    if let (Some(address), Some(other)) = (address, other) {
        let reason = format!(
            "no process listens on port {}, and the output reports port {other}",
            address.port
        );
        return Some(check.replace(address.authority, &format!("{}:{other}", address.host), reason));
    }
    // A client of another server has no port of this container.
    let is_own = evidence.listening.is_some() || port.is_some();
    is_own.then(|| case.context.silent_start(case.run)).flatten()
}

/// The loopback address on which the process listens. Some clients resolve `localhost` to one version of IP only.
fn other_loopback(check: &Check<'_>, listening: &[SocketAddr], address: &Address<'_>) -> Option<SpecEdit> {
    let Address { host, port, .. } = *address;
    let all = |is_of: fn(&SocketAddr) -> bool| listening.iter().filter(|at| at.port() == port).all(is_of);
    let (meant, version, other) = if all(SocketAddr::is_ipv4) {
        ("127.0.0.1", "IPv4", "IPv6")
    } else if all(|at| at.is_ipv6() && at.ip().is_loopback()) {
        ("[::1]", "IPv6", "IPv4")
    } else {
        // A process that listens on `::` accepts both.
        return None;
    };
    let named = match host {
        "localhost" => "can be",
        "[::1]" if other == "IPv6" => "is",
        "127.0.0.1" | "0.0.0.0" if other == "IPv4" => "is",
        _ => return None,
    };
    let reason =
        format!("the process listens on port {port} only on {version}, and `{host}` {named} {other}");
    Some(check.replace(host, meant, reason))
}

/// Path to which the program answers with an error of the request.
pub(super) fn path(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case)?;
    let is_answer = |status: &&str| {
        let mut before = ["returned error: ", "http/1.1 ", "http/1.0 ", "http/2 "].iter();
        before.any(|before| check.has(&[&format!("{before}{status}")]))
    };
    let status = ["404", "401", "403", "405", "410"].into_iter().find(is_answer)?;
    let evidence = case.run.evidence.as_ref()?;
    let port = check.own_address().map(|address| address.port);
    let port = port
        .or_else(|| named_port(check.command))
        .filter(|_| status == "404");
    let management = |port| reported_port(evidence, port, &["management", "actuator"]);
    if let Some((port, other)) = port.and_then(|port| Some((port, management(port)?))) {
        let reason = format!("the program reports port {other} for its management");
        return Some(check.replace(&port.to_string(), &other.to_string(), reason));
    }
    // The message names a setting for this host.
    if check.has(&["this host"]) {
        return None;
    }
    if let Some(edit) = without_login(&check).filter(|_| status == "401") {
        return Some(edit);
    }
    let address = check.own_address()?;
    let path = Some(address.path).filter(|path| !path.is_empty()).unwrap_or("/");
    let healthy = &evidence.healthy_paths;
    let Some(best) = healthy.iter().find(|healthy| *healthy != path) else {
        let edit = check.edit(format!("`{path}` answers with status {status}"));
        return Some(edit.now(path).hint("write a path that answers with success"));
    };
    let reason = format!("`{path}` answers with status {status}, `{best}` with success");
    let written = |path: &str| format!("{}{path}", address.authority);
    Some(check.replace(&written(address.path), &written(best), reason))
}

/// Scheme that does not fit the port, or a certificate that the client does not trust.
pub(super) fn scheme(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case)?;
    let evidence = case.run.evidence.as_ref();
    let speaks_tls = evidence.is_some_and(|evidence| evidence.speaks_tls) && !check.has(UNREACHED);
    let address = check.own_address()?;
    // A server with TLS closes the connection of a plain request.
    let is_reported = || evidence.is_some_and(|evidence| reported::has_tls(evidence, address.port));
    let is_closed = check.has(&["empty reply", "connection reset", "error getting response"]);
    let (now, meant, reason) = match address.scheme {
        ProbeScheme::Http if speaks_tls || check.has(TLS_SERVER) || (is_closed && is_reported()) => {
            ("http://", "https://", "its port accepts only TLS")
        }
        ProbeScheme::Https if check.has(PLAIN_SERVER) => {
            ("https://", "http://", "its port does not speak TLS")
        }
        ProbeScheme::Https if check.has(UNTRUSTED) => {
            let client = words(check.command).find(|word| *word == "curl")?;
            let reason = "the client does not trust its certificate".to_owned();
            return check.insert(client, &["-k"], reason);
        }
        ProbeScheme::Http | ProbeScheme::Https => return None,
    };
    Some(check.replace(now, meant, reason.to_owned()))
}

#[cfg(test)]
#[path = "probe_command_tests.rs"]
mod tests;
