//! Text of the report about a test.

use std::fmt::Write;

use argus_core::state::Attribution;
use argus_reconciler::TestReport;

use crate::render::output;

/// Report in words.
pub(crate) fn format_report(report: &TestReport) -> String {
    let TestReport {
        environment,
        case,
        restart_count,
        unverified,
        ..
    } = report;
    let restarts = output::format_count(*restart_count, "restart");
    let warning = unverified
        .as_ref()
        .map(|reason| format!("  {}\n", format_unverified(reason)));
    format!("test `{case}` on {environment} ended with {restarts} of services\n")
        + &warning.unwrap_or_default()
        + &format_events(report)
}

/// Warning about a test whose environment has connections that are not verified.
pub(crate) fn format_unverified(reason: &str) -> String {
    format!("warning: the connections between the services are not verified: {reason}")
}

/// Disruptions and restarts during a test, one line each.
pub(crate) fn format_events(report: &TestReport) -> String {
    let TestReport {
        environment,
        restarts,
        disruptions,
        lease_ended_at,
        ..
    } = report;
    let mut text = String::new();
    if let Some(at) = lease_ended_at {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  its lease ended at {at}; later events are not in the report"
        );
    }
    for found in disruptions {
        let attribution = match (found.attribution, found.suspected) {
            (Attribution::Infrastructure, false) => "infrastructure",
            (Attribution::Infrastructure, true) => "infrastructure, suspected because the host was starved",
            (Attribution::Resource, _) => "resource",
            (Attribution::Service, _) => "service",
        };
        let evidence = found
            .number
            .map(|number| format!("; see `argus evidence {environment} {} {number}`", found.service));
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {} {} disrupted: {} (attribution: {attribution}){}",
            found.at,
            found.service,
            found.cause.describe(),
            evidence.unwrap_or_default()
        );
    }
    for found in restarts {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {} {} restarted: {}",
            found.at,
            found.service,
            found.reason.describe()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use argus_core::ident::EnvName;

    use super::*;

    #[test]
    fn report_counts_restarts() {
        for (count, expected) in [(0, "0 restarts of"), (1, "1 restart of"), (2, "2 restarts of")] {
            let report = TestReport {
                environment: EnvName::new("shop").unwrap(),
                case: "smoke".to_owned(),
                started: String::new(),
                ended: String::new(),
                lease_ended_at: None,
                verified: true,
                unverified: None,
                restart_count: count,
                restarts: Vec::new(),
                disruptions: Vec::new(),
            };
            assert!(
                format_report(&report).contains(expected),
                "{}",
                format_report(&report)
            );
        }
    }
}
