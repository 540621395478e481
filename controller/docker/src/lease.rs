//! Controller leases, stored as volumes that no container mounts. Each renewal creates a new volume, because the labels of
//! a volume cannot change.
//!
//! The engine reports the modification time of the volume's folder as its creation time, in whole seconds. It never
//! changes, because nothing writes into the folder. The offset of the engine's clock is applied once per lease, when the
//! lease is listed for the first time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::ident::{EnvName, ResourceName};
use argus_core::journal::{ChangedObject, EngineChange};
use argus_core::labels::{CONTROLLER, CREATED_AT, LEASE, RUN_ID};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};

use crate::Shared;
use crate::call;
use crate::error::Op;
use crate::inspect::convert_time;

/// Prefix of the name of every lease volume.
pub(crate) const NAME_PREFIX: &str = "argus-lease-";

const STATE_DIR: &str = "argusai.lease-state-dir";
const SPECS: &str = "argusai.lease-specs";
const HOST: &str = "argusai.lease-host";
const PID: &str = "argusai.lease-pid";
const PID_NAMESPACE: &str = "argusai.lease-processes";
/// Time to live, in milliseconds.
const TTL: &str = "argusai.lease-ttl";
/// Unix time of the first lease of the run, in seconds. Absent on the first lease.
const SINCE: &str = "argusai.lease-since";
/// Comma-separated claims, each `ENVIRONMENT` or `ENVIRONMENT@SECOND` with the Unix time of the claim.
const CLAIMS: &str = "argusai.lease-claims";

/// Age at which any renewal removes a foreign lease, in multiples of the lease's TTL.
const STALE_AFTER_TTLS: u32 = 10;

/// Age below which a measured clock offset applies to a lease that this controller has just written.
const OFFSET_AGE: Duration = Duration::from_secs(60);

/// Results of earlier lists and measurements.
#[derive(Debug, Default)]
pub(crate) struct RenewalCache {
    /// Renewal time of each known lease, by this host's clock.
    renewed: Mutex<BTreeMap<String, Timestamp>>,
    /// The last clock offset, and the time of its measurement.
    offset: Mutex<Option<(i64, Timestamp)>>,
    /// Environments of the last recorded lease.
    recorded: Mutex<Option<String>>,
}

/// All valid leases on the engine; a volume with invalid labels is ignored.
pub(crate) async fn list(shared: &Shared) -> Result<Vec<ControllerLease>, ActionError> {
    list_after(shared, None).await
}

/// Lists all valid leases. `written` names the lease that this controller has just written.
async fn list_after(shared: &Shared, written: Option<&str>) -> Result<Vec<ControllerLease>, ActionError> {
    let client = shared.connection.client()?;
    let filters = HashMap::from([("label", vec![LEASE])]);
    let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
    let listed = call::run(Op::List, shared.times.read, client.list_volumes(Some(options))).await?;
    let found: Vec<_> = listed
        .volumes
        .unwrap_or_default()
        .into_iter()
        .filter_map(parse)
        .collect();
    let names: BTreeSet<&str> = found.iter().map(|lease| lease.name.as_str()).collect();
    let known = {
        let mut known = lock(&shared.leases.renewed);
        known.retain(|name, _| names.contains(name.as_str()));
        known.clone()
    };
    let mut unknown = found.iter().filter(|lease| !known.contains_key(&lease.name));
    let offset = match (unknown.next(), unknown.next()) {
        (None, _) => 0,
        // The claim of a new environment does not wait for another measurement.
        (Some(lease), None) if Some(lease.name.as_str()) == written => recent_clock_offset(shared).await?,
        (Some(_), _) => clock_offset(shared).await?,
    };
    let mut renewed = lock(&shared.leases.renewed);
    Ok(found
        .into_iter()
        .map(|lease| {
            let by_our_clock = Timestamp(lease.created_at.0.saturating_sub(offset));
            let renewed_at = *renewed.entry(lease.name.clone()).or_insert(by_our_clock);
            ControllerLease { renewed_at, ..lease }
        })
        .collect())
}

/// Returns the engine's time minus this host's time, in milliseconds.
async fn clock_offset(shared: &Shared) -> Result<i64, ActionError> {
    let client = shared.connection.client()?;
    let before = (shared.now)();
    let info = call::run(Op::Info, shared.times.read, client.info()).await?;
    shared.limits.update(&info);
    let engine_time = info.system_time.as_deref().and_then(Timestamp::parse);
    let Some(theirs) = engine_time else { return Ok(0) };
    // The engine read its clock at some time between the request and the response.
    let now = (shared.now)();
    let ours = before + now.since(before) / 2;
    let offset = theirs.0.saturating_sub(ours.0);
    *lock(&shared.leases.offset) = Some((offset, now));
    Ok(offset)
}

