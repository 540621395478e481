//! Chains of causes of an environment, and their text on one screen.

use std::fmt::Write as _;

use argus_crds::error::Code;
use argus_crds::status::{ActiveHold, EnvironmentStatus};
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::Serialize;

use super::chain::{Chain, ChainLink, EarlierRuns, Kind};
use crate::api::evidence_store;
use crate::api::repairs::format_seen;
use crate::process::exit::Failure;
use crate::render::output;
use crate::render::run_summary::RunSummary;
use crate::render::status_text::{format_hold, format_warnings, is_good};

/// Prefix of the first line of a link, and of its further lines.
pub(crate) const LINE_PREFIXES: [&str; 9] = ["<-", "|", "|", "|", "|", "|", "|", "|", "|"];

/// Chains of causes for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyReport {
    pub(crate) environment: String,
    phase: argus_crds::status::Phase,
    /// Time of the status (RFC 3339).
    as_of: String,
    /// Chain of the requested service; else that of the environment, and one per service that is not ready.
    pub(crate) chains: Vec<Chain>,
    /// Services with restarts, in any state.
    restarts: Vec<Restarted>,
    /// Holds of the environment and of its services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    holds: Vec<ActiveHold>,
    /// Warnings about the spec file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// True if this is the last known state, because the current one is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Restarted {
    service: String,
    restarts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

/// Explains the state of an environment, or of one of its services.
pub(crate) fn explain(
    state: &StateDir,
    status: &EnvironmentStatus,
    service: Option<&str>,
) -> Result<WhyReport, Failure> {
    let chains = match service {
        Some(name) => {
            let row = status.services.iter().find(|row| row.name == *name);
            let row = row.ok_or_else(|| evidence_store::no_service_failure(status, name))?;
            vec![super::chain::create_chain(state, status, row)]
        }
        None => create_chains(state, status),
    };
    Ok(WhyReport {
        environment: status.environment.clone(),
        phase: status.phase,
        as_of: status.as_of.clone(),
        restarts: list_restarts(status, service),
        holds: status.holds.clone(),
        warnings: format_warnings(status),
        stale: status.stale,
        chains,
    })
}

impl WhyReport {
    /// Remedies of the root causes.
    pub(crate) fn remedies(&self) -> impl Iterator<Item = &argus_crds::error::Remedy> {
        self.chains.iter().flat_map(|chain| &chain.remedies)
    }

    /// Newest failed run in the chains: service and number.
    pub(crate) fn run(&self) -> Option<(&str, u64)> {
        let links = self.chains.iter().flat_map(|chain| &chain.links);
        links.rev().find_map(|link| {
            let ending = link.ending.as_ref()?;
            Some((link.service.as_deref()?, ending.run))
        })
    }
}

/// Chain of the environment, then those of its services. Services without dependencies come first, so that later chains
/// can refer to them.
pub(crate) fn create_chains(state: &StateDir, status: &EnvironmentStatus) -> Vec<Chain> {
    let unhealthy = status.services.iter().filter(|row| !is_good(row));
    let mut chains: Vec<Chain> = unhealthy
        .map(|row| super::chain::create_chain(state, status, row))
        .collect();
    chains.sort_by_key(|chain| state_links(chain).count());
    chains.insert(0, super::chain::create_environment_chain(status, &chains));
    chains
}

pub(crate) fn state_links(chain: &Chain) -> impl Iterator<Item = &ChainLink> {
    chain.links.iter().filter(|link| link.kind == Kind::State)
}

pub(crate) fn list_restarts(status: &EnvironmentStatus, service: Option<&str>) -> Vec<Restarted> {
    let rows = status.services.iter().filter(|row| row.restarts > 0);
    let rows = rows.filter(|row| service.is_none_or(|name| name == row.name));
    rows.map(|row| {
        let error = row.last_error.as_ref();
        Restarted {
            service: row.name.clone(),
            restarts: row.restarts,
            code: error.map(|error| error.code),
            what: error.map(|error| error.message.clone()),
            at: error.and_then(|error| error.timestamp.clone()),
        }
    })
    .collect()
}

/// Report as text for people.
pub(crate) fn format_report(report: &WhyReport) -> String {
    let mut text = String::new();
    let mut explained: Vec<&str> = Vec::new();
    for chain in &report.chains {
        write_chain(&mut text, &report.environment, chain, &explained);
        if chain.service.is_none() {
            write_restarts(&mut text, report);
        }
        explained.extend(chain.service.as_deref());
    }
    let warnings = report
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    let as_of = &report.as_of;
    let stale = report
        .stale
        .then(|| format!("this is the last known state, as of {as_of}"));
    let notes = report.holds.iter().map(format_hold).chain(warnings).chain(stale);
    text + &output::join_lines(notes)
}

