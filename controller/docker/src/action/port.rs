//! Details of a host port that the engine has just refused.

use argus_core::ident::{Protocol, ProtocolPort};
use argus_core::outcome::{ActionError, PortOwner, PortRefusal};

use crate::Shared;
use crate::listeners;
use crate::ownership::Inspected;

/// The error of a start that failed on a port, with the port's owner and all busy ports.
pub(super) async fn describe_refusal(
    shared: &Shared,
    inspected: &Inspected,
    named: ProtocolPort,
    text: &str,
) -> ActionError {
    let port = as_published(inspected, named);
    let snapshot = listeners::take_snapshot(shared, Some(&inspected.container.id)).await;
    let owner = match snapshot.owner(port) {
        Some(owner) => owner,
        // The engine has allocated the port, but no socket uses it.
        None if text.contains("port is already allocated") && snapshot.is_complete() => {
            PortOwner::StaleAllocation
        }
        None => PortOwner::Unknown,
    };
    let busy = snapshot.owners();
    let free_now = snapshot.is_complete() && !snapshot.busy().contains(&port);
    ActionError::PortTaken(Box::new(PortRefusal {
        port,
        free_now,
        owner,
        busy,
    }))
}

/// Corrects the protocol of the port from the container's bindings; some messages do not name it.
fn as_published(inspected: &Inspected, named: ProtocolPort) -> ProtocolPort {
    let bindings = inspected
        .container
        .inspect
        .as_ref()
        .map(|info| info.config.bindings.as_slice());
    let published = |protocol| {
        let port = ProtocolPort { protocol, ..named };
        bindings.unwrap_or_default().iter().any(|(_, host)| *host == port)
    };
    match (published(Protocol::Tcp), published(Protocol::Udp)) {
        (false, true) => ProtocolPort {
            protocol: Protocol::Udp,
            ..named
        },
        _ => named,
    }
}
