//! The contract of leases, checked with the leases of two controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLease, LeaseSpec, TTL};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;

use super::observer::{Violation, expect, expect_eq, violation};
use crate::Backend;

/// Writes, renews, reads and releases leases.
pub(super) async fn check<B: Backend>(backend: &B, environment: &str) -> Result<(), Violation> {
    let env = EnvName::new(environment).map_err(|bad| violation("a name", &bad))?;
    let lease_of = |run: &str, claims: BTreeMap<EnvName, Option<Timestamp>>| LeaseSpec {
        controller: format!("{environment}-{run}"),
        run: format!("{environment}-{run}"),
        state_dir: format!("{environment}-place-{run}"),
        specs: None,
        host: "host".to_owned(),
        pid: 7,
        pid_namespace: "here".to_owned(),
        ttl: TTL,
        since: None,
        claims,
    };
    let first = lease_of("one", [(env.clone(), None)].into());
    let written = find_one(&backend.renew_lease(&first).await, &first.run)?;
    expect_eq("a written lease is returned", &written.spec, &first)?;
    expect_eq(
        "a claim is as old as its lease",
        &written.claimed_at(&env),
        &Some(written.created_at),
    )?;
    let other = lease_of("two", BTreeMap::new());
    find(&backend.renew_lease(&other).await, &first.run, 1)?;
    // A renewed claim keeps its time.
    let again = lease_of("one", [(env.clone(), written.claimed_at(&env))].into());
    let renewed = find_one(&backend.renew_lease(&again).await, &first.run)?;
    expect(
        "a renewal creates another object",
        &renewed,
        renewed.name != written.name,
    )?;
    expect(
        "a renewal is at least as new as the lease before it",
        &renewed,
        renewed.created_at >= written.created_at,
    )?;
    expect_eq(
        "a claim keeps its time",
        &renewed.claimed_at(&env),
        &written.claimed_at(&env),
    )?;
    let read = find_one(&backend.leases().await, &first.run)?;
    expect_eq("a read returns the same", &read, &renewed)?;
    let skew = read.created_at.0.abs_diff(read.renewed_at.0);
    expect(
        "both times of a lease agree",
        &read,
        Duration::from_millis(skew) < Duration::from_secs(3),
    )?;
    // Another run on the same state directory: its lock proves that the previous run is dead.
    let mut next = lease_of("three", BTreeMap::new());
    next.state_dir.clone_from(&first.state_dir);
    find(&backend.renew_lease(&next).await, &first.run, 0)?;
    for run in [&next.run, &other.run, &other.run] {
        let released = backend.release_lease(run).await;
        expect_eq("a release, also a repeated one", &released, &Ok(()))?;
    }
    find(&backend.leases().await, &other.run, 0)?;
    Ok(())
}

/// The only lease of a run.
fn find_one(
    leases: &Result<Vec<ControllerLease>, ActionError>,
    run: &str,
) -> Result<ControllerLease, Violation> {
    find(leases, run, 1)?.ok_or_else(|| violation("a lease", &run))
}

/// The lease of a run, after a check that the run has the expected number of leases: 0 or 1.
fn find(
    leases: &Result<Vec<ControllerLease>, ActionError>,
    run: &str,
    expected: usize,
) -> Result<Option<ControllerLease>, Violation> {
    let all = leases.as_ref().map_err(|error| violation("leases", error))?;
    let mut of_it = all.iter().filter(|lease| lease.spec.run == run);
    let found = of_it.next();
    let number = usize::from(found.is_some()) + of_it.count();
    expect(&format!("{expected} leases of `{run}`"), all, number == expected)?;
    Ok(found.cloned())
}
