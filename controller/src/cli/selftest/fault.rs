//! The troubles that a selftest makes, and how each is seen to be over.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::desired::Confinement;
use argus_core::ident::{ContainerId, Protocol, ResourceName};
use argus_core::labels;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::{Action, Binding, ContainerSpec};
use argus_crds::error::Code;
use argus_reconciler::{Command, clock, identity};
use clap::ValueEnum;

use super::fixture::{Fixture, RoundEnd};
use crate::exit::Failure;

/// A trouble that is made is seen this soon.
const SEEN: Duration = Duration::from_secs(30);
/// What is done to make a trouble is done this soon.
const DONE: Duration = Duration::from_secs(30);
/// While several things are done that belong together nothing is mended.
const TOGETHER: Duration = Duration::from_secs(60);

/// One way to break the environment. `scripts/selftest` has these and two more, on an engine of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// The main process ends with an exit code.
    ExitCrash,
    /// The main process takes more memory than it may.
    OomCrash,
    /// Somebody stops the container.
    Stopped,
    /// Somebody freezes the container.
    Paused,
    /// Somebody removes the container.
    Removed,
    /// Somebody takes the container off its network.
    Detached,
    /// Somebody removes the network.
    StaleNetwork,
    /// Somebody else has the host port when the container is made again.
    PortConflict,
    /// A container of the environment that nobody wants.
    Orphan,
}

/// Left out where the engine serves others, too: each would be felt by all that runs on it.
pub(super) const LEFT_OUT: [&str; 2] = ["daemon-restart", "disk-pressure"];

impl Fault {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    /// As it is written on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The healing shows in another run of `web`.
    fn restarts(self) -> bool {
        match self {
            Self::ExitCrash | Self::OomCrash | Self::Stopped | Self::Removed | Self::PortConflict => true,
            Self::Paused | Self::Detached | Self::StaleNetwork | Self::Orphan => false,
        }
    }
}

/// Makes a trouble once: how long the environment took to be whole again, or why it does not count as recovered.
pub(super) async fn round(
    trouble: Fault,
    round: u32,
    scene: &mut Fixture<'_>,
    limit: Duration,
) -> Result<Result<Duration, String>, RoundEnd> {
    let (run, port) = (scene.run(), scene.port());
    let begun = clock::now();
    let made = make(trouble, round, scene).await?;
    let other_run = |scene: &Fixture<'_>| scene.run().is_some_and(|now| Some(now) != run);
    let broken = |scene: &Fixture<'_>| !scene.is_whole() || other_run(scene);
    scene
        .until(SEEN, broken)
        .await?
        .ok_or_else(|| scene.not_made(&format!("trouble `{}`", trouble.name()), SEEN))?;
    let whole = scene
        .until(limit, |scene| {
            scene.is_whole() && (!trouble.restarts() || other_run(scene))
        })
        .await?;
    let took = clock::now().since(begun);
    let moved = trouble != Fault::PortConflict || scene.port() != port;
    if let Some(stranger) = made {
        remove(scene, stranger).await?;
    }
    Ok(match whole {
        None => Err(format!(
            "not whole within {}: {}",
            humantime::format_duration(limit),
            scene.told()
        )),
        Some(()) if !moved => Err("it kept the port that somebody else was to have".to_owned()),
        Some(()) => Ok(took),
    })
}

/// Makes it; tells of a container that is to be removed when it is over.
async fn make(trouble: Fault, round: u32, scene: &mut Fixture<'_>) -> Result<Option<ContainerId>, RoundEnd> {
    let web = scene
        .web()
        .map(|web| (web.id.clone(), web.name.clone(), web.labels.clone()));
    let Some((id, name, labels)) = web else {
        return Err(scene.not_made("service `web`", Duration::ZERO).into());
    };
    let none = |()| None;
    match trouble {
        Fault::ExitCrash => tell(scene, &id, "crash").await.map(none),
        Fault::OomCrash => tell(scene, &id, "fill").await.map(none),
        Fault::Stopped => act(scene, stop(id)).await.map(|_| None),
        Fault::Paused => done(scene.docker.pause(&id)).await.map(|_| None),
        Fault::Removed => act(scene, Action::RemoveContainer { id, name })
            .await
            .map(|_| None),
        Fault::Detached => {
            let network = network(scene)?.1;
            act(scene, off(&network, &name)).await.map(|_| None)
        }
        Fault::StaleNetwork => {
            let (id, network) = network(scene)?;
            hold(scene).await?;
            for service in ["db", "web"] {
                act(scene, off(&network, &format!("{}-{service}", scene.house.env()))).await?;
            }
            act(scene, Action::RemoveNetwork { id, name: network }).await?;
            resume(scene).await.map(none)
        }
        Fault::PortConflict => {
            let Some(port) = scene.port() else {
                return Err(scene.not_made("port", Duration::ZERO).into());
            };
            hold(scene).await?;
            act(scene, Action::RemoveContainer { id, name }).await?;
            let env = scene.house.stranger();
            // Of a controller that nobody is: ours would collect what it does not want, and others leave it its grace.
            let nobody = identity::fresh(clock::now());
            let own = labels
                .into_iter()
                .map(|(key, value)| match key.as_str() {
                    labels::ENVIRONMENT | labels::PROJECT => (key, env.to_string()),
                    labels::CONTROLLER | labels::RUN_ID => (key, nobody.clone()),
                    _ => (key, value),
                })
                .collect();
            let stranger = start(scene, &format!("{env}-{round}"), own, Some(port)).await?;
            resume(scene).await?;
            Ok(Some(stranger))
        }
        Fault::Orphan => {
            let mut labels = labels;
            labels.insert(labels::SERVICE.to_owned(), "ghost".to_owned());
            let name = format!("{}-ghost-{round}", scene.house.env());
            start(scene, &name, labels, None).await.map(|_| None)
        }
    }
}

