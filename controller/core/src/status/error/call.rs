//! Calls behind errors that no action caused: runs, probes and the engine connection.

use argus_crds::error::Call;
use argus_crds::{ProbeMethod, ProbeScheme};
use serde_json::{Map, json};

use super::failed_run;
use crate::desired::{Probe, ProbeHandler, Service};
use crate::failed_run::FailedRun;
use crate::state::breaker::Breaker;

/// The failed run, and its probe if the probe failed.
pub(super) fn of_run(service: Option<&Service>, failed_run: &FailedRun) -> Vec<Call> {
    let attempt = u32::try_from(failed_run.number).unwrap_or(u32::MAX);
    let run = json!({
        "container": failed_run.container,
        "image": service.map(|service| service.image.key()),
        "memory": failed_run.memory_limit,
    });
    let run = Call::new("run-container", run)
        .attempt(attempt.max(1))
        .outcome([failed_run::describe(failed_run), failed_run.error.clone()]);
    let probe = service.and_then(|service| service.probe.as_ref());
    let failed_probe = probe.filter(|_| !failed_run.probe_output.is_empty());
    let probe_call =
        failed_probe.map(|probe| of_probe(probe, failed_run.last_probe_output().map_or("", String::as_str)));
    [run].into_iter().chain(probe_call).collect()
}

/// A failed probe: the last one of its retries.
pub(super) fn of_probe(probe: &Probe, outcome_text: &str) -> Call {
    let arguments = match &probe.kind {
        ProbeHandler::Http { path, port, options } => {
            // A query and the values of headers may contain secrets.
            let kind = match options.scheme {
                ProbeScheme::Http => "http",
                ProbeScheme::Https => "https",
            };
            let headers: Vec<&String> = options.headers.keys().collect();
            json!({
                "kind": kind,
                "method": (options.method != ProbeMethod::Get).then(|| options.method.as_str()),
                "path": path.split('?').next(),
                "port": port,
                "headers": (!headers.is_empty()).then_some(headers),
                "status": options.expected(),
            })
        }
        ProbeHandler::Tcp { port } | ProbeHandler::DockerOrTcp { port } => {
            json!({ "kind": "tcp", "port": port })
        }
        // Arguments may contain secrets, and some specs write command and arguments as one text.
        ProbeHandler::Exec { command } => {
            let program = command
                .first()
                .filter(|program| !program.contains(char::is_whitespace));
            json!({ "kind": "exec", "program": program })
        }
        ProbeHandler::Log { pattern, times } => json!({ "kind": "log", "pattern": pattern, "times": times }),
        ProbeHandler::Docker => json!({ "kind": "docker" }),
    };
    Call::new("probe", arguments)
        .within(Some(probe.timeout))
        .attempt(probe.retries.max(1))
        .outcome([outcome_text.to_owned()])
}

/// A failed connection to the engine.
pub(super) fn of_engine(tries: u32, reason: &str) -> Call {
    Call::new("connect-engine", Map::new())
        .attempt(tries.max(1))
        .outcome([reason.to_owned()])
}

/// The last call that a breaker counted.
pub(super) fn of_breaker(breaker: &Breaker) -> Call {
    let openings = u32::try_from(breaker.openings()).unwrap_or(u32::MAX);
    Call::new("call-engine", Map::new())
        .attempt(openings.max(1))
        .outcome(breaker.last_failure().map(str::to_owned))
}

/// A start whose port was refused.
pub(super) fn of_port(port: &str, times: u32, held: &str) -> Call {
    Call::new("start-container", json!({ "port": port }))
        .attempt(times.max(1))
        .outcome([format!("host port {port} is held by {held}")])
}

/// A create whose name was refused.
pub(super) fn of_name(name: &str, holder: &str) -> Call {
    Call::new("create-container", json!({ "name": name })).outcome([format!("the name is held by {holder}")])
}
