//! What a file asks for that Argus carries and does not act on.

use argus_crds::{Argus, E2eSpec, Policy};

/// Said once in the status, in the order of the format.
pub(super) fn of(written: &E2eSpec) -> Vec<String> {
    let mut notes = Vec::new();
    if written
        .tests
        .as_ref()
        .is_some_and(|tests| !tests.suites.is_empty())
    {
        notes.push("`tests` are carried and not run by this version".to_owned());
    }
    for block in written.carried() {
        notes.push(format!(
            "`{block}` belongs to the Node tool: carried, not acted on"
        ));
    }
    let Argus {
        deletion: _,
        ttl,
        hold: _,
        rollback: _,
        restart: _,
        policy,
    } = &written.argus;
    let unserved = [
        ("argus.ttl", ttl.is_some()),
        ("argus.policy", *policy != Policy::default()),
    ];
    for (path, _) in unserved.iter().filter(|(_, asked)| *asked) {
        notes.push(format!("`{path}` is carried and not acted on by this version"));
    }
    notes
}
