//! Errors of names that another object holds.

use argus_crds::error::StructuredError;

use super::ErrorScope;
use crate::desired::Role;
use crate::remedy::next_name;
use crate::status::StatusInput;

/// Adds another name to an error. A container that Argus does not own keeps its name.
pub(super) fn with_edit(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    error: StructuredError,
    name: &str,
) -> StructuredError {
    let Some(accepted) = input.accepted else {
        return error;
    };
    let (file, reason) = (
        &accepted.spec_path,
        format!("another object has the name `{name}`"),
    );
    let edit = match super::service_of(input, error_scope) {
        Some(service) if service.role == Role::Mock => return error,
        Some(service) => accepted
            .lines
            .edit_service(file, service.name.as_str(), "container.name", reason),
        None => {
            let mut networks = accepted.desired.declared_networks();
            let Some(network) = networks.find(|network| network.name.as_str() == name) else {
                return error;
            };
            accepted.lines.edit(file, &network.name_path(), reason)
        }
    };
    let other = next_name(edit.now.as_deref().unwrap_or(name));
    error.edit(edit.suggest(other))
}
