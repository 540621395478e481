//! Bind mounts of a container, checked right before the engine uses their paths.
//!
//! The engine resolves a path when it starts a container, and again at each further start. So each create and each start checks
//! that the sources have no link and are not an engine's socket. Admission ensures that no container can exchange them
//! after this check ([`argus_core::desired::nested_mounts`]).

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::sockets::Sockets;
use argus_backend::host_path::{PathError, resolve_without_links};
use argus_core::action::ContainerSpec;
use argus_core::desired::{InjectedFile, Mount, closest};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::models;
use bollard::query_parameters::ContainerArchiveInfoOptionsBuilder;

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
    by_container: Mutex<HashMap<ContainerId, Binds>>,
}

/// The bind mounts of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Binds {
    sources: Vec<PathBuf>,
    /// Targets of covered mounts, and those below them.
    covered: BTreeSet<String>,
}

impl Binds {
    /// Reads sources with their targets, and the targets of volumes and tmpfs mounts.
    fn of(binds: &[(String, String)], volumes: &[String], tmpfs: &[String]) -> Self {
        let below = |path: &str, root: &str| {
            let rest = path.strip_prefix(root.trim_end_matches('/'));
            rest.filter(|rest| rest.starts_with('/')).map(str::to_owned)
        };
        // A cover mounts a part of the source at the same place below the target, or hides it with a tmpfs.
        let is_covered = |(source, target): &&(String, String)| {
            let same_part = |(from, to): &(String, String)| {
                below(to, target).is_some_and(|rest| below(from, source) == Some(rest))
            };
            binds.iter().any(same_part) || tmpfs.iter().any(|hidden| below(hidden, target).is_some())
        };
        let roots: Vec<&String> = binds
            .iter()
            .filter(is_covered)
            .map(|(_, target)| target)
            .collect();
        let targets = binds.iter().map(|(_, target)| target).chain(volumes).chain(tmpfs);
        let is_in = |target: &&String| {
            roots
                .iter()
                .any(|root| *root == *target || below(target, root).is_some())
        };
        Self {
            covered: targets.filter(is_in).cloned().collect(),
            sources: binds.iter().map(|(source, _)| PathBuf::from(source)).collect(),
        }
    }

    /// Returns the paths in the container that must not be links: each target that matters, and each directory above it.
    fn paths_without_links(&self) -> BTreeSet<String> {
        let above = self.covered.iter().flat_map(|target| folders_above(target));
        above.chain(self.covered.iter().cloned()).collect()
    }
}

/// Directories above a path, without the root.
fn folders_above(path: &str) -> impl Iterator<Item = String> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.filter(|end| *end > 0).map(|end| path[..end].to_owned())
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
    let (mut binds, mut volumes) = (Vec::new(), Vec::new());
    for mount in &spec.mounts {
        match mount {
            Mount::Bind { source, target, .. } => binds.push((source.clone(), target.clone())),
            Mount::Volume { target, .. } => volumes.push(target.clone()),
        }
    }
    let tmpfs: Vec<String> = spec.tmpfs.iter().map(|entry| tmpfs_target(entry)).collect();
    let binds = Binds::of(&binds, &volumes, &tmpfs);
    check_sources(shared, binds.sources.clone()).await?;
    Ok(binds)
}

/// Checks the sources of a container that is to be started. If a target of a covered mount leads through a link, such as one in the image,
/// another container could exchange a directory while the engine mounts the covers.
///
/// # Errors
/// The errors of [`before_create`], and [`ActionError::MountRefused`] for such a link.
pub(super) async fn before_start(shared: &Shared, id: &ContainerId) -> Result<(), ActionError> {
    let binds = find_binds(shared, id).await?;
    let paths = binds.paths_without_links();
    check_sources(shared, binds.sources).await?;
    let use_of_path = "a mount with a git directory or a state directory";
    for path in paths {
        check_target(shared, id, &path, use_of_path).await?;
    }
    Ok(())
}

