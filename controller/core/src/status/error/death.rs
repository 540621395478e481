//! The end of a container that nobody asked for as a structured error.

use argus_crds::error::{Code, StructuredError};
use serde_json::{Value, json};

use crate::memory::Death;
use crate::observed::Container;

/// The error of one death.
pub(super) fn of(death: &Death, container: Option<&Container>) -> StructuredError {
    let stopped_by_other = container.is_some_and(|container| container.stopped_by_other.is_some());
    let mut details = facts(death);
    if let (Some(container), Some(map)) = (container, details.as_object_mut()) {
        let limit = container
            .facts
            .as_ref()
            .map(|facts| facts.config.memory)
            .filter(|limit| *limit > 0);
        map.insert("memoryLimit".to_owned(), json!(limit));
        let said = container
            .facts
            .as_ref()
            .map(|facts| facts.error.as_str())
            .filter(|said| !said.is_empty());
        map.insert("engineError".to_owned(), json!(said));
    }
    let code = if is_oom(death, stopped_by_other) {
        Code::ContainerOom
    } else {
        Code::ContainerCrash
    };
    StructuredError::new(code, words(death))
        .details(details)
        .exit_code(death.exit_code)
        .container_id(death.container.as_str())
}

/// The error of a spent restart budget, with every death inline.
pub(super) fn exhausted(restarts: u32, deaths: &[Death]) -> StructuredError {
    let last = deaths.last();
    let message = match last {
        Some(last) => format!(
            "gave up after {restarts} restarts; the last time its {}",
            words(last)
        ),
        None => format!("gave up after {restarts} restarts"),
    };
    let attempts: Vec<Value> = deaths.iter().map(facts).collect();
    let alike = deaths
        .windows(2)
        .all(|pair| pair[0].exit_code == pair[1].exit_code);
    let error = StructuredError::new(Code::ContainerRestartExhausted, message)
        .attempt(restarts)
        .details(json!({
            "restarts": restarts,
            "attempts": attempts,
            "crashLoop": deaths.len() > 1 && alike,
        }));
    match last {
        Some(last) => error
            .exit_code(last.exit_code)
            .container_id(last.container.as_str()),
        None => error,
    }
}

/// A death in words, as in `process ended with exit code 3`.
pub(super) fn words(death: &Death) -> String {
    let ran = death.started_at.map(|started| death.at.since(started).as_secs());
    let after = ran.map_or_else(String::new, |seconds| format!(" after {seconds} s"));
    match (death.oom_killed && death.exit_code != 0, signal(death.exit_code)) {
        (true, _) => format!("process ran out of memory{after}"),
        (false, Some(signal)) => format!("process was ended by {signal}{after}"),
        (false, None) => format!("process ended with exit code {}{after}", death.exit_code),
    }
}

/// The verdict needs evidence: the engine's flag, a failure, and nobody who stopped it.
fn is_oom(death: &Death, stopped_by_other: bool) -> bool {
    death.oom_killed && death.exit_code != 0 && !stopped_by_other
}

fn facts(death: &Death) -> Value {
    json!({
        "containerId": death.container,
        "startedAt": death.started_at.map(|at| at.to_string()),
        "endedAt": death.at.to_string(),
        "exitCode": death.exit_code,
        "signal": signal(death.exit_code),
        "oomKilled": death.oom_killed,
        "oomSuspected": !death.oom_killed && death.exit_code == 137,
    })
}

/// The signal behind an exit code above 128.
fn signal(exit_code: i64) -> Option<&'static str> {
    match exit_code {
        129 => Some("SIGHUP"),
        130 => Some("SIGINT"),
        131 => Some("SIGQUIT"),
        132 => Some("SIGILL"),
        134 => Some("SIGABRT"),
        135 => Some("SIGBUS"),
        136 => Some("SIGFPE"),
        137 => Some("SIGKILL"),
        139 => Some("SIGSEGV"),
        141 => Some("SIGPIPE"),
        143 => Some("SIGTERM"),
        _ => None,
    }
}
