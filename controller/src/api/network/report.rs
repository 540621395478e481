//! Connectivity of an environment: the last check of the controller, or a check now.

use std::collections::BTreeSet;

use argus_core::connectivity::{ConnectivityInput, errors, matrix};
use argus_core::ident::EnvName;
use argus_core::probe::HealthStates;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_crds::status::{Condition, Connectivity, EnvironmentStatus, Link};
use argus_reconciler::clock::Clock;
use argus_reconciler::connectivity;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::preflight::facts::FactCollector;
use crate::engine::observer::EngineObserver;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::settings::Settings;
use crate::status;
use crate::table;
use crate::table::Column;

/// Connectivity of an environment for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkReport {
    pub(crate) environment: String,
    /// True if all links work.
    pub(crate) verified: bool,
    /// `Verified` condition of the controller. `None` for a check of this command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) condition: Option<Condition>,
    /// Matrix of the links. `None` before the first check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connectivity: Option<Connectivity>,
    /// Errors of broken links. `argus schema error` describes their form.
    // The schema of an error is published separately, because it is longer than the rest of this schema.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) errors: Vec<StructuredError>,
}

/// Last results of the controller.
pub(crate) fn last_report(status: EnvironmentStatus) -> NetworkReport {
    let of_a_link =
        |error: &StructuredError| matches!(error.code, Code::DnsResolutionFailed | Code::NetworkUnreachable);
    let condition = status
        .conditions
        .into_iter()
        .find(|condition| condition.kind == "Verified");
    NetworkReport {
        environment: status.environment,
        verified: condition
            .as_ref()
            .is_some_and(|condition| condition.status == argus_crds::status::Truth::True),
        condition,
        connectivity: status.connectivity,
        errors: status.errors.into_iter().filter(of_a_link).collect(),
    }
}

/// Checks the connectivity now, without a controller.
pub(crate) async fn check_now(settings: &Settings, env: &EnvName) -> Result<NetworkReport, Failure> {
    let collector = FactCollector::new(settings)?;
    let wanted = collector.read_desired().await;
    let wanted = wanted
        .map_err(|cause| Failure::with_reason(Reason::Unreadable, cause).with_exit(Exit::Unexpected))?;
    let Some(accepted) = wanted.get(env) else {
        let names: Vec<&EnvName> = wanted.keys().collect();
        let message = format!("no environment `{env}`; {}", status::format_known(&names));
        return Err(Failure::with_reason(Reason::NotFound, message)
            .with_exit(Exit::Usage)
            .with_hint(status::LIST_HINT));
    };
    let mut observer = EngineObserver::open(collector.docker(), Some([env.clone()].into())).await?;
    observer.inspect().await?;
    let (nothing, health) = (std::sync::Arc::default(), HealthStates::new());
    let topology = ConnectivityInput {
        desired: &accepted.desired,
        observed: observer.store.of(env).unwrap_or(&nothing),
        hashes: None,
        health: &health,
        outages: &[],
        engine_returned_at: None,
    };
    let check = connectivity::check(collector.docker(), topology.current_key(), Clock::system()).await;
    let in_environment = |error: StructuredError| error.environment(env.as_str());
    Ok(NetworkReport {
        environment: env.to_string(),
        verified: check.is_good(),
        condition: None,
        errors: errors(&check, &topology)
            .into_iter()
            .map(in_environment)
            .collect(),
        connectivity: Some(matrix(&check)),
    })
}

const LINKS: &[Column<Link>] = &[
    ("FROM", |link| link.from.clone()),
    ("TO", |link| link.to.clone()),
    ("HOST", |link| link.host.clone()),
    ("PORT", |link| {
        link.port.map(|port| port.to_string()).unwrap_or_default()
    }),
    ("DNS", |link| format_result(link, link.dns)),
    ("TCP", |link| {
        if link.port.is_some() && link.dns {
            format_result(link, link.tcp)
        } else {
            String::new()
        }
    }),
    ("ERROR", |link| link.error.clone().unwrap_or_default()),
];

fn format_result(link: &Link, is_good: bool) -> String {
    let error = link.error.as_ref();
    if error.is_some_and(|error| error.starts_with("not checked")) {
        String::new()
    } else if is_good {
        output::green("ok")
    } else {
        output::red("failed")
    }
}

/// Report as text for people.
pub(crate) fn format_report(report: &NetworkReport) -> String {
    let links = report.connectivity.as_ref().map(|matrix| matrix.links.as_slice());
    let links = links.unwrap_or_default();
    let mut text = String::new();
    if !links.is_empty() {
        text = table::format_columns(LINKS, links, None) + "\n";
    }
    let mut notes: Vec<String> = report.errors.iter().map(output::format_error).collect();
    notes.push(match (&report.condition, report.verified) {
        (_, true) if links.is_empty() => "no service refers to another".to_owned(),
        (_, true) => output::green(format!("{} verified", output::format_count(links.len(), "link"))),
        (Some(condition), false) => output::yellow(format!(
            "not verified, {}: {}",
            condition.reason, condition.message
        )),
        (None, false) => output::yellow("not verified"),
    });
    let hints: BTreeSet<String> = report.errors.iter().flat_map(output::format_hints).collect();
    notes.extend(hints.iter().map(output::format_hint));
    text + &output::join_lines(notes)
}
