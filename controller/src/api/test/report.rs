//! Text of the report about a test.

use std::fmt::Write;

use argus_core::state::Attribution;
use argus_reconciler::TestReport;

use crate::output;

/// Report in words.
pub(crate) fn format_report(report: &TestReport) -> String {
    let TestReport {
        environment,
        case,
        disruption_count: count,
        unverified,
        ..
    } = report;
    let failures = output::format_count(*count, "failure");
    let warning = unverified.as_ref().map(|reason| format!("  {}\n", format_unverified(reason)));
    format!("test `{case}` on {environment} ended with {failures} of services\n")
        + &warning.unwrap_or_default()
        + &format_disruptions(report)
}

/// Warning about a test whose environment has connections that are not verified.
pub(crate) fn format_unverified(reason: &str) -> String {
    format!("warning: the connections between the services are not verified: {reason}")
}

/// Failures during a test, one line each.
pub(crate) fn format_disruptions(report: &TestReport) -> String {
    let TestReport {
        environment,
        disruptions,
        lease_ended_at,
        ..
    } = report;
    let mut text = String::new();
    if let Some(at) = lease_ended_at {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  its lease expired at {at}; later failures are not counted"
        );
    }
    for found in disruptions {
        let cause = match found.attribution {
            Attribution::Infrastructure => "infrastructure",
            Attribution::Test => "the service itself",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {} {} failed, caused by {cause}; see `argus evidence {environment} {} {}`",
            found.at, found.service, found.service, found.number
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use argus_core::ident::EnvName;

    use super::*;

    #[test]
    fn report_counts_failures() {
        for (count, expected) in [(0, "0 failures of"), (1, "1 failure of"), (2, "2 failures of")] {
            let report = TestReport {
                environment: EnvName::new("shop").unwrap(),
                case: "smoke".to_owned(),
                started: String::new(),
                ended: String::new(),
                lease_ended_at: None,
                verified: true,
                unverified: None,
                disruption_count: count,
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
