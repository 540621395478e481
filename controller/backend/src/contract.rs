//! The contract of a backend, as a drive through all of its acts: whoever claims to be one has to come to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::desired::Confinement;
use argus_core::ident::{ContainerId, NetworkId, ResourceName};
use argus_core::labels;
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::{Action, ContainerSpec};

use crate::Backend;

mod lease;
mod links;
mod observer;

pub use observer::Violation;
use observer::{Observer, breach, holds, is};

const GRACE: Duration = Duration::from_secs(2);

/// A backend on an engine that the drive may use for itself.
#[derive(Debug)]
pub struct Drive<'a, B> {
    backend: &'a B,
    image: String,
    environment: String,
}

impl<'a, B: Backend> Drive<'a, B> {
    /// A drive with containers of `image`, which is present and whose process does not end by itself.
    pub fn new(backend: &'a B, image: &str, environment: &str) -> Self {
        Self {
            backend,
            image: image.to_owned(),
            environment: environment.to_owned(),
        }
    }

    /// Drives through the whole contract and leaves nothing behind.
    ///
    /// # Errors
    /// [`Breach`] tells the first thing that was not as it shall be.
    pub async fn through(&self) -> Result<(), Violation> {
        let mut eyes = Observer::open(self.backend.watch());
        eyes.see("a complete first list", Store::synced).await?;
        let network = self.networks(&mut eyes).await?;
        let id = self.containers(&mut eyes).await?;
        self.runs(&mut eyes, &id).await?;
        self.attachments(&mut eyes, &id, &network).await?;
        links::drive(self.backend, &id).await?;
        self.names(&id).await?;
        self.volumes(&mut eyes).await?;
        self.unknown().await?;
        lease::drive(self.backend, &self.environment).await?;
        self.ends(&mut eyes, &id, &network).await
    }

    /// Created twice it is one.
    async fn networks(&self, eyes: &mut Observer) -> Result<NetworkId, Violation> {
        let create = Action::CreateNetwork {
            name: self.network()?,
            labels: self.labels(None),
        };
        let first = self.act(&create).await;
        let Ok(Done::Network(id)) = &first else {
            return Err(breach("a network is created", &first));
        };
        is("a repeated network is adopted", &self.act(&create).await, &first)?;
        eyes.see("the network", |store| store.network(id).is_some())
            .await?;
        let foreign = Action::CreateNetwork {
            name: self.network()?,
            labels: BTreeMap::new(),
        };
        let came = self.act(&foreign).await;
        holds(
            "another's network is not adopted",
            &came,
            matches!(came, Err(ActionError::NameTaken { .. })),
        )?;
        Ok(id.clone())
    }

    /// Created twice it is one; with another hash it is somebody else's.
    async fn containers(&self, eyes: &mut Observer) -> Result<ContainerId, Violation> {
        let first = self.create("a", "one").await?;
        let Ok(Done::Container(id)) = &first else {
            return Err(breach("a container is created", &first));
        };
        is(
            "a repeated container is adopted",
            &self.create("a", "one").await?,
            &first,
        )?;
        let came = self.create("a", "two").await?;
        holds(
            "another hash is not adopted",
            &came,
            matches!(came, Err(ActionError::NameTaken { .. })),
        )?;
        eyes.sees("the container, created", id, |container| {
            container.state == ContainerState::Created
        })
        .await?;
        Ok(id.clone())
    }

    /// Start and stop, each twice.
    async fn runs(&self, eyes: &mut Observer, id: &ContainerId) -> Result<(), Violation> {
        let start = Action::StartContainer { id: id.clone() };
        let stop = Action::StopContainer {
            id: id.clone(),
            grace: GRACE,
        };
        self.twice("a start", &start).await?;
        eyes.sees("the container, running", id, is_running).await?;
        self.twice("a stop", &stop).await?;
        let ended = |container: &Container| {
            container.state == ContainerState::Exited
                && container.inspect.is_some()
                && container.stopped_by_other.is_none()
        };
        eyes.sees("the container, stopped by nobody else", id, ended)
            .await?;
        self.twice("another start", &start).await?;
        eyes.sees("the container, running again", id, is_running).await
    }

    /// Off the network and on it again, each twice.
    async fn attachments(
        &self,
        eyes: &mut Observer,
        id: &ContainerId,
        network: &NetworkId,
    ) -> Result<(), Violation> {
        let name = self.network()?.to_string();
        let off = Action::DisconnectNetwork {
            network: name.clone(),
            container: id.to_string(),
        };
        self.twice("a disconnect", &off).await?;
        eyes.sees("the container on no network", id, |container| {
            container.networks.is_empty()
        })
        .await?;
        let aliases = vec!["a".to_owned()];
        let on = Action::ConnectNetwork {
            network: network.clone(),
            container: id.clone(),
            aliases,
        };
        self.twice("a connect", &on).await?;
        let attached = |container: &Container| {
            let at = container.networks.get(&name);
            at.is_some_and(|at| at.network.as_ref() == Some(network) && at.aliases.contains(&"a".to_owned()))
        };
        eyes.sees("the container on its network, under its alias", id, attached)
            .await?;
        let used = Action::RemoveNetwork {
            id: network.clone(),
            name,
        };
        let came = self.act(&used).await;
        holds(
            "a used network stays",
            &came,
            matches!(came, Err(ActionError::NetworkInUse(_))),
        )
    }

