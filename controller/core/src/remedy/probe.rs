//! Health checks that the program cannot answer: a missing program, TLS, refused credentials, and too little time.

use argus_crds::error::SpecEdit;
use argus_crds::{HumanDuration, ProbeScheme};

use super::EditContext;
use super::case::{contains, is_plain, quoted};
use crate::desired::ProbeHandler;
use crate::failed_run::FailedRun;
use crate::failed_run::probe_program::missing_programs;
use crate::ident::Protocol;
use crate::secrets::is_secret;

/// Result of a probe with TLS on a plain port, in lower case.
const NO_TLS: &str = "the port does not speak tls";

/// Ports of well-known programs by a part of the name of their client.
const CLIENTS: [(&str, u16); 11] = [
    ("pg_isready", 5432),
    ("psql", 5432),
    ("mysql", 3306),
    ("mariadb", 3306),
    ("redis-cli", 6379),
    ("valkey-cli", 6379),
    ("mongo", 27017),
    ("rabbitmq", 5672),
    ("cqlsh", 9042),
    ("kafka", 9092),
    ("nats", 4222),
];

/// Health check with a program that the image does not have.
pub(super) fn missing_program(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Exec { command } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let is_missing = |output: &String| match missing_programs(output) {
        (programs, true) => programs.first().map(ToString::to_string),
        // Other lines show what the rest of the command found.
        (_, false) => None,
    };
    let program = run.probe_output.iter().rev().find_map(is_missing)?;
    let instead = match (http_address(context, command), port_of(context, run, command)) {
        (Some((scheme, port, path)), _) => {
            let scheme = match scheme {
                ProbeScheme::Http => "",
                ProbeScheme::Https => "`scheme: https`, ",
            };
            format!("write `type: http`, {scheme}`port: {port}` and `path: {path}` instead")
        }
        (None, Some(port)) => format!("write `type: tcp` and `port: {port}` instead"),
        (None, None) => "write `type: tcp` with `port`, or use a program of the image".to_owned(),
    };
    let reason = format!("the image has no program `{program}`");
    let edit = context.edit("container.healthcheck.command", reason);
    Some(edit.now(program).hint(instead))
}

/// Scheme, port and path of the HTTP request of a command, if its address is the container itself.
fn http_address(context: &EditContext<'_>, command: &[String]) -> Option<(ProbeScheme, u16, String)> {
    let after = |start: &str| words(command).find_map(|word| Some(word.split_once(start)?.1));
    let (scheme, default_port, rest) = match after("http://") {
        Some(rest) => (ProbeScheme::Http, 80, rest),
        None => (ProbeScheme::Https, 443, after("https://")?),
    };
    let rest = rest.split(['"', '\'', ';', ')', '|', '&']).next()?;
    // A query may contain a secret.
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = format!("/{}", path.split(['?', '#']).next()?);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => (host, port.parse().ok()?),
        _ => (address, default_port),
    };
    let service = context.service;
    let is_own = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"].contains(&host)
        || [service.name.as_str(), service.container_name.as_str()].contains(&host);
    let is_public = context.accepted.desired.secrets.redacted(&path) == path;
    (is_own && is_public).then_some((scheme, port, path))
}

/// Port that a command connects to: the one in its words, of its program, or the first on which the container listens or that it publishes.
fn port_of(context: &EditContext<'_>, run: &FailedRun, command: &[String]) -> Option<u16> {
    let all: Vec<&str> = words(command).collect();
    let number = |text: &str| {
        let digits = text.trim_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|port| *port >= 20)
    };
    let after_address = |word: &&str| {
        let (_, rest) = word.split_once("://").unwrap_or(("", word));
        let (host, port) = rest.split('/').next()?.rsplit_once(':')?;
        number(port).filter(|_| !host.is_empty())
    };
    let in_pair = |pair: &[&str]| {
        let is_port = ["-p", "--port", "-P", "localhost", "127.0.0.1"].contains(&pair[0]);
        pair[1]
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| number(pair[1]).filter(|_| is_port))?
    };
    let of_client = || {
        let is_client = |(name, _): &&(&str, u16)| all.iter().any(|word| word.contains(name));
        CLIENTS.iter().find(is_client).map(|(_, port)| *port)
    };
    let listening = run
        .evidence
        .as_ref()
        .and_then(|evidence| evidence.listening.as_ref());
    let of_listener = || {
        let mut addresses = listening.into_iter().flatten();
        addresses
            .find(|address| !address.ip().is_loopback())
            .map(std::net::SocketAddr::port)
    };
    let published = || {
        let mut ports = context.service.ports.iter();
        ports
            .find(|port| port.protocol == Protocol::Tcp)
            .map(|port| port.container)
    };
    let is_tls = all.iter().any(|word| word.contains("https://"));
    all.iter()
        .find_map(after_address)
        .or_else(|| all.windows(2).find_map(in_pair))
        .or_else(|| is_tls.then_some(443))
        .or_else(of_client)
        .or_else(of_listener)
        .or_else(published)
}

