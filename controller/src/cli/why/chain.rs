//! The chain of causes behind one service, from what is to what began it.

use std::fmt::Write as _;

use argus_crds::error::{Code, Remedy, StructuredError};
use argus_crds::status::{EnvironmentStatus, Health, ServiceState, ServiceStatus, WaitingOn};
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::failure::{self, RunSummary};
use crate::cli::{evidence_store, get, output};

/// One link of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    /// What sort of link it is.
    pub(super) kind: Kind,
    /// The service it is about; none for the environment's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    /// What is so.
    pub(super) what: String,
    /// Why: what the next link says; null where nothing more is known.
    pub(super) cause: Option<String>,
    /// Since when or when (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    /// When it is looked at again (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<String>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    /// Which occurrence of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_id: Option<String>,
    /// Where the evidence lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<String>,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<RunSummary>,
    /// How the runs before it ended, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) before: Vec<RunSummary>,
}

/// The sorts of links, in the order in which they follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// What is.
    State,
    /// What is waited for.
    Wait,
    /// What failed last.
    Failure,
    /// How the run ended.
    Run,
    /// What it left.
    Evidence,
    /// Two wait for each other.
    Cycle,
}

/// A chain from what is to what began it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chain {
    /// The service at its beginning; none for the environment's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    /// Its links, newest first.
    pub(super) links: Vec<Link>,
    /// What can be done about what began it.
    pub(super) remedies: Vec<Remedy>,
}

/// Whether a service is where it shall be.
pub(super) fn is_good(row: &ServiceStatus) -> bool {
    matches!(row.state, ServiceState::Ready | ServiceState::Completed)
}

/// The chain behind a service.
pub(super) fn of(state: &StateDir, status: &EnvironmentStatus, service: &ServiceStatus) -> Chain {
    let mut chain = Chain {
        service: Some(service.name.clone()),
        links: Vec::new(),
        remedies: Vec::new(),
    };
    let mut row = service;
    let mut seen: Vec<&str> = Vec::new();
    loop {
        seen.push(&row.name);
        chain.links.push(state_of(status, row));
        chain
            .links
            .extend(row.waiting_on.as_ref().map(|on| wait(row, on)));
        let on = row.waiting_on.as_ref().and_then(|on| on.service.as_deref());
        let Some(next) = on.and_then(|name| status.services.iter().find(|row| row.name == name)) else {
            // A dependency that is well explains nothing by what befell it earlier.
            if seen.len() == 1 || !is_good(row) {
                failure(state, status, row, &mut chain);
            }
            break;
        };
        if seen.contains(&next.name.as_str()) {
            let what = format!("`{}` again: they wait for each other", next.name);
            chain.links.push(link(Kind::Cycle, Some(next), what));
            break;
        }
        row = next;
    }
    joined(chain)
}

/// The chain behind an environment as a whole: its file, the engine, what belongs to no service that is told by itself.
pub(super) fn of_environment(status: &EnvironmentStatus, told: &[Chain]) -> Chain {
    let well = status.services.iter().filter(|row| is_good(row)).count();
    let what = format!(
        "environment `{}` is {:?}, {well} of {} ready",
        status.environment,
        status.phase,
        output::count(status.services.len(), "service")
    );
    let mut links = vec![Link {
        at: Some(status.as_of.clone()),
        ..link(Kind::State, None, what)
    }];
    let is_told = |error: &StructuredError| told.iter().any(|chain| chain.service == error.service);
    let errors: Vec<&StructuredError> = status.errors.iter().filter(|error| !is_told(error)).collect();
    let waits = get::waits(status);
    if told.is_empty() && !waits.is_empty() {
        links.push(link(Kind::Wait, None, waits));
    }
    links.extend(errors.iter().map(|error| of_error(None, error)));
    let mut remedies: Vec<Remedy> = Vec::new();
    for remedy in errors.iter().flat_map(|error| &error.remedies) {
        if !remedies.contains(remedy) {
            remedies.push(remedy.clone());
        }
    }
    joined(Chain {
        service: None,
        links,
        remedies,
    })
}

/// Each link says what the next one does; of two failures in a row none explains the other.
fn joined(mut chain: Chain) -> Chain {
    let next = |pair: &[Link]| {
        let apart = pair[0].kind == Kind::Failure && pair[1].kind == Kind::Failure;
        (!apart).then(|| pair[1].what.clone())
    };
    let reasons: Vec<_> = chain.links.windows(2).map(next).collect();
    for (link, because) in chain.links.iter_mut().zip(reasons) {
        link.cause = because;
    }
    chain
}

