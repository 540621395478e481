//! Links in a container that does not run.

use std::future::ready;
use std::io;

use argus_core::desired::KERNEL_FOLDERS;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::query_parameters::{ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder};
use futures::TryStreamExt as _;

use super::binds::Binds;
use super::mounts::GUARDED;
use crate::Shared;
use crate::call;
use crate::error::Op;

/// Maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;
/// Maximum size of the archive of one link, in bytes: three headers, and a target of 4,096 bytes.
const MAX_ARCHIVE: usize = 16 * 1024;

/// Checks that a path in a container is not a link. The engine creates a missing one.
pub(super) async fn check_target(
    shared: &Shared,
    id: &ContainerId,
    path: &str,
    use_of_path: &str,
) -> Result<(), ActionError> {
    match find_target(shared, id, path).await? {
        Some(link) if !link.is_empty() => Err(ActionError::MountRefused(format!(
            "the path `{path}` in the container is a link, and {use_of_path} needs a path without links"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Returns the target of a link in a container; empty for anything else, `None` if nothing is at the path.
pub(super) async fn find_target(
    shared: &Shared,
    id: &ContainerId,
    path: &str,
) -> Result<Option<String>, ActionError> {
    let client = shared.connection.client()?;
    let options = ContainerArchiveInfoOptionsBuilder::default().path(path).build();
    let call = client.get_container_archive_info(id.as_str(), Some(options));
    match call::run_raw(Op::Inspect, shared.times.read, call).await {
        Ok(found) => Ok(Some(found.link_target)),
        Err(error) if error.has_status(404) => Ok(None),
        Err(error) => Err(error.classify(Op::Inspect)),
    }
}

/// Checks that no link leads a tmpfs into a mount of the container, where the engine would make a directory. It follows one link after the
/// other, because [`find_target`] leaves out the steps between, and another mount can replace them. The links of the kernel exist only
/// while the engine mounts.
pub(super) async fn check_tmpfs(
    shared: &Shared,
    id: &ContainerId,
    path: &str,
    binds: &Binds,
) -> Result<(), ActionError> {
    let refused = |problem: &str| {
        ActionError::MountRefused(format!("the path `{path}` of a tmpfs in the container {problem}"))
    };
    let mut rest: Vec<String> = parts(path).collect();
    let (mut at, mut links) = (String::new(), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            at.truncate(at.rfind('/').unwrap_or(0));
            continue;
        }
        let next = format!("{at}/{part}");
        if links > 0 && KERNEL_FOLDERS.contains(&next.as_str()) {
            return Err(refused(&format!(
                "has a link that leads to `{next}`, next to {GUARDED}"
            )));
        }
        if binds.is_filled(&next) {
            let problem = format!("has a link that leads into the mount at `{next}`, next to {GUARDED}");
            return Err(refused(&problem));
        }
        let Some(text) = read_link(shared, id, &next).await? else {
            at = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(refused("has too many links"));
        }
        if text.starts_with('/') {
            at.clear();
        }
        rest.extend(parts(&text));
    }
    Ok(())
}

/// Parts of a path, the last one first.
fn parts(path: &str) -> impl Iterator<Item = String> {
    let parts = path.split('/').rev();
    parts
        .filter(|part| !part.is_empty() && *part != ".")
        .map(str::to_owned)
}

/// Returns the text of a link in a container; `None` for anything else.
async fn read_link(shared: &Shared, id: &ContainerId, path: &str) -> Result<Option<String>, ActionError> {
    if find_target(shared, id, path)
        .await?
        .is_none_or(|target| target.is_empty())
    {
        return Ok(None);
    }
    let client = shared.connection.client()?;
    let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
    let archive = client.download_from_container(id.as_str(), Some(options));
    let read = archive.try_fold(Vec::new(), |mut read, part| {
        let left = MAX_ARCHIVE.saturating_sub(read.len());
        read.extend(part.into_iter().take(left));
        ready(Ok(read))
    });
    let archive = call::run(Op::Inspect, shared.times.read, read).await?;
    let unreadable =
        |_| ActionError::MountRefused(format!("the link `{path}` in the container cannot be read"));
    let text = link_text(&archive).map_err(unreadable)?;
    Ok(Some(text))
}

/// Target of the link in an archive.
fn link_text(archive: &[u8]) -> io::Result<String> {
    let mut archive = tar::Archive::new(archive);
    let entry = archive.entries()?.next().transpose()?;
    let target = entry.and_then(|entry| Some(entry.link_name_bytes()?.into_owned()));
    let target = target.ok_or(io::ErrorKind::InvalidData)?;
    String::from_utf8(target).map_err(io::Error::other)
}
