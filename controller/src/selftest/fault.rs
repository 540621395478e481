//! Faults of the selftest: how each is injected, and when it counts as recovered.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::{Action, Binding, ContainerSpec};
use argus_core::desired::ContainerLimits;
use argus_core::ident::{ContainerId, Protocol, ResourceName};
use argus_core::labels;
use argus_core::outcome::{ActionError, Done};
use argus_crds::error::Code;
use argus_reconciler::{Command, clock, identity};
use clap::ValueEnum;

use super::fixture::{Fixture, RoundEnd};
use crate::correlation;
use crate::exit::Failure;

/// Maximum time until the effect of a fault is visible.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time of one action.
const ACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Duration of the hold during faults that need several actions.
const HOLD_DURATION: Duration = Duration::from_secs(60);

/// A way to break the environment. `scripts/selftest` has these and two more, on its own engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// The main process exits with an error code
    ExitCrash,
    /// The main process exceeds its memory limit
    OomCrash,
    /// A user stops the container
    Stopped,
    /// A user pauses the container
    Paused,
    /// A user removes the container
    Removed,
    /// A user disconnects the container from its network
    Detached,
    /// A user removes the network
    StaleNetwork,
    /// A foreign container takes the host port before a restart
    PortConflict,
    /// An undeclared container of the environment appears
    Orphan,
}

/// Faults that affect all containers of the engine, and are therefore not injected here.
pub(super) const LEFT_OUT: [&str; 2] = ["daemon-restart", "disk-pressure"];

impl Fault {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    /// Name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns true if the recovery includes a new run of `web`.
    fn restarts_container(self) -> bool {
        match self {
            Self::ExitCrash | Self::OomCrash | Self::Stopped | Self::Removed | Self::PortConflict => true,
            Self::Paused | Self::Detached | Self::StaleNetwork | Self::Orphan => false,
        }
    }
}

/// Injects a fault once. Returns the time until the environment was healthy again, or the reason of the failure.
pub(super) async fn run_round(
    fault: Fault,
    round: u32,
    fixture: &mut Fixture<'_>,
    limit: Duration,
) -> Result<Result<Duration, String>, RoundEnd> {
    let (run, port) = (fixture.run(), fixture.port());
    let started = clock::now();
    let foreign = inject(fault, round, fixture).await?;
    let other_run = |fixture: &Fixture<'_>| fixture.run().is_some_and(|now| Some(now) != run);
    let broken = |fixture: &Fixture<'_>| !fixture.is_healthy() || other_run(fixture);
    fixture
        .wait_until(EFFECT_TIMEOUT, broken)
        .await?
        .ok_or_else(|| fixture.timed_out(&format!("fault `{}`", fault.name()), EFFECT_TIMEOUT))?;
    let recovered = fixture
        .wait_until(limit, |fixture| {
            fixture.is_healthy() && (!fault.restarts_container() || other_run(fixture))
        })
        .await?;
    let took = clock::now().since(started);
    let moved = fault != Fault::PortConflict || fixture.port() != port;
    if let Some(id) = foreign {
        remove_container(fixture, id).await?;
    }
    Ok(match recovered {
        None => Err(format!(
            "not healthy within {}: {}",
            humantime::format_duration(limit),
            fixture.summary()
        )),
        Some(()) if !moved => Err("the port did not move away from the foreign container".to_owned()),
        Some(()) => Ok(took),
    })
}

/// Injects a fault. Returns a foreign container that must be removed after the round.
async fn inject(
    fault: Fault,
    round: u32,
    fixture: &mut Fixture<'_>,
) -> Result<Option<ContainerId>, RoundEnd> {
    let web = fixture
        .web()
        .map(|web| (web.id.clone(), web.name.clone(), web.labels.clone()));
    let Some((id, name, labels)) = web else {
        return Err(fixture.timed_out("service `web`", Duration::ZERO).into());
    };
    let none = |()| None;
    match fault {
        Fault::ExitCrash => send_request(fixture, &id, "crash").await.map(none),
        Fault::OomCrash => send_request(fixture, &id, "fill").await.map(none),
        Fault::Stopped => execute(fixture, stop_action(id)).await.map(|_| None),
        Fault::Paused => await_action(fixture.docker.pause(&id)).await.map(|_| None),
        Fault::Removed => execute(fixture, Action::RemoveContainer { id, name })
            .await
            .map(|_| None),
        Fault::Detached => {
            let network = find_network(fixture)?.1;
            execute(fixture, disconnect_action(&network, &name))
                .await
                .map(|_| None)
        }
        Fault::StaleNetwork => {
            let (id, network) = find_network(fixture)?;
            hold(fixture).await?;
            for service in ["db", "web"] {
                execute(
                    fixture,
                    disconnect_action(&network, &format!("{}-{service}", fixture.test_env.env())),
                )
                .await?;
            }
            execute(fixture, Action::RemoveNetwork { id, name: network }).await?;
            resume(fixture).await.map(none)
        }
        Fault::PortConflict => {
            let Some(port) = fixture.port() else {
                return Err(fixture.timed_out("port", Duration::ZERO).into());
            };
            hold(fixture).await?;
            execute(fixture, Action::RemoveContainer { id, name }).await?;
            let env = fixture.test_env.foreign_env();
            // The labels name a controller that does not exist. The selftest's controller would remove its own extra container,
            // and other controllers grant orphans a grace period.
            let controller = identity::new_ulid(clock::now());
            let own = labels
                .into_iter()
                .map(|(key, value)| match key.as_str() {
                    labels::ENVIRONMENT | labels::PROJECT => (key, env.to_string()),
                    labels::CONTROLLER | labels::RUN_ID => (key, controller.clone()),
                    _ => (key, value),
                })
                .collect();
            let stranger = start_container(fixture, &format!("{env}-{round}"), own, Some(port)).await?;
            resume(fixture).await?;
            Ok(Some(stranger))
        }
        Fault::Orphan => {
            let mut labels = labels;
            labels.insert(labels::SERVICE.to_owned(), "ghost".to_owned());
            let name = format!("{}-ghost-{round}", fixture.test_env.env());
            start_container(fixture, &name, labels, None).await.map(|_| None)
        }
    }
}

