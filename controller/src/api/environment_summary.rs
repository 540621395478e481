//! Summary of an environment, small enough for frequent requests by a model.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argus_core::failed_run;
use argus_crds::error::{ActionId, Category, Class, Code, Remedy, Severity, StructuredError};
use argus_crds::status::{
    ActiveHold, EnvironmentStatus, Phase, PortMapping, RunningTest, ServiceState, ServiceStatus,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::NextStep;
use super::summary::clip;
use crate::foreign_text::{MARK, mark_further_lines};
use crate::output;
use crate::status_text::{
    format_hold, format_ports, format_running_test, format_waits, format_warnings, is_good,
};

/// Maximum number of listed unhealthy services; the rest is counted.
const MAX_UNHEALTHY: usize = 8;
/// Maximum number of listed ports.
const MAX_ENDPOINTS: usize = 12;
/// Maximum number of listed tests and of holds.
const MAX_USERS: usize = 4;
/// Maximum number of remedies.
const MAX_REMEDIES: usize = 4;
/// Maximum number of last output lines, and their total length in characters.
const MAX_TAIL_LINES: usize = 12;
const MAX_TAIL: usize = 1_000;
/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 400;
/// Maximum length of the details of an error, in bytes of JSON.
const MAX_DETAILS: usize = 400;
/// Maximum length of a message in a list, in characters.
const MAX_SHORT_MESSAGE: usize = 120;

/// Summary of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentSummary {
    pub(crate) environment: String,
    pub(crate) phase: Phase,
    /// First 12 characters of the desired revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// Number of services in their desired state.
    pub(crate) ready: usize,
    /// Number of services.
    pub(crate) services: usize,
    /// Total number of restarts.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) restarts: u32,
    /// Addresses of published ports, by `SERVICE:CONTAINER_PORT`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) endpoints: BTreeMap<String, String>,
    /// Ports that differ from the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) moved: Vec<String>,
    /// Reasons why services are not ready yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) waiting_for: String,
    /// Services that are not in their desired state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unhealthy_services: Vec<UnhealthyService>,
    /// Running tests; until they end, Argus does not restart running containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tests: Vec<RunningTest>,
    /// Active holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) holds: Vec<ActiveHold>,
    /// Warnings about the spec file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// The most severe error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorSummary>,
    /// Number of further errors; `detail: "full"` has all of them.
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) more_errors: usize,
    /// True if this is the last known state, because the current one is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stale: bool,
    /// Time of this state (RFC 3339).
    pub(crate) as_of: String,
}

/// A service that is not in its desired state.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnhealthyService {
    service: String,
    state: ServiceState,
    #[serde(skip_serializing_if = "is_zero")]
    restarts: u32,
    /// Reason why no action is possible yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<String>,
}

/// Summary of an error, sufficient for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorSummary {
    pub(crate) code: Code,
    category: Category,
    severity: Severity,
    class: Class,
    /// Id of the occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    pub(crate) message: String,
    pub(crate) retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    /// Short details of the code; `argus_status` with `detail: "full"` has all of them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
    /// Last output lines of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggested_actions: Vec<ActionId>,
    /// Remedies as complete calls.
    pub(crate) remedies: Vec<Remedy>,
}

impl EnvironmentSummary {
    /// Creates the summary of a status.
    pub(crate) fn from_status(status: &EnvironmentStatus) -> Self {
        let unhealthy: Vec<&ServiceStatus> = status.services.iter().filter(|row| !is_good(row)).collect();
        let moved = status.port_mappings.iter().filter(|mapping| mapping.reassigned);
        let ports = status.port_mappings.iter();
        let reachable = ports.filter(|mapping| mapping.host.is_some());
        let mut endpoints = BTreeMap::new();
        for (place, address) in reachable.take(MAX_ENDPOINTS).map(format_endpoint) {
            // Of several addresses of a port, the first one counts.
            endpoints.entry(place).or_insert(address);
        }
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
            endpoints,
            moved: moved.take(MAX_ENDPOINTS).map(format_moved_port).collect(),
            waiting_for: clip(&format_waits(status), MAX_MESSAGE),
            unhealthy_services: unhealthy
                .into_iter()
                .take(MAX_UNHEALTHY)
                .map(UnhealthyService::from_status)
                .collect(),
            tests: status.tests.iter().take(MAX_USERS).cloned().collect(),
            holds: status.holds.iter().take(MAX_USERS).cloned().collect(),
            warnings: format_warnings(status)
                .iter()
                .map(|warning| clip(warning, MAX_MESSAGE))
                .collect(),
            error: status.errors.first().map(ErrorSummary::from_error),
            more_errors: status.errors.len().saturating_sub(1),
            stale: status.stale,
            as_of: status.as_of.clone(),
        }
    }

    /// Shortens the summary for a list of environments.
    pub(crate) fn shorten(self) -> Self {
        let error = self.error.map(|error| ErrorSummary {
            message: clip(&error.message, MAX_SHORT_MESSAGE),
            tail: None,
            details: Map::new(),
            suggested_actions: Vec::new(),
            remedies: Vec::new(),
            ..error
        });
        Self {
            endpoints: BTreeMap::new(),
            moved: Vec::new(),
            waiting_for: clip(&self.waiting_for, MAX_SHORT_MESSAGE),
            unhealthy_services: Vec::new(),
            warnings: Vec::new(),
            error,
            ..self
        }
    }

    /// Formats the summary as text.
    pub(crate) fn format_text(&self) -> String {
        let mut text = format!(
            "{} is {:?}: {}/{} services ready",
            self.environment, self.phase, self.ready, self.services
        );
        if self.restarts > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {}", output::format_count(self.restarts, "restart"));
        }
        if self.stale {
            let _ = write!(text, "; last known state, as of {}", self.as_of);
        }
        for (what, place) in &self.endpoints {
            let _ = write!(text, "\n{what} is at {place}");
        }
        for moved in &self.moved {
            let _ = write!(text, "\nmoved: {moved}");
        }
        if !self.waiting_for.is_empty() && self.phase != Phase::Ready {
            let _ = write!(text, "\nwaits for: {}", mark_further_lines(&self.waiting_for));
        }
        for claim in self
            .tests
            .iter()
            .map(format_running_test)
            .chain(self.holds.iter().map(format_hold))
        {
            let _ = write!(text, "\n{claim}");
        }
        for warning in &self.warnings {
            let _ = write!(text, "\nwarning: {}", mark_further_lines(warning));
        }
        if let Some(error) = &self.error {
            let warning = if self.phase == Phase::Ready {
                "warning: "
            } else {
                ""
            };
            let of = error.service.as_deref().unwrap_or(&self.environment);
            let message = mark_further_lines(&error.message);
            let _ = write!(text, "\n{warning}{of}: {}: {message}", error.code);
            for line in error.tail.iter().flat_map(|tail| tail.lines()) {
                let _ = write!(text, "\n{MARK}{line}");
            }
        }
        text + "\n"
    }

    /// Returns the next steps.
    pub(crate) fn next_steps(&self) -> Vec<NextStep> {
        let env = json!({ "environment": self.environment });
        let wait = || NextStep::new("wait until it is ready or fails", "argus_wait", env.clone());
        let explain = || NextStep::new("the chain of causes", "argus_why", env.clone());
        match self.phase {
            Phase::Terminating => Vec::new(),
            Phase::Ready | Phase::Held if self.error.is_none() => Vec::new(),
            Phase::Pending | Phase::Progressing if self.error.is_none() => vec![wait()],
            Phase::Ready
            | Phase::Pending
            | Phase::Progressing
            | Phase::Held
            | Phase::Degraded
            | Phase::Failed => {
                let remedies = self.error.iter().flat_map(|error| &error.remedies);
                let mut steps = vec![explain()];
                steps.extend(remedies.filter_map(NextStep::from_remedy));
                steps
            }
        }
    }
}

