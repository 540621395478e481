//! Names, labels and specs of the objects that the contract test creates.

use std::collections::BTreeMap;

use argus_core::action::ContainerSpec;
use argus_core::desired::ContainerLimits;
use argus_core::ident::ResourceName;
use argus_core::labels;

use super::observer::{Violation, violation};
use super::{ContractTest, GRACE};
use crate::Backend;

impl<B: Backend> ContractTest<'_, B> {
    /// A name with the prefix of the test environment.
    pub(super) fn name(&self, of: &str) -> Result<ResourceName, Violation> {
        ResourceName::new(format!("{}-{of}", self.environment)).map_err(|bad| violation("a name", &bad))
    }

    /// Name of the test network.
    pub(super) fn network(&self) -> Result<ResourceName, Violation> {
        self.name("network")
    }

    /// Labels of an object; `service` is a service and its spec hash, `None` for an object of the whole environment.
    pub(super) fn labels(&self, service: Option<(&str, &str)>) -> BTreeMap<String, String> {
        let mut all = vec![
            (labels::MANAGED, "true".to_owned()),
            (labels::ENVIRONMENT, self.environment.clone()),
            (labels::CONTROLLER, "contract".to_owned()),
        ];
        if let Some((service, hash)) = service {
            // A spec hash consists of hex digits.
            let hash = if hash == "one" { "1" } else { "2" };
            all.extend([
                (labels::SERVICE, service.to_owned()),
                (labels::SPEC_HASH, hash.to_owned()),
            ]);
        }
        all.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// The smallest spec of a container; a different `hash` makes it a different container.
    pub(super) fn spec(&self, service: &str, hash: &str) -> Result<ContainerSpec, Violation> {
        Ok(ContainerSpec {
            image: self.image.clone(),
            build: String::new(),
            entrypoint: None,
            command: None,
            env_vars: BTreeMap::new(),
            labels: self.labels(Some((service, hash))),
            network: self.network()?,
            aliases: vec![service.to_owned()],
            further_networks: BTreeMap::new(),
            bindings: vec![],
            mounts: vec![],
            tmpfs: vec![],
            extra_hosts: vec![],
            user: None,
            working_dir: None,
            process: Box::default(),
            memory: None,
            nano_cpus: None,
            stop_grace: GRACE,
            container_limits: ContainerLimits::default(),
        })
    }
}
