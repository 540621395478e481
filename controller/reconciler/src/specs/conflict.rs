//! Conflict check: whether two environments claim the same resource.

use argus_core::desired::Desired;
use argus_core::desired::nested_mounts::can_replace_a_source;
use argus_core::ident::ResourceName;

/// Reports whether the environments conflict. [`argus_core::desired::conflict::conflicts`] lists the shared
/// resources. In a project that is not `allowed`, no container of one environment can replace a bind source of the other one.
pub(super) fn conflicts_with(new: &Desired, existing: &Desired, allowed: bool) -> bool {
    let name_taken = |name: &ResourceName| existing.services.values().any(|s| s.container_name == *name);
    new.env == existing.env
        || new.network == existing.network
        || (new.env_file.is_some() && new.env_file == existing.env_file)
        || new.volumes.iter().any(|volume| existing.volumes.contains(volume))
        || new
            .services
            .values()
            .any(|service| name_taken(&service.container_name))
        || (!allowed && can_replace_a_source(new, existing))
}
