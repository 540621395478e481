//! The contract of connectivity checks from a container's network namespace.

use argus_core::connectivity::{LinkError, LinkSource, Target};
use argus_core::ident::{ContainerId, NetworkId, ServiceName};

use super::observer::{Violation, expect, violation};
use crate::Backend;

/// Checks links from a running container that has the alias `a` on its network, and from that network.
pub(super) async fn check<B: Backend>(
    backend: &B,
    id: &ContainerId,
    network: &NetworkId,
) -> Result<(), Violation> {
    let to = ServiceName::new("a").map_err(|bad| violation("a name", &bad))?;
    let target = |host: &str| Target {
        to: to.clone(),
        host: host.to_owned(),
        port: None,
    };
    let endpoint = LinkSource::Network {
        network: network.clone(),
        extra_hosts: Vec::new(),
    };
    for source in [LinkSource::Container(id.clone()), endpoint] {
        let results = backend
            .check_links(&source, &[target("argus-contract-absent"), target("a")])
            .await;
        let Ok([absent, present]) = results.as_deref() else {
            return Err(violation("a check from a container or a network", &results));
        };
        let unresolved = absent.error.as_ref().is_some_and(LinkError::is_dns_error);
        expect("an unused name does not resolve", &results, unresolved)?;
        expect(
            "the alias of a container on the network resolves",
            &results,
            present.error.is_none(),
        )?;
    }
    let missing = ContainerId::new("0".repeat(64)).map_err(|bad| violation("an id", &bad))?;
    let missing = LinkSource::Container(missing);
    let results = backend.check_links(&missing, &[target("a")]).await;
    expect(
        "a check from a missing container fails",
        &results,
        results.is_err(),
    )
}
