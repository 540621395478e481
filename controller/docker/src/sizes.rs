//! Disk usage of single containers and of all volumes. The engine measures it at each request.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::ContainerId;
use bollard::query_parameters::InspectContainerOptionsBuilder;
use serde_json::Value;

use crate::call::{self, READ_TIMEOUT};
use crate::error::Op;
use crate::{Shared, raw_http};

/// Maximum time for the measurement of all volumes.
const VOLUMES_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that the container wrote to its own layer; `None` if the engine does not report them.
pub(crate) async fn of_container(shared: &Shared, id: &ContainerId) -> Option<u64> {
    let client = shared.connection.client().ok()?;
    let options = InspectContainerOptionsBuilder::default().size(true).build();
    let inspect = client.inspect_container(id.as_str(), Some(options));
    let found = call::run(Op::Inspect, READ_TIMEOUT, inspect).await.ok()?;
    found.size_rw.and_then(|bytes| u64::try_from(bytes).ok())
}

/// Bytes of each volume, by name; empty if the engine does not report them.
pub(crate) async fn of_volumes(shared: &Shared) -> BTreeMap<String, u64> {
    let usage = raw_http::get(shared.connection.endpoint(), "/system/df?type=volume");
    let usage = tokio::time::timeout(VOLUMES_TIMEOUT, usage).await;
    match usage {
        Ok(Ok(usage)) => read_volumes(&usage),
        Ok(Err(_)) | Err(_) => BTreeMap::new(),
    }
}

/// Sizes in a disk usage report. A volume without a known size has the size -1.
fn read_volumes(usage: &Value) -> BTreeMap<String, u64> {
    let volumes = usage["Volumes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sizes = volumes.iter().filter_map(|volume| {
        let name = volume["Name"].as_str()?;
        Some((name.to_owned(), volume["UsageData"]["Size"].as_u64()?))
    });
    sizes.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_without_a_measured_size_are_left_out() {
        let usage = json!({ "Volumes": [
            { "Name": "a", "UsageData": { "Size": 7, "RefCount": 1 } },
            { "Name": "b", "UsageData": { "Size": -1, "RefCount": -1 } },
            { "Name": "c" },
        ] });
        assert_eq!(read_volumes(&usage), [("a".to_owned(), 7)].into());
        assert!(read_volumes(&json!({})).is_empty());
    }
}