    /// A rename, twice, and onto a held name.
    async fn names(&self, id: &ContainerId) -> Result<(), Violation> {
        let other = self.create("b", "one").await?;
        let Ok(Done::Container(other)) = other else {
            return Err(breach("another container is created", &other));
        };
        let onto = Action::RenameContainer {
            id: id.clone(),
            to: self.name("b")?,
        };
        let came = self.act(&onto).await;
        holds(
            "a held name is not taken",
            &came,
            matches!(came, Err(ActionError::NameTaken { .. })),
        )?;
        self.twice(
            "a removal",
            &Action::RemoveContainer {
                id: other,
                name: String::new(),
            },
        )
        .await?;
        self.twice("a rename", &onto).await
    }

    /// Created twice, removed twice.
    async fn volumes(&self, eyes: &mut Observer) -> Result<(), Violation> {
        let name = self.name("data")?;
        let seen = |store: &Store| store.volume(name.as_str()).is_some();
        self.twice(
            "a volume",
            &Action::CreateVolume {
                name: name.clone(),
                labels: self.labels(None),
            },
        )
        .await?;
        eyes.see("the volume", seen).await?;
        let came = self
            .act(&Action::CreateVolume {
                name: name.clone(),
                labels: BTreeMap::new(),
            })
            .await;
        holds(
            "another's volume is not adopted",
            &came,
            matches!(came, Err(ActionError::NameTaken { .. })),
        )?;
        self.twice("its removal", &Action::RemoveVolume { name: name.clone() })
            .await?;
        eyes.see("no volume", |store| !seen(store)).await
    }

    /// What is not there cannot be started, and need not be stopped or removed.
    async fn unknown(&self) -> Result<(), Violation> {
        let id = ContainerId::new("0".repeat(64)).map_err(|bad| breach("an id", &bad))?;
        let network = NetworkId::new("0".repeat(64)).map_err(|bad| breach("an id", &bad))?;
        let came = self.act(&Action::StartContainer { id: id.clone() }).await;
        is(
            "an unknown container does not start",
            &came,
            &Err(ActionError::Gone),
        )?;
        self.twice(
            "its stop",
            &Action::StopContainer {
                id: id.clone(),
                grace: GRACE,
            },
        )
        .await?;
        self.twice(
            "its removal",
            &Action::RemoveContainer {
                id,
                name: String::new(),
            },
        )
        .await?;
        self.twice(
            "the removal of an unknown network",
            &Action::RemoveNetwork {
                id: network,
                name: String::new(),
            },
        )
        .await?;
        let mut spec = self.spec("c", "one")?;
        "argus-contract-no-such-image:0".clone_into(&mut spec.image);
        let came = self
            .act(&Action::CreateContainer {
                name: self.name("c")?,
                spec: Box::new(spec),
            })
            .await;
        is("an image is missing", &came, &Err(ActionError::ImageMissing))
    }

    /// Everything goes, twice, and a full list does not show it any more.
    async fn ends(
        &self,
        eyes: &mut Observer,
        id: &ContainerId,
        network: &NetworkId,
    ) -> Result<(), Violation> {
        self.twice(
            "a removal while it runs",
            &Action::RemoveContainer {
                id: id.clone(),
                name: String::new(),
            },
        )
        .await?;
        eyes.see("no container", |store| store.container(id).is_none())
            .await?;
        self.twice(
            "the network's removal",
            &Action::RemoveNetwork {
                id: network.clone(),
                name: String::new(),
            },
        )
        .await?;
        eyes.see("no network", |store| store.network(network).is_none())
            .await?;
        let before = eyes.store.last_complete();
        self.backend.request_relist();
        eyes.see("a list that was asked for", |store| {
            store.last_complete() > before
        })
        .await?;
        let nothing = eyes
            .store
            .containers()
            .all(|container| !container.name.starts_with(&self.environment));
        holds("nothing is left", &eyes.store, nothing)
    }

    async fn act(&self, act: &Action) -> Result<Done, ActionError> {
        self.backend.execute(act, &()).await
    }

    async fn twice(&self, what: &str, act: &Action) -> Result<(), Violation> {
        is(what, &self.act(act).await, &Ok(Done::Ok))?;
        is(&format!("{what}, repeated"), &self.act(act).await, &Ok(Done::Ok))
    }

    async fn create(&self, service: &str, hash: &str) -> Result<Result<Done, ActionError>, Violation> {
        let spec = Box::new(self.spec(service, hash)?);
        Ok(self
            .act(&Action::CreateContainer {
                name: self.name(service)?,
                spec,
            })
            .await)
    }

    fn name(&self, of: &str) -> Result<ResourceName, Violation> {
        ResourceName::new(format!("{}-{of}", self.environment)).map_err(|bad| breach("a name", &bad))
    }

    fn network(&self) -> Result<ResourceName, Violation> {
        self.name("network")
    }

    fn labels(&self, service: Option<(&str, &str)>) -> BTreeMap<String, String> {
        let mut all = vec![
            (labels::MANAGED, "true".to_owned()),
            (labels::ENVIRONMENT, self.environment.clone()),
            (labels::CONTROLLER, "contract".to_owned()),
        ];
        if let Some((service, hash)) = service {
            // Hashes are hex digits.
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

    fn spec(&self, service: &str, hash: &str) -> Result<ContainerSpec, Violation> {
        Ok(ContainerSpec {
            image: self.image.clone(),
            build: String::new(),
            entrypoint: None,
            command: None,
            environment: BTreeMap::new(),
            labels: self.labels(Some((service, hash))),
            network: self.network()?,
            aliases: vec![service.to_owned()],
            bindings: vec![],
            mounts: vec![],
            tmpfs: vec![],
            extra_hosts: vec![],
            user: None,
            working_dir: None,
            memory: None,
            nano_cpus: None,
            stop_grace: GRACE,
            confinement: Confinement::default(),
        })
    }
}

fn is_running(container: &Container) -> bool {
    container.state == ContainerState::Running && container.inspect.is_some()
}
