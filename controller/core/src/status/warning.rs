//! Warnings of an environment: files that were replaced on the host, ports that only their container reaches, networks with another name,
//! and memory near its limit.

use argus_crds::Diagnostic;
use argus_crds::status::MemoryWarning;

use super::error::context::edit_context;
use super::{StatusInput, connectivity};
use crate::desired::{Accepted, ProbeHandler, Role, Service};
use crate::ident::Protocol;
use crate::labels;
use crate::observed::Container;

/// Warnings about running containers that started before a file of their mounts was replaced.
pub(super) fn replaced_files(input: &StatusInput<'_>) -> Vec<Diagnostic> {
    let Some(accepted) = input.accepted else {
        return Vec::new();
    };
    let services = accepted.desired.services.values();
    services
        .filter_map(|service| replaced_file(input, accepted, service))
        .collect()
}

fn replaced_file(input: &StatusInput<'_>, accepted: &Accepted, service: &Service) -> Option<Diagnostic> {
    let name = service.name.as_str();
    let mut containers = input.observed.containers.values().filter(|container| {
        let owner = container.labels.get(labels::SERVICE);
        owner.is_some_and(|owner| owner == name) && container.state.is_up()
    });
    let started_at = containers.find_map(|container| container.inspect.as_ref()?.started_at)?;
    let files = accepted.files_of(service);
    let replaced = files.filter(|(_, file, _)| file.replaced_at.is_some_and(|at| at > started_at));
    let paths: Vec<String> = replaced.map(|(path, _, _)| format!("`{path}`")).collect();
    if paths.is_empty() {
        return None;
    }
    let message = format!(
        "the running container of `{name}` still has the former {}, because another file took its place; `argus restart {}/{name}` mounts the new one",
        paths.join(", "),
        input.env
    );
    let key = match service.role {
        Role::Mock => "volumes",
        Role::Service => "container.volumes",
    };
    let path = accepted.lines.service_key(name, key);
    let hint = format!(
        "run `argus restart {}/{name}`, or mount the folder of the file",
        input.env
    );
    Some(Diagnostic::warning(path, message).hint(hint))
}

/// Warnings about published ports of running programs that the file makes listen only inside their containers. A health check inside the
/// container succeeds nevertheless.
pub(super) fn local_listeners(input: &StatusInput<'_>) -> Vec<Diagnostic> {
    let Some(accepted) = input.accepted else {
        return Vec::new();
    };
    let services = accepted.desired.services.values();
    services
        .filter_map(|service| local_listener(input, accepted, service))
        .collect()
}

fn local_listener(input: &StatusInput<'_>, accepted: &Accepted, service: &Service) -> Option<Diagnostic> {
    let kind = service.probe.as_ref().map(|probe| &probe.kind);
    // Other health checks connect from outside.
    let is_inside = matches!(
        kind,
        None | Some(ProbeHandler::Exec { .. } | ProbeHandler::Docker)
    );
    let is_up = || {
        let mut containers = input.observed.containers.of(&service.name);
        containers.any(|container| container.state.is_up())
    };
    if !is_inside || !is_up() {
        return None;
    }
    let published = service.ports.iter().filter(|port| port.protocol == Protocol::Tcp);
    let context = edit_context(input, accepted, service);
    let (port, edit) = published.map(|port| port.container).find_map(|port| {
        let edit = context.local_listener(port)?;
        (!connectivity::has_connected(input, &service.name, port)).then_some((port, edit))
    })?;
    let path = accepted
        .lines
        .service_key(service.name.as_str(), "container.ports");
    let message = format!(
        "port {port} of `{}` is published, but the file sets a loopback address as its listen address",
        service.name
    );
    Some(Diagnostic::warning(path, message).hint(edit.change()))
}

/// Warnings about moved networks, with the holders of their names.
pub(super) fn moved_networks(input: &StatusInput<'_>) -> impl Iterator<Item = Diagnostic> {
    let env = input.env;
    input.history.moved_networks.values().map(move |moved| {
        let (to, from) = (&moved.to, &moved.from);
        let holder = match moved.holder.as_str() {
            "" => format!("`{from}`: another network"),
            known => known.to_owned(),
        };
        let message =
            format!("the network has the name `{to}`, because its own name is taken by {holder}");
        let hint = format!(
            "nothing is necessary; to get the name `{from}` again, remove the other network, then run `argus down {env}` and `argus up`"
        );
        Diagnostic::warning("network", message).hint(hint)
    })
}

/// Warning of a running container whose memory use is near its limit.
pub(super) fn memory(input: &StatusInput<'_>, container: Option<&Container>) -> Option<MemoryWarning> {
    let container = container.filter(|container| container.state.is_up())?;
    let high = input.observed.memory_high.get(&container.id)?;
    high.is_of(container).then(|| MemoryWarning {
        used_bytes: high.used,
        limit_bytes: high.limit,
        since: high.at.to_string(),
    })
}
