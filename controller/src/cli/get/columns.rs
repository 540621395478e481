//! Columns of the tables of `argus get`.

use argus_crds::status::{EnvironmentStatus, ServiceStatus};

use super::marks::format_phase;
use crate::render::output;
use crate::render::status_text::{format_ports, format_waits, is_good};
use crate::render::table::Column;

/// Column of the last results of the suites, which is absent without any.
pub(super) const TESTS: &str = "TESTS";

/// Columns of environments. The last five are wide.
pub(super) const ENVIRONMENTS: &[Column<EnvironmentStatus>] = &[
    ("NAME", |status| status.environment.clone()),
    ("PHASE", format_phase),
    ("READY", format_ready),
    ("RESTARTS", |status| {
        let restarts: u32 = status.services.iter().map(|row| row.restarts).sum();
        restarts.to_string()
    }),
    (TESTS, format_tests),
    ("PORTS", |status| format_ports(&status.port_mappings)),
    ("WAITS FOR", format_waits),
    ("USED BY", format_users),
    ("REVISION", |status| {
        let revision = status.revision.as_deref().unwrap_or_default();
        format!("{revision:.12}")
    }),
    ("SPEC", |status| status.spec_path.clone()),
    ("WORKTREE", |status| status.worktree.clone().unwrap_or_default()),
    ("AS OF", |status| status.as_of.clone()),
];

/// Column of the state, which also has the marks of a service.
pub(super) const STATE: &str = "STATE";

/// Columns of services. The last two are wide.
pub(in crate::cli) const SERVICES: [Column<ServiceStatus>; 8] = [
    ("SERVICE", |row| row.name.clone()),
    (STATE, |row| output::format_state(row.state)),
    ("HEALTH", |row| output::format_health(row.health)),
    ("RESTARTS", |row| row.restarts.to_string()),
    ("PORTS", |row| format_ports(&row.ports)),
    ("WAITS FOR", |row| {
        row.waiting_on
            .as_ref()
            .map(|on| on.message.clone())
            .unwrap_or_default()
    }),
    ("IMAGE", |row| row.image.clone().unwrap_or_default()),
    ("CONTAINER", |row| {
        let id = row.container_id.as_deref().unwrap_or_default();
        format!("{id:.12}")
    }),
];

fn format_ready(status: &EnvironmentStatus) -> String {
    let ready = status.services.iter().filter(|row| is_good(row)).count();
    format!("{ready}/{}", status.services.len())
}

/// Number of suites by their last result.
fn format_tests(status: &EnvironmentStatus) -> String {
    let count = |result: &str| {
        let suites = status.test_results.iter();
        let count = suites.filter(|suite| suite.result == result).count();
        (count > 0).then(|| format!("{count} {result}"))
    };
    let counts = [
        count("failed").map(output::red),
        count("passed").map(output::green),
        count("skipped").map(output::yellow),
    ];
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Holders of running tests and holds. Without a holder, the test case or the reason of the hold.
fn format_users(status: &EnvironmentStatus) -> String {
    let tests = status
        .tests
        .iter()
        .map(|test| test.holder.as_ref().unwrap_or(&test.case));
    let holds = status
        .holds
        .iter()
        .map(|hold| hold.holder.as_ref().unwrap_or(&hold.reason));
    let named: Vec<&str> = tests
        .chain(holds)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use argus_crds::status::SuiteStatus;

    use super::*;

    #[test]
    fn tests_column_counts_suites_by_result() {
        let status = |results: &[&str]| EnvironmentStatus {
            test_results: results
                .iter()
                .map(|result| SuiteStatus {
                    result: (*result).to_owned(),
                    ..SuiteStatus::default()
                })
                .collect(),
            ..EnvironmentStatus::default()
        };
        let shown =
            |results: &[&str]| anstream::adapter::strip_str(&format_tests(&status(results))).to_string();
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&["passed", "passed"]), "2 passed");
        assert_eq!(
            shown(&["passed", "failed", "skipped"]),
            "1 failed, 1 passed, 1 skipped"
        );
    }
}
