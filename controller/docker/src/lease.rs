//! Leases as small volumes that nobody mounts: one a renewal, because labels do not change.
//!
//! The date of a volume is that of its folder, to the second: it stands still as long as nobody writes in there. What is read
//! of the engine's clock is read once a lease, when it is seen first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use argus_core::ident::{EnvName, ResourceName};
use argus_core::labels::{CONTROLLER, LEASE};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};

use crate::Shared;
use crate::call::{self, READ, WRITE};
use crate::error::Op;

/// Every lease's name begins with this.
pub(crate) const PREFIX: &str = "argus-lease-";

const PLACE: &str = "argusai.lease-place";
const HOST: &str = "argusai.lease-host";
const PID: &str = "argusai.lease-pid";
const PROCESSES: &str = "argusai.lease-processes";
/// In milliseconds.
const TTL: &str = "argusai.lease-ttl";
/// `ENVIRONMENT` or `ENVIRONMENT@SECOND`, by commas.
const CLAIMS: &str = "argusai.lease-claims";

/// A lease that has been dead for so many times its own time is swept away by whoever renews.
const SWEPT_AFTER: u32 = 10;

/// When known leases were written, by our clock.
#[derive(Debug, Default)]
pub(crate) struct RenewalCache {
    renewed: Mutex<BTreeMap<String, Timestamp>>,
}

/// All leases that can be read; a volume that only looks like one is none.
pub(crate) async fn all(shared: &Shared) -> Result<Vec<ControllerLease>, ActionError> {
    let client = shared.connection.client()?;
    let filters = HashMap::from([("label", vec![LEASE])]);
    let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
    let listed = call::within(Op::List, READ, client.list_volumes(Some(options))).await?;
    let found: Vec<_> = listed
        .volumes
        .unwrap_or_default()
        .into_iter()
        .filter_map(read)
        .collect();
    let names: BTreeSet<&str> = found.iter().map(|lease| lease.name.as_str()).collect();
    let known = {
        let mut known = shared
            .leases
            .renewed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| names.contains(name.as_str()));
        known.clone()
    };
    let is_new = |lease: &&ControllerLease| !known.contains_key(&lease.name);
    let ahead = match found.iter().find(is_new) {
        Some(_) => ahead(shared).await?,
        None => 0,
    };
    let mut renewed = shared
        .leases
        .renewed
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(found
        .into_iter()
        .map(|lease| {
            let by_our_clock = Timestamp(lease.made_at.0.saturating_sub(ahead));
            let renewed_at = *renewed.entry(lease.name.clone()).or_insert(by_our_clock);
            ControllerLease { renewed_at, ..lease }
        })
        .collect())
}

/// How far the engine's clock is ahead of ours, in milliseconds.
async fn ahead(shared: &Shared) -> Result<i64, ActionError> {
    let client = shared.connection.client()?;
    let before = (shared.now)();
    let info = call::within(Op::About, READ, client.info()).await?;
    shared.limits.note(&info);
    let told = info.system_time.as_deref().and_then(Timestamp::parse);
    let Some(theirs) = told else { return Ok(0) };
    // It was read somewhere between the question and the answer.
    let ours = before + (shared.now)().since(before) / 2;
    Ok(theirs.0.saturating_sub(ours.0))
}

/// Writes the next lease, reads all, and sweeps.
pub(crate) async fn renew(shared: &Shared, note: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
    let client = shared.connection.client()?;
    let name = format!("{PREFIX}{}-{:013}", note.run, (shared.now)().0);
    let request = VolumeCreateRequest {
        name: Some(name.clone()),
        driver: Some("local".to_owned()),
        labels: Some(written(note)),
        ..Default::default()
    };
    call::within(Op::CreateVolume, WRITE, client.create_volume(request)).await?;
    let mut found = all(shared).await?;
    let now = (shared.now)();
    let stale = |lease: &ControllerLease| {
        let dead: Duration = lease.spec.ttl * SWEPT_AFTER;
        let older = lease.spec.run == note.run && lease.name < name;
        let before = lease.spec.run != note.run && lease.spec.place == note.place;
        older || before || now.since(lease.renewed_at) >= dead
    };
    for lease in found.iter().filter(|lease| stale(lease)) {
        // What cannot be swept now is swept at the next renewal.
        if let Err(error) = remove(shared, &lease.name).await {
            tracing::debug!(lease = lease.name, %error, "a stale lease stays");
        }
    }
    found.retain(|lease| !stale(lease));
    Ok(found)
}

