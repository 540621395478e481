//! Chains of causes: from the state of a service to its root cause.

use std::fmt::Write as _;

use argus_core::failed_run::{self, FailureKind, REPORTED_LINES};
use argus_crds::diff::SeenBefore;
use argus_crds::error::{Call, Code, Remedy, StructuredError};
use argus_crds::status::{EnvironmentStatus, Health, ServiceStatus, WaitingOn};
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::{Deserialize as _, Serialize};

use crate::api::evidence_store;
use crate::render::output;
use crate::render::run_summary;
use crate::render::run_summary::RunSummary;
use crate::render::status_text;
use crate::render::status_text::is_good;

/// Maximum number of groups of earlier runs. The status file contains each run.
const MAX_GROUPS: usize = 5;

/// A link of a chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainLink {
    /// Kind of the link.
    pub(crate) kind: Kind,
    /// Service of the link. `None` for the environment itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    /// Statement of the link.
    pub(crate) what: String,
    /// Cause: the statement of the next link. Null if it is unknown.
    pub(crate) cause: Option<String>,
    /// Time of the state or event (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// Time of the next check (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// Error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Code>,
    /// Id of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_id: Option<String>,
    /// Folder of the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<String>,
    /// End of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<RunSummary>,
    /// Earlier failed runs, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) before: Vec<EarlierRuns>,
    /// Number of older failed runs that `before` does not contain.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) more_before: usize,
    /// Calls behind the error, on request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub(crate) debug: Vec<Call>,
}

/// Consecutive failed runs with the same end. `argus evidence` has the details of each.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EarlierRuns {
    /// Number of runs.
    pub(crate) count: usize,
    /// Number of the oldest of them.
    pub(crate) first: u64,
    /// Number of the newest of them.
    pub(crate) last: u64,
    /// Kind of failure.
    #[schemars(with = "Option<String>")]
    pub(crate) kind: Option<FailureKind>,
    /// Exit code; null if the container still ran.
    pub(crate) exit_code: Option<i64>,
    /// End in words, with the run time of a single run.
    pub(crate) end: String,
}

impl EarlierRuns {
    /// Groups runs, newest first. Returns the number of runs that are in none of the groups, too.
    fn group(runs: &[RunSummary]) -> (Vec<Self>, usize) {
        let same = runs.chunk_by(|one, other| one.format_cause() == other.format_cause());
        let group = |same: &[RunSummary]| {
            let (newest, oldest) = (same.first()?, same.last()?);
            Some(Self {
                count: same.len(),
                first: oldest.run,
                last: newest.run,
                kind: newest.kind,
                exit_code: newest.exit_code,
                end: match same {
                    [one] => one.format_end(),
                    _ => newest.format_cause(),
                },
            })
        };
        let mut groups: Vec<Self> = same.filter_map(group).collect();
        let rest = groups.split_off(groups.len().min(MAX_GROUPS));
        (groups, rest.iter().map(|group| group.count).sum())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Kinds of links, in their order in a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    /// State of a service or an environment.
    #[default]
    State,
    /// Reason of a wait.
    Wait,
    /// Last failure.
    Failure,
    /// End of the failed run.
    Run,
    /// Evidence of the failed run.
    Evidence,
    /// Circular wait.
    Cycle,
}

/// A chain from a state to its root cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chain {
    /// First service of the chain. `None` for the environment itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    /// Links, from the state to the root cause.
    pub(crate) links: Vec<ChainLink>,
    /// Edits that ended earlier failures like this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seen_before: Option<SeenBefore>,
    /// Remedies of the root cause.
    pub(crate) remedies: Vec<Remedy>,
}