fn stop_action(id: ContainerId) -> Action {
    Action::StopContainer {
        id,
        grace: Duration::ZERO,
    }
}

fn disconnect_action(network: &str, container: &str) -> Action {
    Action::DisconnectNetwork {
        network: network.to_owned(),
        container: container.to_owned(),
    }
}

/// Network of the environment: id and name.
fn find_network(fixture: &Fixture<'_>) -> Result<(argus_core::ident::NetworkId, String), RoundEnd> {
    let observed = fixture.observer.store.of(fixture.test_env.env());
    let found = observed.and_then(|observed| observed.networks.values().next());
    found
        .map(|network| (network.id.clone(), network.name.clone()))
        .ok_or_else(|| fixture.timed_out("network", Duration::ZERO).into())
}

/// Creates and starts a container with these labels, and with the host port if one is given.
async fn start_container(
    fixture: &Fixture<'_>,
    name: &str,
    labels: BTreeMap<String, String>,
    port: Option<u16>,
) -> Result<ContainerId, RoundEnd> {
    let named = |text: &str| {
        ResourceName::new(text).map_err(|error| Failure::operation_failed("cannot name a container", &error))
    };
    let spec = ContainerSpec {
        image: fixture.test_env.image(),
        build: String::new(),
        entrypoint: None,
        command: Some(vec!["demo-service".to_owned()]),
        env_vars: BTreeMap::new(),
        labels,
        network: named(&network_name(fixture))?,
        aliases: Vec::new(),
        bindings: port
            .map(|host| Binding {
                address: fixture.test_env.settings().publish_address,
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
        container_limits: ContainerLimits::default(),
    };
    let create = Action::CreateContainer {
        name: named(name)?,
        spec: Box::new(spec),
    };
    let Done::Container(id) = execute(fixture, create).await? else {
        return Err(Failure::with_code(
            Code::Internal,
            "cannot start a container: the engine returned no id",
        )
        .into());
    };
    execute(fixture, Action::StartContainer { id: id.clone() }).await?;
    Ok(id)
}

fn network_name(fixture: &Fixture<'_>) -> String {
    find_network(fixture).map_or_else(|_| "bridge".to_owned(), |(_, name)| name)
}

async fn remove_container(fixture: &Fixture<'_>, id: ContainerId) -> Result<(), RoundEnd> {
    let name = id.to_string();
    execute(fixture, Action::RemoveContainer { id, name })
        .await
        .map(drop)
}

/// Sends a request to `web` from inside its container. The result is ignored, because the request may end the container.
async fn send_request(fixture: &Fixture<'_>, id: &ContainerId, what: &str) -> Result<(), RoundEnd> {
    let url = format!("http://127.0.0.1:8080/{what}");
    let command = ["/argus", "demo-service", "--run-once", "--depends-on", &url].map(str::to_owned);
    // The command ends together with the container.
    drop(fixture.docker.exec(id, &command, ACTION_TIMEOUT).await);
    Ok(())
}

async fn hold(fixture: &Fixture<'_>) -> Result<(), RoundEnd> {
    let command = Command::Hold {
        environment: fixture.test_env.env().clone(),
        service: None,
        until: Some(clock::now() + HOLD_DURATION),
        reason: "the selftest changes several resources together".to_owned(),
        holder: Some("argus selftest".to_owned()),
    };
    send_command(fixture, command).await
}

async fn resume(fixture: &Fixture<'_>) -> Result<(), RoundEnd> {
    let command = Command::Resume {
        environment: fixture.test_env.env().clone(),
        service: None,
    };
    send_command(fixture, command).await
}

async fn send_command(fixture: &Fixture<'_>, command: Command) -> Result<(), RoundEnd> {
    let verb = command.verb();
    match fixture.handle.send(command, correlation::current().id).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::operation_failed(&format!("cannot send command `{verb}`"), &error).into()),
    }
}

async fn execute(fixture: &Fixture<'_>, action: Action) -> Result<Done, RoundEnd> {
    await_action(Box::pin(fixture.docker.execute(&action, &()))).await
}

async fn await_action(action: impl Future<Output = Result<Done, ActionError>>) -> Result<Done, RoundEnd> {
    let finished = tokio::time::timeout(ACTION_TIMEOUT, action).await;
    let outcome = finished.unwrap_or_else(|_| Err(ActionError::TimedOut("timed out".to_owned())));
    outcome.map_err(|error| crate::engine::engine_failure("cannot inject a fault", &error).into())
}
