//! Bind mounts of a container, checked right before the engine uses their paths.
//!
//! The engine resolves a path when it starts a container, and again at each further start. So each create and each start checks
//! that the sources have no link and are not an engine's socket. Admission ensures that no container can exchange them
//! after this check ([`argus_core::desired::nested_mounts`]).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::sockets::Sockets;
use argus_backend::host_path::{PathError, resolve_without_links};
use argus_core::action::ContainerSpec;
use argus_core::desired::InjectedFile;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;

use super::binds::{Binds, folders_above};
use super::container_links as links;
use crate::Shared;
use crate::call;
use crate::error::Op;
use crate::helper;
use crate::similar_file::find_similar;

/// Capacity of the cache. A full cache is cleared; the sources are then read from the engine again.
const CAPACITY: usize = 16 * 1024;
/// Subject of the refusals of targets.
pub(super) const GUARDED: &str = "a mount with a git directory or a state directory";

/// The bind mounts of the containers that this process created or started.
#[derive(Debug, Default)]
pub(crate) struct BindMounts {
    by_container: Mutex<HashMap<ContainerId, Binds>>,
    /// Images with paths that are no links in them. An id is a hash of the content, so this stays true.
    checked_images: Mutex<HashSet<(String, BTreeSet<String>)>>,
}

impl BindMounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Binds>> {
        self.by_container.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: &ContainerId, binds: Binds) {
        let mut all = self.lock();
        if all.len() >= CAPACITY {
            all.clear();
        }
        all.insert(id.clone(), binds);
    }
}

/// Checks the sources of a container that is to be created, and returns its bind mounts.
///
/// # Errors
/// [`ActionError::BadMount`] when a source is missing, [`ActionError::MountRefused`] when it must not be used.
pub(super) async fn before_create(shared: &Shared, spec: &ContainerSpec) -> Result<Binds, ActionError> {
    let binds = Binds::of_spec(spec);
    check_sources(shared, binds.sources()).await?;
    Ok(binds)
}

/// Checks the sources of a container that is to be started, and the targets of one with covers.
///
/// # Errors
/// The errors of [`before_create`], and [`ActionError::MountRefused`] for a target through which a container could write what a cover protects.
pub(super) async fn before_start(shared: &Shared, id: &ContainerId) -> Result<(), ActionError> {
    let mut binds = find_binds(shared, id).await?;
    check_sources(shared, binds.sources()).await?;
    if !binds.has_covers() {
        return Ok(());
    }
    let client = shared.connection.client()?;
    let found = client.inspect_container(id.as_str(), None);
    let found = call::run(Op::Inspect, shared.times.read, found).await?;
    let mounted = found.mounts.unwrap_or_default().into_iter();
    let volumes = mounted.filter(|mount| mount.typ.as_deref() == Some("volume"));
    binds.add_volumes(volumes.filter_map(|mount| mount.destination));
    if let Some((below, volume)) = binds.below_volume() {
        return Err(ActionError::MountRefused(format!(
            "the mount at `{below}` is below the volume at `{volume}`, in which a link could lead {GUARDED} elsewhere"
        )));
    }
    check_no_links(binds.paths_on_host()).await?;
    let places = binds.places_of_moved_cover();
    if places.is_none() {
        // First, because a check of the container makes the missing directories of its mounts, also behind links.
        let declared = found.config.and_then(|config| config.volumes).unwrap_or_default();
        let image = found.image.unwrap_or_default();
        check_image(shared, (image, binds.paths_in_image()), declared).await?;
    }
    for path in binds.paths_in_container() {
        links::check_target(shared, id, &path, GUARDED).await?;
    }
    for path in binds.tmpfs_outside_mounts() {
        links::check_tmpfs(shared, id, path, &binds).await?;
    }
    for place in places.into_iter().flatten() {
        if links::find_target(shared, id, &place).await?.is_some() {
            return Err(ActionError::MountRefused(format!(
                "`{place}` exists in the container, so a link could have led {GUARDED} elsewhere"
            )));
        }
    }
    Ok(())
}

