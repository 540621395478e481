//! The contract of a [`Backend`], as an executable test that every implementation must pass.
//!
//! [`ContractTest`] performs each action on a real or simulated engine, most of them twice. It compares every result and every
//! watch event with the contract, and stops at the first [`Violation`].

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::action::Action;
use argus_core::ident::{ContainerId, NetworkId};
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::outcome::{ActionError, Done};

use crate::Backend;

mod lease;
mod links;
mod observer;
mod specs;

pub use observer::Violation;
use observer::{Observer, expect, expect_eq, violation};

/// Time between the stop signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A contract test of one backend, on an engine that the test may change freely.
#[derive(Debug)]
pub struct ContractTest<'a, B> {
    backend: &'a B,
    image: String,
    environment: String,
}

impl<'a, B: Backend> ContractTest<'a, B> {
    /// A test with containers of `image`, which the engine has and whose process runs until it is stopped.
    pub fn new(backend: &'a B, image: &str, environment: &str) -> Self {
        Self {
            backend,
            image: image.to_owned(),
            environment: environment.to_owned(),
        }
    }

    /// Tests the whole contract and leaves no object behind.
    ///
    /// # Errors
    /// The first [`Violation`] of the contract.
    pub async fn run(&self) -> Result<(), Violation> {
        let mut observer = Observer::open(self.backend.watch());
        observer
            .wait_for("a complete first list", Store::is_synced)
            .await?;
        let network = self.check_networks(&mut observer).await?;
        let id = self.check_containers(&mut observer).await?;
        self.check_runs(&mut observer, &id).await?;
        self.check_attachments(&mut observer, &id, &network).await?;
        links::check(self.backend, &id, &network).await?;
        self.check_names(&id).await?;
        self.check_volumes(&mut observer).await?;
        self.check_missing_objects().await?;
        lease::check(self.backend, &self.environment).await?;
        self.check_removals(&mut observer, &id, &network).await
    }

    /// Creates a network twice: the second call adopts the first network.
    async fn check_networks(&self, observer: &mut Observer) -> Result<NetworkId, Violation> {
        let external = Action::CreateNetwork {
            name: self.network()?,
            labels: BTreeMap::new(),
            external: true,
        };
        expect_eq(
            "a missing external network is not created",
            &self.execute(&external).await,
            &Err(ActionError::NetworkNotFound(self.network()?.to_string())),
        )?;
        let create = Action::CreateNetwork {
            name: self.network()?,
            labels: self.labels(None),
            external: false,
        };
        let first = self.execute(&create).await;
        let Ok(Done::Network(id)) = &first else {
            return Err(violation("a network is created", &first));
        };
        expect_eq(
            "a repeated network is adopted",
            &self.execute(&create).await,
            &first,
        )?;
        observer
            .wait_for("the network", |store| store.network(id).is_some())
            .await?;
        self.execute_twice("an external network", &external).await?;
        let foreign = Action::CreateNetwork {
            name: self.network()?,
            labels: BTreeMap::new(),
            external: false,
        };
        let result = self.execute(&foreign).await;
        expect(
            "a foreign network is not adopted",
            &result,
            matches!(result, Err(ActionError::NameTaken { .. })),
        )?;
        Ok(id.clone())
    }

    /// Creates a container twice: the second call adopts the first container, unless the spec hash differs.
    async fn check_containers(&self, observer: &mut Observer) -> Result<ContainerId, Violation> {
        let first = self.create_container("a", "one").await?;
        let Ok(Done::Container(id)) = &first else {
            return Err(violation("a container is created", &first));
        };
        expect_eq(
            "a repeated container is adopted",
            &self.create_container("a", "one").await?,
            &first,
        )?;
        let result = self.create_container("a", "two").await?;
        expect(
            "another hash is not adopted",
            &result,
            matches!(result, Err(ActionError::NameTaken { .. })),
        )?;
        observer
            .wait_for_container("the container, created", id, |container| {
                container.state == ContainerState::Created
            })
            .await?;
        Ok(id.clone())
    }

