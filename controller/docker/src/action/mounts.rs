//! Bind mounts of a container, checked right before and right after the engine uses their paths.
//!
//! The engine resolves a path when it starts a container, and again at each further start. So each create and each
//! start observes the sources ([`Guard`]). A container whose source was replaced during the call is removed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::guard::Guard;
use argus_backend::host_path::{Identity, Refusal};
use argus_core::desired::Mount;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_core::plan::ContainerSpec;
use bollard::models;

use crate::Shared;
use crate::call::{self, READ};
use crate::error::Op;

/// Capacity of the cache. A full cache is cleared; the sources are then read from the engine again.
const KEPT: usize = 16 * 1024;

/// The bind mounts of the containers that this process created or started.
#[derive(Debug, Default)]
pub(crate) struct Binds {
    known: Mutex<HashMap<ContainerId, Known>>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    sources: Vec<PathBuf>,
    /// Identities of the sources at the create; empty once the container was started.
    created_with: Vec<Option<Identity>>,
}

impl Binds {
    fn known(&self) -> MutexGuard<'_, HashMap<ContainerId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, id: &ContainerId, known: Known) {
        let mut all = self.known();
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(id.clone(), known);
    }
}

/// Sources under observation, for one call on the engine.
pub(super) struct Held(Option<Guard>);

/// Resolves the sources of a container that is to be created.
///
/// # Errors
/// [`ActionError::BadMount`] when a source is missing, [`ActionError::MountRefused`] when it must not be used.
pub(super) async fn before_create(shared: &Shared, spec: &ContainerSpec) -> Result<Held, ActionError> {
    let sources = spec.mounts.iter().filter_map(|mount| match mount {
        Mount::Bind { source, .. } => Some(PathBuf::from(source)),
        Mount::Volume { .. } => None,
    });
    hold(shared, sources.collect()).await
}

/// Checks a created container. One that is refused has to be removed.
///
/// # Errors
/// A source was replaced since [`before_create`].
pub(super) async fn after_create(shared: &Shared, id: &ContainerId, held: Held) -> Result<(), ActionError> {
    let known = Known {
        sources: held.0.as_ref().map_or_else(Vec::new, Guard::sources),
        created_with: held.0.as_ref().map_or_else(Vec::new, Guard::identities),
    };
    shared.binds.learn(id, known);
    verify(held).await
}

/// Resolves the sources of a container that is to be started.
///
/// # Errors
/// As [`before_create`]; the second value says that the container has never run and has to be removed.
pub(super) async fn before_start(shared: &Shared, id: &ContainerId) -> Result<Held, (ActionError, bool)> {
    let known = shared.binds.known().get(id).cloned();
    let known = match known {
        Some(known) => known,
        None => requested_binds(shared, id)
            .await
            .map_err(|error| (error, false))?,
    };
    let fresh = !known.created_with.is_empty();
    let first = known.sources.first().cloned();
    let held = hold(shared, known.sources)
        .await
        .map_err(|error| (error, fresh))?;
    if let (Some(guard), Some(first)) = (&held.0, first)
        && fresh
        && guard.identities() != known.created_with
    {
        return Err((refused(&Refusal::Changed(first)), true));
    }
    Ok(held)
}

/// Checks a started container. One that is refused has to be removed.
///
/// # Errors
/// A source was replaced since [`before_start`].
pub(super) async fn after_start(shared: &Shared, id: &ContainerId, held: Held) -> Result<(), ActionError> {
    verify(held).await?;
    if let Some(known) = shared.binds.known().get_mut(id) {
        known.created_with.clear();
    }
    Ok(())
}

async fn hold(shared: &Shared, sources: Vec<PathBuf>) -> Result<Held, ActionError> {
    if sources.is_empty() {
        return Ok(Held(None));
    }
    let engine = shared.connection.endpoint().socket().map(ToOwned::to_owned);
    let hold = move || Guard::hold(&sources, engine.as_deref());
    match tokio::task::spawn_blocking(hold).await {
        Ok(Ok(guard)) => Ok(Held(Some(guard))),
        Ok(Err(refusal)) => Err(refused(&refusal)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
}

async fn verify(held: Held) -> Result<(), ActionError> {
    let Some(mut guard) = held.0 else { return Ok(()) };
    match tokio::task::spawn_blocking(move || guard.verify()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refusal)) => Err(refused(&refusal)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
}

fn refused(refusal: &Refusal) -> ActionError {
    match refusal {
        Refusal::Missing(_) | Refusal::Unreadable { .. } => ActionError::BadMount(refusal.to_string()),
        Refusal::Outside { .. } | Refusal::Link(_) | Refusal::Socket(_) | Refusal::Changed(_) => {
            ActionError::MountRefused(refusal.to_string())
        }
    }
}

/// The bind mounts of a container that another process created, as they were requested.
async fn requested_binds(shared: &Shared, id: &ContainerId) -> Result<Known, ActionError> {
    let client = shared.connection.client()?;
    let found = call::within(Op::Inspect, READ, client.inspect_container(id.as_str(), None)).await?;
    let host = found.host_config.unwrap_or_default();
    let known = Known {
        sources: sources(host),
        created_with: Vec::new(),
    };
    shared.binds.learn(id, known.clone());
    Ok(known)
}

fn sources(host: models::HostConfig) -> Vec<PathBuf> {
    let mounts = host.mounts.unwrap_or_default().into_iter();
    let mounts = mounts.filter(|mount| mount.typ == Some(models::MountType::BIND));
    let mounts = mounts.filter_map(|mount| mount.source);
    let binds = host.binds.unwrap_or_default().into_iter();
    let binds = binds.filter_map(|bind| Some(bind.split_once(':')?.0.to_owned()));
    mounts
        .chain(binds.filter(|source| source.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_of_a_container_are_read_in_both_forms() {
        let mount = |typ, source: &str| models::Mount {
            typ: Some(typ),
            source: Some(source.to_owned()),
            ..Default::default()
        };
        let host = models::HostConfig {
            mounts: Some(vec![
                mount(models::MountType::BIND, "/a"),
                mount(models::MountType::VOLUME, "named"),
            ]),
            binds: Some(vec!["/b:/x:ro".to_owned(), "named:/y".to_owned()]),
            ..Default::default()
        };
        assert_eq!(sources(host), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}
