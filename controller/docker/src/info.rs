//! What an engine says of itself.

use std::collections::BTreeMap;

use argus_backend::EngineInfo;
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::call::{self, READ};
use crate::error::Op;

/// Asks for version and facts, both at once.
pub(crate) async fn ask(shared: &Shared) -> Result<EngineInfo, ActionError> {
    let client = shared.connection.client()?;
    let version = call::within(Op::About, READ, client.version());
    let info = call::within(Op::About, READ, client.info());
    let (version, info) = futures::try_join!(version, info)?;
    let mut facts = BTreeMap::new();
    let mut note = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(key.to_owned(), value);
        }
    };
    note("name", info.name);
    note("os", info.operating_system);
    note("architecture", info.architecture);
    note("kernel", info.kernel_version);
    note("storageDriver", info.driver);
    note(
        "cgroupVersion",
        info.cgroup_version.map(|version| version.to_string()),
    );
    note(
        "cgroupDriver",
        info.cgroup_driver.map(|driver| driver.to_string()),
    );
    note("liveRestore", info.live_restore_enabled.map(|on| on.to_string()));
    note("cpus", info.ncpu.map(|cpus| cpus.to_string()));
    note("memoryBytes", info.mem_total.map(|bytes| bytes.to_string()));
    note("containers", info.containers.map(|count| count.to_string()));
    note("images", info.images.map(|count| count.to_string()));
    note("minApiVersion", version.min_api_version);
    note("warnings", info.warnings.map(|warnings| warnings.join("; ")));
    Ok(EngineInfo {
        version: version.version.unwrap_or_default(),
        api_version: version.api_version.unwrap_or_default(),
        data_root: info.docker_root_dir.unwrap_or_default(),
        endpoint: shared.connection.endpoint().to_string(),
        facts,
    })
}
