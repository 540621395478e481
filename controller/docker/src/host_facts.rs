//! Facts for the preflight checks: the engine, its disk and its networks.

mod disk;
mod pools;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use argus_backend::HOST_FACTS_TIMEOUT;
use argus_core::preflight::{EngineFact, Fact, HostFacts, NetworksFact};
use argus_core::time::Timestamp;
use bollard::models::{SystemInfo, SystemVersion};

use crate::Shared;
use crate::call;
use crate::error::Op;

/// File of the kernel with the waiting times for memory.
const MEMORY_PRESSURE: &str = "/proc/pressure/memory";

/// Collects all facts, each part within its deadline. Without `with_disk`, it does not measure the disk.
pub(crate) async fn collect(shared: &Shared, with_disk: bool) -> HostFacts {
    // Known even if the engine is too slow to answer, which is when it matters.
    let memory_stall = memory_stall(shared);
    let unknown = |error: &argus_core::outcome::ActionError| HostFacts {
        memory_stall,
        ..HostFacts::unknown(&error.to_string())
    };
    let client = match shared.connection.client() {
        Ok(client) => client,
        Err(error) => return unknown(&error),
    };
    let about = async {
        let requested_at = (shared.now)();
        let version = call::run(Op::Info, HOST_FACTS_TIMEOUT, client.version());
        let info = call::run(Op::Info, HOST_FACTS_TIMEOUT, client.info());
        let (version, info) = futures::try_join!(version, info)?;
        shared.limits.update(&info);
        Ok::<_, argus_core::outcome::ActionError>((version, info, requested_at, (shared.now)()))
    };
    let networks = call::run(Op::List, HOST_FACTS_TIMEOUT, client.list_networks(None));
    let listeners = within(HOST_FACTS_TIMEOUT, crate::listeners::read_sockets(shared));
    let (about, networks, listeners) = futures::join!(about, networks, listeners);
    let (version, info, requested_at, responded_at) = match about {
        Ok(about) => about,
        Err(error) => return unknown(&error),
    };
    let networks = match networks {
        Ok(networks) => Fact::Known(NetworksFact {
            count: networks.len() as u64,
            free: pools::read_pools(&info, &version)
                .map(|pools| pools::count_free(&pools, &pools::used_ranges(&networks))),
        }),
        Err(error) => Fact::Unknown(error.to_string()),
    };
    // The first measurement on a remote engine builds the helper image there.
    let limit = if shared.connection.endpoint().socket().is_none() {
        HOST_FACTS_TIMEOUT * 3
    } else {
        HOST_FACTS_TIMEOUT
    };
    let disk = if with_disk {
        within(limit, Box::pin(disk::measure(shared, &info))).await
    } else {
        Fact::NotApplicable("not measured".to_owned())
    };
    HostFacts {
        engine: Fact::Known(engine(shared, version, info, requested_at, responded_at)),
        disk,
        networks,
        listeners,
        memory_stall,
    }
}

/// Share of the last 10 s in which all tasks waited for memory, in percent. Measured by the kernel of this host.
fn memory_stall(shared: &Shared) -> Option<u8> {
    shared.connection.endpoint().socket()?;
    average_of_full(&std::fs::read_to_string(MEMORY_PRESSURE).ok()?)
}

/// Value `avg10` of the line `full`, without its fraction.
fn average_of_full(text: &str) -> Option<u8> {
    let line = text.lines().find(|line| line.starts_with("full "))?;
    let mut words = line.split_whitespace();
    let average = words.find_map(|word| word.strip_prefix("avg10="))?;
    average.split('.').next()?.parse().ok()
}

fn engine(
    shared: &Shared,
    version: SystemVersion,
    info: SystemInfo,
    requested_at: Timestamp,
    responded_at: Timestamp,
) -> EngineFact {
    // The engine read its clock at some time between the request and the response.
    let middle = requested_at + responded_at.since(requested_at) / 2;
    let engine_time = info.system_time.as_deref().and_then(Timestamp::parse);
    let drivers = info.plugins.and_then(|plugins| plugins.network);
    EngineFact {
        endpoint: shared.connection.endpoint().to_string(),
        version: version.version.unwrap_or_default(),
        api_version: version.api_version.unwrap_or_default(),
        os_type: info.os_type.unwrap_or_default(),
        clock_ahead: engine_time.map(|engine_time| engine_time.0.saturating_sub(middle.0)),
        network_drivers: drivers.unwrap_or_default().into_iter().collect::<BTreeSet<_>>(),
    }
}

async fn within<T>(limit: Duration, measurement: impl Future<Output = Fact<T>>) -> Fact<T> {
    let unknown = |_| Fact::Unknown(format!("no answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, measurement)
        .await
        .unwrap_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stall_is_the_average_of_all_tasks() {
        let text = "some avg10=91.00 avg60=8.66 avg300=5.74 total=9\nfull avg10=23.99 avg60=1.00 avg300=0.00 total=7\n";
        assert_eq!(average_of_full(text), Some(23));
        assert_eq!(average_of_full("some avg10=91.00 total=9\n"), None);
    }
}
