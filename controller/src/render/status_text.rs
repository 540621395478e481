//! Texts of a status: waits, ports, holds, and running tests.

use std::path::Path;

use argus_core::quoting::{PathText as _, escape_line};
pub(crate) use argus_core::status::is_good;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, SpecEdit};
use argus_crds::status::{
    ActiveHold, EnvironmentStatus, Phase, PortMapping, RunningTest, SuiteStatus, Truth,
};

use crate::render::output;

/// Description of a running test.
pub(crate) fn format_running_test(test: &RunningTest) -> String {
    let owner = test.holder.as_ref().map(|holder| format!(" of {holder}"));
    let purpose = test.purpose.as_ref().map(|purpose| format!(": {purpose}"));
    let line = format!(
        "test `{}`{} runs until {}{}",
        test.case,
        owner.unwrap_or_default(),
        test.until,
        purpose.unwrap_or_default()
    );
    escape_line(&line).into_owned()
}

/// Last result of a suite, with its failed cases.
pub(crate) fn format_suite(suite: &SuiteStatus) -> String {
    let failed = match suite.failed_cases.as_slice() {
        [] => String::new(),
        cases => format!(": {}", cases.join(", ")),
    };
    let text = format!("{} {} at {}{failed}", suite.result, suite.suite, suite.at);
    escape_line(&text).into_owned()
}

/// Maximum number of warnings in a text.
const MAX_WARNINGS: usize = 3;

/// Warnings about the spec file with their places, such as `shop.e2e.yaml:6:5: unknown key`.
pub(crate) fn format_warnings(status: &EnvironmentStatus) -> Vec<String> {
    let file = Path::new(&status.spec_path).file_name().unwrap_or_default();
    let format = |warning: &Diagnostic| {
        let place = warning.location.map(|at| format!(":{}:{}", at.line, at.column));
        let hint = warning.hint.as_ref().map(|hint| format!(" (hint: {hint})"));
        format!(
            "{}{}: {}{}",
            file.shown(),
            place.unwrap_or_default(),
            warning.message,
            hint.unwrap_or_default()
        )
    };
    let warnings = || status.diagnostics.iter().filter(|it| !it.is_error());
    let left = warnings().count().saturating_sub(MAX_WARNINGS);
    let rest = (left > 0).then(|| format!("{left} more"));
    warnings().take(MAX_WARNINGS).map(format).chain(rest).collect()
}

/// Warnings about the running environment: those without a place in its file, and broken connections between services.
pub(crate) fn format_running_warnings(status: &EnvironmentStatus) -> Vec<String> {
    let is_connection = |code| matches!(code, Code::NetworkUnreachable | Code::DnsResolutionFailed);
    let running = status.diagnostics.iter();
    let running = running.filter(|it| !it.is_error() && it.location.is_none());
    let mut found: Vec<(&str, Option<String>)> = running.map(|it| (&*it.message, it.hint.clone())).collect();
    for error in status.errors.iter().filter(|error| is_connection(error.code)) {
        let mut edits = error.remedies.iter().filter_map(|remedy| remedy.edit.as_ref());
        let hint = edits.next().map(SpecEdit::change);
        // One change can restore several connections.
        if hint.is_none() || found.iter().all(|(_, known)| *known != hint) {
            found.push((&error.message, hint));
        }
    }
    let left = found.len().saturating_sub(MAX_WARNINGS);
    let rest = (left > 0).then(|| format!("{left} more"));
    let found = found.into_iter().take(MAX_WARNINGS);
    let found = found.map(|(message, hint)| match hint {
        Some(hint) => format!("{message} (hint: {hint})"),
        None => message.to_owned(),
    });
    found.chain(rest).collect()
}

/// Description of a hold.
pub(crate) fn format_hold(hold: &ActiveHold) -> String {
    hold.sentence("all of it")
}

/// Summary of the waits of an environment: a rejected file, then the reason why it is not ready. A Ready environment
/// contributes the message of its `Degraded` condition, such as a given-up service.
pub(crate) fn format_waits(status: &EnvironmentStatus) -> String {
    let of = |kind: &str| status.conditions.iter().find(|it| it.kind == kind);
    let rejected = of("SpecAccepted").is_some_and(|accepted| accepted.status == Truth::False);
    let errors = status.diagnostics.iter().filter(|it| it.is_error()).count();
    let rejected = rejected.then(|| format!("file rejected: {}", output::format_count(errors, "error")));
    let ready = of("Ready").filter(|ready| ready.status != Truth::True);
    // Without an accepted revision, the file is the only cause.
    let ready = ready.filter(|_| rejected.is_none() || status.revision.is_some());
    let lost = of("Degraded").filter(|lost| status.phase == Phase::Ready && lost.status == Truth::True);
    let waits = rejected
        .into_iter()
        .chain(ready.or(lost).map(|condition| condition.message.clone()));
    waits.collect::<Vec<_>>().join("; ")
}

/// Port mappings in the form of `docker ps`: `127.0.0.1:8080->80/tcp`.
pub(crate) fn format_ports(mappings: &[PortMapping]) -> String {
    let one = |mapping: &PortMapping| {
        let moved = if mapping.reassigned {
            format!(" (wanted {})", mapping.original_port)
        } else {
            String::new()
        };
        format!(
            "{}->{}/{}{moved}",
            format_address(mapping),
            mapping.container_port,
            mapping.protocol
        )
    };
    mappings.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Address of a port for clients, such as `127.0.0.1:8080`; `-:8080` if they cannot reach it.
pub(crate) fn format_address(mapping: &PortMapping) -> String {
    let (host, port) = (mapping.host.as_deref().unwrap_or("-"), mapping.actual_port);
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::diagnostic::Location;
    use argus_crds::error::StructuredError;

    use super::*;

    #[test]
    fn first_warnings_have_their_places() {
        let place = Location {
            line: 6,
            column: 5,
            length: 5,
        };
        let warning = Diagnostic::warning("services[0].tmpfs", "unknown key `tmpfs`")
            .hint("move it")
            .at(place);
        let later = Diagnostic::warning("", "other");
        let status = EnvironmentStatus {
            spec_path: "specs/shop.e2e.yaml".to_owned(),
            diagnostics: [vec![Diagnostic::error("", "an error"), warning], vec![later; 4]].concat(),
            ..EnvironmentStatus::default()
        };
        let first = "shop.e2e.yaml:6:5: unknown key `tmpfs` (hint: move it)";
        let other = "shop.e2e.yaml: other";
        assert_eq!(format_warnings(&status), [first, other, other, "2 more"]);
    }

    #[test]
    fn running_warnings_contain_broken_connections() {
        let edit =
            SpecEdit::new("compose.yaml", "services.db.environment.HOST", "it is local").suggest("0.0.0.0");
        let error = |message: &str| StructuredError::new(Code::NetworkUnreachable, message);
        let place = Location {
            line: 6,
            column: 5,
            length: 5,
        };
        let status = EnvironmentStatus {
            diagnostics: vec![
                Diagnostic::warning("", "of the file").at(place),
                Diagnostic::warning("", "running"),
            ],
            errors: vec![
                error("no link").edit(edit.clone()),
                error("another").edit(edit),
                error("other"),
                StructuredError::new(Code::ContainerCrash, "crash"),
            ],
            ..EnvironmentStatus::default()
        };
        let link = "no link (hint: set `environment.HOST: 0.0.0.0` in compose.yaml)";
        assert_eq!(format_running_warnings(&status), ["running", link, "other"]);
    }
}