fn link(kind: Kind, row: Option<&ServiceStatus>, what: String) -> Link {
    Link {
        kind,
        service: row.map(|row| row.name.clone()),
        what,
        cause: None,
        at: None,
        until: None,
        code: None,
        error_id: None,
        evidence: None,
        ending: None,
        before: Vec::new(),
    }
}

fn state_of(status: &EnvironmentStatus, row: &ServiceStatus) -> Link {
    let mut what = format!("`{}` is {:?}", row.name, row.state);
    match row.health {
        Health::None => {}
        Health::Unknown => what.push_str(", its health is not known"),
        Health::Starting | Health::Healthy | Health::Unhealthy => {
            // Writing into a String cannot fail.
            let _ = write!(what, ", {:?}", row.health);
        }
    }
    if row.restarts > 0 {
        let times = usize::try_from(row.restarts).unwrap_or(usize::MAX);
        let _ = write!(what, ", {}", output::count(times, "restart"));
    }
    Link {
        at: Some(status.as_of.clone()),
        ..link(Kind::State, Some(row), what)
    }
}

fn wait(row: &ServiceStatus, on: &WaitingOn) -> Link {
    Link {
        until: on.until.clone(),
        code: on.error,
        ..link(Kind::Wait, Some(row), on.message.clone())
    }
}

fn of_error(row: Option<&ServiceStatus>, error: &StructuredError) -> Link {
    let what = match (&error.service, row) {
        (Some(service), None) => format!("`{service}`: {}", error.message),
        (Some(_) | None, _) => error.message.clone(),
    };
    Link {
        at: error.timestamp.clone(),
        code: Some(error.code),
        error_id: error.error_id.clone(),
        ..link(Kind::Failure, row, what)
    }
}

/// What failed last, how that run ended, and what it left.
fn failure(state: &StateDir, status: &EnvironmentStatus, row: &ServiceStatus, chain: &mut Chain) {
    let Some(error) = &row.last_error else {
        return;
    };
    chain.links.push(of_error(Some(row), error));
    if !is_good(row) {
        chain.remedies.clone_from(&error.remedies);
    }
    let mut endings = failure::told(error);
    let Some(last) = endings.pop() else {
        return;
    };
    endings.reverse();
    let mut what = format!("run {}: {}", last.run, last.words());
    let asked = last.questions.iter();
    for more in last
        .memory()
        .into_iter()
        .chain(asked.map(|(question, answer)| format!("{question}: {answer}")))
    {
        what.push_str("; ");
        what.push_str(&more);
    }
    chain.links.push(Link {
        at: last.ended_at.clone(),
        ending: Some(last.clone()),
        before: endings,
        ..link(Kind::Run, Some(row), what)
    });
    chain.links.push(evidence(state, &status.environment, row, &last));
}

fn evidence(state: &StateDir, env: &str, row: &ServiceStatus, last: &RunSummary) -> Link {
    let place = state.run(env, &row.name, last.run);
    let words = |stream: &str, line: &str| format!("its last line on {stream}: {line}");
    let told = last.last_line.as_ref().map(|line| words("stderr", line));
    match evidence_store::one(state, env, &row.name, last.run) {
        Ok(Some(kept)) => {
            let last = |stderr| {
                let lines = kept.lines(stderr).ok()?;
                let mut lines = lines.into_iter().rev();
                lines.find(|line| !line.text.trim().is_empty())
            };
            let found = || {
                let line = last(true).or_else(|| last(false))?;
                Some(words(
                    if line.stderr { "stderr" } else { "stdout" },
                    line.text.trim_end(),
                ))
            };
            let what = told
                .or_else(found)
                .unwrap_or_else(|| "it wrote nothing".to_owned());
            Link {
                at: Some(kept.facts.taken_at.clone()),
                evidence: Some(kept.folder.display().to_string()),
                ..link(Kind::Evidence, Some(row), what)
            }
        }
        Ok(None) => {
            let what = told.unwrap_or_else(|| format!("nothing is kept of run {}", last.run));
            link(Kind::Evidence, Some(row), what)
        }
        // Another user's: it is there, and what may be read of it is in the status.
        Err(_) => Link {
            evidence: Some(place.display().to_string()),
            ..link(
                Kind::Evidence,
                Some(row),
                told.unwrap_or_else(|| "what it left is private to the controller's user".to_owned()),
            )
        },
    }
}