fn words(command: &[String]) -> impl Iterator<Item = &str> {
    command.iter().flat_map(|word| word.split_whitespace())
}

/// Health check over plain HTTP of a port with TLS, or the reverse.
pub(super) fn tls(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    const KEY: &str = "container.healthcheck.scheme";
    let ProbeHandler::Http { options, .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let output = run.probe_output.last()?;
    if options.scheme == ProbeScheme::Https {
        let reason = "its port does not speak TLS".to_owned();
        let is_reported = contains(output, &[NO_TLS]);
        return is_reported.then(|| context.edit(KEY, reason).suggest("http"));
    }
    if http_status(output).is_some_and(|status| status != "400") {
        return None;
    }
    let is_reported = contains(
        output,
        &[
            "http request to an https server",
            "plain http request was sent to https port",
            "requires tls",
        ],
    );
    let is_measured = run.evidence.as_ref().is_some_and(|evidence| {
        // OpenSSL reports a plain request in the output of its program.
        let mut lines = evidence.stderr.iter().chain(&evidence.stdout);
        let is_logged =
            |line: &String| contains(line, &["ssl routines"]) && contains(line, &["http request"]);
        evidence.speaks_tls || lines.any(is_logged)
    });
    let reason = "its port accepts only TLS".to_owned();
    (is_reported || is_measured).then(|| context.edit(KEY, reason).suggest("https"))
}

/// Health check that requires credentials which it does not send. A service that was healthy before has other credentials now.
pub(super) fn credentials(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Http { path, options, .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let last = run.probe_output.last()?;
    let status = ["401", "403"]
        .into_iter()
        .find(|status| is_status(last, status))
        .filter(|_| !context.was_healthy())?;
    let path = path.split('?').next().unwrap_or(path);
    let evidence = run.evidence.as_ref()?;
    if options.headers.keys().any(|name| is_secret(name)) {
        let reason = format!("`{path}` refuses the credentials of these headers with status {status}");
        return Some(context.edit("container.healthcheck.headers", reason));
    }
    if let Some(open) = evidence.healthy_paths.iter().find(|open| *open != path) {
        let reason = format!("`{path}` answers with status {status}, `{open}` with success");
        return Some(
            context
                .edit("container.healthcheck.path", reason)
                .suggest(open.as_str()),
        );
    }
    let reason =
        format!("`{path}` answers with status {status}, because the health check sends no credentials");
    // Any answer shows that the service runs, and the credentials are unknown here.
    let accepted = format!(
        "[{}, {status}]",
        options.expected().as_deref().unwrap_or("200-399")
    );
    let edit = context
        .edit("container.healthcheck.status", reason)
        .suggest(accepted);
    Some(edit.hint("or send them with `headers: {Authorization: …}`"))
}

/// Log probe of a service whose output has none, or too few, of its lines.
pub(super) fn unmatched_log(context: &EditContext<'_>, run: &FailedRun, times: u32) -> Option<SpecEdit> {
    let last = run.probe_output.last()?;
    let (_, result) = last.rsplit_once(": ")?;
    let found = result.split(' ').next()?.parse::<u32>().ok()?;
    let edit = if found == 0 {
        let reason = "no line of the output matches the pattern".to_owned();
        context.edit("container.healthcheck.pattern", reason)
    } else {
        let reason = format!("{found} of {times} lines of the output match the pattern");
        let edit = context.edit("container.healthcheck.times", reason);
        edit.hint(format!(
            "raise `startPeriod` if the other lines come later, else write {found}"
        ))
    };
    Some(edit)
}

/// Multiple of the timeout for an answer whose time is unknown: more than the five times for which late answers are measured.
const UNMEASURED: u32 = 10;

/// Path of the health check, if the access log of the program contains an answer with success for it.
fn logged_path<'a>(context: &EditContext<'a>, run: &FailedRun) -> Option<&'a str> {
    let ProbeHandler::Http { path, .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let evidence = run.evidence.as_ref()?;
    let request = format!("\"GET {path} HTTP/");
    let mut lines = evidence.stdout.iter().chain(&evidence.stderr);
    let is_success = |line: &String| {
        let answer = line
            .split_once(&request)
            .and_then(|(_, rest)| rest.split_once("\" "));
        answer.is_some_and(|(_, status)| status.starts_with(['2', '3']))
    };
    lines.any(is_success).then_some(path.as_str())
}

/// Variable with the hosts that the program accepts, if it refuses the host of the health check.
pub(super) fn allowed_hosts(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let last = run.probe_output.last()?;
    ["400", "403"]
        .into_iter()
        .find(|status| is_status(last, status))?;
    let evidence = run.evidence.as_ref()?;
    let mut lines = evidence.stderr.iter().chain(&evidence.stdout);
    let reports = [
        "invalid http_host header",
        "invalid host header",
        "blocked host",
        "disallowed host",
    ];
    let line = lines.find(|line| contains(line, &reports))?;
    let host = quoted(line)
        .next()?
        .split(':')
        .next()
        .filter(|host| is_plain(host))?;
    // Addresses of servers have a port.
    let is_list = |(name, value): &(&String, &String)| name.contains("HOSTS") && !value.contains([':', '/']);
    let mut lists = context.service.env_vars.iter().filter(is_list);
    let (name, value) = lists.find(|(_, value)| !value.contains(host))?;
    let reason = format!("its program refuses requests for the host `{host}`");
    let edit = context.edit(&format!("container.environment.{name}"), reason);
    let separator = match value.as_str() {
        "" => "",
        value if value.contains(' ') && !value.contains(',') => " ",
        _ => ",",
    };
    Some(
        edit.now(value.as_str())
            .suggest(format!("{value}{separator}{host}")),
    )
}

/// Status in the result of an HTTP probe.
fn http_status(output: &str) -> Option<&str> {
    output.split(": ").skip(1).find_map(|part| {
        let (status, _) = part.split_once(' ').unwrap_or((part, ""));
        let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        is_status.then_some(status)
    })
}

/// Returns whether the result of an HTTP probe has this status.
pub(super) fn is_status(output: &str, status: &str) -> bool {
    let result = output.rsplit_once(": ").map(|(_, result)| result);
    result.is_some_and(|result| result.starts_with(status))
}

/// Returns whether the program itself reports an error: the result of an HTTP probe has a status of 500 or more.
pub(super) fn is_server_error(output: &str) -> bool {
    ["500 ", "501 ", "502 ", "503 ", "504 "]
        .iter()
        .any(|status| is_status(output, status))
}

/// Timeout below the time of an answer that came late: the measured one, or one that only the access log of the program contains.
pub(super) fn late(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    const SECOND: u64 = 1_000;
    // Another result is not about the time.
    run.probe_output
        .last()
        .filter(|output| contains(output, &["no answer within"]))?;
    let timeout = context.service.probe.as_ref()?.timeout;
    let limit = timeout.as_secs_f32();
    let (needed, reason) = match run.late_answer {
        Some(took) if took <= timeout => return None,
        Some(took) => {
            let seconds = took.as_secs_f32();
            let reason = format!("its endpoint answered after {seconds:.1} s, the timeout is {limit} s");
            (took * 3 / 2, reason)
        }
        None => {
            let path = logged_path(context, run)?;
            let reason =
                format!("its output reports answers for `{path}`, which came after the timeout of {limit} s");
            (timeout * UNMEASURED, reason)
        }
    };
    let millis = u64::try_from(needed.as_millis()).unwrap_or(u64::MAX);
    let needed = HumanDuration::from_secs(millis.div_ceil(SECOND).max(1));
    let edit = context.edit("container.healthcheck.timeout", reason);
    Some(edit.suggest(needed.to_string()))
}
