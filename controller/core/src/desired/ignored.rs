//! What a file asks for that Argus carries and does not act on.

use argus_crds::{E2eSpec, Runner};

use super::identity::shown;

/// Said once in the status, in the order of the format.
pub(super) fn of(written: &E2eSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(tests) = &written.tests {
        for suite in tests.suites.iter().filter(|suite| suite.runner == Runner::Yaml) {
            notes.push(format!(
                "the suite `{}` has the runner `yaml` of the Node tool: carried, not run",
                shown(&suite.name)
            ));
        }
    }
    for block in written.carried() {
        notes.push(format!(
            "`{block}` belongs to the Node tool: carried, not acted on"
        ));
    }
    notes
}
