//! Bind mounts of a container, checked right before the engine uses their paths.
//!
//! The engine resolves a path when it starts a container, and again at each further start. So each create and each start checks
//! that the sources have no link and are not an engine's socket. Admission ensures that no container can exchange them
//! after this check ([`argus_core::desired::nested_mounts`]).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::sockets::Sockets;
use argus_backend::host_path::{PathError, resolve_without_links};
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

/// The bind sources of the containers that this process created or started.
#[derive(Debug, Default)]
pub(crate) struct BindMounts {
    by_container: Mutex<HashMap<ContainerId, Vec<PathBuf>>>,
}

impl BindMounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Vec<PathBuf>>> {
        self.by_container.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: &ContainerId, sources: Vec<PathBuf>) {
        let mut all = self.lock();
        if all.len() >= CAPACITY {
            all.clear();
        }
        all.insert(id.clone(), sources);
    }
}

/// Checks the sources of a container that is to be created, and returns them.
///
/// # Errors
/// [`ActionError::BadMount`] when a source is missing, [`ActionError::MountRefused`] when it must not be used.
pub(super) async fn before_create(
    shared: &Shared,
    spec: &ContainerSpec,
) -> Result<Vec<PathBuf>, ActionError> {
    let sources = spec.mounts.iter().filter_map(|mount| match mount {
        Mount::Bind { source, .. } => Some(PathBuf::from(source)),
        Mount::Volume { .. } => None,
    });
    check_sources(shared, sources.collect()).await
}

/// Checks the sources of a container that is to be started.
///
/// # Errors
/// The errors of [`before_create`].
pub(super) async fn before_start(shared: &Shared, id: &ContainerId) -> Result<(), ActionError> {
    let known = shared.bind_mounts.lock().get(id).cloned();
    let sources = match known {
        Some(sources) => sources,
        None => inspect_sources(shared, id).await?,
    };
    check_sources(shared, sources).await.map(drop)
}

async fn check_sources(shared: &Shared, sources: Vec<PathBuf>) -> Result<Vec<PathBuf>, ActionError> {
    if sources.is_empty() {
        return Ok(sources);
    }
    let engine = shared.connection.endpoint().socket().map(ToOwned::to_owned);
    let check = move || {
        let sockets = Sockets::find(engine.as_deref());
        for source in &sources {
            sockets.check(&resolve_without_links(source)?)?;
        }
        Ok(sources)
    };
    match tokio::task::spawn_blocking(check).await {
        Ok(checked) => checked.map_err(|error| mount_error(&error)),
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
        PathError::Outside { .. } | PathError::Link(_) | PathError::Socket(_) => {
            ActionError::MountRefused(error.to_string())
        }
    }
}

/// The bind sources of a container that another process created, as they were requested.
async fn inspect_sources(shared: &Shared, id: &ContainerId) -> Result<Vec<PathBuf>, ActionError> {
    let client = shared.connection.client()?;
    let found = call::run(
        Op::Inspect,
        READ_TIMEOUT,
        client.inspect_container(id.as_str(), None),
    )
    .await?;
    let sources = bind_sources(found.host_config.unwrap_or_default());
    shared.bind_mounts.insert(id, sources.clone());
    Ok(sources)
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