/// Returns the last measured offset. Measures again if it is old.
pub(crate) async fn recent_clock_offset(shared: &Shared) -> Result<i64, ActionError> {
    match last_offset(shared) {
        Some(offset) => Ok(offset),
        None => clock_offset(shared).await,
    }
}

/// Returns the last measured offset, unless it is old.
fn last_offset(shared: &Shared) -> Option<i64> {
    let (offset, measured_at) = (*lock(&shared.leases.offset))?;
    is_recent(measured_at, (shared.now)()).then_some(offset)
}

/// Returns whether a measurement still applies. It does not if the clock was set back since then.
fn is_recent(measured_at: Timestamp, now: Timestamp) -> bool {
    measured_at <= now && now.since(measured_at) < OFFSET_AGE
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the next lease of a run, lists all leases, and removes stale ones.
pub(crate) async fn renew(shared: &Shared, spec: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
    let client = shared.connection.client()?;
    let now = (shared.now)();
    let name = format!("{NAME_PREFIX}{}-{:013}", spec.run, now.0);
    let request = VolumeCreateRequest {
        name: Some(name.clone()),
        driver: Some("local".to_owned()),
        labels: Some(labels_of(spec, now)),
        ..Default::default()
    };
    // A lease that is not renewed in time is dead for other controllers, however slow the engine is.
    let limit = shared.times.write.min(spec.ttl / 3);
    call::run(Op::CreateVolume, limit, client.create_volume(request)).await?;
    record_renewal(shared, &name, spec);
    let mut found = list_after(shared, Some(&name)).await?;
    let now = (shared.now)();
    let stale = |lease: &ControllerLease| {
        let stale_age: Duration = lease.spec.ttl * STALE_AFTER_TTLS;
        let older = lease.spec.run == spec.run && lease.name < name;
        let before = lease.spec.run != spec.run && lease.spec.state_dir == spec.state_dir;
        older || before || now.since(lease.renewed_at) >= stale_age
    };
    for lease in found.iter().filter(|lease| stale(lease)) {
        match remove(shared, &lease.name, limit).await {
            Ok(()) if lease.spec.run != spec.run => {
                shared.record_change(EngineChange::removed(ChangedObject::Lease, &lease.name));
            }
            Ok(()) => {}
            // The next renewal retries a removal that fails now.
            Err(error) => tracing::debug!(lease = lease.name, %error, "cannot remove a stale lease"),
        }
    }
    found.retain(|lease| !stale(lease));
    Ok(found)
}

/// Records a lease with other environments than the last one. A mere renewal every few seconds would fill the journal.
fn record_renewal(shared: &Shared, name: &str, spec: &LeaseSpec) {
    let claims: Vec<&str> = spec.claims.keys().map(EnvName::as_str).collect();
    let claims = claims.join(", ");
    let mut recorded = lock(&shared.leases.recorded);
    if recorded.as_ref() != Some(&claims) {
        shared.record_change(EngineChange::created(ChangedObject::Lease, name).purpose(&claims));
        *recorded = Some(claims);
    }
}

/// Removes every lease of a run.
pub(crate) async fn release(shared: &Shared, run: &str) -> Result<(), ActionError> {
    for lease in list(shared)
        .await?
        .into_iter()
        .filter(|lease| lease.spec.run == run)
    {
        remove(shared, &lease.name, shared.times.write).await?;
    }
    Ok(())
}

async fn remove(shared: &Shared, name: &str, limit: Duration) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let options = RemoveVolumeOptionsBuilder::default().build();
    let call = client.remove_volume(name, Some(options));
    let removed = call::run_accepting(Op::RemoveVolume, limit, call, |error| error.has_status(404));
    removed.await.map(drop)
}

