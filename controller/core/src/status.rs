//! How an environment is, in the words of its status file: a pure view of what the brain knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Mode, STATUS_VERSION, ServiceStatus};

use crate::connectivity::CheckResults;
use crate::desired::Accepted;
use crate::ident::{EnvName, HostPort};
use crate::observed::{Observed, Outage, RetryState};
use crate::plan::{Plan, Subject};
use crate::preflight::PreflightSnapshot;
use crate::probe::HealthStates;
use crate::state::{BreakerRegistry, Disruption, EnvHistory, RefusedPort};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

mod condition;
mod connectivity;
mod error;
mod orphan;
mod phase;
mod port;
mod preflight;
mod redact;
mod service;
mod state;
mod users;
mod wait;

#[cfg(test)]
mod tests;

pub use error::breaker::status as breaker;
pub use error::engine_unavailable::{lasting, unavailable};
pub use error::{code_of, error_id, unwritable};
pub use orphan::{leftovers, orphan_errors, orphans};
pub use port::env_file;
pub use wait::{holder as port_holder, words};

/// Everything that a status is made of.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// Which environment.
    pub env: &'a EnvName,
    /// Its accepted revision; `None` when its file is gone or was never accepted.
    pub accepted: Option<&'a Accepted>,
    /// Its file as it stands now, when that is refused; the accepted revision keeps running.
    pub rejected: Option<Rejection<'a>>,
    /// Other files that claim to be this environment, which another file describes.
    pub rivals: &'a [Rejection<'a>],
    /// Complaints about an accepted file: warnings.
    pub warnings: &'a [Diagnostic],
    /// What people and agents asked for.
    pub requests: &'a UserRequests,
    /// Another revision than the accepted one was ready for long enough to go back to.
    pub can_roll_back: bool,
    /// Why the spec folder cannot be read; `None` when it can.
    pub specs_gone: Option<&'a str>,
    /// The engine as last seen.
    pub engine: EngineView<'a>,
    /// The breakers.
    pub breakers: &'a BreakerRegistry,
    /// Recent times without an engine.
    pub outages: &'a [Outage],
    /// What of the environment is there.
    pub observed: &'a Observed,
    /// What is done and waited for; `None` before the first turn.
    pub plan: Option<&'a Plan>,
    /// Verdicts of the probes.
    pub health: &'a HealthStates,
    /// What is remembered of it.
    pub state: &'a EnvHistory,
    /// Host ports that the engine refused lately, with who holds them.
    pub refused: &'a BTreeMap<HostPort, RefusedPort>,
    /// The last line each pull or build said.
    pub progress: &'a BTreeMap<Subject, String>,
    /// The last look at engine and disk; `None`: nobody looks.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// Who was seen to reach whom.
    pub links: &'a CheckResults,
    /// When the engine last said that no space is left, until something could be made again.
    pub disk_full: Option<Timestamp>,
    /// The status as it was written last.
    pub previous: Option<&'a EnvironmentStatus>,
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
    /// What the controller may do at present.
    pub mode: Mode,
    /// Why it does nothing at all; `None` when it does.
    pub safe: Option<&'a str>,
    /// Where the controller keeps what it knows.
    pub state_dir: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// A file that is refused as it stands.
#[derive(Debug, Clone, Copy)]
pub struct Rejection<'a> {
    /// The file.
    pub spec_path: &'a str,
    /// `SPEC_INVALID` or `SPEC_CONFLICT`; a complaint that speaks of the policy is `POLICY_VIOLATION` whatever stands here.
    pub code: Code,
    /// All that is wrong with it.
    pub diagnostics: &'a [Diagnostic],
}

/// The engine as a status needs it.
#[derive(Debug, Clone, Copy)]
pub struct EngineView<'a> {
    /// It answered when it was asked last.
    pub reachable: bool,
    /// It was listed completely at least once, and answers.
    pub synced: bool,
    /// Why it does not answer.
    pub reason: &'a str,
    /// How it is reached.
    pub endpoint: &'a str,
    /// Since when it does not answer.
    pub since: Option<Timestamp>,
    /// How it is looked for meanwhile.
    pub retry: Option<RetryState<'a>>,
}

