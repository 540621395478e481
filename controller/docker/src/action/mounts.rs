//! Bind mounts of a container, checked right before and right after the engine uses their paths.
//!
//! The engine resolves a path when it starts a container, and again at each further start. So each create and each
//! start observes the sources ([`MountGuard`]). A container whose source was replaced during the call is removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::guard::MountGuard;
use argus_backend::host_path::{FileId, PathError};
use argus_core::action::ContainerSpec;
use argus_core::desired::{Mount, closest};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::models;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT};
use crate::error::Op;

/// Capacity of the cache. A full cache is cleared; the sources are then read from the engine again.
const CAPACITY: usize = 16 * 1024;
/// Maximum number of files that are compared with a missing one.
const MAX_NEIGHBOURS: usize = 1_000;

/// The bind mounts of the containers that this process created or started.
#[derive(Debug, Default)]
pub(crate) struct BindMounts {
    by_container: Mutex<HashMap<ContainerId, RecordedMounts>>,
}

/// The bind mounts of one container.
#[derive(Debug, Clone, Default)]
struct RecordedMounts {
    sources: Vec<PathBuf>,
    /// Identities of the sources at the create; empty once the container was started.
    created_with: Vec<Option<FileId>>,
}

impl BindMounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, RecordedMounts>> {
        self.by_container.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, id: &ContainerId, mounts: RecordedMounts) {
        let mut all = self.lock();
        if all.len() >= CAPACITY {
            all.clear();
        }
        all.insert(id.clone(), mounts);
    }
}

/// Sources under observation, for one call on the engine.
pub(super) struct SourceGuard(Option<MountGuard>);

/// Resolves the sources of a container that is to be created.
///
/// # Errors
/// [`ActionError::BadMount`] when a source is missing, [`ActionError::MountRefused`] when it must not be used.
pub(super) async fn before_create(shared: &Shared, spec: &ContainerSpec) -> Result<SourceGuard, ActionError> {
    let sources = spec.mounts.iter().filter_map(|mount| match mount {
        Mount::Bind { source, .. } => Some(PathBuf::from(source)),
        Mount::Volume { .. } => None,
    });
    guard_sources(shared, sources.collect()).await
}

/// Checks a created container. One that is refused has to be removed.
///
/// # Errors
/// A source was replaced since [`before_create`].
pub(super) async fn after_create(
    shared: &Shared,
    id: &ContainerId,
    guard: SourceGuard,
) -> Result<(), ActionError> {
    let mounts = RecordedMounts {
        sources: guard.0.as_ref().map_or_else(Vec::new, MountGuard::sources),
        created_with: guard.0.as_ref().map_or_else(Vec::new, MountGuard::identities),
    };
    shared.bind_mounts.insert(id, mounts);
    verify(guard).await
}

/// Resolves the sources of a container that is to be started.
///
/// # Errors
/// The errors of [`before_create`]. The second value is true if the container has never run and must be removed.
pub(super) async fn before_start(
    shared: &Shared,
    id: &ContainerId,
) -> Result<SourceGuard, (ActionError, bool)> {
    let recorded = shared.bind_mounts.lock().get(id).cloned();
    let mounts = match recorded {
        Some(mounts) => mounts,
        None => inspect_mounts(shared, id).await.map_err(|error| (error, false))?,
    };
    let never_started = !mounts.created_with.is_empty();
    let first = mounts.sources.first().cloned();
    let guard = guard_sources(shared, mounts.sources)
        .await
        .map_err(|error| (error, never_started))?;
    if let (Some(guard), Some(first)) = (&guard.0, first)
        && never_started
        && guard.identities() != mounts.created_with
    {
        return Err((mount_error(&PathError::Changed(first)), true));
    }
    Ok(guard)
}

/// Checks a started container. One that is refused has to be removed.
///
/// # Errors
/// A source was replaced since [`before_start`].
pub(super) async fn after_start(
    shared: &Shared,
    id: &ContainerId,
    guard: SourceGuard,
) -> Result<(), ActionError> {
    verify(guard).await?;
    if let Some(mounts) = shared.bind_mounts.lock().get_mut(id) {
        mounts.created_with.clear();
    }
    Ok(())
}

async fn guard_sources(shared: &Shared, sources: Vec<PathBuf>) -> Result<SourceGuard, ActionError> {
    if sources.is_empty() {
        return Ok(SourceGuard(None));
    }
    let engine = shared.connection.endpoint().socket().map(ToOwned::to_owned);
    let watch = move || MountGuard::watch(&sources, engine.as_deref());
    match tokio::task::spawn_blocking(watch).await {
        Ok(Ok(guard)) => Ok(SourceGuard(Some(guard))),
        Ok(Err(error)) => Err(mount_error(&error)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
}

async fn verify(guard: SourceGuard) -> Result<(), ActionError> {
    let Some(mut guard) = guard.0 else { return Ok(()) };
    match tokio::task::spawn_blocking(move || guard.verify()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(mount_error(&error)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
}

/// Returns the file next to a missing one whose name differs only by a typing error.
fn find_similar(path: &Path) -> Option<String> {
    let names = std::fs::read_dir(path.parent()?)
        .ok()?
        .take(MAX_NEIGHBOURS)
        .filter_map(Result::ok);
    let names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    closest(path.file_name()?.to_str()?, names.iter().map(String::as_str)).map(str::to_owned)
}

fn mount_error(error: &PathError) -> ActionError {
    match error {
        PathError::Missing(path) => {
            let error = ActionError::BadMount(error.to_string());
            match find_similar(path) {
                Some(similar) => error.with_similar(&similar),
                None => error,
            }
        }
        PathError::Unreadable { .. } => ActionError::BadMount(error.to_string()),
        PathError::Outside { .. } | PathError::Link(_) | PathError::Socket(_) | PathError::Changed(_) => {
            ActionError::MountRefused(error.to_string())
        }
    }
}

/// The bind mounts of a container that another process created, as they were requested.
async fn inspect_mounts(shared: &Shared, id: &ContainerId) -> Result<RecordedMounts, ActionError> {
    let client = shared.connection.client()?;
    let found = call::run(
        Op::Inspect,
        READ_TIMEOUT,
        client.inspect_container(id.as_str(), None),
    )
    .await?;
    let host = found.host_config.unwrap_or_default();
    let mounts = RecordedMounts {
        sources: bind_sources(host),
        created_with: Vec::new(),
    };
    shared.bind_mounts.insert(id, mounts.clone());
    Ok(mounts)
}

fn bind_sources(host: models::HostConfig) -> Vec<PathBuf> {
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
        assert_eq!(bind_sources(host), [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}
