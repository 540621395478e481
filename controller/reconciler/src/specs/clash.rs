//! Conflict check: whether two environments claim the same resource.

use argus_core::desired::Desired;
use argus_core::ident::ResourceName;

/// Reports whether the environments conflict. [`argus_core::desired::conflict::conflicts`] lists the shared
/// resources.
pub(super) fn clash(new: &Desired, held: &Desired) -> bool {
    let name_taken = |name: &ResourceName| held.services.values().any(|s| s.container_name == *name);
    new.env == held.env
        || new.network == held.network
        || new.volumes.iter().any(|volume| held.volumes.contains(volume))
        || new
            .services
            .values()
            .any(|service| name_taken(&service.container_name))
}
