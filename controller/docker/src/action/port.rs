//! What is known about a host port that the engine has just refused.

use argus_core::ident::{HostPort, Protocol};
use argus_core::outcome::{ActionError, PortOwner, PortRefusal};

use crate::Shared;
use crate::listeners;
use crate::ownership::Inspected;

/// Looks at the ports right after a start that failed on one.
pub(super) async fn refused(shared: &Shared, held: &Inspected, named: HostPort, text: &str) -> ActionError {
    let port = as_published(held, named);
    let seen = listeners::look(shared, Some(&held.container.id)).await;
    let owner = match seen.owner(port) {
        Some(owner) => owner,
        // The engine's own book says that it is given away, and nobody has it.
        None if text.contains("port is already allocated") && seen.complete() => PortOwner::StaleAllocation,
        None => PortOwner::Unknown,
    };
    let busy = seen.busy();
    let free_now = seen.complete() && !busy.contains(&port);
    ActionError::PortTaken(Box::new(PortRefusal {
        port,
        free_now,
        owner,
        busy,
    }))
}

/// Some texts do not tell the protocol: the container's own bindings do.
fn as_published(held: &Inspected, named: HostPort) -> HostPort {
    let bindings = held
        .container
        .inspect
        .as_ref()
        .map(|facts| facts.config.bindings.as_slice());
    let published = |protocol| {
        let port = HostPort { protocol, ..named };
        bindings.unwrap_or_default().iter().any(|(_, host)| *host == port)
    };
    match (published(Protocol::Tcp), published(Protocol::Udp)) {
        (false, true) => HostPort {
            protocol: Protocol::Udp,
            ..named
        },
        _ => named,
    }
}