/// One line per service that recovered. The others have a chain.
pub(crate) fn write_restarts(text: &mut String, report: &WhyReport) {
    let has_chain = |name: &str| {
        report
            .chains
            .iter()
            .any(|chain| chain.service.as_deref() == Some(name))
    };
    for row in report.restarts.iter().filter(|row| !has_chain(&row.service)) {
        let times = output::format_count(row.restarts, "restart");
        let last = match (row.code, &row.what) {
            (Some(code), Some(what)) => format!(", last {code}: {what}{}", format_time(row.at.as_deref())),
            _ => String::new(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  `{}` recovered after {times}{last}", row.service);
    }
}

pub(crate) fn write_chain(text: &mut String, env: &str, chain: &Chain, explained: &[&str]) {
    for (index, link) in chain.links.iter().enumerate() {
        let other = link.service.as_deref().filter(|_| link.kind == Kind::State);
        if other.is_some_and(|name| index > 0 && explained.contains(&name)) {
            let _ = writeln!(text, "  <- {}: see above", link.what);
            return;
        }
        if index == 0 {
            let _ = writeln!(text, "{}", link.what);
            continue;
        }
        for (line, lead) in format_link(link).lines().zip(LINE_PREFIXES) {
            let _ = writeln!(text, "  {lead} {line}");
        }
        for earlier in &link.before {
            let _ = writeln!(text, "     {}", format_earlier_runs(earlier));
        }
        if link.more_before > 0 {
            let more = output::format_count(link.more_before, "run");
            let _ = writeln!(text, "     and {more} earlier");
        }
    }
    for hint in list_hints(env, chain) {
        let _ = writeln!(text, "  {}", output::format_hint(hint));
    }
}

/// One line for consecutive runs with the same end.
fn format_earlier_runs(runs: &EarlierRuns) -> String {
    let EarlierRuns {
        count,
        first,
        last,
        end,
        ..
    } = runs;
    match count {
        1 => format!("earlier run {last}: {end}"),
        _ => format!("earlier runs {first} to {last}: {end} ({count} times)"),
    }
}

pub(crate) fn format_link(link: &ChainLink) -> String {
    let what = &link.what;
    match link.kind {
        Kind::State | Kind::Run | Kind::Cycle => what.clone(),
        Kind::Wait => match &link.until {
            Some(until) => format!("waits for: {what}, until {until}"),
            None => format!("waits for: {what}"),
        },
        Kind::Failure => {
            let code = link.code.map(output::red).unwrap_or_default();
            format!("failed: {code} {what}{}", format_time(link.at.as_deref()))
        }
        Kind::Evidence => match (&link.evidence, what.split_once(":\n")) {
            (Some(path), Some((head, lines))) => format!("evidence: {head} (in {path}):\n{lines}"),
            (Some(path), None) => format!("evidence: {what} (in {path})"),
            (None, _) => format!("evidence: {what}"),
        },
    }
}

pub(crate) fn format_time(at: Option<&str>) -> String {
    at.map_or_else(String::new, |at| format!(" (at {at})"))
}

/// Remedies of the root cause, and commands for details. Changes of the file come first.
pub(crate) fn list_hints(env: &str, chain: &Chain) -> Vec<String> {
    let evidence = chain.links.iter().find(|link| link.evidence.is_some());
    let run = chain.links.iter().find_map(|link| link.ending.as_ref());
    let read = |link: &ChainLink, run: &RunSummary| {
        let service = link.service.as_deref()?;
        let number = run.run;
        Some(format!(
            "see the crash report of run {number} with `argus evidence {env} {service} {number}`"
        ))
    };
    let read = evidence.zip(run).and_then(|(link, run)| read(link, run));
    let edits = chain
        .remedies
        .iter()
        .take_while(|remedy| remedy.edit.is_some())
        .count();
    let (edits, others) = chain.remedies.split_at(edits);
    let seen = chain.seen_before.as_ref();
    let seen = seen.map(|seen| format!("this failure was seen before: {}", format_seen(seen)));
    let edits = seen.into_iter().chain(output::format_remedies(edits));
    edits.chain(read).chain(output::format_remedies(others)).collect()
}

#[cfg(test)]
mod tests {
    use argus_crds::diagnostic::Diagnostic;
    use argus_crds::error::StructuredError;
    use argus_crds::status::{Health, ServiceState, ServiceStatus, WaitingOn};

    use super::*;

    #[test]
    fn wait_for_a_good_dependency_ends_with_the_failure() {
        let failed = |name: &str| StructuredError::new(Code::ContainerCrash, format!("{name} crashed"));
        let row = |name: &str, on: Option<&str>, state| ServiceStatus {
            name: name.to_owned(),
            state,
            waiting_on: on.map(|on| WaitingOn {
                message: format!("`{on}` to be healthy"),
                service: Some(on.to_owned()),
                ..WaitingOn::default()
            }),
            last_error: Some(failed(name)),
            ..ServiceStatus::default()
        };
        let db = ServiceStatus {
            health: Health::Healthy,
            ..row("db", None, ServiceState::Ready)
        };
        let mut status = EnvironmentStatus {
            environment: "shop".to_owned(),
            services: vec![row("app", Some("db"), ServiceState::Waiting), db],
            ..EnvironmentStatus::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let text = |status: &EnvironmentStatus| {
            format_report(&explain(&StateDir::at(dir.path()), status, Some("app")).unwrap())
        };
        let found = text(&status);
        assert!(
            found.contains("app crashed") && !found.contains("db crashed"),
            "{found}"
        );
        status.services[1].state = ServiceState::Failed;
        let found = text(&status);
        assert!(
            found.contains("db crashed") && !found.contains("app crashed"),
            "{found}"
        );
    }

    #[test]
    fn report_has_holds_warnings_and_the_mark_of_an_old_state() {
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            spec_path: "specs/shop.e2e.yaml".to_owned(),
            services: vec![ServiceStatus {
                name: "web".to_owned(),
                ..ServiceStatus::default()
            }],
            holds: vec![ActiveHold {
                service: Some("db".to_owned()),
                holder: Some("ann".to_owned()),
                ..ActiveHold::default()
            }],
            diagnostics: vec![Diagnostic::warning("", "unknown key `tmpfs`")],
            stale: true,
            as_of: "2026-01-01T00:00:00Z".to_owned(),
            ..EnvironmentStatus::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let report = explain(&StateDir::at(dir.path()), &status, Some("web")).unwrap();
        let text = format_report(&report);
        for line in [
            "`db` is held by ann",
            "warning: shop.e2e.yaml: unknown key `tmpfs`",
            "this is the last known state, as of 2026-01-01T00:00:00Z",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
