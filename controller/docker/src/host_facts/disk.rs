//! Free space of the file system with the engine's data, measured locally or by a helper container.

use std::path::Path;
use std::time::Duration;

use argus_core::preflight::{DiskFact, Fact, Reclaimable};
use bollard::models::SystemInfo;

use crate::image::build::control;
use crate::{Shared, helper, prune};

/// Free bytes below which the reclaimable space is determined; a free share below one tenth has the same effect.
const LOW_FREE_BYTES: u64 = 4_000_000_000;
/// Deadline of the query for the reclaimable space.
const RECLAIMABLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Measures the free space of the engine's data root. A data root on another host is measured by a helper there.
pub(super) async fn measure(shared: &Shared, info: &SystemInfo) -> Fact<DiskFact> {
    let Some(root) = info.docker_root_dir.clone().filter(|root| !root.is_empty()) else {
        return Fact::unknown("the engine does not report its data root");
    };
    if let Err(why) = check_local(shared, info, &root) {
        return measure_remote(shared, root, why).await;
    }
    let path = root.clone();
    let measured = tokio::task::spawn_blocking(move || rustix::fs::statvfs(path.as_str())).await;
    let found = match measured {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            return Fact::Unknown(format!("cannot read the file system of `{root}`: {error}"));
        }
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let (free, total) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
    let reclaimable = if free < LOW_FREE_BYTES || free < total / 10 {
        tokio::time::timeout(RECLAIMABLE_TIMEOUT, Box::pin(reclaimable(shared)))
            .await
            .unwrap_or_default()
    } else {
        None
    };
    Fact::Known(DiskFact {
        path: root,
        free,
        total,
        free_inodes: (found.f_files > 0).then_some(found.f_favail),
        reclaimable,
    })
}

/// Measures with a helper container: its root file system lies on the engine's data root.
async fn measure_remote(shared: &Shared, root: String, why: String) -> Fact<DiskFact> {
    let command = vec!["probe".to_owned(), "disk".to_owned()];
    let output = match helper::run(shared, helper::HelperNetwork::None, command).await {
        Ok(output) => output,
        Err(error) => {
            return Fact::Unknown(format!("{why}, and the helper container failed: {error}"));
        }
    };
    match serde_json::from_str::<DiskFact>(&output) {
        Ok(disk) => Fact::Known(DiskFact { path: root, ..disk }),
        Err(_) => Fact::Unknown(format!(
            "{why}, and the output of the helper container is not valid"
        )),
    }
}

/// Checks that the engine's path is a path of this host. A socket may be forwarded from another host, and a container
/// has its own paths.
///
/// The error is the reason why it is not.
fn check_local(shared: &Shared, info: &SystemInfo, root: &str) -> Result<(), String> {
    if shared.connection.endpoint().socket().is_none() {
        return Err("the engine is on another host and reports used space, not free space".to_owned());
    }
    let us = rustix::system::uname();
    let same = |theirs: Option<&String>, ours: &std::ffi::CStr| {
        theirs.is_some_and(|theirs| theirs.as_bytes() == ours.to_bytes())
    };
    if !same(info.name.as_ref(), us.nodename()) || !same(info.kernel_version.as_ref(), us.release()) {
        return Err(format!(
            "the engine runs on host `{}`, so its data root is not visible from here",
            info.name.as_deref().unwrap_or_default()
        ));
    }
    if Path::new(root).is_dir() {
        Ok(())
    } else {
        Err(format!("its data root `{root}` is not visible from here"))
    }
}

/// Space that `argus prune` could free.
async fn reclaimable(shared: &Shared) -> Option<Reclaimable> {
    let images = prune::list_built_images(shared).await.ok()?;
    let unused = argus_core::prune::unused_images(&images, &std::collections::BTreeSet::new());
    Some(Reclaimable {
        images: argus_core::prune::freed_bytes(&images, &unused),
        build_cache: control::unused_cache(shared).await.unwrap_or_default(),
    })
}
