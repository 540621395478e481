//! What was called where the error is not that of an act: a run, a probe, the engine as a whole.

use argus_crds::error::Call;
use serde_json::{Map, Value, json};

use super::death;
use crate::desired::{Probe, ProbeKind, Service};
use crate::memory::Death;
use crate::memory::breaker::Breaker;
use crate::plan::image;

/// The run that failed, and the probe that said so, where one did.
pub(super) fn of_run(service: Option<&Service>, death: &Death) -> Vec<Call> {
    let attempt = u32::try_from(death.number).unwrap_or(u32::MAX);
    let run = json!({
        "container": death.container,
        "image": service.map(|service| image::key(&service.image)),
        "memory": death.memory_limit,
    });
    let run = Call::new("run-container", arguments(run))
        .attempt(attempt.max(1))
        .came_to([death::words(death), death.error.clone()]);
    let probe = service.and_then(|service| service.probe.as_ref());
    let asked = probe.filter(|_| !death.probe_said.is_empty());
    let asked = asked.map(|probe| of_probe(probe, death.probe_said.last().map_or("", String::as_str)));
    [run].into_iter().chain(asked).collect()
}

/// A probe that says unhealthy: the last of as many as that takes.
pub(super) fn of_probe(probe: &Probe, said: &str) -> Call {
    let asked = match &probe.kind {
        ProbeKind::Http { path, port } => json!({ "kind": "http", "path": path, "port": port }),
        ProbeKind::Tcp { port } => json!({ "kind": "tcp", "port": port }),
        // Its arguments may hold what is nobody's business.
        ProbeKind::Exec { command } => json!({ "kind": "exec", "program": command.first() }),
        ProbeKind::Docker => json!({ "kind": "docker" }),
    };
    Call::new("probe", arguments(asked))
        .within(Some(probe.timeout))
        .attempt(probe.retries.max(1))
        .came_to([said.to_owned()])
}

/// An engine that does not answer.
pub(super) fn of_engine(tries: u32, reason: &str) -> Call {
    Call::new("connect-engine", Map::new())
        .attempt(tries.max(1))
        .came_to([reason.to_owned()])
}

/// The calls that a breaker counted before it opened last, told as one.
pub(super) fn of_breaker(breaker: &Breaker) -> Call {
    let openings = u32::try_from(breaker.openings()).unwrap_or(u32::MAX);
    let why = breaker.history().iter().rev().map(|change| change.why.clone());
    Call::new("call-engine", Map::new())
        .attempt(openings.max(1))
        .came_to(breaker.last_failure().map(str::to_owned).into_iter().chain(why))
}

/// A port that a start was refused.
pub(super) fn of_port(port: &str, times: u32, held: &str) -> Call {
    Call::new("start-container", arguments(json!({ "port": port })))
        .attempt(times.max(1))
        .came_to([format!("host port {port} is held by {held}")])
}

/// A name that a create was refused.
pub(super) fn of_name(name: &str, holder: &str) -> Call {
    Call::new("create-container", arguments(json!({ "name": name })))
        .came_to([format!("the name is held by {holder}")])
}

/// What is not known is not told.
fn arguments(told: Value) -> Map<String, Value> {
    let Value::Object(mut told) = told else {
        return Map::new();
    };
    told.retain(|_, value| !value.is_null());
    told
}
