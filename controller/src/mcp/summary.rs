//! An environment in few words: small enough that a model can ask as often as it likes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argus_crds::error::{Code, Remedy, StructuredError};
use argus_crds::status::{
    ActiveHold, EnvironmentStatus, Phase, PortMapping, RunningTest, ServiceState, ServiceStatus,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::reply::NextStep;
use crate::cli::{holding, output, ports, running, waits};

/// Services that are not ready and are named; the rest is counted.
const UNWELL: usize = 8;
/// Published ports that are named.
const ENDPOINTS: usize = 12;
/// Tests and holds that are told.
const CLAIMS: usize = 4;
/// Things to do that are told.
const REMEDIES: usize = 4;
/// Lines of what a container wrote last, and how long they are together.
const TAIL_LINES: usize = 12;
const TAIL: usize = 1_000;
/// How long a message is.
const MESSAGE: usize = 400;
/// How long one of many messages is.
const SHORT: usize = 120;

/// An environment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) environment: String,
    pub(super) phase: Phase,
    /// The revision that is wanted, its first 12 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<String>,
    /// How many services are where they shall be.
    pub(super) ready: usize,
    /// How many there are.
    pub(super) services: usize,
    /// How often services were restarted, in all.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) restarts: u32,
    /// Where published ports are reached, by `SERVICE:PORT` in the container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) endpoints: BTreeMap<String, String>,
    /// Ports that are not where the file asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) moved: Vec<String>,
    /// What is waited for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) waiting_for: String,
    /// Services that are not where they shall be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unhealthy_services: Vec<UnhealthyService>,
    /// Tests that run on it: until they end, what runs is left running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tests: Vec<RunningTest>,
    /// What of it somebody holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) holds: Vec<ActiveHold>,
    /// What is wrong, the worst of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Problem>,
    /// How much more is wrong; `detail: "full"` has all of it.
    #[serde(skip_serializing_if = "is_none")]
    pub(super) more_errors: usize,
    /// This is the last that is known and not what is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stale: bool,
    /// When this was so (RFC 3339).
    pub(super) as_of: String,
}

/// A service that is not where it shall be.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UnhealthyService {
    service: String,
    state: ServiceState,
    #[serde(skip_serializing_if = "is_zero")]
    restarts: u32,
    /// Why nothing is done at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<String>,
}

/// An error, as much of it as is needed to decide.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    pub(super) code: Code,
    /// Which occurrence it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    pub(super) message: String,
    pub(super) retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    /// The last that its container wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
    /// What can be done, callable as it stands.
    pub(super) remedies: Vec<Remedy>,
}

impl Summary {
    /// Of a status; what a model needs to decide what to do.
    pub(super) fn of(status: &EnvironmentStatus) -> Self {
        let unhealthy: Vec<&ServiceStatus> = status.services.iter().filter(|row| !is_good(row)).collect();
        let moved = status.port_mappings.iter().filter(|mapping| mapping.reassigned);
        Self {
            environment: status.environment.clone(),
            phase: status.phase,
            revision: status
                .revision
                .as_ref()
                .map(|revision| revision.chars().take(12).collect()),
            ready: status.services.len() - unhealthy.len(),
            services: status.services.len(),
            restarts: status.services.iter().map(|row| row.restarts).sum(),
            endpoints: status
                .port_mappings
                .iter()
                .take(ENDPOINTS)
                .map(endpoint)
                .collect(),
            moved: moved.take(ENDPOINTS).map(moved_words).collect(),
            waiting_for: clipped(&waits(status), MESSAGE),
            unhealthy_services: unhealthy
                .into_iter()
                .take(UNWELL)
                .map(UnhealthyService::of)
                .collect(),
            tests: status.tests.iter().take(CLAIMS).cloned().collect(),
            holds: status.holds.iter().take(CLAIMS).cloned().collect(),
            error: status.errors.first().map(Problem::of),
            more_errors: status.errors.len().saturating_sub(1),
            stale: status.stale,
            as_of: status.as_of.clone(),
        }
    }

