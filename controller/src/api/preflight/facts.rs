//! Collects the facts for preflight checks in parallel. A controller and an engine are optional.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use argus_backend::{Backend as _, HOST_FACTS_TIMEOUT};
use argus_core::desired::PreflightSettings;
use argus_core::desired::{Desired, Image as DesiredImage, PortStrategy};
use argus_core::ident::EnvName;
use argus_core::outcome::PortOwner;
use argus_core::preflight::{Fact, ImageFact, ListenersFact, PortFact, PreflightFacts};
use argus_core::quoting::PathText as _;
use argus_core::secrets::Secrets;
use argus_crds::status::{CheckName, Orphan};
use argus_docker::Docker;
use argus_reconciler::identity;
use argus_reconciler::overrides::DesiredState;
use argus_reconciler::preflight;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::SpecRegistry;
use argus_reconciler::state_dir::StateDir;

use crate::api::orphans::list_or_clean;
use crate::client::ControllerClient;
use crate::engine;
use crate::local_state::status::is_alive;
use crate::local_state::status::read_or_default;
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::settings::Settings;
use crate::spec_files;

/// Maximum time to read the specs folder.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Address to which `localhost` leads.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Maximum number of parallel image checks.
const PARALLEL_CHECKS: usize = 8;

/// Collects facts with the settings and the state directory of this command.
pub(crate) struct FactCollector {
    settings: Settings,
    docker: Docker,
    state: StateDir,
    identity: String,
    /// True if environments that are taken down count too.
    starts: bool,
}

/// Desired state of the specs folder, or the reason why it is unknown.
pub(crate) type DesiredResult = Result<DesiredState, String>;

impl FactCollector {
    pub(crate) async fn new(settings: &Settings) -> Result<Self, Failure> {
        let state = settings.state.clone();
        let path = state.identity();
        // The state is private to the controller's user. Other users get an empty identity, which owns nothing.
        let identity = blocking_io::read(move || Ok(identity::peek(&path).unwrap_or_default())).await?;
        Ok(Self {
            settings: settings.clone(),
            docker: engine::connect_docker(settings).await?,
            identity,
            state,
            starts: false,
        })
    }

    /// Sets whether a command is about to start the environments, whatever was taken down before.
    pub(super) fn before_start(self, starts: bool) -> Self {
        Self { starts, ..self }
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// All facts except those of the checks in `skip`, and the strictest policy of all environments.
    pub(super) async fn gather_facts(&self, skip: &[CheckName]) -> (PreflightFacts, PreflightSettings) {
        let host = async {
            if skip.contains(&CheckName::Disk) {
                self.docker.host_facts_without_disk().await
            } else {
                self.docker.host_facts().await
            }
        };
        let (ground, wanted, journal) = tokio::join!(
            host,
            self.read_desired(),
            unless_skipped(skip, CheckName::Journal, self.check_journal())
        );
        let policy = wanted.as_ref().map(strictest_policy).unwrap_or_default();
        let (orphans, ports, images) = if let Fact::Unknown(_) = ground.engine {
            let reason = || "the engine does not answer".to_owned();
            (
                Fact::Unknown(reason()),
                Fact::Unknown(reason()),
                Fact::Unknown(reason()),
            )
        } else {
            let listeners = ground.listeners.known();
            tokio::join!(
                unless_skipped(skip, CheckName::Orphans, run_within(self.find_orphans())),
                unless_skipped(
                    skip,
                    CheckName::Ports,
                    run_within(self.list_ports(&wanted, listeners))
                ),
                unless_skipped(skip, CheckName::Images, run_within(self.list_images(&wanted))),
            )
        };
        let facts = PreflightFacts {
            host: ground,
            orphans,
            ports,
            images,
            journal,
            disk_full: None,
        };
        (facts, policy)
    }

    /// Desired state of a controller with these settings.
    pub(crate) async fn read_desired(&self) -> DesiredResult {
        read_desired(&self.settings, &self.state, &self.identity, self.starts).await
    }

    async fn check_journal(&self) -> Fact<Result<(), String>> {
        if !self.state.private().exists() {
            let root = self.state.root().shown();
            return Fact::NotApplicable(format!("no controller has used `{root}` yet"));
        }
        match preflight::check_state_dir_writable(&self.state).await {
            Ok(()) => Fact::Known(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Fact::Unknown("the state directory belongs to another user".to_owned())
            }
            Err(error) => Fact::Known(Err(error.to_string())),
        }
    }

    async fn find_orphans(&self) -> Fact<Vec<Orphan>> {
        match list_or_clean(&ControllerClient::remote(self.settings.clone()), &[], None).await {
            Ok(orphans) => Fact::Known(orphans),
            Err(failure) => Fact::Unknown(failure.message().to_owned()),
        }
    }

    async fn list_ports(
        &self,
        wanted: &DesiredResult,
        listeners: Option<&ListenersFact>,
    ) -> Fact<Vec<PortFact>> {
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(reason) => return Fact::NotApplicable(reason.clone()),
        };
        let mut ports: Vec<PortFact> = wanted
            .values()
            .flat_map(|one| list_ports_of(&one.desired))
            .collect();
        let numbers = ports.iter().map(|port| port.port).collect();
        let holders = self.docker.port_holders(&numbers).await;
        let is_here = self.docker.endpoint().starts_with("unix:");
        let range = is_here.then(argus_docker::outgoing_ports).flatten();
        for port in &mut ports {
            let number = port.port.number;
            port.outgoing = range.filter(|(first, last)| (*first..=*last).contains(&number));
            let holder = holders.holders.get(&port.port);
            let is_own = holder.is_some_and(|holder| is_own_port(holder, port));
            port.owner = holder.filter(|_| !is_own).cloned();
            if is_own && port.is_local {
                let other = listeners.and_then(|all| all.owner_of(port.port, LOCAL));
                port.other_owner = other.cloned();
            }
        }
        let is_taken = ports.iter().any(|port| port.owner.is_some());
        if holders.complete || is_taken || ports.is_empty() {
            return Fact::Known(ports);
        }
        Fact::unknown(
            "only published container ports are visible here, and no container publishes a desired port",
        )
    }