impl UnhealthyService {
    fn from_status(row: &ServiceStatus) -> Self {
        Self {
            service: row.name.clone(),
            state: row.state,
            restarts: row.restarts,
            waiting_for: row
                .waiting_on
                .as_ref()
                .map(|on| clip(&on.message, MAX_SHORT_MESSAGE)),
        }
    }
}

impl ErrorSummary {
    fn from_error(error: &StructuredError) -> Self {
        Self {
            code: error.code,
            category: error.category,
            severity: error.severity,
            class: error.class,
            error_id: error.error_id.clone(),
            service: error.service.clone(),
            message: clip(&error.message, MAX_MESSAGE),
            retryable: error.retryable,
            retry_after: error.retry_after,
            exit_code: error.exit_code,
            details: bound_details(&error.details),
            tail: output_tail(error),
            suggested_actions: error.suggested_actions.clone(),
            remedies: error.remedies.iter().take(MAX_REMEDIES).cloned().collect(),
        }
    }
}

/// Returns the shortest members of the details, together within their limit.
fn bound_details(details: &Map<String, Value>) -> Map<String, Value> {
    let mut members: Vec<_> = details.iter().collect();
    members.sort_by_key(|(_, value)| value.to_string().len());
    let mut kept = Map::new();
    for (name, value) in members {
        kept.insert(name.clone(), value.clone());
        if json!(kept).to_string().len() > MAX_DETAILS {
            kept.remove(name);
            break;
        }
    }
    kept
}

fn format_endpoint(mapping: &PortMapping) -> (String, String) {
    let words = format_ports(std::slice::from_ref(mapping));
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

fn format_moved_port(mapping: &PortMapping) -> String {
    format!(
        "{}:{} wanted {}, has {}",
        mapping.service, mapping.container_port, mapping.original_port, mapping.actual_port
    )
}

/// Returns the last output lines of an error's container: of stderr, or of stdout if stderr is empty.
pub(crate) fn output_tail(error: &StructuredError) -> Option<String> {
    let written = error.stderr_tail.as_deref();
    let written = written.filter(|tail| !tail.trim().is_empty());
    let written = written.or(error.stdout_tail.as_deref());
    written.map(last_lines).filter(|tail| !tail.is_empty())
}

/// Returns the end of a text.
fn last_lines(text: &str) -> String {
    let kept = failed_run::last_lines(text.lines(), MAX_TAIL_LINES).join("\n");
    let cut = kept.chars().count().saturating_sub(MAX_TAIL);
    kept.chars().skip(cut).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_empty(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_its_canonical_fields_and_short_details() {
        let attempts = vec!["exit code 3"; 100];
        let error = StructuredError::new(Code::ContainerRestartExhausted, "gave up")
            .details(json!({ "attempts": attempts, "crashLoop": true, "pattern": "same" }))
            .service("api");
        let status = EnvironmentStatus {
            errors: vec![error.clone()],
            ..EnvironmentStatus::default()
        };
        let summary = json!(EnvironmentSummary::from_status(&status));
        let full = json!(error);
        for field in [
            "code",
            "category",
            "severity",
            "class",
            "message",
            "suggestedActions",
            "retryable",
        ] {
            assert_eq!(summary["error"][field], full[field], "{field}");
        }
        assert_eq!(
            summary["error"]["details"],
            json!({ "crashLoop": true, "pattern": "same" })
        );
    }
}