    /// The same in a line, as one of many.
    pub(super) fn in_short(self) -> Self {
        let problem = self.error.map(|problem| Problem {
            message: clipped(&problem.message, SHORT),
            tail: None,
            remedies: Vec::new(),
            ..problem
        });
        Self {
            endpoints: BTreeMap::new(),
            moved: Vec::new(),
            waiting_for: clipped(&self.waiting_for, SHORT),
            unhealthy_services: Vec::new(),
            error: problem,
            ..self
        }
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} is {:?}: {}/{} services ready",
            self.environment, self.phase, self.ready, self.services
        );
        if self.restarts > 0 {
            // A string takes whatever is written.
            let many = usize::try_from(self.restarts).unwrap_or(usize::MAX);
            let _ = write!(text, ", {}", output::count(many, "restart"));
        }
        if self.stale {
            let _ = write!(text, "; the last that is known, of {}", self.as_of);
        }
        for (what, place) in &self.endpoints {
            let _ = write!(text, "\n{what} is at {place}");
        }
        for moved in &self.moved {
            let _ = write!(text, "\nmoved: {moved}");
        }
        if !self.waiting_for.is_empty() && self.phase != Phase::Ready {
            let _ = write!(text, "\nwaits for: {}", self.waiting_for);
        }
        for claim in self
            .tests
            .iter()
            .map(running)
            .chain(self.holds.iter().map(holding))
        {
            let _ = write!(text, "\n{claim}");
        }
        if let Some(problem) = &self.error {
            let of = problem.service.as_deref().unwrap_or(&self.environment);
            let _ = write!(text, "\n{of}: {}: {}", problem.code, problem.message);
            for line in problem.tail.iter().flat_map(|tail| tail.lines()) {
                let _ = write!(text, "\n  | {line}");
            }
            let told = problem.remedies.iter().filter(|remedy| remedy.mcp.is_none());
            for remedy in told {
                let _ = write!(text, "\ndo: {}", remedy.summary);
            }
        }
        text + "\n"
    }

    /// What to do next.
    pub(super) fn next(&self) -> Vec<NextStep> {
        let env = json!({ "environment": self.environment });
        let wait = || NextStep::new("returns when it is ready or given up", "argus_wait", env.clone());
        let why = || NextStep::new("the chain of causes", "argus_why", env.clone());
        match self.phase {
            Phase::Terminating => Vec::new(),
            Phase::Ready if self.error.is_none() => Vec::new(),
            Phase::Held => vec![NextStep::new("lets it go on", "argus_resume", env)],
            Phase::Pending | Phase::Progressing if self.error.is_none() => vec![wait()],
            Phase::Ready | Phase::Pending | Phase::Progressing | Phase::Degraded | Phase::Failed => {
                let remedies = self.error.iter().flat_map(|problem| &problem.remedies);
                let mut steps = vec![why()];
                steps.extend(
                    remedies.filter_map(|remedy| Some(NextStep::of(&remedy.summary, remedy.mcp.as_ref()?))),
                );
                steps
            }
        }
    }
}

impl UnhealthyService {
    fn of(row: &ServiceStatus) -> Self {
        Self {
            service: row.name.clone(),
            state: row.state,
            restarts: row.restarts,
            waiting_for: row.waiting_on.as_ref().map(|on| clipped(&on.message, SHORT)),
        }
    }
}

impl Problem {
    fn of(error: &StructuredError) -> Self {
        Self {
            code: error.code,
            error_id: error.error_id.clone(),
            service: error.service.clone(),
            message: clipped(&error.message, MESSAGE),
            retryable: error.retryable,
            retry_after: error.retry_after,
            exit_code: error.exit_code,
            tail: tail(error),
            remedies: error.remedies.iter().take(REMEDIES).cloned().collect(),
        }
    }
}

fn is_good(row: &ServiceStatus) -> bool {
    matches!(row.state, ServiceState::Ready | ServiceState::Completed)
}

fn endpoint(mapping: &PortMapping) -> (String, String) {
    let words = ports(std::slice::from_ref(mapping));
    let place = words.split("->").next().unwrap_or_default().to_owned();
    let protocol = match mapping.protocol.as_str() {
        "tcp" => String::new(),
        other => format!("/{other}"),
    };
    (
        format!("{}:{}{protocol}", mapping.service, mapping.container_port),
        place,
    )
}

fn moved_words(mapping: &PortMapping) -> String {
    format!(
        "{}:{} wanted {}, has {}",
        mapping.service, mapping.container_port, mapping.original_port, mapping.actual_port
    )
}

/// The last that the container of an error wrote: on stderr, if anything.
pub(super) fn tail(error: &StructuredError) -> Option<String> {
    let written = error.stderr_tail.as_deref();
    let written = written.filter(|tail| !tail.trim().is_empty());
    let written = written.or(error.stdout_tail.as_deref());
    written.map(last_lines).filter(|tail| !tail.is_empty())
}

/// The end of what was written.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let kept = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    let cut = kept.chars().count().saturating_sub(TAIL);
    kept.chars().skip(cut).collect()
}

/// The beginning of a text.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain("…".chars()).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks that way")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks that way")]
fn is_none(number: &usize) -> bool {
    *number == 0
}