    async fn list_images(&self, wanted: &DesiredResult) -> Fact<Vec<ImageFact>> {
        use futures::StreamExt as _;
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(reason) => return Fact::NotApplicable(reason.clone()),
        };
        let named: BTreeSet<(String, bool)> = wanted
            .values()
            .flat_map(|one| one.desired.services.values())
            .map(|service| {
                let built = matches!(service.image, DesiredImage::Built(_));
                (service.image.reference().to_owned(), built)
            })
            .collect();
        let mut secrets = Secrets::default();
        for one in wanted.values() {
            secrets.join(&one.desired.secret_values());
        }
        let secrets = &secrets;
        let check = |(reference, built): (String, bool)| async move {
            let present = self.docker.has_image(&reference).await?;
            let fact = ImageFact::new(&reference, present, built, secrets);
            Ok::<_, argus_core::outcome::ActionError>(fact)
        };
        let checked: Vec<_> = futures::stream::iter(named)
            .map(check)
            .buffered(PARALLEL_CHECKS)
            .collect()
            .await;
        match checked.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(images) => Fact::Known(images),
            Err(error) => Fact::Unknown(secrets.redacted(&error.to_string())),
        }
    }
}

/// Desired state of a controller with this state directory and identity. With `starts`, also the environments that are taken down.
pub(crate) async fn read_desired(
    settings: &Settings,
    state: &StateDir,
    identity: &str,
    starts: bool,
) -> DesiredResult {
    let (own, identity, there) = (settings.clone(), identity.to_owned(), state.clone());
    let read = blocking_io::read_until(move |stop| {
        let persisted: PersistedState = read_or_default(&there.state_json());
        let registry = spec_files::read_own_folder(&own, &identity, stop);
        Ok((persisted, registry, is_alive(&there)))
    });
    let (mut persisted, registry, alive): (PersistedState, SpecRegistry, bool) =
        match tokio::time::timeout(READ_TIMEOUT, read).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => return Err("cannot read the specs".to_owned()),
            Err(_) => {
                return Err(format!(
                    "timed out after {} s reading the specs",
                    READ_TIMEOUT.as_secs()
                ));
            }
        };
    if let Some(reason) = &registry.unavailable {
        return Err(reason.clone());
    }
    if starts {
        persisted.overrides.down.clear();
    }
    let effective = persisted.overrides.effective(&registry);
    let mut wanted = effective.unwrap_or_else(|| registry.environments.clone());
    // A running controller keeps environments of deleted files for a grace period. Without one, they are not desired.
    if !alive {
        let gone = |env: &EnvName| {
            let file = registry.file_of(env);
            file.is_some_and(|(_, entry)| entry.gone_since.is_some())
        };
        wanted.retain(|env, _| !gone(env));
    }
    Ok(wanted)
}

