//! Clients in the commands of health checks, with their addresses and ports.

use argus_crds::ProbeScheme;

use super::EditContext;
use super::case::is_plain;
use super::shell::list;
use crate::desired::Service;

/// Names of the container for its own processes.
const LOCAL: [&str; 4] = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"];

/// Ports of well-known servers by a part of the name of their client, with its option for another port.
const CLIENTS: [(&str, u16, &str); 11] = [
    ("pg_isready", 5432, "-p"),
    ("psql", 5432, "-p"),
    ("mysql", 3306, "-P"),
    ("mariadb", 3306, "-P"),
    ("redis-cli", 6379, "-p"),
    ("valkey-cli", 6379, "-p"),
    ("mongo", 27017, "--port"),
    ("rabbitmq", 5672, "-p"),
    ("cqlsh", 9042, "-p"),
    ("kafka", 9092, "-p"),
    ("nats", 4222, "-p"),
];

/// Address of an HTTP request.
pub(super) struct Address<'a> {
    pub(super) scheme: ProbeScheme,
    /// Host and port, as written.
    pub(super) authority: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    /// Path as written, without its query, which may contain a secret.
    pub(super) path: &'a str,
}

/// Words of a command, also those of a text for a shell.
pub(super) fn words(command: &[String]) -> impl Iterator<Item = &str> {
    let words = command.iter().flat_map(|word| word.split_whitespace());
    words.map(|word| word.trim_matches(['"', '\'', ';']))
}

/// Returns whether a host is the container itself.
pub(super) fn is_own(service: &Service, host: &str) -> bool {
    LOCAL.contains(&host) || [service.name.as_str(), service.container_name.as_str()].contains(&host)
}

/// Address of the HTTP request of a command.
pub(super) fn address(command: &[String]) -> Option<Address<'_>> {
    let is_http = words(command).any(|word| ["curl", "wget"].contains(&word));
    words(command).find_map(|word| {
        let (scheme, default_port, rest) = if let Some((_, rest)) = word.split_once("http://") {
            (ProbeScheme::Http, 80, rest)
        } else if let Some((_, rest)) = word.split_once("https://") {
            (ProbeScheme::Https, 443, rest)
        } else {
            let rest = LOCAL.iter().find_map(|host| word.strip_prefix(host))?;
            let is_bare = is_http && (rest.is_empty() || rest.starts_with([':', '/']));
            (ProbeScheme::Http, 80, Some(word).filter(|_| is_bare)?)
        };
        let rest = rest.split(['"', '\'', ';', ')', '|', '&', '?', '#']).next()?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !authority.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, default_port),
        };
        Some(Address {
            scheme,
            authority,
            host,
            port,
            path,
        })
    })
}

/// Port of the HTTP request of a command to its own container.
pub(crate) fn requested_port(service: &Service, command: &[String]) -> Option<u16> {
    let own = address(command).filter(|address| is_own(service, address.host))?;
    Some(own.port)
}

/// Word of a well-known client in a command, with the port of its server and its option for another port.
pub(super) fn client_of(command: &[String]) -> Option<(&str, u16, &'static str)> {
    words(command).find_map(|word| {
        let (_, port, option) = CLIENTS.iter().find(|(name, ..)| word.contains(name))?;
        Some((word, *port, *option))
    })
}

/// Port that a command names, in an address or after an option.
pub(super) fn named_port(command: &[String]) -> Option<u16> {
    const BEFORE: [&str; 6] = ["-p", "--port", "--", "-P", "localhost", "127.0.0.1"];
    let number = |text: &str| {
        let digits = text.trim_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|port| *port >= 20)
    };
    let in_address = |word: &&str| {
        if let Some((_, device)) = word.split_once("/dev/tcp/") {
            return number(device.split_once('/')?.1);
        }
        let (_, rest) = word.split_once("://").unwrap_or(("", word));
        let (host, port) = rest.split('/').next()?.rsplit_once(':')?;
        number(port).filter(|_| !host.is_empty())
    };
    let in_pair = |pair: &[&str]| {
        let is_number = pair[1].bytes().all(|byte| byte.is_ascii_digit());
        number(pair[1]).filter(|_| is_number && BEFORE.contains(&pair[0]))
    };
    // An option can have its value in the same word.
    let all: Vec<&str> = words(command).flat_map(|word| word.split("port=")).collect();
    let in_word = all.iter().find_map(in_address);
    in_word.or_else(|| all.windows(2).find_map(in_pair))
}

/// The same request by the other usual client, in a Compose file, which has only tests with a program.
pub(super) fn other_client(context: &EditContext<'_>, program: &str, command: &[String]) -> Option<String> {
    let own = address(command).filter(|own| is_own(context.service, own.host) && is_plain(own.path));
    let own = own.filter(|_| context.accepted.lines.is_compose())?;
    let scheme = match own.scheme {
        ProbeScheme::Http => "http",
        ProbeScheme::Https => "https",
    };
    let url = format!(
        "{scheme}://{}/{}",
        own.authority,
        own.path.trim_start_matches('/')
    );
    if context.accepted.desired.secrets.redacted(&url) != url {
        return None;
    }
    match program.rsplit('/').next()? {
        "curl" => list(&["CMD", "wget", "-q", "-O", "/dev/null", &url]),
        "wget" => list(&["CMD", "curl", "-fsS", "-o", "/dev/null", &url]),
        _ => None,
    }
}