fn labels_of(spec: &LeaseSpec, now: Timestamp) -> HashMap<String, String> {
    let claim = |(env, since): (&EnvName, &Option<Timestamp>)| match since {
        Some(since) => format!("{env}@{}", since.0 / 1000),
        None => env.to_string(),
    };
    let claims: Vec<String> = spec.claims.iter().map(claim).collect();
    let since = spec.since.map(|since| (SINCE, (since.0 / 1000).to_string()));
    [
        (LEASE, spec.run.clone()),
        (RUN_ID, spec.run.clone()),
        (CREATED_AT, now.to_string()),
        (CONTROLLER, spec.controller.clone()),
        (STATE_DIR, spec.state_dir.clone()),
        (HOST, spec.host.clone()),
        (PID, spec.pid.to_string()),
        (PID_NAMESPACE, spec.pid_namespace.clone()),
        (TTL, spec.ttl.as_millis().to_string()),
        (CLAIMS, claims.join(",")),
    ]
    .into_iter()
    .chain(since)
    .chain(spec.specs.clone().map(|specs| (SPECS, specs)))
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

fn parse(volume: Volume) -> Option<ControllerLease> {
    // The name becomes part of a URL when the lease is removed.
    ResourceName::new(volume.name.clone()).ok()?;
    let label = |key: &str| volume.labels.get(key).cloned();
    let made_at = convert_time(volume.created_at)?;
    let second = |text: &str| Some(Timestamp(text.parse::<i64>().ok()?.checked_mul(1000)?));
    let claim = |claim: &str| {
        let (env, since) = claim
            .split_once('@')
            .map_or((claim, None), |(env, since)| (env, Some(since)));
        let since = match since {
            Some(since) => Some(second(since)?),
            None => None,
        };
        Some((EnvName::new(env).ok()?, since))
    };
    Some(ControllerLease {
        spec: LeaseSpec {
            controller: label(CONTROLLER)?,
            run: label(LEASE).filter(|run| !run.is_empty())?,
            state_dir: label(STATE_DIR)?,
            specs: label(SPECS),
            host: label(HOST).unwrap_or_default(),
            pid: label(PID).and_then(|pid| pid.parse().ok()).unwrap_or(0),
            pid_namespace: label(PID_NAMESPACE).unwrap_or_default(),
            ttl: Duration::from_millis(label(TTL)?.parse().ok()?),
            since: label(SINCE).as_deref().and_then(second),
            claims: label(CLAIMS)?.split(',').filter_map(claim).collect(),
        },
        name: volume.name,
        created_at: made_at,
        renewed_at: made_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> LeaseSpec {
        let env = |name| EnvName::new(name).unwrap();
        LeaseSpec {
            controller: "c".into(),
            run: "r".into(),
            state_dir: "p".into(),
            specs: Some("/srv/shop".into()),
            host: "h".into(),
            pid: 7,
            pid_namespace: "b/4".into(),
            ttl: Duration::from_secs(90),
            since: Some(Timestamp(1_600_000_000_000)),
            claims: [
                (env("shop"), Some(Timestamp(1_700_000_000_000))),
                (env("new"), None),
            ]
            .into(),
        }
    }

    #[test]
    fn renewal_is_recorded_only_with_other_environments() {
        let endpoint = crate::Endpoint::Unix("/nowhere/engine.sock".into());
        let docker = crate::Docker::new(endpoint, std::sync::Arc::new(|| Timestamp(0)));
        let recorded = std::sync::Arc::new(Mutex::new(Vec::new()));
        let into = recorded.clone();
        docker.record_changes(Box::new(move |change| lock(&into).push(change)));
        let renew = |name: &str, claims: &[&str]| {
            let claims = claims.iter().map(|name| (EnvName::new(*name).unwrap(), None));
            let spec = LeaseSpec {
                claims: claims.collect(),
                ..spec()
            };
            record_renewal(&docker.shared, name, &spec);
        };
        renew("l1", &[]);
        renew("l2", &[]);
        renew("l3", &["pay", "shop"]);
        renew("l4", &["pay", "shop"]);
        renew("l5", &["pay"]);
        let created = |name, claims| EngineChange::created(ChangedObject::Lease, name).purpose(claims);
        assert_eq!(
            *lock(&recorded),
            [
                created("l1", ""),
                created("l3", "pay, shop"),
                created("l5", "pay")
            ]
        );
    }

    #[test]
    fn a_lease_is_read_back_and_an_incomplete_one_is_ignored() {
        let spec = spec();
        let volume = |labels: HashMap<String, String>| Volume {
            name: "argus-lease-r-1".into(),
            labels,
            created_at: "2026-11-21T15:04:14Z".parse().ok(),
            ..Default::default()
        };
        let lease = parse(volume(labels_of(&spec, Timestamp(0)))).unwrap();
        assert_eq!(lease.spec, spec);
        assert_eq!(lease.created_at.to_string(), "2026-11-21T15:04:14.000Z");
        for key in labels_of(&spec, Timestamp(0)).keys().filter(|key| {
            ![HOST, PID, PID_NAMESPACE, SINCE, RUN_ID, CREATED_AT, SPECS].contains(&key.as_str())
        }) {
            let mut labels = labels_of(&spec, Timestamp(0));
            labels.remove(key);
            assert_eq!(parse(volume(labels)), None, "without {key}");
        }
    }

    #[test]
    fn measured_offset_applies_for_a_minute_of_a_forward_clock() {
        let measured_at = Timestamp(1_700_000_000_000);
        let is_recent_after =
            |milliseconds: i64| is_recent(measured_at, Timestamp(measured_at.0 + milliseconds));
        assert!(is_recent_after(0) && is_recent_after(59_999));
        assert!(!is_recent_after(60_000) && !is_recent_after(-1));
    }
}
