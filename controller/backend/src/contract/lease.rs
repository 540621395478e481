//! The leases of two controllers, as every backend has to keep them.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, LeaseSpec, TTL};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;

use super::observer::{Violation, breach, holds, is};
use crate::Backend;

/// Writes, renews, reads and releases.
pub(super) async fn drive<B: Backend>(backend: &B, environment: &str) -> Result<(), Violation> {
    let env = EnvName::new(environment).map_err(|bad| breach("a name", &bad))?;
    let told = |run: &str, claims: BTreeMap<EnvName, Option<Timestamp>>| LeaseSpec {
        controller: format!("{environment}-{run}"),
        run: format!("{environment}-{run}"),
        place: format!("{environment}-place-{run}"),
        host: "host".to_owned(),
        pid: 7,
        processes: "here".to_owned(),
        ttl: TTL,
        claims,
    };
    let first = told("one", [(env.clone(), None)].into());
    let written = one(&backend.renew_lease(&first).await, &first.run)?;
    is("what is written is read", &written.spec, &first)?;
    is(
        "a claim is as old as its lease",
        &written.claims(&env),
        &Some(written.made_at),
    )?;
    let other = told("two", BTreeMap::new());
    find(&backend.renew_lease(&other).await, &first.run, 1)?;
    // A claim that is made anew keeps its time.
    let again = told("one", [(env.clone(), written.claims(&env))].into());
    let renewed = one(&backend.renew_lease(&again).await, &first.run)?;
    holds(
        "a renewal is another object",
        &renewed,
        renewed.name != written.name,
    )?;
    holds(
        "a renewal is no older than what it follows",
        &renewed,
        renewed.made_at >= written.made_at,
    )?;
    is(
        "a claim keeps its time",
        &renewed.claims(&env),
        &written.claims(&env),
    )?;
    let read = one(&backend.leases().await, &first.run)?;
    is("a look shows the same", &read, &renewed)?;
    let skew = read.made_at.0.abs_diff(read.renewed_at.0);
    holds(
        "both clocks go alike here",
        &read,
        Duration::from_millis(skew) < Duration::from_secs(3),
    )?;
    // Another run on the same state directory: its lock says that the earlier one is dead.
    let mut next = told("three", BTreeMap::new());
    next.place.clone_from(&first.place);
    find(&backend.renew_lease(&next).await, &first.run, 0)?;
    for run in [&next.run, &other.run, &other.run] {
        let released = backend.release_lease(run).await;
        is("a release, repeated or not", &released, &Ok(()))?;
    }
    find(&backend.leases().await, &other.run, 0)?;
    Ok(())
}

fn one(came: &Result<Vec<ControllerLease>, ActionError>, run: &str) -> Result<ControllerLease, Violation> {
    find(came, run, 1)?.ok_or_else(|| breach("a lease", &run))
}

/// The only lease of a run, where one is expected.
fn find(
    came: &Result<Vec<ControllerLease>, ActionError>,
    run: &str,
    expected: usize,
) -> Result<Option<ControllerLease>, Violation> {
    let all = came.as_ref().map_err(|error| breach("leases", error))?;
    let mut of_it = all.iter().filter(|lease| lease.spec.run == run);
    let found = of_it.next();
    let number = usize::from(found.is_some()) + of_it.count();
    holds(&format!("{expected} leases of `{run}`"), all, number == expected)?;
    Ok(found.cloned())
}
