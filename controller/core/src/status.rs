//! Status of an environment: a pure view of the planner's inputs and results, in the form of the status file.

use std::collections::BTreeMap;

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Mode, STATUS_VERSION, ServiceStatus};

use crate::action::{ActionProgress, Subject};
use crate::connectivity::CheckResults;
use crate::desired::Accepted;
use crate::ident::{EnvName, ProtocolPort};
use crate::observed::{Observed, Outage, RetryState};
use crate::outcome::one_line;
use crate::plan::Plan;
use crate::preflight::PreflightSnapshot;
use crate::probe::HealthStates;
use crate::published::Addresses;
use crate::repair::RepairMemory;
use crate::state::{BreakerRegistry, EnvHistory, RefusedPort, TestRestart};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

mod bound;
mod condition;
mod connectivity;
mod error;
mod fork_note;
mod orphan;
mod phase;
pub mod plan_text;
mod port;
mod preflight;
pub mod public_view;
mod redact;
mod service;
mod state;
mod users;
mod wait;
mod warning;

#[cfg(test)]
mod tests;

pub use error::breaker::status as breaker;
pub use error::engine_unavailable::{events_unavailable, unavailable, with_kept_retry_after};
pub use error::{code_of, command_error, error_id, is_blocking, unwritable, with_controller};
pub use fork_note::fork_notes;
pub use orphan::{orphan_errors, orphans, remaining_objects};
pub use phase::is_good;
pub use port::{UNREACHABLE_HINT, client_address, env_file, host_address};
pub use wait::describe_wait;

/// Problem of the specs folder that postpones the removal of environments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecsProblem {
    /// The folder cannot be read, for this reason.
    Unreadable(String),
    /// The folder contained this number of files, and now contains none.
    Emptied(usize, Timestamp),
}

impl SpecsProblem {
    /// Reason and message of the condition `SpecsAvailable`.
    pub fn condition(&self) -> (&'static str, String) {
        match self {
            Self::Unreadable(why) => (
                "FolderUnavailable",
                format!(
                    "the specs folder cannot be read, nothing is removed: {}",
                    one_line(why)
                ),
            ),
            Self::Emptied(files, until) => (
                "FolderEmptied",
                format!(
                    "all {files} spec files are gone: their environments are removed at {until}; restore the files, or remove \
                     environments with `argus down`"
                ),
            ),
        }
    }
}

/// Inputs of the status of one environment.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// Environment of the status.
    pub env: &'a EnvName,
    /// Accepted revision; `None` if the file was removed or never accepted.
    pub accepted: Option<&'a Accepted>,
    /// Current content of the file if it is rejected; the accepted revision keeps running.
    pub rejected: Option<Rejection<'a>>,
    /// Other files that claim the name of the environment.
    pub conflicting_specs: &'a [Rejection<'a>],
    /// Warnings about an accepted file.
    pub warnings: &'a [Diagnostic],
    /// Requests of people and agents.
    pub requests: &'a UserRequests,
    /// True if a rollback to another good revision is possible.
    pub can_roll_back: bool,
    /// True after the first complete scan of the specs folder: a missing file was then removed.
    pub specs_scanned: bool,
    /// Problem of the specs folder that postpones removals.
    pub specs_problem: Option<&'a SpecsProblem>,
    /// Last observed state of the engine.
    pub engine: EngineView<'a>,
    /// Circuit breakers.
    pub breakers: &'a BreakerRegistry,
    /// Recent outages of the engine.
    pub outages: &'a [Outage],
    /// Observed objects of the environment.
    pub observed: &'a Observed,
    /// Last plan; `None` before the first pass.
    pub plan: Option<&'a Plan>,
    /// Probe results by container.
    pub health: &'a HealthStates,
    /// History of the environment.
    pub history: &'a EnvHistory,
    /// Edits that ended earlier failures.
    pub repairs: &'a RepairMemory,
    /// Host ports that the engine refused recently, with their owners.
    pub refused: &'a BTreeMap<ProtocolPort, RefusedPort>,
    /// Progress of each pull and build.
    pub progress: &'a BTreeMap<Subject, ActionProgress>,
    /// Last preflight snapshot; `None` without a preflight task.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// Last connectivity check of every environment.
    pub connectivity: &'a CheckResults,
    /// Time of the last error "no space left", until a later write succeeds.
    pub disk_full: Option<Timestamp>,
    /// Last written status.
    pub previous: Option<&'a EnvironmentStatus>,
    /// Locations of published ports.
    pub addresses: Addresses,
    /// Current mode of the controller.
    pub mode: Mode,
    /// Reason of mode `Safe`; `None` in every other mode.
    pub safe_mode_reason: Option<&'a str>,
    /// Identifier of the controller.
    pub controller: &'a str,
    /// State directory of the controller.
    pub state_dir: &'a str,
    /// Current time.
    pub now: Timestamp,
}

