//! Listeners and paths that the output of a program reports.

use super::EditContext;
use super::case::{contains, paths, ports_in};
use super::images::facts_of;
use crate::desired::{Mount, Service};
use crate::outcome::Evidence;

/// The lowest port that is not a part of a time.
const LOWEST: u16 = 60;

/// Port on which the program listens according to its output; `None` if it also reports this one.
pub(super) fn other_port(evidence: &Evidence, port: u16) -> Option<u16> {
    let all: Vec<u16> = listeners(evidence).flat_map(ports).collect();
    let first = all.iter().copied().find(|other| *other != port)?;
    (!all.contains(&port)).then_some(first)
}

/// Port of a well-known image, if nothing in the file changes it to the one of the health check.
pub(super) fn image_port(service: &Service, port: u16) -> Option<u16> {
    let known: Vec<u16> = facts_of(service)?.ports().collect();
    let words = service.entrypoint.iter().chain(&service.command).flatten();
    let mut texts = service.env_vars.values().chain(words);
    let is_set = texts.any(|text| text.contains(&port.to_string()));
    let has_file = service
        .mounts
        .iter()
        .any(|mount| matches!(mount, Mount::Bind { .. }));
    let first = known.first().copied();
    first.filter(|_| !known.contains(&port) && !is_set && !has_file)
}

/// Returns whether the program reports a listener only for its own container.
pub(super) fn is_local(evidence: &Evidence, port: u16) -> bool {
    let local = format!("127.0.0.1:{port}");
    // The server of Vite names the option.
    let is_option = |line: &str| contains(line, &["use --host to expose"]);
    let mut all = evidence.stdout.iter().chain(&evidence.stderr);
    listeners(evidence).any(|line| line.contains(&local)) || all.any(|line| is_option(line))
}

/// Returns whether the program reports a listener with TLS on a port.
pub(super) fn has_tls(evidence: &Evidence, port: u16) -> bool {
    let mut lines = listeners(evidence).filter(|line| contains(line, &["https://", "https on", "tls"]));
    lines.any(|line| ports(line).any(|other| other == port))
}

/// Ports that a line names.
pub(super) fn ports(line: &str) -> impl Iterator<Item = u16> {
    // Such as `Tomcat started on port(s): 8080 (http)` and `port=8080`.
    let words = line.split(|c: char| c.is_whitespace() || "=,;".contains(c));
    let mut is_after = false;
    let after_word = words.filter_map(move |word| {
        let number = word.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u16>();
        let found = number.ok().filter(|_| is_after);
        is_after = contains(word, &["port"]);
        found
    });
    ports_in(line).chain(after_word).filter(|port| *port >= LOWEST)
}

/// Path of the health check that the output reports: a route, or the folder of the application in front of the present path.
pub(super) fn path(context: &EditContext<'_>, evidence: &Evidence, path: &str) -> Option<String> {
    let lines = || evidence.stdout.iter().chain(&evidence.stderr);
    let is_check = |route: &str| contains(route, &["health", "live", "ready", "ping", "status", "/up"]);
    // The log of an answer also names the missing path.
    let is_log = |line: &str| line.contains(&format!("{path} ")) || line.contains(&format!("{path}\""));
    let route = lines()
        .filter(|line| line.contains("GET") && !is_log(line))
        .flat_map(|line| paths(line))
        .find(|route| *route != path && is_check(route));
    let base = || {
        let line =
            lines().find(|line| contains(line, &["context path '/", "context-path '/", "context path /"]))?;
        let (_, rest) = line.split_once("path ")?;
        let base = paths(rest).next()?;
        Some(format!("{base}{path}"))
    };
    let archive = || {
        let mut targets = context.service.mounts.iter().map(Mount::target);
        let name = targets.find_map(|target| target.strip_suffix(".war")?.rsplit('/').next())?;
        (name != "ROOT").then(|| format!("/{name}{path}"))
    };
    route.map(str::to_owned).or_else(base).or_else(archive)
}

/// Lines about a listener of the program.
fn listeners(evidence: &Evidence) -> impl Iterator<Item = &str> {
    parts! {
        STARTED: "listening" "listen on" "started on" "running on" "running at" "serving on" "serving at" "ready on"
            "started server on" "available at" "bound to" "serving http" "local:" "started at" "server at" "bind to";
        FAILED: "error" "fail" "cannot" "refused" "unable" "stopped" "metrics" "grpc";
    }
    let lines = evidence.stdout.iter().chain(&evidence.stderr).map(String::as_str);
    lines.filter(|line| contains(line, STARTED) && !contains(line, FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_the_port_of_a_listener() {
        for (line, port) in [
            (
                "2024-03-01 10:22:03 Server listening on http://0.0.0.0:3000",
                Some(3000),
            ),
            (
                "Tomcat started on port(s): 9090 (http) with context path",
                Some(9090),
            ),
            ("level=info msg=\"listening\" port=4000", Some(4000)),
            ("listening on 0.0.0.0:8080", None),
            ("error: cannot listen on :3000", None),
            ("started 3000 workers", None),
        ] {
            let evidence = Evidence {
                stdout: vec![line.to_owned()],
                ..Evidence::default()
            };
            assert_eq!(other_port(&evidence, 8080), port, "{line}");
        }
    }
}
