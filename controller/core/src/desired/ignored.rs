//! Settings that Argus accepts and ignores.

use argus_crds::{E2eSpec, Runner};

use super::identity::shown;

/// Returns a note for the status about each ignored setting, in the order of the format.
pub(super) fn ignored_settings(spec: &E2eSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(tests) = &spec.tests {
        for suite in tests.suites.iter().filter(|suite| suite.runner == Runner::Yaml) {
            notes.push(format!(
                "the suite `{}` uses the runner `yaml` of the Node tool, which Argus does not run",
                shown(&suite.name)
            ));
        }
    }
    for block in spec.ignored_blocks() {
        notes.push(format!(
            "`{block}` is a setting of the Node tool, which Argus ignores"
        ));
    }
    notes
}