/// A rejected spec file.
#[derive(Debug, Clone, Copy)]
pub struct Rejection<'a> {
    /// Path of the file.
    pub spec_path: &'a str,
    /// `SPEC_INVALID` or `SPEC_CONFLICT`. A diagnostic about the policy becomes `POLICY_VIOLATION` regardless of this code.
    pub code: Code,
    /// Diagnostics of the file.
    pub diagnostics: &'a [Diagnostic],
    /// True for a Compose file, whose keys have other names.
    pub is_compose: bool,
}

/// Connection state of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineView<'a> {
    /// True if the engine answered the last request.
    pub reachable: bool,
    /// True if the engine answers and has been listed completely.
    pub synced: bool,
    /// Last connection error; empty if there was none.
    pub reason: &'a str,
    /// Address of the engine.
    pub endpoint: &'a str,
    /// Start of the current outage.
    pub since: Option<Timestamp>,
    /// State of the reconnects.
    pub retry: Option<RetryState<'a>>,
    /// Start and reason of the loss of the event stream; `None` while the engine delivers events.
    pub events_lost: Option<(Timestamp, &'a str)>,
}

/// Builds the status of an environment. Unchanged parts keep their `asOf` and transition times, so that two equal states
/// give two equal files.
pub fn environment(input: &StatusInput<'_>) -> EnvironmentStatus {
    let services = service::all(input);
    let phase = phase::phase_of(input, &services);
    let errors = error::all(input, &services);
    let mut status = EnvironmentStatus {
        schema_version: STATUS_VERSION,
        environment: input.env.to_string(),
        project: project(input),
        spec_path: spec_path(input),
        worktree: input
            .accepted
            .and_then(|accepted| accepted.desired.worktree.clone()),
        env_file: input
            .accepted
            .and_then(|accepted| accepted.desired.env_file.clone()),
        revision: input
            .accepted
            .map(|accepted| accepted.desired.revision.to_string()),
        observed_revision: input
            .plan
            .and_then(|plan| plan.revision.as_ref())
            .map(ToString::to_string),
        last_good_revision: input.history.last_ready.as_ref().map(ToString::to_string),
        phase,
        conditions: condition::all(input, phase, &services, &errors),
        port_mappings: services
            .iter()
            .flat_map(|service| service.ports.iter().cloned())
            .collect(),
        services,
        diagnostics: input
            .rejected
            .map_or(input.warnings, |rejected| rejected.diagnostics)
            .iter()
            .cloned()
            .chain(port::unreachable(input))
            .chain(error::failing_checks(input))
            .chain(warning::replaced_files(input))
            .chain(warning::local_listeners(input))
            .chain(warning::moved_networks(input))
            .collect(),
        connectivity: connectivity::matrix(input),
        preflight: preflight::report(input),
        errors,
        orphans: input.plan.map(orphans).unwrap_or_default(),
        notes: input
            .accepted
            .map(|accepted| accepted.desired.notes.clone())
            .unwrap_or_default(),
        tests: users::tests(input),
        test_results: users::test_results(input),
        holds: users::holds(input),
        test_restart_count: test_restart_count(input),
        mode: input.mode,
        breaker: error::breaker::of_environment(input.breakers, input.env),
        stale: !input.engine.synced || !input.breakers.engine().is_closed(),
        ..EnvironmentStatus::default()
    };
    redact::status(input, &mut status);
    bound::cut(&mut status, bound::MAX_BYTES);
    status.as_of = match input.previous {
        Some(previous) if same(previous, &status) => previous.as_of.clone(),
        Some(_) | None => input.now.to_string(),
    };
    status
}

/// Compares two statuses without their times.
pub fn same(one: &EnvironmentStatus, other: &EnvironmentStatus) -> bool {
    let timeless = |status: &EnvironmentStatus| {
        let mut status = EnvironmentStatus {
            as_of: String::new(),
            ..status.clone()
        };
        // Call traces are reported separately and are not in the file.
        status.take_calls();
        status
    };
    timeless(one) == timeless(other)
}

/// Errors of a rejected file, one per diagnostic; also for files without a readable environment name.
pub fn spec_errors(
    environment: Option<&str>,
    rejection: Rejection<'_>,
    at: Timestamp,
) -> Vec<StructuredError> {
    error::of_spec(environment, rejection, at)
}

/// Number of restarts during the current test, or during the last one with a restart.
fn test_restart_count(input: &StatusInput<'_>) -> u32 {
    let all = &input.history.restarts;
    let count = |is: &dyn Fn(&TestRestart) -> bool| {
        u32::try_from(all.iter().filter(|found| is(found)).count()).unwrap_or(u32::MAX)
    };
    if let Some(lease) = input.requests.test_lease(input.env, input.now) {
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
    let declared = input.accepted.map(|accepted| accepted.desired.project.clone());
    declared
        .or_else(|| input.previous.map(|previous| previous.project.clone()))
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

/// Desired service of a status row.
fn desired<'a>(input: &StatusInput<'a>, row: &ServiceStatus) -> Option<&'a crate::desired::Service> {
    input.accepted?.desired.services.get(row.name.as_str())
}
