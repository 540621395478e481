//! What two environments cannot both have.

use argus_core::desired::Desired;
use argus_core::ident::ResourceName;

/// What `new` claims that `held` has already, for people.
pub fn clash(new: &Desired, held: &Desired) -> Option<String> {
    if new.env == held.env {
        return Some(format!("environment `{}`", new.env));
    }
    if new.network == held.network {
        return Some(format!("network `{}`", new.network));
    }
    if let Some(volume) = new.volumes.iter().find(|volume| held.volumes.contains(volume)) {
        return Some(format!("volume `{volume}`"));
    }
    let taken = |name: &ResourceName| held.services.values().any(|service| service.container_name == *name);
    let name = new.services.values().map(|service| &service.container_name).find(|name| taken(name));
    name.map(|name| format!("container name `{name}`"))
}
