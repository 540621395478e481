//! The environment of a selftest during a round, as observed on the engine and in its status file.

use std::time::Duration;

use argus_core::ident::{ContainerId, EnvName};
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{EnvironmentStatus, Phase};
use argus_docker::Docker;
use argus_reconciler::Handle;
use tokio_util::sync::CancellationToken;

use super::environment::TestEnvironment;
use crate::engine::observer::EngineObserver;
use crate::local_state::status;
use crate::process::exit::Failure;

/// Interval of checks of the status file between engine events.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Identity of one run of a container: its id and start time.
pub(super) type Run = Option<(ContainerId, Option<Timestamp>)>;

/// Inputs of a fault.
pub(super) struct Fixture<'h> {
    pub(super) test_env: &'h TestEnvironment,
    /// Engine client of its own: its actions count as external changes for the controller.
    pub(super) docker: Docker,
    pub(super) handle: Handle,
    pub(super) observer: EngineObserver,
    pub(super) stop: &'h CancellationToken,
}

impl Fixture<'_> {
    /// Waits until the condition is true. Returns false after the timeout, or when a signal stops the selftest.
    pub(super) async fn wait_until(
        &mut self,
        limit: Duration,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<bool, Failure> {
        let waited = tokio::time::timeout(limit, async {
            while !condition(self) {
                tokio::select! {
                    observed = self.observer.next_event() => observed?,
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = self.stop.cancelled() => return Ok(false),
                }
            }
            Ok(true)
        });
        waited.await.unwrap_or(Ok(false))
    }

    /// Waits until the condition is true; otherwise the selftest fails.
    pub(super) async fn require(
        &mut self,
        what: &str,
        limit: Duration,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), Failure> {
        if self.wait_until(limit, condition).await? {
            return Ok(());
        }
        Err(self.timed_out(what, limit))
    }

    /// Returns true if both services run on the environment's network, no other resources exist, and the status is Ready.
    pub(super) fn is_healthy(&self) -> bool {
        let store = &self.observer.store;
        let networks = store
            .of(self.test_env.env())
            .map(|observed| observed.networks.keys().cloned().collect::<Vec<_>>());
        let on_it = |container: &Container| {
            let attached = container.networks.values();
            let mut ids = attached.filter_map(|at| at.network.as_ref());
            container.state == ContainerState::Running
                && container.inspect.is_some()
                && ids.any(|id| networks.as_ref().is_some_and(|all| all.contains(id)))
        };
        let all: Vec<_> = containers_of(store, self.test_env.env()).collect();
        let names = ["db", "web"].map(|service| format!("{}-{service}", self.test_env.env()));
        all.len() == names.len()
            && all
                .iter()
                .all(|found| names.contains(&found.name) && on_it(found))
            && self
                .status()
                .is_some_and(|status| status.phase == Phase::Ready && !status.stale)
    }

    /// Container of a service.
    pub(super) fn container(&self, service: &str) -> Option<&Container> {
        let name = format!("{}-{service}", self.test_env.env());
        containers_of(&self.observer.store, self.test_env.env()).find(|found| found.name == name)
    }

    /// Current run of `web`.
    pub(super) fn run(&self) -> Run {
        let web = self.container("web")?;
        Some((web.id.clone(), web.inspect.as_ref()?.started_at))
    }

    /// Host port of `web`.
    pub(super) fn port(&self) -> Option<u16> {
        let status = self.status()?;
        let mut ports = status.port_mappings.iter();
        ports.find_map(|mapping| (mapping.service == "web").then_some(mapping.actual_port))
    }

    /// Status in one line for people.
    pub(super) fn summary(&self) -> String {
        let Some(status) = self.status() else {
            return "no status".to_owned();
        };
        let errors = status.errors.iter().map(|error| error.message.clone());
        let services = status
            .services
            .iter()
            .map(|service| format!("{} {:?}", service.name, service.state));
        let all: Vec<String> = std::iter::once(format!("{:?}", status.phase))
            .chain(services)
            .chain(errors)
            .collect();
        all.join(", ")
    }

    /// Timeout error of the selftest.
    pub(super) fn timed_out(&self, what: &str, limit: Duration) -> Failure {
        let waited = humantime::format_duration(limit);
        Failure::with_code(
            Code::Timeout,
            format!(
                "timed out after {waited} waiting for the selftest's {what}: {}",
                self.summary()
            ),
        )
        .with_details(serde_json::json!({ "what": what, "waitedSeconds": limit.as_secs() }))
    }

    fn status(&self) -> Option<EnvironmentStatus> {
        let state = self.test_env.settings().state.clone();
        status::read_environment(&state, self.test_env.env().as_str())
            .ok()
            .flatten()
    }
}

/// Containers of an environment.
fn containers_of<'w>(store: &'w Store, env: &'w EnvName) -> impl Iterator<Item = &'w Container> {
    let ours = |found: &Container| found.owner().is_some_and(|owner| owner.environment == *env);
    store
        .containers()
        .map(AsRef::as_ref)
        .filter(move |found| ours(found))
}
