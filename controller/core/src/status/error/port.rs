//! Errors of host ports.

use argus_crds::error::{ActionId, Class, Code, StructuredError};
use serde_json::{Value, json};

use super::call;
use crate::desired::PortStrategy;
use crate::ident::ProtocolPort;
use crate::outcome::PortOwner;
use crate::status::StatusInput;

/// Error code of a port that has this owner.
pub(super) fn code_of_port(owner: &PortOwner) -> Code {
    match owner {
        PortOwner::StaleAllocation => Code::PortStaleAllocation,
        PortOwner::Environment { .. }
        | PortOwner::Container { .. }
        | PortOwner::Process { .. }
        | PortOwner::Unknown => Code::PortConflict,
    }
}

pub(super) fn port_error(input: &StatusInput<'_>, port: ProtocolPort, owner: &PortOwner) -> StructuredError {
    let code = code_of_port(owner);
    let owner_text = owner.to_string();
    let times = input.refused.get(&port).map_or(1, |refused| refused.times);
    let error = StructuredError::new(code, format!("host port {port} is held by {owner_text}"));
    let is_moved = input
        .accepted
        .is_some_and(|accepted| accepted.desired.ports.strategy == PortStrategy::Auto);
    let error = match input.accepted {
        // Argus moves the service to another port.
        Some(_) if is_moved => error
            .class(Class::Transient)
            .suggest(&[ActionId::Wait, ActionId::FreePort]),
        Some(accepted) => {
            let reason = format!("{owner_text} holds host port {port}");
            let key = "resilience.network.portConflictStrategy";
            error.edit(
                accepted
                    .lines
                    .edit(&accepted.spec_path, key, reason)
                    .suggest("auto"),
            )
        }
        None => error,
    };
    error
        .details(json!({ "port": port.number, "protocol": port.protocol, "owner": owner }))
        .with_call(call::of_port(&port.to_string(), times, &owner_text))
}

pub(super) fn ports_error(
    input: &StatusInput<'_>,
    tried: u32,
    holders: &[(ProtocolPort, PortOwner)],
) -> StructuredError {
    let range = input.accepted.map(|accepted| &accepted.desired.ports);
    let listed = u32::try_from(holders.len()).unwrap_or(u32::MAX);
    let holder = |(port, owner): &(ProtocolPort, PortOwner)| json!({ "port": port.number, "protocol": port.protocol, "owner": owner });
    let error = StructuredError::new(
        Code::PortExhaustion,
        format!("no host port is free, {tried} were tried"),
    );
    let error = match input.accepted {
        Some(accepted) => {
            let (low, high) = (accepted.desired.ports.low, accepted.desired.ports.high);
            let wider = high.saturating_add((high - low).max(100));
            let reason = format!("all {tried} ports of the range are taken");
            let edit = accepted
                .lines
                .edit(&accepted.spec_path, "isolation.portRange", reason);
            error.edit(
                edit.now(format!("[{low}, {high}]"))
                    .suggest(format!("[{low}, {wider}]")),
            )
        }
        None => error,
    };
    error.details(json!({
        "tried": tried,
        "range": range.map(|range| [range.low, range.high]),
        "holders": holders.iter().map(holder).collect::<Vec<Value>>(),
        "more": tried.saturating_sub(listed),
    }))
}
