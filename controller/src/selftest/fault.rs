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

use super::fixture::Fixture;
use crate::engine::engine_failure;
use crate::process::correlation;
use crate::process::exit::Failure;

/// Maximum time until the effect of a fault is visible.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time of one action.
const ACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Duration of the hold during faults that need several actions.
const HOLD_DURATION: Duration = Duration::from_secs(60);

/// A way to break the environment. `scripts/selftest` injects these and two more, on its own engine.
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
) -> Result<Result<Duration, String>, Failure> {
    // Rounds do not share a restart budget.
    let (environment, service) = (fixture.test_env.env().clone(), None);
    send_command(fixture, Command::Retry { environment, service }).await?;
    let (run, port) = (fixture.run(), fixture.port());
    let started = clock::now();
    let foreign = inject(fault, round, fixture).await?;
    let other_run = |fixture: &Fixture<'_>| fixture.run().is_some_and(|now| Some(now) != run);
    let broken = |fixture: &Fixture<'_>| !fixture.is_healthy() || other_run(fixture);
    let what = format!("fault `{}`", fault.name());
    fixture.require(&what, EFFECT_TIMEOUT, broken).await?;
    let recovered = fixture
        .wait_until(limit, |fixture| {
            fixture.is_healthy() && (!fault.restarts_container() || other_run(fixture))
        })
        .await?;
    let took = clock::now().since(started);
    let reaches = recovered && reaches_web(fixture).await;
    let moved = fault != Fault::PortConflict || fixture.port() != port;
    if let Some(id) = foreign {
        let name = id.to_string();
        execute(fixture, Action::RemoveContainer { id, name }).await?;
    }
    Ok(if !recovered {
        Err(format!(
            "not healthy within {}: {}",
            humantime::format_duration(limit),
            fixture.summary()
        ))
    } else if !reaches {
        Err("`db` does not reach `web`".to_owned())
    } else if moved {
        Ok(took)
    } else {
        Err("the port did not move away from the foreign container".to_owned())
    })
}

/// Injects a fault. Returns a foreign container that must be removed after the round.
async fn inject(fault: Fault, round: u32, fixture: &mut Fixture<'_>) -> Result<Option<ContainerId>, Failure> {
    let web = fixture
        .container("web")
        .map(|web| (web.id.clone(), web.name.clone(), web.labels.clone()));
    let Some((id, name, mut labels)) = web else {
        return Err(fixture.timed_out("service `web`", Duration::ZERO));
    };
    let env = fixture.test_env.env().clone();
    match fault {
        Fault::ExitCrash => drop(send_request(fixture, &id, "http://127.0.0.1:8080/crash").await),
        Fault::OomCrash => drop(send_request(fixture, &id, "http://127.0.0.1:8080/fill").await),
        Fault::Stopped => {
            let grace = Duration::ZERO;
            execute(fixture, Action::StopContainer { id, grace }).await?;
        }
        Fault::Paused => {
            within_limit(fixture.docker.pause(&id))
                .await
                .map_err(|error| not_injected(&error))?;
        }
        Fault::Removed => {
            execute(fixture, Action::RemoveContainer { id, name }).await?;
        }
        Fault::Detached => {
            let network = find_network(fixture)?.1;
            execute(fixture, disconnect_action(&network, name)).await?;
        }
        Fault::StaleNetwork => {
            let (id, network) = find_network(fixture)?;
            hold(fixture).await?;
            for service in ["db", "web"] {
                execute(fixture, disconnect_action(&network, format!("{env}-{service}"))).await?;
            }
            execute(fixture, Action::RemoveNetwork { id, name: network }).await?;
            resume(fixture).await?;
        }
        Fault::PortConflict => {
            let Some(port) = fixture.port() else {
                return Err(fixture.timed_out("port", Duration::ZERO));
            };
            hold(fixture).await?;
            execute(fixture, Action::RemoveContainer { id, name }).await?;
            let env = fixture.test_env.foreign_env();
            // The labels name a controller that does not exist. The selftest's controller would remove its own extra container,
            // and other controllers grant orphans a grace period.
            let controller = identity::new_ulid(clock::now());
            for key in [labels::ENVIRONMENT, labels::PROJECT] {
                labels.insert(key.to_owned(), env.to_string());
            }
            for key in [labels::CONTROLLER, labels::RUN_ID] {
                labels.insert(key.to_owned(), controller.clone());
            }
            let stranger = start_container(fixture, &format!("{env}-{round}"), labels, Some(port)).await?;
            resume(fixture).await?;
            return Ok(Some(stranger));
        }
        Fault::Orphan => {
            labels.insert(labels::SERVICE.to_owned(), "ghost".to_owned());
            start_container(fixture, &format!("{env}-ghost-{round}"), labels, None).await?;
        }
    }
    Ok(None)
}