    /// Starts and stops a container, each twice.
    async fn check_runs(&self, observer: &mut Observer, id: &ContainerId) -> Result<(), Violation> {
        let start = Action::StartContainer { id: id.clone() };
        let stop = Action::StopContainer {
            id: id.clone(),
            grace: GRACE,
        };
        self.execute_twice("a start", &start).await?;
        observer
            .wait_for_container("the container, running", id, is_running)
            .await?;
        self.execute_twice("a stop", &stop).await?;
        let ended = |container: &Container| {
            container.state == ContainerState::Exited
                && container.inspect.is_some()
                && container.stopped_by_other.is_none()
        };
        observer
            .wait_for_container("the container, stopped by no other client", id, ended)
            .await?;
        self.execute_twice("another start", &start).await?;
        observer
            .wait_for_container("the container, running again", id, is_running)
            .await
    }

    /// Disconnects a container from its network and connects it again, each twice.
    async fn check_attachments(
        &self,
        observer: &mut Observer,
        id: &ContainerId,
        network: &NetworkId,
    ) -> Result<(), Violation> {
        let name = self.network()?.to_string();
        let off = Action::DisconnectNetwork {
            network: name.clone(),
            container: id.to_string(),
        };
        self.execute_twice("a disconnect", &off).await?;
        observer
            .wait_for_container("the container on no network", id, |container| {
                container.networks.is_empty()
            })
            .await?;
        let aliases = vec!["a".to_owned()];
        let on = Action::ConnectNetwork {
            network: network.to_string(),
            container: id.clone(),
            aliases,
            external: false,
        };
        self.execute_twice("a connect", &on).await?;
        let attached = |container: &Container| {
            let attachment = container.networks.get(&name);
            attachment.is_some_and(|attachment| {
                attachment.network.as_ref() == Some(network) && attachment.aliases.contains(&"a".to_owned())
            })
        };
        observer
            .wait_for_container("the container on its network, under its alias", id, attached)
            .await?;
        let used = Action::RemoveNetwork {
            id: network.clone(),
            name,
        };
        let result = self.execute(&used).await;
        expect(
            "a network in use is not removed",
            &result,
            matches!(result, Err(ActionError::NetworkInUse(_))),
        )
    }

    /// Renames a container, first to a name in use, then twice to a free one.
    async fn check_names(&self, id: &ContainerId) -> Result<(), Violation> {
        let other = self.create_container("b", "one").await?;
        let Ok(Done::Container(other)) = other else {
            return Err(violation("another container is created", &other));
        };
        let onto = Action::RenameContainer {
            id: id.clone(),
            to: self.name("b")?,
        };
        let result = self.execute(&onto).await;
        expect(
            "a name in use is not taken over",
            &result,
            matches!(result, Err(ActionError::NameTaken { .. })),
        )?;
        self.execute_twice(
            "a removal",
            &Action::RemoveContainer {
                id: other,
                name: String::new(),
            },
        )
        .await?;
        self.execute_twice("a rename", &onto).await
    }

    /// Creates, finds and removes a volume, each twice.
    async fn check_volumes(&self, observer: &mut Observer) -> Result<(), Violation> {
        let name = self.name("data")?;
        let seen = |store: &Store| store.volume(name.as_str()).is_some();
        self.execute_twice(
            "a volume",
            &Action::CreateVolume {
                name: name.clone(),
                labels: self.labels(None),
                external: false,
            },
        )
        .await?;
        observer.wait_for("the volume", seen).await?;
        let result = self
            .execute(&Action::CreateVolume {
                name: name.clone(),
                labels: BTreeMap::new(),
                external: false,
            })
            .await;
        expect(
            "a foreign volume is not adopted",
            &result,
            matches!(result, Err(ActionError::NameTaken { .. })),
        )?;
        let external = Action::CreateVolume {
            name: name.clone(),
            labels: BTreeMap::new(),
            external: true,
        };
        self.execute_twice("an external volume", &external).await?;
        self.execute_twice(
            "the removal of a volume",
            &Action::RemoveVolume { name: name.clone() },
        )
        .await?;
        observer.wait_for("no volume", |store| !seen(store)).await?;
        expect_eq(
            "a missing external volume is not created",
            &self.execute(&external).await,
            &Err(ActionError::VolumeNotFound(name.to_string())),
        )
    }

