//! Summary of an environment, small enough for frequent requests by a model.

mod breaker;
mod error;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argus_crds::status::{
    ActiveHold, EnvironmentStatus, Phase, PortMapping, RunningTest, ServiceState, ServiceStatus,
};
use argus_reconciler::clock;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use self::breaker::BreakerSummary;
pub(crate) use self::error::{ErrorSummary, output_tail};
use super::NextStep;
use super::summary::clip;
use crate::render::foreign_text::{MARK, mark_further_lines};
use crate::render::output;
use crate::render::status_text::{
    format_hold, format_ports, format_running_test, format_waits, format_warnings, is_good,
};

/// Maximum number of listed unhealthy services; the rest is counted.
const MAX_UNHEALTHY: usize = 8;
/// Maximum number of listed ports.
const MAX_ENDPOINTS: usize = 12;
/// Maximum number of listed moved ports; the rest is counted.
const MAX_MAPPINGS: usize = 5;
/// Maximum number of listed tests and of holds.
const MAX_USERS: usize = 4;
/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 400;
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
    /// Ports with another number than in the file; `detail: "full"` has all ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) port_mappings: Vec<PortMapping>,
    /// Number of further moved ports.
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) more_port_mappings: usize,
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
    /// Circuit breaker that is not closed, or has counted failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    breaker: Option<BreakerSummary>,
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

impl EnvironmentSummary {
    /// Creates the summary of a status.
    pub(crate) fn from_status(status: &EnvironmentStatus) -> Self {
        let unhealthy: Vec<&ServiceStatus> = status.services.iter().filter(|row| !is_good(row)).collect();
        let moved = || status.port_mappings.iter().filter(|mapping| mapping.reassigned);
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
            port_mappings: moved().take(MAX_MAPPINGS).cloned().collect(),
            more_port_mappings: moved().count().saturating_sub(MAX_MAPPINGS),
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
            breaker: status
                .breaker
                .as_ref()
                .and_then(|breaker| BreakerSummary::from_status(breaker, clock::now())),
            error: status.errors.first().map(ErrorSummary::from_error),
            more_errors: status.errors.len().saturating_sub(1),
            stale: status.stale,
            as_of: status.as_of.clone(),
        }
    }

    /// Shortens the summary for a list of environments.
    pub(crate) fn shorten(self) -> Self {
        let error = self.error.map(ErrorSummary::shorten);
        Self {
            endpoints: BTreeMap::new(),
            port_mappings: Vec::new(),
            more_port_mappings: 0,
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
        for mapping in &self.port_mappings {
            let _ = write!(text, "\nmoved: {}", format_moved_port(mapping));
        }
        if self.more_port_mappings > 0 {
            let _ = write!(text, "\nmoved: {} more", self.more_port_mappings);
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
        if let Some(breaker) = &self.breaker {
            let _ = write!(text, "\n{breaker}");
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

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_empty(number: &usize) -> bool {
    *number == 0
}