/// The status of an environment. What did not change keeps its `asOf` and its transition times, so that two equal states are two
/// equal files.
pub fn environment(input: &StatusInput<'_>) -> EnvironmentStatus {
    let services = service::all(input);
    let phase = phase::of(input, &services);
    let errors = error::all(input, &services);
    let mut status = EnvironmentStatus {
        schema_version: STATUS_VERSION,
        environment: input.env.to_string(),
        project: project(input),
        spec_path: spec_path(input),
        revision: input
            .accepted
            .map(|accepted| accepted.desired.revision.to_string()),
        observed_revision: input
            .plan
            .and_then(|plan| plan.revision.as_ref())
            .map(ToString::to_string),
        last_good_revision: input.state.last_good.as_ref().map(ToString::to_string),
        phase,
        conditions: condition::all(input, phase, &services),
        port_mappings: services
            .iter()
            .flat_map(|service| service.ports.iter().cloned())
            .collect(),
        services,
        diagnostics: input
            .rejected
            .map_or(input.warnings, |rejected| rejected.diagnostics)
            .to_vec(),
        connectivity: connectivity::matrix(input),
        preflight: preflight::report(input),
        errors,
        orphans: input.plan.map(orphans).unwrap_or_default(),
        notes: input
            .accepted
            .map(|accepted| accepted.desired.notes.clone())
            .unwrap_or_default(),
        tests: users::tests(input),
        holds: users::holds(input),
        restarts_during_run: restarts_during_run(input),
        mode: input.mode,
        breaker: error::breaker::of_environment(input.breakers, input.env),
        stale: !input.engine.synced || !input.breakers.engine().is_closed(),
        ..EnvironmentStatus::default()
    };
    redact::status(input, &mut status);
    status.as_of = match input.previous {
        Some(previous) if same(previous, &status) => previous.as_of.clone(),
        Some(_) | None => input.now.to_string(),
    };
    status
}

/// Whether two statuses tell the same, whenever they were told.
pub fn same(one: &EnvironmentStatus, other: &EnvironmentStatus) -> bool {
    let timeless = |status: &EnvironmentStatus| {
        let mut status = EnvironmentStatus {
            as_of: String::new(),
            ..status.clone()
        };
        // They are told apart, and so are not in what was written.
        status.take_calls();
        status
    };
    timeless(one) == timeless(other)
}

/// The errors of a refused file, one a complaint; for files whose environment cannot be told, too.
pub fn spec_errors(
    environment: Option<&str>,
    rejection: Rejection<'_>,
    at: Timestamp,
) -> Vec<StructuredError> {
    error::of_spec(environment, rejection, at)
}

/// Of the test that runs, or ran last.
fn restarts_during_run(input: &StatusInput<'_>) -> u32 {
    let all = &input.state.disruptions;
    let count = |is: &dyn Fn(&Disruption) -> bool| {
        u32::try_from(all.iter().filter(|found| is(found)).count()).unwrap_or(u32::MAX)
    };
    if let Some(lease) = input.requests.lease(input.env, input.now) {
        return count(&|found| found.at >= lease.since);
    }
    match all.last() {
        Some(last) => count(&|found| found.case == last.case),
        None => 0,
    }
}

fn project(input: &StatusInput<'_>) -> String {
    let seen = || {
        input
            .observed
            .containers
            .values()
            .find_map(|container| container.owner())
    };
    let told = input.accepted.map(|accepted| accepted.desired.project.clone());
    told.or_else(|| input.previous.map(|previous| previous.project.clone()))
        .filter(|project| !project.is_empty())
        .or_else(|| seen().map(|owner| owner.project))
        .unwrap_or_default()
}

fn spec_path(input: &StatusInput<'_>) -> String {
    let written = input.rejected.map(|rejected| rejected.spec_path.to_owned());
    written
        .filter(|_| input.accepted.is_none())
        .or_else(|| input.accepted.map(|accepted| accepted.spec_path.clone()))
        .or_else(|| input.previous.map(|previous| previous.spec_path.clone()))
        .unwrap_or_default()
}

/// The service a status row is about, as the spec has it.
fn desired<'a>(input: &StatusInput<'a>, row: &ServiceStatus) -> Option<&'a crate::desired::Service> {
    let services = &input.accepted?.desired.services;
    services
        .iter()
        .find(|(name, _)| name.as_str() == row.name)
        .map(|(_, service)| service)
}