/// A port held by the same service is not a conflict.
fn is_own_port(holder: &PortOwner, port: &PortFact) -> bool {
    matches!(holder, PortOwner::Environment { environment, service }
        if *environment == port.environment && *service == port.service)
}

fn list_ports_of(desired: &Desired) -> Vec<PortFact> {
    let may_move = match desired.ports.strategy {
        PortStrategy::Auto => true,
        PortStrategy::Fail => false,
    };
    // The publications of one port on several addresses are one request.
    let mut known = BTreeSet::new();
    let all = desired.services.values().flat_map(|service| {
        service.ports.iter().filter_map(|port| {
            Some(PortFact {
                outgoing: None,
                environment: desired.env.to_string(),
                service: service.name.to_string(),
                port: port.requested_host()?,
                owner: None,
                other_owner: None,
                is_local: port
                    .address
                    .is_none_or(|address| address.is_loopback() || address.is_unspecified()),
                may_move,
            })
        })
    });
    all.filter(|fact| known.insert((fact.service.clone(), fact.port)))
        .collect()
}

fn strictest_policy(wanted: &DesiredState) -> PreflightSettings {
    let policies = wanted.values().map(|one| one.desired.preflight);
    policies
        .filter(|policy| policy.enabled)
        .max_by_key(|policy| policy.disk_space_threshold)
        .unwrap_or_default()
}

/// Runs the check, which a person can skip because it is slow or forbidden.
async fn unless_skipped<T>(
    skip: &[CheckName],
    name: CheckName,
    check: impl Future<Output = Fact<T>>,
) -> Fact<T> {
    if skip.contains(&name) {
        return Fact::NotApplicable("skipped on request".to_owned());
    }
    check.await
}

async fn run_within<T>(check: impl Future<Output = Fact<T>>) -> Fact<T> {
    let late = |_| Fact::Unknown(format!("timed out after {} s", HOST_FACTS_TIMEOUT.as_secs()));
    tokio::time::timeout(HOST_FACTS_TIMEOUT, check)
        .await
        .unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Options, SpecOptions};

    #[tokio::test]
    async fn skipped_check_is_not_performed() {
        let check = || async { Fact::Known(()) };
        let skip = [CheckName::Images];
        assert_eq!(
            unless_skipped(&skip, CheckName::Ports, check()).await,
            Fact::Known(())
        );
        let never = async { unreachable!("the check is skipped") };
        let skipped: Fact<()> = unless_skipped(&skip, CheckName::Images, never).await;
        assert!(matches!(skipped, Fact::NotApplicable(_)));
    }

    #[tokio::test]
    async fn second_run_checks_ports_and_images_as_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e2e.yaml");
        let text = "project: { name: shop }\nservices: { web: { image: busybox:1, container: { name: shop-web, ports: [\"18080:80\", \"[::1]:18080:80\"] } } }\n";
        std::fs::write(&file, text).unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let specs = SpecOptions {
            specs: Some(file),
            ..SpecOptions::default()
        };
        let settings = Settings::resolve(&options, &specs).unwrap();
        let state = settings.state.clone();
        let wanted = async |starts| {
            let wanted = read_desired(&settings, &state, "me", starts).await.unwrap();
            let ports = wanted.values().flat_map(|one| list_ports_of(&one.desired));
            let ports: Vec<u16> = ports.map(|port| port.port.number).collect();
            let images: Vec<String> = wanted
                .values()
                .flat_map(|one| one.desired.services.values())
                .map(|service| service.image.reference().to_owned())
                .collect();
            (ports, images)
        };
        let all = (vec![18_080], vec!["busybox:1".to_owned()]);
        assert_eq!(wanted(true).await, all);
        // A run removes its environment at its end.
        let persisted = state.state_json();
        std::fs::create_dir_all(persisted.parent().unwrap()).unwrap();
        for removed in [
            r#"{"down":{"shop":{"fileHashes":[]}}}"#,
            r#"{"down":{"shop":"0123456789abcdef"},"expired":["shop"]}"#,
        ] {
            std::fs::write(&persisted, removed).unwrap();
            assert_eq!(wanted(true).await, all);
            assert_eq!(
                wanted(false).await,
                (Vec::new(), Vec::new()),
                "nothing starts: {removed}"
            );
        }
    }
}