/// Removes every lease of a run.
pub(crate) async fn release(shared: &Shared, run: &str) -> Result<(), ActionError> {
    for lease in all(shared)
        .await?
        .into_iter()
        .filter(|lease| lease.spec.run == run)
    {
        remove(shared, &lease.name).await?;
    }
    Ok(())
}

async fn remove(shared: &Shared, name: &str) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let options = RemoveVolumeOptionsBuilder::default().build();
    match call::raw(Op::RemoveVolume, WRITE, client.remove_volume(name, Some(options))).await {
        Ok(()) => Ok(()),
        Err(refusal) if refusal.is(404) => Ok(()),
        Err(refusal) => Err(refusal.into_error(Op::RemoveVolume)),
    }
}

fn written(note: &LeaseSpec) -> HashMap<String, String> {
    let claim = |(env, since): (&EnvName, &Option<Timestamp>)| match since {
        Some(since) => format!("{env}@{}", since.0 / 1000),
        None => env.to_string(),
    };
    let claims: Vec<String> = note.claims.iter().map(claim).collect();
    [
        (LEASE, note.run.clone()),
        (CONTROLLER, note.controller.clone()),
        (PLACE, note.place.clone()),
        (HOST, note.host.clone()),
        (PID, note.pid.to_string()),
        (PROCESSES, note.processes.clone()),
        (TTL, note.ttl.as_millis().to_string()),
        (CLAIMS, claims.join(",")),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn read(volume: Volume) -> Option<ControllerLease> {
    // Its name goes into a URL when it is removed.
    ResourceName::new(volume.name.clone()).ok()?;
    let told = |key: &str| volume.labels.get(key).cloned();
    let made_at = Timestamp::parse(volume.created_at.as_deref()?)?;
    let claim = |claim: &str| {
        let (env, since) = claim
            .split_once('@')
            .map_or((claim, None), |(env, since)| (env, Some(since)));
        let since = match since {
            Some(since) => Some(Timestamp(since.parse::<i64>().ok()?.checked_mul(1000)?)),
            None => None,
        };
        Some((EnvName::new(env).ok()?, since))
    };
    Some(ControllerLease {
        spec: LeaseSpec {
            controller: told(CONTROLLER)?,
            run: told(LEASE).filter(|run| !run.is_empty())?,
            place: told(PLACE)?,
            host: told(HOST).unwrap_or_default(),
            pid: told(PID).and_then(|pid| pid.parse().ok()).unwrap_or(0),
            processes: told(PROCESSES).unwrap_or_default(),
            ttl: Duration::from_millis(told(TTL)?.parse().ok()?),
            claims: told(CLAIMS)?.split(',').filter_map(claim).collect(),
        },
        name: volume.name,
        made_at,
        renewed_at: made_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_no_lease_is_not_read() {
        let env = |name| EnvName::new(name).unwrap();
        let note = LeaseSpec {
            controller: "c".into(),
            run: "r".into(),
            place: "p".into(),
            host: "h".into(),
            pid: 7,
            processes: "b/4".into(),
            ttl: Duration::from_secs(90),
            claims: [
                (env("shop"), Some(Timestamp(1_700_000_000_000))),
                (env("new"), None),
            ]
            .into(),
        };
        let volume = |labels: HashMap<String, String>| Volume {
            name: "argus-lease-r-1".into(),
            labels,
            created_at: Some("2026-11-21T15:04:14Z".to_owned()),
            ..Default::default()
        };
        let lease = read(volume(written(&note))).unwrap();
        assert_eq!(lease.spec, note);
        assert_eq!(lease.made_at.to_string(), "2026-11-21T15:04:14.000Z");
        for key in written(&note)
            .keys()
            .filter(|key| ![HOST, PID, PROCESSES].contains(&key.as_str()))
        {
            let mut labels = written(&note);
            labels.remove(key);
            assert_eq!(read(volume(labels)), None, "without {key}");
        }
    }
}