/// Checks that paths are no links in an image without any mount, because a mount can hide the link that moved it.
async fn check_image(
    shared: &Shared,
    checked: (String, BTreeSet<String>),
    volumes: Vec<String>,
) -> Result<(), ActionError> {
    let known = || {
        let images = &shared.bind_mounts.checked_images;
        images.lock().unwrap_or_else(PoisonError::into_inner)
    };
    if known().contains(&checked) {
        return Ok(());
    }
    let id = helper::create_unmounted(shared, &checked.0, volumes).await?;
    let mut result = Ok(());
    for path in &checked.1 {
        result = links::check_target(shared, &id, path, GUARDED).await;
        if result.is_err() {
            break;
        }
    }
    // A later helper removes one that cannot be removed now.
    drop(helper::remove(shared, id.as_str()).await);
    result?;
    let mut known = known();
    if known.len() >= CAPACITY {
        known.clear();
    }
    known.insert(checked);
    Ok(())
}

/// Checks a container that is to receive files as before a start, because the engine mounts the sources meanwhile. It does so without a tmpfs
/// that hides a part of them, and a link in the image could lead a file into such a part.
///
/// # Errors
/// The errors of [`before_start`].
pub(super) async fn before_copy(
    shared: &Shared,
    id: &ContainerId,
    files: &[InjectedFile],
) -> Result<(), ActionError> {
    before_start(shared, id).await?;
    if find_binds(shared, id).await?.sources().is_empty() {
        return Ok(());
    }
    let folders: BTreeSet<String> = files.iter().flat_map(|file| folders_above(&file.path)).collect();
    for folder in folders {
        links::check_target(shared, id, &folder, "a file of a container with a bind mount").await?;
    }
    Ok(())
}

async fn find_binds(shared: &Shared, id: &ContainerId) -> Result<Binds, ActionError> {
    let known = shared.bind_mounts.lock().get(id).cloned();
    match known {
        Some(binds) => Ok(binds),
        None => inspect_binds(shared, id).await,
    }
}

/// Checks that no existing component of these paths on the host is a link.
async fn check_no_links(paths: BTreeSet<PathBuf>) -> Result<(), ActionError> {
    let check = move || {
        let found = paths.iter().map(|path| resolve_without_links(path));
        let mut problems = found.filter_map(Result::err);
        // The engine creates a missing one.
        problems.find(|error| !matches!(error, PathError::Missing(_)))
    };
    match tokio::task::spawn_blocking(check).await {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(mount_error(&error)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
}

async fn check_sources(shared: &Shared, sources: Vec<PathBuf>) -> Result<(), ActionError> {
    if sources.is_empty() {
        return Ok(());
    }
    let engine = shared.connection.endpoint().socket().map(ToOwned::to_owned);
    let check = move || {
        let sockets = Sockets::find(engine.as_deref());
        for source in &sources {
            sockets.check(&resolve_without_links(source)?)?;
        }
        Ok(())
    };
    match tokio::task::spawn_blocking(check).await {
        Ok(checked) => checked.map_err(|error| mount_error(&error)),
        Err(error) => Err(ActionError::MountRefused(error.to_string())),
    }
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
        PathError::TooLong | PathError::Unreadable { .. } => ActionError::BadMount(error.to_string()),
        PathError::Outside { .. } | PathError::Link(_) | PathError::Socket(_) => {
            ActionError::MountRefused(error.to_string())
        }
    }
}

/// The bind mounts of a container that another process created, as they were requested.
async fn inspect_binds(shared: &Shared, id: &ContainerId) -> Result<Binds, ActionError> {
    let client = shared.connection.client()?;
    let found = call::run(
        Op::Inspect,
        shared.times.read,
        client.inspect_container(id.as_str(), None),
    )
    .await?;
    let binds = Binds::of_container(found.host_config.unwrap_or_default());
    shared.bind_mounts.insert(id, binds.clone());
    Ok(binds)
}
