//! The file system under an engine's data, where it can be seen from here.

use std::path::Path;
use std::time::Duration;

use argus_core::preflight::{Disk, Observation, Reclaimable};
use bollard::models::{SystemInfo, SystemVersion};

use crate::{Shared, helper, prune};

/// With less than this, or less than a tenth, it is worth knowing what could be had back.
const LITTLE: u64 = 4_000_000_000;
/// To know what could be had back is not worth waiting longer for.
const RECLAIMABLE: Duration = Duration::from_secs(2);

/// Looks at the engine's data root. A root that is not this host's is not known: its usage says nothing of what is free.
pub(super) async fn measure(
    shared: &Shared,
    info: &SystemInfo,
    version: &SystemVersion,
) -> Observation<Disk> {
    let Some(root) = info.docker_root_dir.clone().filter(|root| !root.is_empty()) else {
        return Observation::unknown("the engine does not tell its data root");
    };
    if let Err(why) = is_here(shared, info, &root) {
        return measure_remote(shared, root, why).await;
    }
    let path = root.clone();
    let asked = tokio::task::spawn_blocking(move || rustix::fs::statvfs(path.as_str())).await;
    let found = match asked {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Observation::Unknown(format!("`{root}` cannot be looked at: {error}")),
        Err(error) => return Observation::Unknown(error.to_string()),
    };
    let (free, total) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
    let reclaimable = if free < LITTLE || free < total / 10 {
        tokio::time::timeout(RECLAIMABLE, Box::pin(reclaimable(shared, version)))
            .await
            .unwrap_or_default()
    } else {
        None
    };
    Observation::Known(Disk {
        path: root,
        free,
        total,
        files_free: (found.f_files > 0).then_some(found.f_favail),
        reclaimable,
    })
}

/// A container's root lies on the data root: what a helper sees there is what is free.
async fn measure_remote(shared: &Shared, root: String, why: String) -> Observation<Disk> {
    let question = vec!["probe".to_owned(), "disk".to_owned()];
    let said = match helper::run(shared, helper::From::Nowhere, question).await {
        Ok(said) => said,
        Err(error) => {
            return Observation::Unknown(format!("{why}, and a helper there does not tell: {error}"));
        }
    };
    match serde_json::from_str::<Disk>(&said) {
        Ok(seen) => Observation::Known(Disk { path: root, ..seen }),
        Err(_) => Observation::Unknown(format!("{why}, and a helper there said nothing of use")),
    }
}

/// Whether the path that the engine names is a path of this host: a socket may come from elsewhere, and a container has
/// paths of its own.
fn is_here(shared: &Shared, info: &SystemInfo, root: &str) -> Result<(), String> {
    if shared.connection.endpoint().socket().is_none() {
        return Err(
            "the engine is on another host, which tells what it uses and not what is free".to_owned(),
        );
    }
    let us = rustix::system::uname();
    let same = |theirs: Option<&String>, ours: &std::ffi::CStr| {
        theirs.is_some_and(|theirs| theirs.as_bytes() == ours.to_bytes())
    };
    if !same(info.name.as_ref(), us.nodename()) || !same(info.kernel_version.as_ref(), us.release()) {
        return Err(format!(
            "the engine runs as `{}` and not here, so that its data root cannot be seen",
            info.name.as_deref().unwrap_or_default()
        ));
    }
    if Path::new(root).is_dir() {
        Ok(())
    } else {
        Err(format!("its data root `{root}` cannot be seen from here"))
    }
}

/// What `argus prune` could give back; without the builder's cache on engines that count all they have to tell it.
async fn reclaimable(shared: &Shared, version: &SystemVersion) -> Option<Reclaimable> {
    let images = prune::built(shared).await.ok()?;
    let counts_all = version.api_version.as_deref().is_none_or(|api| {
        let minor = api
            .split_once('.')
            .and_then(|(_, minor)| minor.parse::<u32>().ok());
        minor.is_none_or(|minor| minor < 42)
    });
    let build_cache = if counts_all {
        0
    } else {
        prune::build_cache(shared).await.unwrap_or_default()
    };
    let dead = argus_core::prune::dead(&images, &std::collections::BTreeSet::new());
    Some(Reclaimable {
        images: argus_core::prune::bytes(&images, &dead),
        build_cache,
    })
}