    /// Acts on objects that do not exist: a start fails, a stop and a removal succeed.
    async fn check_missing_objects(&self) -> Result<(), Violation> {
        let id = ContainerId::new("0".repeat(64)).map_err(|bad| violation("an id", &bad))?;
        let network = NetworkId::new("0".repeat(64)).map_err(|bad| violation("an id", &bad))?;
        let result = self.execute(&Action::StartContainer { id: id.clone() }).await;
        expect_eq(
            "an unknown container does not start",
            &result,
            &Err(ActionError::Gone),
        )?;
        self.execute_twice(
            "a stop of an unknown container",
            &Action::StopContainer {
                id: id.clone(),
                grace: GRACE,
            },
        )
        .await?;
        self.execute_twice(
            "the removal of an unknown container",
            &Action::RemoveContainer {
                id,
                name: String::new(),
            },
        )
        .await?;
        self.execute_twice(
            "the removal of an unknown network",
            &Action::RemoveNetwork {
                id: network,
                name: String::new(),
            },
        )
        .await?;
        let mut spec = self.spec("c", "one")?;
        "argus-contract-no-such-image:0".clone_into(&mut spec.image);
        let result = self
            .execute(&Action::CreateContainer {
                name: self.name("c")?,
                spec: Box::new(spec),
            })
            .await;
        expect_eq("an image is missing", &result, &Err(ActionError::ImageMissing))
    }

    /// Removes all objects, each twice, and checks that a full list no longer shows them.
    async fn check_removals(
        &self,
        observer: &mut Observer,
        id: &ContainerId,
        network: &NetworkId,
    ) -> Result<(), Violation> {
        self.execute_twice(
            "a removal while it runs",
            &Action::RemoveContainer {
                id: id.clone(),
                name: String::new(),
            },
        )
        .await?;
        observer
            .wait_for("no container", |store| store.container(id).is_none())
            .await?;
        self.execute_twice(
            "the network's removal",
            &Action::RemoveNetwork {
                id: network.clone(),
                name: String::new(),
            },
        )
        .await?;
        observer
            .wait_for("no network", |store| store.network(network).is_none())
            .await?;
        let before = observer.store.last_complete();
        self.backend.request_relist();
        observer
            .wait_for("the requested list", |store| store.last_complete() > before)
            .await?;
        let nothing = observer
            .store
            .containers()
            .all(|container| !container.name.starts_with(&self.environment));
        expect("nothing is left", &observer.store, nothing)
    }

    async fn execute(&self, action: &Action) -> Result<Done, ActionError> {
        self.backend.execute(action, &()).await
    }

    /// Performs an action twice; both calls must succeed.
    async fn execute_twice(&self, what: &str, action: &Action) -> Result<(), Violation> {
        expect_eq(what, &self.execute(action).await, &Ok(Done::Applied))?;
        expect_eq(
            &format!("{what}, repeated"),
            &self.execute(action).await,
            &Ok(Done::Applied),
        )
    }

    async fn create_container(
        &self,
        service: &str,
        hash: &str,
    ) -> Result<Result<Done, ActionError>, Violation> {
        let spec = Box::new(self.spec(service, hash)?);
        Ok(self
            .execute(&Action::CreateContainer {
                name: self.name(service)?,
                spec,
            })
            .await)
    }
}

fn is_running(container: &Container) -> bool {
    container.state == ContainerState::Running && container.inspect.is_some()
}