/// Checks a container that is to receive files. The engine mounts the sources meanwhile, without a tmpfs that hides a part of them. A link in
/// the image could lead a file into such a part.
///
/// # Errors
/// The errors of [`before_start`].
pub(super) async fn before_copy(
    shared: &Shared,
    id: &ContainerId,
    files: &[InjectedFile],
) -> Result<(), ActionError> {
    let binds = find_binds(shared, id).await?;
    if binds.sources.is_empty() {
        return Ok(());
    }
    check_sources(shared, binds.sources).await?;
    let folders: BTreeSet<String> = files.iter().flat_map(|file| folders_above(&file.path)).collect();
    for folder in folders {
        check_target(shared, id, &folder, "a file of a container with a bind mount").await?;
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

/// Checks that a path in a container is not a link. The engine creates a missing one.
async fn check_target(
    shared: &Shared,
    id: &ContainerId,
    path: &str,
    use_of_path: &str,
) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let options = ContainerArchiveInfoOptionsBuilder::default().path(path).build();
    let call = client.get_container_archive_info(id.as_str(), Some(options));
    match call::run_raw(Op::Inspect, READ_TIMEOUT, call).await {
        Ok(found) if found.link_target.is_empty() => Ok(()),
        Ok(_) => Err(ActionError::MountRefused(format!(
            "the path `{path}` in the container is a link, and {use_of_path} needs a path without links"
        ))),
        Err(error) if error.has_status(404) => Ok(()),
        Err(error) => Err(error.classify(Op::Inspect)),
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

/// The bind mounts of a container that another process created, as they were requested.
async fn inspect_binds(shared: &Shared, id: &ContainerId) -> Result<Binds, ActionError> {
    let client = shared.connection.client()?;
    let found = call::run(
        Op::Inspect,
        READ_TIMEOUT,
        client.inspect_container(id.as_str(), None),
    )
    .await?;
    let binds = read_binds(found.host_config.unwrap_or_default());
    shared.bind_mounts.insert(id, binds.clone());
    Ok(binds)
}

fn read_binds(host: models::HostConfig) -> Binds {
    let mounts = host.mounts.unwrap_or_default().into_iter();
    let mounts = mounts.filter_map(|mount| {
        let is_bind = mount.typ == Some(models::MountType::BIND);
        Some((is_bind, mount.source.unwrap_or_default(), mount.target?))
    });
    let texts = host.binds.unwrap_or_default().into_iter();
    let texts = texts.filter_map(|text| {
        let mut parts = text.splitn(3, ':');
        let (source, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some((source.starts_with('/'), source, target))
    });
    let (binds, volumes): (Vec<_>, Vec<_>) = mounts.chain(texts).partition(|(is_bind, ..)| *is_bind);
    let binds: Vec<_> = binds
        .into_iter()
        .map(|(_, source, target)| (source, target))
        .collect();
    let volumes: Vec<_> = volumes.into_iter().map(|(.., target)| target).collect();
    let tmpfs: Vec<String> = host.tmpfs.unwrap_or_default().into_keys().collect();
    Binds::of(&binds, &volumes, &tmpfs)
}

/// Path of a tmpfs mount, as `/path` or `/path:options`.
fn tmpfs_target(entry: &str) -> String {
    entry.split_once(':').map_or(entry, |(path, _)| path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_of_a_container_are_read_in_both_forms() {
        let mount = |typ, source: &str| models::Mount {
            typ: Some(typ),
            source: Some(source.to_owned()),
            target: Some(format!("/at{source}")),
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
        let binds = read_binds(host);
        assert_eq!(binds.sources, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(binds.paths_without_links(), BTreeSet::new());
    }

    #[test]
    fn targets_of_covered_mounts_need_paths_without_links() {
        let bind = |source: &str, target: &str| (source.to_owned(), target.to_owned());
        let binds = [
            bind("/p", "/srv/app"),
            bind("/p/.git", "/srv/app/.git"),
            bind("/p", "/other"),
            bind("/q/x", "/other/y"),
        ];
        let volumes = ["/srv/app/node_modules".to_owned(), "/data".to_owned()];
        let paths = Binds::of(&binds, &volumes, &[]).paths_without_links();
        let expected = ["/srv", "/srv/app", "/srv/app/.git", "/srv/app/node_modules"];
        assert_eq!(paths, expected.map(str::to_owned).into());
        let hidden = ["/other/.argus", "/run/x"].map(|entry| tmpfs_target(&format!("{entry}:ro")));
        let paths = Binds::of(&binds[2..], &[], &hidden).paths_without_links();
        let expected = ["/other", "/other/.argus", "/other/y"];
        assert_eq!(paths, expected.map(str::to_owned).into());
    }
}