/// Chain of a service.
pub(super) fn create_chain(state: &StateDir, status: &EnvironmentStatus, service: &ServiceStatus) -> Chain {
    let mut chain = Chain {
        service: Some(service.name.clone()),
        links: Vec::new(),
        seen_before: None,
        remedies: Vec::new(),
    };
    let (mut row, mut before) = (service, None);
    let mut visited: Vec<&str> = Vec::new();
    loop {
        visited.push(&row.name);
        chain.links.push(state_link(status, row));
        chain
            .links
            .extend(row.waiting_on.as_ref().map(|on| wait_link(row, on)));
        let on = row.waiting_on.as_ref().and_then(|on| on.service.as_deref());
        let Some(next) = on.and_then(|name| status.services.iter().find(|row| row.name == name)) else {
            // Earlier failures of a good dependency explain nothing. The failure of the service that waits for it does.
            let failed = before.filter(|_| is_good(row)).unwrap_or(row);
            add_failure(state, status, failed, &mut chain);
            break;
        };
        if visited.contains(&next.name.as_str()) {
            let what = format!("`{}` again: circular wait", next.name);
            chain.links.push(create_link(Kind::Cycle, Some(next), what));
            break;
        }
        (row, before) = (next, Some(row));
    }
    fill_causes(chain)
}

/// Chain of an environment: its file, the engine, and errors of services without their own chain.
pub(super) fn create_environment_chain(status: &EnvironmentStatus, chains: &[Chain]) -> Chain {
    let ready = status.services.iter().filter(|row| is_good(row)).count();
    let what = format!(
        "environment `{}` is {:?}, {ready} of {} ready",
        status.environment,
        status.phase,
        output::format_count(status.services.len(), "service")
    );
    let mut links = vec![ChainLink {
        at: Some(status.as_of.clone()),
        ..create_link(Kind::State, None, what)
    }];
    let has_chain = |error: &StructuredError| chains.iter().any(|chain| chain.service == error.service);
    let errors: Vec<&StructuredError> = status.errors.iter().filter(|error| !has_chain(error)).collect();
    let waits = status_text::format_waits(status);
    if chains.is_empty() && !waits.is_empty() {
        links.push(create_link(Kind::Wait, None, waits));
    }
    links.extend(errors.iter().map(|error| error_link(None, error)));
    let mut remedies: Vec<Remedy> = Vec::new();
    for remedy in errors.iter().flat_map(|error| &error.remedies) {
        if !remedies.contains(remedy) {
            remedies.push(remedy.clone());
        }
    }
    fill_causes(Chain {
        service: None,
        links,
        seen_before: None,
        remedies,
    })
}

/// Sets the cause of each link to the statement of the next one. A failure is never the cause of the failure before it in the chain.
fn fill_causes(mut chain: Chain) -> Chain {
    let next = |pair: &[ChainLink]| {
        let apart = pair[0].kind == Kind::Failure && pair[1].kind == Kind::Failure;
        (!apart).then(|| pair[1].what.clone())
    };
    let causes: Vec<_> = chain.links.windows(2).map(next).collect();
    for (link, cause) in chain.links.iter_mut().zip(causes) {
        link.cause = cause;
    }
    chain
}

fn create_link(kind: Kind, row: Option<&ServiceStatus>, what: String) -> ChainLink {
    ChainLink {
        kind,
        service: row.map(|row| row.name.clone()),
        what,
        ..ChainLink::default()
    }
}

fn state_link(status: &EnvironmentStatus, row: &ServiceStatus) -> ChainLink {
    let mut what = format!("`{}` is {:?}", row.name, row.state);
    match row.health {
        Health::None => {}
        Health::Unknown => what.push_str(", unknown health"),
        Health::Starting => what.push_str(", no successful health check yet"),
        Health::Healthy | Health::Unhealthy => {
            // Writing into a String cannot fail.
            let _ = write!(what, ", {:?}", row.health);
        }
    }
    if row.restarts > 0 {
        let _ = write!(what, ", {}", output::format_count(row.restarts, "restart"));
    }
    ChainLink {
        at: Some(status.as_of.clone()),
        ..create_link(Kind::State, Some(row), what)
    }
}

fn wait_link(row: &ServiceStatus, on: &WaitingOn) -> ChainLink {
    ChainLink {
        until: on.until.clone(),
        code: on.error,
        ..create_link(Kind::Wait, Some(row), on.message.clone())
    }
}

fn error_link(row: Option<&ServiceStatus>, error: &StructuredError) -> ChainLink {
    let what = match (&error.service, row) {
        (Some(service), None) => format!("`{service}`: {}", error.message),
        (Some(_) | None, _) => error.message.clone(),
    };
    ChainLink {
        at: error.timestamp.clone(),
        code: Some(error.code),
        error_id: error.error_id.clone(),
        debug: error.debug.clone(),
        ..create_link(Kind::Failure, row, what)
    }
}

