//! Forks: a second environment of the same revision, with its own names on the engine and reassigned ports.

use std::collections::BTreeMap;

use super::volumes::{self, engine_name};
use super::{Desired, PortStrategy, Role, Service, networks};
use crate::ident::{EnvName, ResourceName};

impl Desired {
    /// Returns a copy of this environment under another name.
    ///
    /// The DNS names inside its network stay, so its services still find each other. The names of its
    /// containers begin with the new name, as with a namespace.
    #[must_use]
    pub fn forked(&self, to: &EnvName) -> Self {
        let renamed = |name: &ResourceName| {
            let bare = name.as_str().strip_suffix(&format!("-{}", self.env));
            let bare = bare.unwrap_or(name.as_str());
            ResourceName::new(format!("{bare}-{to}")).unwrap_or_else(|_| name.clone())
        };
        let prefix = format!("{}-", self.env);
        let own_containers = || {
            self.services
                .values()
                .filter(|service| service.role == Role::Service)
        };
        // Without this check, two containers could get one name.
        let is_prefix = own_containers().all(|service| service.container_name.as_str().starts_with(&prefix));
        let bare_volume = |name: &ResourceName| {
            let name = name.as_str();
            let own = name.strip_prefix(&volumes::prefix(&self.env));
            let former = || name.strip_suffix(&format!("-{}", self.env));
            own.or_else(former).unwrap_or(name).to_owned()
        };
        let volume = |name: &ResourceName| {
            let own = engine_name(to, &bare_volume(name)).filter(|_| !self.external_volumes.contains(name));
            own.unwrap_or_else(|| name.clone())
        };
        let former = |(name, _): (&ResourceName, _)| {
            let former = ResourceName::new(format!("{}-{to}", bare_volume(name)));
            Some((volume(name), former.ok()?))
        };
        let mut original = self.with_volumes(volume);
        original.rename_networks(|name| networks::forked_name(self, name, to));
        let services: BTreeMap<_, Service> = original
            .services
            .iter()
            .map(|(name, service)| {
                let mut service = service.clone();
                let old = service.container_name.as_str();
                let container_name = match service.role {
                    Role::Service if is_prefix => format!("{to}-{}", &old[prefix.len()..]),
                    Role::Service => format!("{to}-{old}"),
                    Role::Mock => format!("{to}-mock-{name}"),
                };
                service.container_name =
                    ResourceName::new(container_name).unwrap_or_else(|_| renamed(&service.container_name));
                (name.clone(), service)
            })
            .collect();
        let mut ports = self.ports.clone();
        // The original environment uses these ports, so the strategy `fail` would wait forever.
        ports.strategy = PortStrategy::Auto;
        let mut notes = self.notes.clone();
        notes.push(format!(
            "forked from `{}` at its revision {}",
            self.env, self.revision
        ));
        Self {
            env: to.clone(),
            former_volumes: self.former_volumes.iter().filter_map(former).collect(),
            services,
            ports,
            notes,
            // A fork lives until a person stops it, because no spec file would start it again.
            ttl: None,
            // The file contains the addresses of the original.
            env_file: None,
            ..original
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};

    #[test]
    fn fork_shares_no_engine_name_with_its_original() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web:\n    image: web:1\n    container:\n      \
                    name: shop-web\n      ports: [\"8080:80\"]\n      volumes: [\"data:/data\"]\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&written, &SpecContext::default()).desired.unwrap();
        let fork = desired.forked(&EnvName::new("shop-two").unwrap());
        assert_eq!(fork.revision, desired.revision);
        assert_ne!(fork.env, desired.env);
        assert_ne!(fork.network, desired.network);
        let (one, other) = (&desired.services.values().next(), &fork.services.values().next());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(other.container_name.as_str(), "shop-two-web");
        assert_eq!(other.aliases, one.aliases, "the DNS names stay");
        assert!(fork.volumes.iter().all(|name| !desired.volumes.contains(name)));
        assert_ne!(one.mounts, other.mounts);
        assert_eq!(other.mounts[0].target(), "/data");
        assert_eq!(fork.volumes[0].as_str(), "argusai-shop-two_data");
        let third = fork.forked(&EnvName::new("three").unwrap());
        assert_eq!(
            third.services.values().next().unwrap().container_name.as_str(),
            "three-web",
            "a fork of a fork has one prefix only"
        );
        assert_eq!(third.volumes[0].as_str(), "argusai-three_data");
    }

    #[test]
    fn containers_of_a_fork_have_different_names() {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  a: { image: web:1, container: { name: shop-web } }\n  \
                    b: { image: web:1, container: { name: web } }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&written, &SpecContext::default()).desired.unwrap();
        let fork = desired.forked(&EnvName::new("two").unwrap());
        let names = fork
            .services
            .values()
            .map(|service| service.container_name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["two-shop-web", "two-web"]);
    }
}
