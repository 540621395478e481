//! Whether two environments claim one thing.

use argus_core::desired::Desired;
use argus_core::ident::ResourceName;

/// Whether both cannot be; what exactly they share is said by [`argus_core::desired::conflict::conflicts`].
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