/// Adds the last failure, the end of its run, and its evidence.
fn add_failure(state: &StateDir, status: &EnvironmentStatus, row: &ServiceStatus, chain: &mut Chain) {
    let Some(error) = &row.last_error else {
        return;
    };
    chain.links.push(error_link(Some(row), error));
    if !is_good(row) {
        chain.remedies.clone_from(&error.remedies);
        let seen = error.details.get("seenBefore");
        chain.seen_before = seen.and_then(|seen| SeenBefore::deserialize(seen).ok());
    }
    let mut endings = run_summary::summaries_in_error(error);
    let Some(last) = endings.pop() else {
        return;
    };
    endings.reverse();
    let mut what = format!("run {}: {}", last.run, last.format_end());
    let answers = last.network_diagnostics.iter();
    for more in last
        .format_memory()
        .into_iter()
        .chain(answers.map(|(question, answer)| format!("{question}: {answer}")))
    {
        what.push_str("; ");
        what.push_str(&more);
    }
    let (before, more_before) = EarlierRuns::group(&endings);
    chain.links.push(ChainLink {
        at: last.ended_at.clone(),
        ending: Some(last.clone()),
        before,
        more_before,
        ..create_link(Kind::Run, Some(row), what)
    });
    chain
        .links
        .push(evidence_link(state, &status.environment, row, &last));
}

fn evidence_link(state: &StateDir, env: &str, row: &ServiceStatus, last: &RunSummary) -> ChainLink {
    let folder = state.evidence_run(env, &row.name, last.run);
    let last_lines = format_last_lines("stderr", &last.last_lines);
    match evidence_store::find_run(state, env, &row.name, last.run) {
        Ok(Some(stored)) => {
            let found = || {
                let of = |stderr, name| {
                    let lines = stored.read_stream(stderr).ok()?;
                    let lines = lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
                    format_last_lines(name, &lines)
                };
                of(true, "stderr").or_else(|| of(false, "stdout"))
            };
            let what = last_lines
                .or_else(found)
                .unwrap_or_else(|| "no output".to_owned());
            ChainLink {
                at: Some(stored.facts.taken_at.clone()),
                evidence: Some(stored.folder.display().to_string()),
                ..create_link(Kind::Evidence, Some(row), what)
            }
        }
        Ok(None) => {
            let what = last_lines.unwrap_or_else(|| format!("no evidence of run {}", last.run));
            create_link(Kind::Evidence, Some(row), what)
        }
        // The evidence is private to the controller's user. The status contains its last line.
        Err(_) => ChainLink {
            evidence: Some(folder.display().to_string()),
            ..create_link(
                Kind::Evidence,
                Some(row),
                last_lines.unwrap_or_else(|| "private to the controller's user".to_owned()),
            )
        },
    }
}

/// The last lines of a stream, without empty lines at its end; `None` if it has none.
fn format_last_lines(stream: &str, lines: &[String]) -> Option<String> {
    match failed_run::last_lines(lines.iter().map(String::as_str), REPORTED_LINES).as_slice() {
        [] => None,
        [line] => Some(format!("last line on {stream}: {line}")),
        lines => Some(format!("last lines on {stream}:\n{}", lines.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_runs_with_the_same_end_are_grouped() {
        let runs = |codes: &[i64]| {
            let of = |(run, code): (u64, &i64)| RunSummary {
                run,
                exit_code: Some(*code),
                ..RunSummary::default()
            };
            let mut runs: Vec<_> = (1..).zip(codes).map(of).collect();
            runs.reverse();
            let (groups, more) = EarlierRuns::group(&runs);
            let text = |group: EarlierRuns| format!("{}-{} {}", group.first, group.last, group.end);
            (groups.into_iter().map(text).collect::<Vec<_>>(), more)
        };
        assert_eq!(
            runs(&[1, 3, 3]),
            (
                vec!["2-3 exit code 3".to_owned(), "1-1 exit code 1".to_owned()],
                0
            )
        );
        let (groups, more) = runs(&[1, 1, 2, 1, 2, 1, 2]);
        assert_eq!((groups.len(), more), (5, 2));
    }
}
