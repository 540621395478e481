//! Version and facts that an engine reports about itself.

use std::collections::BTreeMap;

use argus_backend::EngineInfo;
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT};
use crate::error::Op;

/// Fetches version and facts in parallel.
pub(crate) async fn fetch(shared: &Shared) -> Result<EngineInfo, ActionError> {
    let client = shared.connection.client()?;
    let version = call::run(Op::Info, READ_TIMEOUT, client.version());
    let info = call::run(Op::Info, READ_TIMEOUT, client.info());
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
