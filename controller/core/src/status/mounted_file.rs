//! Warnings about containers that still read a file which was replaced on the host.

use argus_crds::Diagnostic;

use super::StatusInput;
use crate::desired::{Accepted, Role, Service};
use crate::labels;

/// Warnings about running containers that started before a file of their mounts was replaced.
pub(super) fn replaced(input: &StatusInput<'_>) -> Vec<Diagnostic> {
    let Some(accepted) = input.accepted else {
        return Vec::new();
    };
    let services = accepted.desired.services.values();
    services
        .filter_map(|service| warning(input, accepted, service))
        .collect()
}

fn warning(input: &StatusInput<'_>, accepted: &Accepted, service: &Service) -> Option<Diagnostic> {
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
    let path = match service.role {
        Role::Mock => format!("mocks.{name}.volumes"),
        Role::Service => format!("services.{name}.container.volumes"),
    };
    let hint = format!(
        "run `argus restart {}/{name}`, or mount the folder of the file",
        input.env
    );
    Some(Diagnostic::warning(path, message).hint(hint))
}