fn stop(id: ContainerId) -> Action {
    Action::StopContainer {
        id,
        grace: Duration::ZERO,
    }
}

fn off(network: &str, container: &str) -> Action {
    Action::DisconnectNetwork {
        network: network.to_owned(),
        container: container.to_owned(),
    }
}

/// The environment's network, by id and name.
fn network(scene: &Fixture<'_>) -> Result<(argus_core::ident::NetworkId, String), RoundEnd> {
    let seen = scene.eyes.store.of(scene.house.env());
    let found = seen.and_then(|seen| seen.networks.values().next());
    found
        .map(|network| (network.id.clone(), network.name.clone()))
        .ok_or_else(|| scene.not_made("network", Duration::ZERO).into())
}

/// Makes and starts a container with these labels, which holds the port where one is given.
async fn start(
    scene: &Fixture<'_>,
    name: &str,
    labels: BTreeMap<String, String>,
    port: Option<u16>,
) -> Result<ContainerId, RoundEnd> {
    let named = |text: &str| {
        ResourceName::new(text).map_err(|error| Failure::fault("cannot name a container", &error))
    };
    let spec = ContainerSpec {
        image: scene.house.image(),
        build: String::new(),
        entrypoint: None,
        command: Some(vec!["demo-service".to_owned()]),
        environment: BTreeMap::new(),
        labels,
        network: named(&network_name(scene))?,
        aliases: Vec::new(),
        bindings: port
            .map(|host| Binding {
                address: scene.house.settings().publish_address,
                host,
                container: 8080,
                protocol: Protocol::Tcp,
            })
            .into_iter()
            .collect(),
        mounts: Vec::new(),
        tmpfs: Vec::new(),
        extra_hosts: Vec::new(),
        user: None,
        working_dir: None,
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(1),
        confinement: Confinement::default(),
    };
    let create = Action::CreateContainer {
        name: named(name)?,
        spec: Box::new(spec),
    };
    let Done::Container(id) = act(scene, create).await? else {
        return Err(Failure::of(Code::Internal, "a container was made without an id").into());
    };
    act(scene, Action::StartContainer { id: id.clone() }).await?;
    Ok(id)
}

fn network_name(scene: &Fixture<'_>) -> String {
    network(scene).map_or_else(|_| "bridge".to_owned(), |(_, name)| name)
}

async fn remove(scene: &Fixture<'_>, id: ContainerId) -> Result<(), RoundEnd> {
    let name = id.to_string();
    act(scene, Action::RemoveContainer { id, name }).await.map(drop)
}

/// Asks `web` from inside, whatever becomes of who asked.
async fn tell(scene: &Fixture<'_>, id: &ContainerId, what: &str) -> Result<(), RoundEnd> {
    let url = format!("http://127.0.0.1:8080/{what}");
    let command = ["/argus", "demo-service", "--run-once", "--depends-on", &url].map(str::to_owned);
    // It ends with the container, or says nothing of use.
    drop(tokio::time::timeout(DONE, scene.docker.exec(id, &command)).await);
    Ok(())
}

async fn hold(scene: &Fixture<'_>) -> Result<(), RoundEnd> {
    let command = Command::Hold {
        environment: scene.house.env().clone(),
        service: None,
        until: Some(clock::now() + TOGETHER),
        reason: "the selftest breaks several things at once".to_owned(),
        holder: Some("argus selftest".to_owned()),
    };
    told(scene, command).await
}

async fn resume(scene: &Fixture<'_>) -> Result<(), RoundEnd> {
    let command = Command::Resume {
        environment: scene.house.env().clone(),
        service: None,
    };
    told(scene, command).await
}

async fn told(scene: &Fixture<'_>, command: Command) -> Result<(), RoundEnd> {
    let verb = command.verb();
    match scene.handle.send(command).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::fault(&format!("cannot tell `{verb}`"), &error).into()),
    }
}

async fn act(scene: &Fixture<'_>, act: Action) -> Result<Done, RoundEnd> {
    done(Box::pin(scene.docker.execute(&act, &()))).await
}

async fn done(acting: impl Future<Output = Result<Done, ActionError>>) -> Result<Done, RoundEnd> {
    let acted = tokio::time::timeout(DONE, acting).await;
    let outcome = acted.unwrap_or_else(|_| Err(ActionError::TimedOut("no answer in time".to_owned())));
    outcome.map_err(|error| crate::app::engine_failure("cannot make a trouble", &error).into())
}
