//! Health checks that the program cannot answer: a missing program, TLS, refused credentials, and too little time.

use argus_crds::error::SpecEdit;
use argus_crds::{HumanDuration, ProbeScheme};

use super::case::{contains, is_plain, quoted};
use super::images::{health_path, renamed_program};
use super::probe_client::{address, client_of, is_own, named_port, other_client, words};
use super::probe_command::KEY;
use super::shell::list;
use super::{EditContext, reported};
use crate::desired::{HttpOptions, ProbeHandler};
use crate::failed_run::FailedRun;
use crate::failed_run::probe_program::missing_programs;
use crate::ident::Protocol;
use crate::probe::NO_ANSWER;
use crate::secrets::is_secret;

/// Result of a probe with TLS on a plain port, in lower case.
const NO_TLS: &str = "the port does not speak tls";

/// Path of a well-known image for health checks, if it is another one.
pub(super) fn known_path(context: &EditContext<'_>, path: &str) -> Option<&'static str> {
    health_path(context.service).filter(|meant| *meant != path)
}

/// Health check of the prober for a server that accepts no connections on the loopback addresses.
pub(super) fn from_outside(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Exec { command } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let listening = run.evidence.as_ref()?.listening.as_deref()?;
    let own = address(command).filter(|address| is_own(context.service, address.host))?;
    let mut of_port = listening.iter().filter(|at| at.port() == own.port).peekable();
    of_port.peek()?;
    let is_other = |at: &std::net::SocketAddr| !at.ip().is_loopback() && !at.ip().is_unspecified();
    if !of_port.all(is_other) || !is_plain(own.path) {
        return None;
    }
    let reason = format!(
        "the process listens on port {} only on the address of its network",
        own.port
    );
    // Next.js listens on the name that the engine gives the container.
    let evidence = run.evidence.as_ref()?;
    if evidence.stdout.iter().any(|line| line.contains("Next.js")) {
        let edit = context.edit("container.environment.HOSTNAME", reason);
        return Some(edit.suggest("0.0.0.0"));
    }
    let check = format!(
        "type: http, path: /{}, port: {}",
        own.path.trim_start_matches('/'),
        own.port
    );
    Some(instead(context, &check, reason))
}

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
    let reason = format!("the image has no program `{program}`");
    if let Some(edit) = renamed(context, command, &program, &reason) {
        return Some(edit);
    }
    let is_plain_text =
        |text: &str| context.accepted.desired.secrets.redacted(text) == text && is_plain(text);
    let own = address(command).filter(|address| is_own(context.service, address.host));
    let request = own.filter(|address| is_plain_text(address.path)).map(|address| {
        let scheme = match address.scheme {
            ProbeScheme::Http => "",
            ProbeScheme::Https => "scheme: https, ",
        };
        let path = address.path.trim_start_matches('/');
        format!("{scheme}path: /{path}, port: {}", address.port)
    });
    if let Some(test) = other_client(context, &program, command) {
        let hint = format!("use a program of the image, such as `{test}`");
        return Some(context.edit(KEY, reason).hint(hint));
    }
    let connection = || {
        let port = server_port(context, run, command)?;
        Some(format!("type: tcp, port: {port}"))
    };
    let Some(check) = request.or_else(connection) else {
        let hint = "write `type: tcp` with `port`, or use a program of the image";
        return Some(context.edit(KEY, reason).now(program).hint(hint));
    };
    Some(instead(context, &check, reason))
}

/// Program with another name or place in this version of the image, with the options that it requires.
fn renamed(context: &EditContext<'_>, command: &[String], program: &str, reason: &str) -> Option<SpecEdit> {
    let meant = renamed_program(context.service, program)?;
    let edit = context.edit(KEY, reason.to_owned()).now(program);
    let Some((name, options)) = meant.split_once(' ') else {
        return Some(edit.suggest(meant));
    };
    // Words of a list are apart.
    if !command.iter().any(|word| word == program) {
        return Some(edit.suggest(meant));
    }
    let words = command.iter().map(String::as_str);
    let all = words.flat_map(|word| {
        if word == program {
            vec![name, options]
        } else {
            vec![word]
        }
    });
    let edit = context.edit(KEY, reason.to_owned());
    Some(edit.suggest(list(&all.collect::<Vec<_>>())?))
}

/// Another health check with the same times.
fn instead(context: &EditContext<'_>, check: &str, reason: String) -> SpecEdit {
    parts! {
        TIMES: "interval" "timeout" "retries" "successThreshold" "startPeriod";
    }
    let lines = &context.accepted.lines;
    if lines.is_compose() {
        return context.edit(KEY, reason).hint("use a program of the image");
    }
    let edit = context.edit("container.healthcheck", reason);
    let time = |name: &&str| {
        let value = lines.values().get(&format!("{}.{name}", edit.key))?;
        Some(format!(", {name}: {value}"))
    };
    let times: String = TIMES.iter().filter_map(time).collect();
    edit.suggest(format!("{{ {check}{times} }}"))
}