fn disconnect_action(network: &str, container: String) -> Action {
    Action::DisconnectNetwork {
        network: network.to_owned(),
        container,
    }
}

/// Network of the environment: id and name.
fn find_network(fixture: &Fixture<'_>) -> Result<(argus_core::ident::NetworkId, String), Failure> {
    let observed = fixture.observer.store.of(fixture.test_env.env());
    let found = observed.and_then(|observed| observed.networks.values().next());
    found
        .map(|network| (network.id.clone(), network.name.clone()))
        .ok_or_else(|| fixture.timed_out("network", Duration::ZERO))
}

/// Creates and starts a container with these labels, and with the host port if one is given.
async fn start_container(
    fixture: &Fixture<'_>,
    name: &str,
    labels: BTreeMap<String, String>,
    port: Option<u16>,
) -> Result<ContainerId, Failure> {
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
        network: named(&find_network(fixture)?.1)?,
        aliases: Vec::new(),
        further_networks: BTreeMap::new(),
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
        process: Box::default(),
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
        let message = "cannot start a container: the engine returned no id";
        return Err(Failure::with_code(Code::Internal, message));
    };
    execute(fixture, Action::StartContainer { id: id.clone() }).await?;
    Ok(id)
}

/// Returns true if `db` resolves the name of `web` and gets a response from it.
async fn reaches_web(fixture: &Fixture<'_>) -> bool {
    let Some(db) = fixture.container("db") else {
        return false;
    };
    let output = send_request(fixture, &db.id, "http://web:8080/healthz").await;
    output.is_some_and(|output| output.contains(r#":"ok"}"#))
}

/// Sends a request from inside a container. Returns the output, or `None` if the request ended the container.
async fn send_request(fixture: &Fixture<'_>, id: &ContainerId, url: &str) -> Option<String> {
    let command = ["/argus", "demo-service", "--run-once", "--depends-on", url].map(str::to_owned);
    let result = fixture.docker.exec(id, &command, ACTION_TIMEOUT).await;
    result.ok().map(|result| result.output)
}

async fn hold(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let command = Command::Hold {
        environment: fixture.test_env.env().clone(),
        service: None,
        until: Some(clock::now() + HOLD_DURATION),
        stops: false,
        reason: "the selftest changes several resources together".to_owned(),
        holder: Some("argus selftest".to_owned()),
    };
    send_command(fixture, command).await
}

async fn resume(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let command = Command::Resume {
        environment: fixture.test_env.env().clone(),
        service: None,
    };
    send_command(fixture, command).await
}

async fn send_command(fixture: &Fixture<'_>, command: Command) -> Result<(), Failure> {
    let verb = command.verb();
    let sent = fixture.handle.send(command, correlation::current().id).await;
    sent.map(drop)
        .map_err(|error| Failure::operation_failed(&format!("cannot send command `{verb}`"), &error))
}

async fn execute(fixture: &Fixture<'_>, action: Action) -> Result<Done, Failure> {
    let done = within_limit(Box::pin(fixture.docker.execute(&action, &()))).await;
    done.map_err(|error| not_injected(&error))
}

/// Performs an action on the engine, but not longer than the limit of one action.
pub(super) async fn within_limit(
    action: impl Future<Output = Result<Done, ActionError>>,
) -> Result<Done, ActionError> {
    let finished = tokio::time::timeout(ACTION_TIMEOUT, action).await;
    finished.unwrap_or_else(|_| Err(ActionError::TimedOut("timed out".to_owned())))
}

fn not_injected(error: &ActionError) -> Failure {
    engine_failure("cannot inject a fault", error)
}
