//! Connectivity of an environment: the last check of the controller, or a check now.

use std::collections::BTreeSet;

use argus_core::connectivity::{ConnectivityInput, errors, matrix};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::probe::HealthStates;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_crds::status::{Condition, Connectivity, EnvironmentStatus, Link, Truth};
use argus_reconciler::clock::Clock;
use argus_reconciler::connectivity;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::preflight::facts::FactCollector;
use crate::engine::observer::EngineObserver;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::correlation;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::Settings;

/// Connectivity of an environment for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkReport {
    pub(crate) environment: String,
    /// Service of the links, if one is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
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

impl NetworkReport {
    /// Restricts the report to the links from and to a service. They count as verified if the check is current and all of
    /// them work, whatever the other links do.
    pub(super) fn select_service(mut self, service: &str) -> Self {
        let is_current = self
            .condition
            .as_ref()
            .is_none_or(|it| it.status != Truth::Unknown);
        if let Some(matrix) = &mut self.connectivity {
            matrix
                .links
                .retain(|link| link.from == service || link.to == service);
            let works = |link: &Link| link.error.is_none() && link.unverified.is_none();
            self.verified |= is_current && matrix.links.iter().all(works);
            matrix.verified = self.verified;
        }
        let is_about = |error: &StructuredError| {
            error.service.as_deref() == Some(service) || error.details.get("to") == Some(&service.into())
        };
        self.errors.retain(is_about);
        self.service = Some(service.to_owned());
        self
    }
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
        service: None,
        verified: condition
            .as_ref()
            .is_some_and(|condition| condition.status == Truth::True),
        condition,
        connectivity: status.connectivity,
        errors: status.errors.into_iter().filter(of_a_link).collect(),
    }
}

/// Checks the connectivity now, without a controller.
pub(crate) async fn check_now(
    settings: &Settings,
    env: &EnvName,
    service: Option<&str>,
) -> Result<NetworkReport, Failure> {
    let collector = FactCollector::new(settings).await?;
    let wanted = collector.read_desired().await;
    let wanted = wanted
        .map_err(|cause| Failure::with_reason(Reason::Unreadable, cause).with_exit(Exit::Unexpected))?;
    let Some(accepted) = wanted.get(env) else {
        let names: Vec<&EnvName> = wanted.keys().collect();
        let message = format!("no environment `{env}`; {}", status::format_known(&names));
        let state = settings.state.clone();
        let name = env.to_string();
        let hint = blocking_io::read(move || Ok(status::hint_for_unknown(&state, &name))).await?;
        return Err(Failure::with_reason(Reason::NotFound, message)
            .with_exit(Exit::Usage)
            .with_hint(hint));
    };
    let mut names = accepted.desired.services.keys().map(ServiceName::as_str);
    if let Some(service) = service
        && !names.any(|name| name == service)
    {
        let message = format!("environment `{env}` has no service `{service}`");
        return Err(Failure::with_reason(Reason::NotFound, message)
            .with_exit(Exit::Usage)
            .with_hint(format!("list its services with `argus get {env}`")));
    }
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
    let check = connectivity::check(collector.docker(), topology.request_all(), Clock::system()).await;
    let shows_calls = correlation::shows_calls();
    let in_environment = |mut error: StructuredError| {
        error.debug.retain(|_| shows_calls);
        error.environment(env.as_str())
    };
    Ok(NetworkReport {
        environment: env.to_string(),
        service: None,
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
    ("ERROR", |link| {
        let unverified = link
            .unverified
            .as_ref()
            .map(|reason| format!("unverified: {reason}"));
        link.error.clone().or(unverified).unwrap_or_default()
    }),
];

fn format_result(link: &Link, is_good: bool) -> String {
    if link.unverified.is_some() {
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
        (_, true) if links.is_empty() => match &report.service {
            Some(service) => format!("`{service}` refers to no service, and no service refers to it"),
            None => "no service refers to another".to_owned(),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn link(from: &str, to: &str, error: Option<&str>) -> Link {
        Link {
            from: from.to_owned(),
            to: to.to_owned(),
            error: error.map(str::to_owned),
            ..Link::default()
        }
    }

    fn report(truth: Truth) -> NetworkReport {
        let broken = StructuredError::new(Code::NetworkUnreachable, "refused")
            .service("web")
            .details(serde_json::json!({ "from": "web", "to": "db" }));
        NetworkReport {
            environment: "shop".to_owned(),
            service: None,
            verified: false,
            condition: Some(Condition {
                kind: "Verified".to_owned(),
                status: truth,
                reason: String::new(),
                message: String::new(),
                last_transition_time: String::new(),
            }),
            connectivity: Some(Connectivity {
                links: vec![link("web", "db", Some("refused")), link("api", "mq", None)],
                ..Connectivity::default()
            }),
            errors: vec![broken],
        }
    }

    #[test]
    fn links_of_a_service_are_judged_alone() {
        let good = report(Truth::False).select_service("mq");
        let links = good.connectivity.map(|matrix| matrix.links.len());
        assert_eq!((good.verified, links, good.errors.len()), (true, Some(1), 0));
        for side in ["web", "db"] {
            let bad = report(Truth::False).select_service(side);
            assert_eq!((bad.verified, bad.errors.len()), (false, 1), "{side}");
        }
        assert!(!report(Truth::Unknown).select_service("mq").verified, "outdated");
    }
}
