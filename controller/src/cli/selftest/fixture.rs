//! The environment of a selftest as it is seen: by the engine's word and by its status.

use std::time::Duration;

use argus_core::ident::{ContainerId, EnvName};
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use argus_crds::status::{EnvironmentStatus, Phase};
use argus_docker::Docker;
use argus_reconciler::Handle;
use argus_reconciler::state_dir::StateDir;
use tokio_util::sync::CancellationToken;

use super::environment::TestEnvironment;
use crate::cli::offline::EngineObserver;
use crate::cli::status;
use crate::exit::Failure;

/// How often the status is looked at where the engine tells nothing.
const LOOK: Duration = Duration::from_millis(50);

/// Why a selftest ends early.
#[derive(Debug)]
pub(super) enum RoundEnd {
    /// Whoever started it wants no more.
    Stopped,
    /// It cannot go on.
    Failed(Failure),
}

impl From<Failure> for RoundEnd {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// One run of a container.
pub(super) type Run = Option<(ContainerId, Option<Timestamp>)>;

/// Everything that a trouble needs.
pub(super) struct Fixture<'h> {
    pub(super) house: &'h TestEnvironment,
    /// Hands of its own: what they do is not the controller's doing.
    pub(super) docker: Docker,
    pub(super) handle: Handle,
    pub(super) eyes: EngineObserver,
    pub(super) stop: &'h CancellationToken,
}

impl Fixture<'_> {
    /// Waits until it is so; `None` when it does not come in time.
    pub(super) async fn until(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<Option<()>, RoundEnd> {
        let stop = self.stop.clone();
        let looked = tokio::time::timeout(limit, async {
            while !is_so(self) {
                tokio::select! {
                    seen = self.eyes.see() => seen?,
                    () = tokio::time::sleep(LOOK) => {}
                    () = stop.cancelled() => return Err(RoundEnd::Stopped),
                }
            }
            Ok(())
        });
        match looked.await {
            Ok(ended) => ended.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Both services run on the environment's network, nothing else of it is there, and its status says Ready.
    pub(super) fn is_whole(&self) -> bool {
        let store = &self.eyes.store;
        let networks = store
            .of(self.house.env())
            .map(|seen| seen.networks.keys().cloned().collect::<Vec<_>>());
        let on_it = |container: &Container| {
            let attached = container.networks.values();
            let mut ids = attached.filter_map(|at| at.network.as_ref());
            container.state == ContainerState::Running
                && container.inspect.is_some()
                && ids.any(|id| networks.as_ref().is_some_and(|all| all.contains(id)))
        };
        let all: Vec<_> = of(store, self.house.env()).collect();
        let names = ["db", "web"].map(|service| format!("{}-{service}", self.house.env()));
        all.len() == names.len()
            && all
                .iter()
                .all(|found| names.contains(&found.name) && on_it(found))
            && self
                .status()
                .is_some_and(|status| status.phase == Phase::Ready && !status.stale)
    }

    /// The service that troubles are made for.
    pub(super) fn web(&self) -> Option<&Container> {
        let name = format!("{}-web", self.house.env());
        of(&self.eyes.store, self.house.env()).find(|found| found.name == name)
    }

    /// What its present run is told by.
    pub(super) fn run(&self) -> Run {
        let web = self.web()?;
        Some((web.id.clone(), web.inspect.as_ref()?.started_at))
    }

    /// The host port of `web`.
    pub(super) fn port(&self) -> Option<u16> {
        let status = self.status()?;
        let mut ports = status.port_mappings.iter();
        ports.find_map(|mapping| (mapping.service == "web").then_some(mapping.actual_port))
    }

    /// How it stands, for people.
    pub(super) fn told(&self) -> String {
        let Some(status) = self.status() else {
            return "there is no status".to_owned();
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

    /// Something that the selftest needs did not come.
    pub(super) fn not_made(&self, what: &str, limit: Duration) -> Failure {
        let waited = humantime::format_duration(limit);
        Failure::of(
            Code::Timeout,
            format!(
                "{what} of the selftest is not as it has to be after {waited}: {}",
                self.told()
            ),
        )
        .about(serde_json::json!({ "what": what, "waitedSeconds": limit.as_secs() }))
    }

    fn status(&self) -> Option<EnvironmentStatus> {
        let state = StateDir::at(self.house.settings().state.clone());
        status::one(&state, self.house.env().as_str()).ok().flatten()
    }
}

/// The containers of an environment.
fn of<'w>(store: &'w Store, env: &'w EnvName) -> impl Iterator<Item = &'w Container> {
    let ours = |found: &Container| found.owner().is_some_and(|owner| owner.environment == *env);
    store
        .containers()
        .map(AsRef::as_ref)
        .filter(move |found| ours(found))
}

/// Whether anything of an environment is there.
pub(super) fn has(store: &Store, env: &EnvName) -> bool {
    store
        .of(env)
        .is_some_and(|seen| !seen.networks.is_empty() || of(store, env).next().is_some())
}