/// Port of the server that a command checks: the one in its words, of its client, or the first on which the container listens or that it
/// publishes.
fn server_port(context: &EditContext<'_>, run: &FailedRun, command: &[String]) -> Option<u16> {
    let evidence = run.evidence.as_ref();
    let listening = evidence.and_then(|evidence| evidence.listening.as_ref());
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
    let is_tls = words(command).any(|word| word.contains("https://"));
    named_port(command)
        .or_else(|| is_tls.then_some(443))
        .or_else(|| client_of(command).map(|(_, port, _)| port))
        .or_else(of_listener)
        .or_else(published)
}

/// Health check over plain HTTP of a port with TLS, or the reverse.
pub(super) fn tls(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    const KEY: &str = "container.healthcheck.scheme";
    let ProbeHandler::Http { options, port, .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let output = run.last_probe_output()?;
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
        let is_plain = |line: &String| {
            contains(
                line,
                &[
                    "plaintext http traffic on an https channel",
                    "not an ssl/tls record",
                ],
            )
        };
        let is_closed = contains(
            output,
            &["closed before message", "invalid http", "connection reset"],
        );
        let is_reported = is_closed && reported::has_tls(evidence, *port);
        evidence.speaks_tls || is_reported || lines.any(|line| is_logged(line) || is_plain(line))
    });
    let reason = "its port accepts only TLS".to_owned();
    (is_reported || is_measured).then(|| context.edit(KEY, reason).suggest("https"))
}

/// Health check that requires credentials which it does not send. A service that was healthy before has other credentials now.
pub(super) fn credentials(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Http { path, options, .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let last = run.last_probe_output()?;
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
    let mut healthy = evidence.healthy_paths.iter().map(String::as_str);
    if let Some(open) = healthy
        .find(|open| *open != path)
        .or_else(|| known_path(context, path))
    {
        let reason = format!("`{path}` answers with status {status}, `{open}` with success");
        let edit = context.edit("container.healthcheck.path", reason);
        return Some(edit.suggest(open));
    }
    let reason =
        format!("`{path}` answers with status {status}, because the health check sends no credentials");
    // Any answer shows that the service runs, and the credentials are unknown here.
    let edit = accepting(context, options, status, reason);
    Some(edit.hint("or send them with `headers: {Authorization: …}`"))
}

/// The expected status with another one.
pub(super) fn accepting(
    context: &EditContext<'_>,
    options: &HttpOptions,
    status: &str,
    reason: String,
) -> SpecEdit {
    let expected = options.expected();
    let accepted = format!("[{}, {status}]", expected.as_deref().unwrap_or("200-399"));
    context
        .edit("container.healthcheck.status", reason)
        .suggest(accepted)
}

/// Log probe of a service whose output has none, or too few, of its lines.
pub(super) fn unmatched_log(context: &EditContext<'_>, run: &FailedRun, times: u32) -> Option<SpecEdit> {
    let last = run.last_probe_output()?;
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
    let mut lines = evidence.stdout.iter().chain(&evidence.stderr);
    // Servers write the path and the status in any order.
    let is_success = |line: &String| {
        let mut words = line
            .split(|c: char| c.is_whitespace() || "\"'=,;:[]{}|".contains(c))
            .map(|word| word.trim_end_matches('.'));
        let is_named = line.contains(path.as_str()) && (path.len() > 1 || line.contains("GET / "));
        is_named && words.any(|word| ["200", "204", "302"].contains(&word))
    };
    lines.any(is_success).then_some(path.as_str())
}

/// Variable with the hosts that the program accepts, if it refuses the host of the health check.
pub(super) fn allowed_hosts(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    parts! {
        REPORTS: "invalid http_host header" "invalid host header" "blocked host" "disallowed host";
    }
    let last = run.last_probe_output()?;
    ["400", "403"]
        .into_iter()
        .find(|status| is_status(last, status))?;
    let evidence = run.evidence.as_ref()?;
    let mut lines = evidence.stderr.iter().chain(&evidence.stdout);
    let line = lines.find(|line| contains(line, REPORTS))?;
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
pub(super) fn http_status(output: &str) -> Option<&str> {
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

/// Returns whether the program itself reports an error: the result of an HTTP probe, or of a client, has a status of 500 or more.
pub(super) fn is_server_error(output: &str) -> bool {
    let of_client = |status: &str| {
        let mut before = ["returned error: ", "returned error: HTTP/1.1 "].iter();
        before.any(|before| output.contains(&format!("{before}{status}")))
    };
    ["500", "501", "502", "503", "504"]
        .iter()
        .any(|status| is_status(output, &format!("{status} ")) || of_client(status))
}

/// Timeout below the time of an answer that came late: the measured one, or one that only the access log of the program contains.
pub(super) fn late(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    const SECOND: u64 = 1_000;
    // Another result is not about the time.
    run.last_probe_output()
        .filter(|output| contains(output, &[NO_ANSWER]))?;
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
