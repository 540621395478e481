//! Version, facts and limits that an engine reports about itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use argus_backend::EngineInfo;
use argus_core::observed::Container;
use argus_core::outcome::ActionError;
use bollard::models::SystemInfo;

use crate::Shared;
use crate::call;
use crate::error::Op;

/// Limits that the engine enforces, taken from the engine info that other queries fetch anyway. An engine drops a limit that it cannot
/// enforce without an error.
#[derive(Debug, Default)]
pub(crate) struct EffectiveLimits {
    pids: AtomicBool,
}

impl EffectiveLimits {
    /// Stores the limits that the engine reports.
    pub(crate) fn update(&self, info: &SystemInfo) {
        self.pids.store(info.pids_limit == Some(true), Ordering::Relaxed);
    }

    /// Sets a missing PID limit to 0 (unlimited) when the engine enforces PID limits. Otherwise the limit stays unknown.
    pub(crate) fn complete(&self, container: &mut Container) {
        if let Some(info) = &mut container.inspect
            && self.pids.load(Ordering::Relaxed)
        {
            info.config.pids_limit.get_or_insert(0);
        }
    }
}

/// Fetches version and facts in parallel.
pub(crate) async fn fetch(shared: &Shared) -> Result<EngineInfo, ActionError> {
    let client = shared.connection.client()?;
    let version = call::run(Op::Info, shared.times.read, client.version());
    let info = call::run(Op::Info, shared.times.read, client.info());
    let (version, info) = futures::try_join!(version, info)?;
    let mut facts = BTreeMap::new();
    let mut add_fact = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(key.to_owned(), value);
        }
    };
    add_fact("name", info.name);
    add_fact("os", info.operating_system);
    add_fact("architecture", info.architecture);
    add_fact("kernel", info.kernel_version);
    add_fact("storageDriver", info.driver);
    add_fact(
        "cgroupVersion",
        info.cgroup_version.map(|version| version.to_string()),
    );
    add_fact(
        "cgroupDriver",
        info.cgroup_driver.map(|driver| driver.to_string()),
    );
    add_fact("liveRestore", info.live_restore_enabled.map(|on| on.to_string()));
    add_fact("cpus", info.ncpu.map(|cpus| cpus.to_string()));
    add_fact("memoryBytes", info.mem_total.map(|bytes| bytes.to_string()));
    add_fact("containers", info.containers.map(|count| count.to_string()));
    add_fact("images", info.images.map(|count| count.to_string()));
    add_fact("minApiVersion", version.min_api_version);
    add_fact("warnings", info.warnings.map(|warnings| warnings.join("; ")));
    Ok(EngineInfo {
        version: version.version.unwrap_or_default(),
        api_version: version.api_version.unwrap_or_default(),
        data_root: info.docker_root_dir.unwrap_or_default(),
        endpoint: shared.connection.endpoint().to_string(),
        facts,
    })
}
