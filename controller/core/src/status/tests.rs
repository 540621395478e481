//! Statuses of whole environments as golden files, and rules for all statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use argus_crds::diagnostic::{Diagnostic, Location, OtherFile};
use argus_crds::error::{ActionId, Class, Code, Severity};
use argus_crds::status::{EnvironmentStatus, Mode, Phase, PreflightOverall, ServiceState, Truth};

use crate::action::{
    Action, ActionFailure, ActionKind, ActionProgress, Amount, CallArgs, Cause, Step, Subject,
};
use crate::backoff::Growth;
use crate::connectivity::{
    ConnectivityCheck, ConnectivityInput, LinkError, LinkResult, Target, TargetResult,
};
use crate::desired::PreflightSettings;
use crate::desired::{
    Accepted, Condition, Criticality, Dependency, Desired, Image, Port, PortPolicy, PortStrategy, Probe,
    ProbeHandler, RestartMode, RestartPolicy, Role, Service,
};
use crate::failed_run::FailedRun;
use crate::ident::PortKey;
use crate::ident::{
    ContainerId, EnvName, Hash, NetworkId, Protocol, ProtocolPort, ResourceName, ServiceName,
};
use crate::labels;
use crate::observed::{
    Attachment, Container, ContainerState, InspectInfo, Network, Observed, Outage, RetryState, Store,
    WatchEvent,
};
use crate::outcome::{ActionError, PortOwner, PortRefusal};
use crate::plan::Plan;
use crate::preflight::{DiskFact, Fact, PreflightSnapshot};
use crate::probe::{HealthStates, ProbeStatus, ProbedHealth};
use crate::published::Addresses;
use crate::repair::RepairMemory;
use crate::secrets::Secrets;
use crate::socket_access::describe_refusal;
use crate::state::{BreakerRegistry, EnvHistory, RefusedPort, ServiceHistory};
use crate::status::SpecsProblem;
use crate::time::Timestamp;
use crate::user_requests::{TestLease, UserRequests};
use crate::wait::{Wait, WaitReason};

use super::{EngineView, Rejection, StatusInput, env_file, environment, error_id};

mod failed_runs;
mod flapping;
mod hidden_causes;
mod local_listeners;
mod mounted_files;
mod public_view;
mod secret_properties;
mod spec_edits;
mod taken_names;
mod test_results;

const NOW: Timestamp = Timestamp(1_790_000_000_000);

fn name(text: &str) -> ServiceName {
    ServiceName::new(text).unwrap()
}

fn hash(text: &str) -> Hash {
    Hash::new(text).unwrap()
}

fn tcp(number: u16) -> ProtocolPort {
    ProtocolPort::new(number, Protocol::Tcp)
}

fn service(text: &str, port: u16, criticality: Criticality) -> Service {
    Service {
        injected_file: None,
        name: name(text),
        role: Role::Service,
        container_name: ResourceName::new(format!("shop-{text}")).unwrap(),
        aliases: Vec::new(),
        networks: BTreeMap::new(),
        pull_policy: argus_crds::PullPolicy::Missing,
        image: Image::Named(format!("{text}:1")),
        entrypoint: None,
        command: None,
        labels: BTreeMap::new(),
        env_vars: BTreeMap::new(),
        ports: vec![Port {
            container: port,
            protocol: Protocol::Tcp,
            requested: Some(port),
            address: None,
        }],
        mounts: Vec::new(),
        covers: Vec::new(),
        tmpfs: Vec::new(),
        extra_hosts: Vec::new(),
        user: None,
        working_dir: None,
        process: Box::default(),
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(10),
        probe: Some(Probe {
            kind: ProbeHandler::Tcp { port },
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            retries: 3,
            success_threshold: 1,
            start_period: Duration::ZERO,
        }),
        depends_on: Vec::new(),
        one_shot: false,
        can_complete: false,
        criticality,
    }
}

/// Fixture of one environment `shop` with `db` and a dependent `web`; each test changes the inputs that it needs.
struct Shop {
    env: EnvName,
    accepted: Option<Accepted>,
    diagnostics: Option<(Code, Vec<Diagnostic>)>,
    specs_scanned: bool,
    specs_problem: Option<SpecsProblem>,
    reachable: bool,
    reason: String,
    observed: Observed,
    plan: Option<Plan>,
    health: HealthStates,
    history: EnvHistory,
    repairs: RepairMemory,
    refused: BTreeMap<ProtocolPort, RefusedPort>,
    progress: BTreeMap<Subject, ActionProgress>,
    previous: Option<EnvironmentStatus>,
    requests: UserRequests,
    breakers: BreakerRegistry,
    preflight: Option<PreflightSnapshot>,
    connectivity: crate::connectivity::CheckResults,
    retry_state: Option<(u32, Timestamp)>,
    events_lost: Option<String>,
    outages: Vec<Outage>,
    conflicting_spec: Option<Vec<Diagnostic>>,
    addresses: Addresses,
    now: Timestamp,
}

impl Shop {
    #[allow(clippy::too_many_lines, reason = "it has a line per field")]
    fn new() -> Self {
        let mut web = service("web", 8080, Criticality::Important);
        web.depends_on = vec![Dependency {
            service: name("db"),
            condition: Condition::Healthy,
            optional: false,
            restart: false,
        }];
        let services = [service("db", 5432, Criticality::Critical), web];
        let restart = RestartPolicy {
            enabled: true,
            max_restarts: 3,
            delay: Duration::from_secs(2),
            growth: Growth::Exponential,
            max_delay: Duration::from_secs(60),
            window: Duration::from_secs(300),
            reset_after: Duration::from_secs(60),
            halt_after_same: Some(3),
            mode: RestartMode::GiveUp,
            never: BTreeSet::new(),
            memory_above: None,
        };
        let desired = Desired {
            env: EnvName::new("shop").unwrap(),
            project: "Shop".to_owned(),
            revision: hash("aaaa"),
            internal: false,
            networks: BTreeMap::new(),
            external_networks: std::collections::BTreeSet::new(),
            network: ResourceName::new("shop-net").unwrap(),
            volumes: Vec::new(),
            external_volumes: std::collections::BTreeSet::new(),
            former_volumes: std::collections::BTreeMap::new(),
            services: services
                .into_iter()
                .map(|service| (service.name.clone(), service))
                .collect(),
            ports: PortPolicy {
                low: 20_000,
                high: 20_100,
                strategy: PortStrategy::Auto,
            },
            restart,
            preflight: crate::desired::PreflightSettings::default(),
            delete_volumes: false,
            container_limits: crate::desired::ContainerLimits::default(),
            clean_orphans: true,
            verify_connectivity: true,
            ttl: None,
            env_file: None,
            folder: None,
            worktree: None,
            hold: false,
            rollback: None,
            breaker: Some(crate::desired::BreakerSettings::default()),
            secrets: Secrets::default(),
            notes: Vec::new(),
        };
        let key = |text: &str, port| PortKey {
            service: name(text),
            container: tcp(port),
        };
        let plan = Plan {
            ports: [(key("db", 5432), 5432), (key("web", 8080), 8080)].into(),
            revision: Some(hash("aaaa")),
            hashes: [(name("db"), hash("d1")), (name("web"), hash("e1"))].into(),
            ..Plan::default()
        };
        Self {
            env: desired.env.clone(),
            accepted: Some(Accepted {
                desired,
                spec_path: "environments/shop/e2e.yaml".to_owned(),
                lines: crate::desired::key_lines::KeyLines::default(),
                accepted_at: NOW,
                has_pending_edit: false,
                allowed: false,
                is_ending: false,
                file_hash: None,
                mounted_files: std::collections::BTreeMap::new(),
            }),
            diagnostics: None,
            specs_scanned: true,
            specs_problem: None,
            reachable: true,
            reason: String::new(),
            observed: Observed::default(),
            plan: Some(plan),
            health: HealthStates::new(),
            history: EnvHistory::default(),
            repairs: RepairMemory::default(),
            refused: BTreeMap::new(),
            progress: BTreeMap::new(),
            previous: None,
            requests: UserRequests::default(),
            breakers: BreakerRegistry::default(),
            preflight: None,
            connectivity: crate::connectivity::CheckResults::default(),
            retry_state: None,
            events_lost: None,
            outages: Vec::new(),
            conflicting_spec: None,
            addresses: Addresses {
                publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                engine_host: None,
            },
            now: NOW,
        }
    }

    /// Fixture with two healthy services.
    fn ready() -> Self {
        let mut shop = Self::new();
        shop.add_running("db", "d1", ProbeStatus::Healthy);
        shop.add_running("web", "e1", ProbeStatus::Healthy);
        shop
    }

    fn add_running(&mut self, service: &str, hash: &str, status: ProbeStatus) {
        self.is(service, hash, ContainerState::Running);
        let id = ContainerId::new(format!("c-{service}-{hash}")).unwrap();
        let health = ProbedHealth {
            status,
            since: NOW,
            started_at: Some(NOW),
            output: "connection refused".to_owned(),
            ..ProbedHealth::default()
        };
        self.health.insert(id, health);
    }

    fn is(&mut self, service: &str, hash: &str, state: ContainerState) {
        let id = ContainerId::new(format!("c-{service}-{hash}")).unwrap();
        let labels = [
            (labels::MANAGED, "true"),
            (labels::ENVIRONMENT, "shop"),
            (labels::PROJECT, "Shop"),
            (labels::SERVICE, service),
            (labels::SPEC_HASH, hash),
            (labels::CONTROLLER, "CONTROLLER"),
        ];
        let container = Container {
            id: id.clone(),
            name: format!("shop-{service}"),
            labels: labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            image: format!("{service}:1"),
            state,
            created_at: NOW,
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                started_at: Some(NOW),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        };
        self.observed.containers.insert(Arc::new(container));
    }

    /// Attaches all containers to the network of the environment.
    fn attach_all(&mut self) {
        let network = Network {
            id: NetworkId::new("n1").unwrap(),
            name: "shop-net".to_owned(),
            labels: BTreeMap::new(),
            created_at: NOW,
            is_broken: false,
        };
        let attachment = Attachment {
            network: Some(network.id.clone()),
            aliases: Vec::new(),
            address: None,
        };
        let containers: Vec<Arc<Container>> = self.observed.containers.values().cloned().collect();
        for mut container in containers {
            let networks = &mut Arc::make_mut(&mut container).networks;
            networks.insert(network.name.clone(), attachment.clone());
            self.observed.containers.insert(container);
        }
        self.observed
            .networks
            .insert(network.id.clone(), Arc::new(network));
    }

    fn subject(&self, service: &str) -> Subject {
        Subject::Service {
            environment: self.env.clone(),
            service: name(service),
        }
    }

    fn add_wait(&mut self, service: &str, on: WaitReason) {
        let subject = self.subject(service);
        self.plan.get_or_insert_default().waits.push(Wait { subject, on });
    }

    fn add_image_wait(&mut self, key: &str, on: WaitReason) {
        let subject = Subject::Image { key: key.to_owned() };
        self.plan.get_or_insert_default().waits.push(Wait { subject, on });
    }

    fn add_failure(&mut self, service: &str, exit_code: i64, oom_killed: bool) {
        let container = ContainerId::new(format!("c-{service}-d1")).unwrap();
        let at = NOW + Duration::from_secs(7);
        let failed_run = FailedRun {
            started_at: Some(NOW),
            exit_code,
            oom_killed,
            number: 1,
            ..FailedRun::new(container, at)
        };
        let history: &mut ServiceHistory = self.history.service_mut(&name(service));
        history.failures.push(failed_run);
        history.restarts += 1;
    }

    fn status(&self) -> EnvironmentStatus {
        let rejected = self.diagnostics.as_ref().map(|(code, diagnostics)| Rejection {
            spec_path: "environments/shop/e2e.yaml",
            code: *code,
            diagnostics,
            is_compose: false,
        });
        let conflicting_spec = self.conflicting_spec.as_ref().map(|diagnostics| Rejection {
            spec_path: "environments/shop/other.e2e.yaml",
            code: Code::SpecConflict,
            diagnostics,
            is_compose: false,
        });
        let status = environment(&StatusInput {
            env: &self.env,
            accepted: self.accepted.as_ref(),
            rejected,
            conflicting_specs: conflicting_spec.as_slice(),
            warnings: &[],
            requests: &self.requests,
            breakers: &self.breakers,
            can_roll_back: true,
            outages: &self.outages,
            specs_scanned: self.specs_scanned,
            specs_problem: self.specs_problem.as_ref(),
            engine: EngineView {
                reachable: self.reachable,
                synced: self.reachable,
                reason: &self.reason,
                endpoint: "unix:///run/docker.sock",
                since: (!self.reachable).then_some(NOW),
                retry: self.retry_state.map(|(tries, next)| RetryState {
                    attempts: tries,
                    next: Some(next),
                    reason: &self.reason,
                }),
                events_lost: self.events_lost.as_deref().map(|reason| (NOW, reason)),
            },
            observed: &self.observed,
            plan: self.plan.as_ref(),
            health: &self.health,
            history: &self.history,
            repairs: &self.repairs,
            refused: &self.refused,
            progress: &self.progress,
            preflight: self.preflight.as_ref(),
            connectivity: &self.connectivity,
            disk_full: None,
            previous: self.previous.as_ref(),
            addresses: self.addresses,
            mode: if self.reachable { Mode::Full } else { Mode::Minimal },
            safe_mode_reason: None,
            controller: "CONTROLLER",
            state_dir: "/srv/state",
            now: self.now,
        });
        assert_waits_are_reported(&status);
        assert_errors_have_their_context(&status);
        status
    }

    fn failure(verb: ActionKind, error: ActionError) -> ActionFailure {
        ActionFailure {
            earlier: Vec::new(),
            verb,
            error,
            at: NOW,
            attempts: 2,
            call: Box::new(CallArgs {
                id: "ACTION".to_owned(),
                ..CallArgs::default()
            }),
        }
    }
}

/// Every error names its controller, its occurrence and cause, the place in the file, the stage and the attempt.
fn assert_errors_have_their_context(status: &EnvironmentStatus) {
    let of_services = status.services.iter().filter_map(|row| row.last_error.as_ref());
    for error in status.errors.iter().chain(of_services) {
        let texts = [
            &error.controller,
            &error.error_id,
            &error.correlation_id,
            &error.stage,
        ];
        let is_complete = texts.into_iter().all(Option::is_some) && error.attempt >= Some(1);
        assert!(is_complete && error.spec_path.is_some(), "{error:#?}");
    }
}

/// Asserts that an environment without `Ready` reports its waits, and each of its unready services as well.
fn assert_waits_are_reported(status: &EnvironmentStatus) {
    if status.phase == Phase::Ready {
        return;
    }
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.kind == "Ready")
        .unwrap();
    assert!(
        ready.status == Truth::False && !ready.message.is_empty(),
        "{ready:?}"
    );
    for row in &status.services {
        let current = matches!(row.state, ServiceState::Ready | ServiceState::Completed);
        assert!(
            current || row.waiting_on.as_ref().is_some_and(|on| !on.message.is_empty()),
            "{row:?}"
        );
    }
}

fn condition(status: &EnvironmentStatus, kind: &str) -> Truth {
    status
        .conditions
        .iter()
        .find(|condition| condition.kind == kind)
        .unwrap()
        .status
}

fn golden(case: &str, status: &EnvironmentStatus) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_json_snapshot!(case, status));
}

#[test]
fn waiting_environment_is_pending() {
    let mut shop = Shop::new();
    for service in ["db", "web"] {
        shop.add_wait(service, WaitReason::Engine { why: String::new() });
    }
    let status = shop.status();
    assert_eq!(status.phase, Phase::Pending);
    golden("pending", &status);
}

#[test]
fn image_pull_is_reported() {
    let mut shop = Shop::new();
    shop.add_wait(
        "db",
        WaitReason::Image {
            reference: "db:1".to_owned(),
        },
    );
    shop.add_wait(
        "web",
        WaitReason::Dependency {
            service: name("db"),
            condition: Condition::Healthy,
            failing: false,
        },
    );
    shop.add_image_wait(
        "db:1",
        WaitReason::InFlight {
            verb: ActionKind::PullImage,
        },
    );
    shop.progress.insert(
        Subject::Image {
            key: "db:1".to_owned(),
        },
        ActionProgress {
            line: "layer 3/7 12.1 MB of 40 MB".to_owned(),
            layers: Some(Amount { done: 3, total: 7 }),
            ..ActionProgress::default()
        },
    );
    let status = shop.status();
    assert_eq!(status.phase, Phase::Progressing);
    assert_eq!(status.services[0].state, ServiceState::Pulling);
    golden("pulling", &status);
}

#[test]
fn healthy_environment_is_ready() {
    let status = Shop::ready().status();
    assert_eq!(status.phase, Phase::Ready);
    golden("ready", &status);
}

#[test]
fn check_that_fails_on_a_starved_host_is_shown() {
    let mut shop = Shop::ready();
    let shown = |shop: &Shop| shop.status().services[1].host_pressure;
    assert_eq!(shown(&shop), None);
    let of = |status| ProbedHealth {
        status,
        host_pressure: Some(81),
        started_at: Some(NOW),
        ..ProbedHealth::default()
    };
    let id = ContainerId::new("c-web-e1").unwrap();
    shop.health.insert(id.clone(), of(ProbeStatus::Healthy));
    assert_eq!(shown(&shop), Some(81));
    assert_eq!(shop.status().phase, Phase::Ready);
    shop.health.insert(id, of(ProbeStatus::Unhealthy));
    assert_eq!(shown(&shop), None);
}

#[test]
fn check_that_fails_during_the_start_is_named() {
    let mut shop = Shop::ready();
    shop.add_running("web", "e1", ProbeStatus::Starting);
    shop.add_wait("web", WaitReason::Probe);
    let shown = |shop: &Shop| {
        let on = shop.status().services[1].waiting_on.clone().unwrap();
        format!("{}: {}", on.reason, on.message)
    };
    assert_eq!(shown(&shop), "ProbePending: its health check to succeed");
    let id = ContainerId::new("c-web-e1").unwrap();
    shop.health.get_mut(&id).unwrap().failing = true;
    assert_eq!(
        shown(&shop),
        "ProbeFailing: its health check to succeed, which fails so far: connection refused"
    );
    let services = &mut shop.accepted.as_mut().unwrap().desired.services;
    let web = services.get_mut(&name("web")).unwrap();
    web.probe.as_mut().unwrap().start_period = Duration::from_secs(30);
    assert!(shown(&shop).ends_with("so far: connection refused (start period 30 s)"));
    let public = super::public_view::environment(&shop.status());
    let on = public.services[1].waiting_on.as_ref().unwrap();
    assert_eq!(on.message, "only clients with the token see the reason");
}

#[test]
fn restart_of_a_ready_service_degrades_the_environment() {
    let mut shop = Shop::ready();
    shop.history.last_ready = Some(hash("aaaa"));
    shop.is("db", "d1", ContainerState::Exited);
    shop.add_failure("db", 137, true);
    shop.add_wait(
        "db",
        WaitReason::RestartDelay {
            until: NOW + Duration::from_secs(9),
            attempt: 1,
        },
    );
    let status = shop.status();
    assert_eq!(status.phase, Phase::Degraded);
    assert_eq!(status.errors[0].code, Code::ContainerOom);
    golden("degraded", &status);
}

#[test]
fn given_up_critical_service_fails_the_environment() {
    let mut shop = Shop::ready();
    shop.is("db", "d1", ContainerState::Exited);
    for _ in 0..3 {
        shop.add_failure("db", 3, false);
    }
    shop.add_wait("db", WaitReason::GaveUp { restarts: 3 });
    let status = shop.status();
    assert_eq!(status.phase, Phase::Failed);
    assert_eq!(status.errors[0].details["attempts"].as_array().unwrap().len(), 3);
    golden("failed", &status);
}

#[test]
fn service_without_restarts_also_reports_the_cause() {
    let mut shop = Shop::ready();
    shop.accepted.as_mut().unwrap().desired.restart.max_restarts = 0;
    shop.is("db", "d1", ContainerState::Exited);
    shop.add_failure("db", 137, true);
    shop.add_wait("db", WaitReason::GaveUp { restarts: 0 });
    let codes = |status: &EnvironmentStatus| {
        let of_db = status
            .errors
            .iter()
            .filter(|error| error.service.as_deref() == Some("db"));
        of_db.map(|error| error.code).collect::<Vec<_>>()
    };
    assert_eq!(
        codes(&shop.status()),
        [Code::ContainerRestartExhausted, Code::ContainerOom]
    );
    shop.accepted.as_mut().unwrap().desired.restart.max_restarts = 1;
    assert_eq!(codes(&shop.status()), [Code::ContainerRestartExhausted]);
}

#[test]
fn failed_cleanup_is_reported_until_its_retry_ends() {
    let mut shop = Shop::ready();
    let subject = Subject::ExtraContainer {
        id: ContainerId::new("c-extra").unwrap(),
    };
    let until = NOW + Duration::from_secs(10);
    let failure = ActionFailure {
        earlier: Vec::new(),
        verb: ActionKind::RemoveContainer,
        error: ActionError::Busy("removal is in progress".to_owned()),
        at: NOW,
        attempts: 1,
        call: Box::default(),
    };
    let mut on = |on: WaitReason, previous: Option<EnvironmentStatus>| {
        shop.previous = previous;
        let subject = subject.clone();
        shop.plan.get_or_insert_default().waits = vec![Wait { subject, on }];
        shop.status()
    };
    let failed = on(WaitReason::Retry { failure, until }, None);
    assert_eq!(failed.errors[0].code, Code::CleanupFailed);
    let verb = ActionKind::RemoveContainer;
    let tried = on(WaitReason::InFlight { verb }, Some(failed.clone()));
    assert_eq!(tried.errors, failed.errors);
    let ended = on(WaitReason::Removal, Some(tried));
    assert_eq!(ended.errors, []);
}

#[test]
fn object_in_use_names_the_containers_that_stay() {
    let mut shop = Shop::ready();
    let id = crate::ident::NetworkId::new("n1").unwrap();
    let wait = Wait {
        subject: Subject::ExtraNetwork { id },
        on: WaitReason::InUse {
            object: "network `old`".to_owned(),
            containers: "`a`, `b`".to_owned(),
        },
    };
    shop.plan.get_or_insert_default().waits.push(wait);
    let error = &shop.status().errors[0];
    assert_eq!(
        error.message,
        "cannot remove network `old`: it is in use by `a`, `b`, which Argus does not remove"
    );
    assert_eq!((error.code, error.class), (Code::CleanupFailed, Class::Human));
}

#[test]
fn moved_port_is_reported_everywhere() {
    let mut shop = Shop::ready();
    let key = PortKey {
        service: name("web"),
        container: tcp(8080),
    };
    shop.plan.as_mut().unwrap().ports.insert(key, 20_000);
    let status = shop.status();
    assert_eq!(status.phase, Phase::Ready);
    assert!(status.port_mappings[1].reassigned);
    golden("moved_port", &status);
    let lines = "ARGUS_DB_5432=127.0.0.1:5432\nARGUS_DB_URL=http://127.0.0.1:5432\n\
                 ARGUS_WEB_8080=127.0.0.1:20000\nARGUS_WEB_URL=http://127.0.0.1:20000\n";
    assert_eq!(env_file(&status.port_mappings), lines);
}

#[test]
fn env_file_has_the_first_address_of_a_port() {
    let mut shop = Shop::ready();
    let services = &mut shop.accepted.as_mut().unwrap().desired.services;
    let web = services.get_mut(&name("web")).unwrap();
    let second = crate::desired::Port {
        address: Some(std::net::Ipv6Addr::LOCALHOST.into()),
        ..web.ports[0].clone()
    };
    web.ports.push(second);
    let mappings = shop.status().port_mappings;
    let of_web = mappings.iter().filter(|mapping| mapping.service == "web");
    let places: Vec<_> = of_web
        .map(|it| (it.host.as_deref().unwrap(), it.actual_port))
        .collect();
    assert_eq!(places, [("127.0.0.1", 8080), ("::1", 8080)]);
    let lines = "ARGUS_DB_5432=127.0.0.1:5432\nARGUS_DB_URL=http://127.0.0.1:5432\n\
                 ARGUS_WEB_8080=127.0.0.1:8080\nARGUS_WEB_URL=http://127.0.0.1:8080\n";
    assert_eq!(env_file(&mappings), lines);
}

#[test]
fn ports_of_a_remote_engine_have_its_host() {
    let mut shop = Shop::ready();
    shop.addresses.engine_host = Some(IpAddr::from([198, 51, 100, 7]));
    let status = shop.status();
    // Only the engine's host reaches its loopback.
    assert_eq!(status.port_mappings[0].host, None);
    assert_eq!(env_file(&status.port_mappings), "");
    let warnings: Vec<_> = status.diagnostics.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "clients cannot reach `db` at port 5432: the engine runs on another host, and publishes it on its address 127.0.0.1",
            "clients cannot reach `web` at port 8080: the engine runs on another host, and publishes it on its address 127.0.0.1",
        ]
    );
    let hint = status.diagnostics[0].hint.as_deref().unwrap();
    assert!(hint.contains("--publish-address 0.0.0.0"), "{hint}");
    shop.addresses.publish_address = IpAddr::from([0, 0, 0, 0]);
    let status = shop.status();
    assert_eq!(status.diagnostics, []);
    let lines = "ARGUS_DB_5432=198.51.100.7:5432\nARGUS_DB_URL=http://198.51.100.7:5432\n\
                 ARGUS_WEB_8080=198.51.100.7:8080\nARGUS_WEB_URL=http://198.51.100.7:8080\n";
    assert_eq!(env_file(&status.port_mappings), lines);
}

#[test]
fn rejected_edit_keeps_the_last_good_revision() {
    let mut shop = Shop::ready();
    let at = Location {
        line: 4,
        column: 9,
        length: 5,
    };
    shop.diagnostics = Some((
        Code::SpecInvalid,
        vec![
            Diagnostic::error("services[0].container.ports", "a port must be a number")
                .at(at)
                .hint("write `8080`"),
            Diagnostic::error("services[1]", "`privileged` is not allowed")
                .hint("POLICY_VIOLATION: leave it out"),
            Diagnostic::warning("sevices", "unknown key `sevices`"),
        ],
    ));
    let status = shop.status();
    assert_eq!(status.phase, Phase::Ready);
    let codes: Vec<_> = status.errors.iter().map(|error| error.code).collect();
    assert_eq!(codes, [Code::SpecInvalid, Code::PolicyViolation]);
    assert_eq!(condition(&status, "SpecAccepted"), Truth::False);
    golden("rejected_edit", &status);

    shop.accepted = None;
    shop.observed = Observed::default();
    shop.plan = None;
    assert_eq!(shop.status().phase, Phase::Failed);
}

#[test]
fn removed_environment_is_terminating() {
    let mut shop = Shop::ready();
    shop.accepted = None;
    let step = Step {
        subject: Subject::ExtraContainer {
            id: ContainerId::new("c-db-d1").unwrap(),
        },
        action: Action::StopContainer {
            id: ContainerId::new("c-db-d1").unwrap(),
            grace: Duration::from_secs(10),
        },
        cause: Cause::EnvironmentRemoved,
    };
    shop.plan = Some(Plan {
        steps: vec![step],
        ..Plan::default()
    });
    let status = shop.status();
    assert_eq!(status.phase, Phase::Terminating);
    let reported = &status.services[0].waiting_on.as_ref().unwrap().message;
    assert_eq!(reported, "the stop of its container (environment removed)");
    golden("removed_environment_is_terminating", &status);
}

#[test]
fn environment_before_the_first_scan_is_not_terminating() {
    let mut shop = Shop::ready();
    shop.history.last_ready = Some(hash("aaaa"));
    shop.accepted = None;
    shop.plan = None;
    shop.specs_scanned = false;
    let status = shop.status();
    assert_eq!(status.phase, Phase::Degraded);
    let accepted = status
        .conditions
        .iter()
        .find(|found| found.kind == "SpecAccepted");
    assert_eq!(accepted.unwrap().reason, "NotScanned");
    for service in &status.services {
        assert_eq!(service.state, ServiceState::Unknown);
        assert_eq!(service.waiting_on.as_ref().unwrap().reason, "SpecsNotScanned");
    }
    shop.observed = Observed::default();
    assert_eq!(shop.status().phase, Phase::Pending);
}

#[test]
fn unreachable_engine_marks_the_last_known_state_stale() {
    let mut shop = Shop::ready();
    shop.history.last_ready = Some(hash("aaaa"));
    shop.previous = Some(shop.status());
    shop.now = NOW + Duration::from_secs(60);
    shop.reachable = false;
    shop.reason = "connection refused".to_owned();
    let status = shop.status();
    assert_eq!((status.phase, status.stale), (Phase::Degraded, true));
    assert_eq!(status.errors[0].code, Code::DockerUnavailable);
    golden("engine_away", &status);

    let mut later = shop;
    later.previous = Some(status.clone());
    later.now = NOW + Duration::from_secs(120);
    assert_eq!(
        later.status(),
        status,
        "a repeated report of a failure keeps its message, time and id"
    );
}

#[test]
fn unchanged_parts_keep_their_times() {
    let mut shop = Shop::ready();
    let first = shop.status();
    shop.previous = Some(first.clone());
    shop.now = NOW + Duration::from_secs(5);
    assert_eq!(shop.status(), first);
    shop.add_running("web", "e1", ProbeStatus::Unhealthy);
    shop.add_wait("web", WaitReason::Unhealthy { until: None });
    let second = shop.status();
    assert_ne!(second.as_of, first.as_of);
    let since = |status: &EnvironmentStatus, kind: &str| {
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
            .unwrap();
        found.last_transition_time.clone()
    };
    assert_eq!(since(&second, "SpecAccepted"), NOW.to_string());
    assert_eq!(since(&second, "Ready"), shop.now.to_string());
    assert_eq!(second.errors[0].code, Code::HealthCheckTimeout);
    assert!(second.errors[0].message.contains("connection refused"));
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table, a row for each error")]
fn every_failed_call_has_its_code() {
    let refusal = |owner| {
        let refusal = PortRefusal {
            port: tcp(5432),
            free_now: false,
            owner,
            busy: BTreeMap::new(),
        };
        ActionError::PortTaken(Box::new(refusal))
    };
    let text = || "why".to_owned();
    let limited = ActionError::RateLimited {
        message: text(),
        retry_after: Some(Duration::from_secs(90)),
    };
    let built = ActionError::BuildFailed {
        message: text(),
        log: "Step 2/5".to_owned(),
        instruction: None,
    };
    let interrupted = ActionError::BuildInterrupted {
        message: text(),
        log: "Step 2/5".to_owned(),
    };
    let cases = [
        (
            ActionKind::StartContainer,
            refusal(PortOwner::Unknown),
            Code::PortConflict,
        ),
        (
            ActionKind::StartContainer,
            refusal(PortOwner::StaleAllocation),
            Code::PortStaleAllocation,
        ),
        (
            ActionKind::CreateContainer,
            ActionError::NameTaken { holder: text() },
            Code::NameConflict,
        ),
        (
            ActionKind::CreateContainer,
            ActionError::ImageMissing,
            Code::ImageNotFound,
        ),
        (
            ActionKind::PullImage,
            ActionError::ImageNotFound(text()),
            Code::ImageNotFound,
        ),
        (
            ActionKind::PullImage,
            ActionError::AuthRequired(text()),
            Code::AuthRequired,
        ),
        (ActionKind::PullImage, limited, Code::RegistryRateLimited),
        (
            ActionKind::PullImage,
            ActionError::PullFailed(text()),
            Code::ImagePullFailed,
        ),
        (ActionKind::BuildImage, built, Code::BuildFailed),
        (ActionKind::BuildImage, interrupted, Code::BuildFailed),
        (
            ActionKind::StartContainer,
            ActionError::EntrypointNotFound(text()),
            Code::EntrypointNotFound,
        ),
        (
            ActionKind::StartContainer,
            ActionError::BadMount(text()),
            Code::BadMount,
        ),
        (
            ActionKind::CreateVolume,
            ActionError::VolumeNotFound(text()),
            Code::VolumeNotFound,
        ),
        (
            ActionKind::CreateNetwork,
            ActionError::NetworkNotFound(text()),
            Code::NetworkNotFound,
        ),
        (
            ActionKind::StartContainer,
            ActionError::StartFailed(text()),
            Code::ContainerStartFailed,
        ),
        (
            ActionKind::CreateContainer,
            ActionError::Rejected(text()),
            Code::ContainerStartFailed,
        ),
        (
            ActionKind::CreateContainer,
            ActionError::DiskFull(text()),
            Code::DiskSpaceLow,
        ),
        (
            ActionKind::CreateNetwork,
            ActionError::PoolExhausted(text()),
            Code::NetworkPoolExhausted,
        ),
        (
            ActionKind::RemoveNetwork,
            ActionError::NetworkInUse(text()),
            Code::NetworkStuck,
        ),
        (
            ActionKind::RemoveContainer,
            ActionError::Rejected(text()),
            Code::CleanupFailed,
        ),
        (
            ActionKind::StartContainer,
            ActionError::Unreachable(text()),
            Code::DockerUnavailable,
        ),
        (
            ActionKind::StartContainer,
            ActionError::TimedOut(text()),
            Code::Timeout,
        ),
        (
            ActionKind::StartContainer,
            ActionError::ConnectionLost(text()),
            Code::ConnectionLost,
        ),
    ];
    for (verb, error, code) in cases {
        let mut shop = Shop::new();
        shop.add_wait(
            "db",
            WaitReason::Failed {
                failure: Shop::failure(verb, error.clone()),
            },
        );
        let status = shop.status();
        let reported = status.services[0].last_error.clone().unwrap();
        assert_eq!(reported.code, code, "{error:?}");
        assert_eq!(
            (reported.service.as_deref(), reported.stage.as_deref()),
            (Some("db"), Some(verb.as_str()))
        );
        assert_eq!(status.errors, [reported]);
        assert_eq!(condition(&status, "Blocked"), Truth::True);
    }
}

#[test]
fn unavailable_ports_name_their_owners() {
    let owner = PortOwner::Process {
        pid: 7,
        command: "nginx -g daemon off".to_owned(),
    };
    let until = NOW + Duration::from_secs(5);
    let mut shop = Shop::new();
    shop.add_wait(
        "db",
        WaitReason::PortTaken {
            port: tcp(5432),
            owner: owner.clone(),
            until,
        },
    );
    let holders = vec![(tcp(20_000), owner)];
    shop.add_wait(
        "web",
        WaitReason::PortsExhausted {
            tried: 101,
            holders,
            until,
        },
    );
    let status = shop.status();
    let details = |at: usize| status.errors[at].details.clone();
    assert_eq!(details(1)["holders"].as_array().unwrap().len(), 1);
    assert_eq!(details(1)["more"], 100);
    assert_eq!(
        (status.errors[0].code, status.errors[1].code),
        (Code::PortConflict, Code::PortExhaustion)
    );
    assert_eq!(details(0)["owner"]["pid"], 7);
    assert_eq!(
        (
            details(1)["tried"].clone(),
            details(1)["holders"][0]["port"].clone()
        ),
        (101.into(), 20_000.into())
    );
}

#[test]
fn failed_replacement_keeps_the_old_container_running() {
    let mut shop = Shop::ready();
    shop.plan.as_mut().unwrap().hashes.insert(name("db"), hash("d2"));
    shop.add_wait(
        "db",
        WaitReason::Image {
            reference: "db:1".to_owned(),
        },
    );
    let failure = Shop::failure(
        ActionKind::PullImage,
        ActionError::ImageNotFound("db:1".to_owned()),
    );
    shop.add_image_wait("db:1", WaitReason::Failed { failure });
    let status = shop.status();
    assert_eq!(status.services[0].state, ServiceState::Running);
    assert_eq!(status.phase, Phase::Degraded);
    assert_eq!(status.errors[0].code, Code::ImageNotFound);
}

#[test]
fn optional_or_completed_service_does_not_block_ready() {
    for one_shot in [true, false] {
        let mut shop = Shop::ready();
        let services = &mut shop.accepted.as_mut().unwrap().desired.services;
        services.get_mut(&name("web")).unwrap().criticality = Criticality::Optional;
        let db = services.get_mut(&name("db")).unwrap();
        (db.one_shot, db.can_complete) = (one_shot, !one_shot);
        shop.add_wait("web", WaitReason::Unhealthy { until: None });
        shop.is("db", "d1", ContainerState::Exited);
        shop.history.service_mut(&name("db")).completed = Some(hash("d1"));
        let status = shop.status();
        assert_eq!(status.services[0].state, ServiceState::Completed);
        assert_eq!(status.phase, Phase::Ready);
    }
}

#[test]
fn given_up_recoverable_service_is_only_a_warning() {
    let given_up = |criticality| {
        let mut shop = Shop::ready();
        let services = &mut shop.accepted.as_mut().unwrap().desired.services;
        services.get_mut(&name("web")).unwrap().criticality = criticality;
        shop.is("web", "e1", ContainerState::Exited);
        shop.add_failure("web", 3, false);
        shop.add_wait("web", WaitReason::GaveUp { restarts: 3 });
        let status = shop.status();
        let degraded = status.conditions.iter().find(|it| it.kind == "Degraded").unwrap();
        let reported = (degraded.status, degraded.reason.clone());
        let error = status.services[1].last_error.as_ref().unwrap();
        (status.phase, reported, error.severity)
    };
    let reported = |truth, reason: &str| (truth, reason.to_owned());
    assert_eq!(
        given_up(Criticality::Important),
        (
            Phase::Degraded,
            reported(Truth::True, "NotAllReady"),
            Severity::Fatal
        )
    );
    assert_eq!(
        given_up(Criticality::Recoverable),
        (Phase::Ready, reported(Truth::True, "Warned"), Severity::Warning)
    );
    assert_eq!(
        given_up(Criticality::Optional),
        (
            Phase::Ready,
            reported(Truth::False, "AsExpected"),
            Severity::Warning
        )
    );
}

#[test]
fn running_recoverable_service_is_not_given_up() {
    let phase = |key: &str, is_old_running: bool| {
        let mut shop = Shop::ready();
        let services = &mut shop.accepted.as_mut().unwrap().desired.services;
        services.get_mut(&name("web")).unwrap().criticality = Criticality::Recoverable;
        let reference = services[&name("web")].image.reference().to_owned();
        shop.add_wait("web", WaitReason::Image { reference });
        let failure = Shop::failure(ActionKind::PullImage, ActionError::ImageNotFound(key.to_owned()));
        shop.add_image_wait(key, WaitReason::Failed { failure });
        if is_old_running {
            shop.is("web", "old", ContainerState::Running);
            shop.plan
                .as_mut()
                .unwrap()
                .replaced_but_running
                .insert(name("web"));
        } else {
            shop.is("web", "old", ContainerState::Exited);
        }
        shop.status().phase
    };
    assert_eq!(phase("web:1", false), Phase::Ready);
    assert_ne!(
        phase("web:1", true),
        Phase::Ready,
        "the desired container does not run"
    );
    assert_ne!(
        phase("web:10", false),
        Phase::Ready,
        "the failed image is not its own"
    );
}

#[test]
fn warnings_come_after_errors() {
    let mut shop = Shop::ready();
    let services = &mut shop.accepted.as_mut().unwrap().desired.services;
    services.get_mut(&name("db")).unwrap().criticality = Criticality::Recoverable;
    for (service, hash) in [("db", "d1"), ("web", "e1")] {
        shop.is(service, hash, ContainerState::Exited);
        shop.add_failure(service, 3, false);
        shop.add_wait(service, WaitReason::GaveUp { restarts: 3 });
    }
    let errors = shop.status().errors;
    let reported: Vec<_> = errors
        .iter()
        .map(|error| (error.service.as_deref(), error.severity))
        .collect();
    assert_eq!(
        reported,
        [(Some("web"), Severity::Fatal), (Some("db"), Severity::Warning)]
    );
}

#[test]
fn recoverable_service_blocks_ready_until_given_up() {
    let mut shop = Shop::ready();
    let services = &mut shop.accepted.as_mut().unwrap().desired.services;
    services.get_mut(&name("web")).unwrap().criticality = Criticality::Recoverable;
    shop.add_wait("web", WaitReason::Unhealthy { until: None });
    let status = shop.status();
    assert_eq!(status.phase, Phase::Progressing);
    assert_ne!(status.services[1].state, ServiceState::Failed);
}

#[test]
fn equal_failures_have_equal_ids() {
    let id = |at| error_id("shop", Some("db"), Code::ContainerCrash, "why", Timestamp(at));
    assert_eq!(id(1_700_000_000_000), id(1_700_000_000_000));
    assert_ne!(id(1_700_000_000_000), id(1_700_000_000_001));
    assert_eq!(id(0).len(), 26);
    assert!(
        id(1_800_000_000_000).starts_with("01"),
        "{}",
        id(1_800_000_000_000)
    );
}

#[test]
fn status_contains_no_secret_from_any_source() {
    let mut shop = Shop::ready();
    let desired = &mut shop.accepted.as_mut().unwrap().desired;
    desired.secrets = serde_json::from_value(serde_json::json!(["swordfish", "shop-db", "exit"])).unwrap();
    let db = desired.services.get_mut(&name("db")).unwrap();
    db.env_vars.insert("DB_PASSWORD".into(), "hunter-two".into());
    db.image = Image::Named("swordfish/db:1".to_owned());
    let secret_text = "no swordfish for hunter-two in `shop-db`";
    let failure = Shop::failure(
        ActionKind::CreateContainer,
        ActionError::Rejected(secret_text.to_owned()),
    );
    shop.add_wait("db", WaitReason::Failed { failure });
    let mut failed_run = FailedRun::new(ContainerId::new("c-web").unwrap(), NOW);
    failed_run.exit_code = 1;
    failed_run.evidence = Some(crate::outcome::Evidence {
        stderr: vec![secret_text.to_owned()],
        missing: vec![secret_text.to_owned()],
        ..crate::outcome::Evidence::default()
    });
    let web = shop.history.service_mut(&name("web"));
    web.failures.push(failed_run);
    shop.add_wait("web", WaitReason::GaveUp { restarts: 1 });
    let status = shop.status();
    let text = serde_json::to_string(&status).unwrap();
    assert!(!text.contains("swordfish"), "{text}");
    let of_db = &status.services[0];
    assert_eq!(
        of_db.last_error.as_ref().unwrap().message,
        "engine refused: no [redacted] for [redacted] in `shop-db`",
        "a name of the file stays"
    );
    assert_eq!(of_db.image.as_deref(), Some("[redacted]/db:1"));
    let error = status.services[1].last_error.as_ref().unwrap();
    let attempt = &error.details["attempts"][0];
    assert_eq!(attempt["kind"], "exit", "a word of Argus stays");
    let reported = error.stderr_tail.as_deref();
    let redacted = "no [redacted] for [redacted] in `shop-db`";
    assert_eq!(reported, Some(redacted), "secrets of other services are redacted");
    assert_eq!(attempt["lastLines"], serde_json::json!([redacted]));

    // A repeated report is the same occurrence.
    shop.previous = Some(status.clone());
    shop.now = NOW + Duration::from_secs(60);
    let again = shop.status();
    assert_eq!(again.errors, status.errors);
    assert_eq!(again.as_of, status.as_of);
}

/// Preflight snapshot of an engine with this many free bytes on its disk.
fn snapshot_with_free_space(free: u64) -> PreflightSnapshot {
    let mut preflight = PreflightSnapshot {
        at: Some(NOW),
        ..PreflightSnapshot::default()
    };
    preflight.host.disk = Fact::Known(DiskFact {
        path: "/var/lib/docker".to_owned(),
        free,
        total: 100_000_000_000,
        free_inodes: None,
        reclaimable: None,
    });
    preflight
}

#[test]
fn full_disk_is_reported_once_with_its_usage() {
    let mut shop = Shop::new();
    shop.preflight = Some(snapshot_with_free_space(7));
    let policy = PreflightSettings::default();
    let wait = shop
        .preflight
        .as_ref()
        .unwrap()
        .check_creation(&policy, Some(crate::preflight::snapshot::MAX_FACT_AGE), None, NOW)
        .unwrap_err();
    shop.add_wait("db", wait.clone());
    shop.add_wait("web", wait);
    let status = shop.status();
    let codes: Vec<_> = status.errors.iter().map(|error| error.code).collect();
    assert_eq!(codes, [Code::DiskSpaceLow]);
    let error = &status.errors[0];
    assert_eq!(error.stage.as_deref(), Some("preflight"));
    assert_eq!(error.details["freeBytes"], 7);
    assert_eq!((error.retryable, error.retry_after), (false, None));
    for row in &status.services {
        let on = row.waiting_on.as_ref().unwrap();
        assert_eq!(
            (on.reason.as_str(), on.error),
            ("PreflightFailed", Some(Code::DiskSpaceLow))
        );
    }
    let blocked = status
        .conditions
        .iter()
        .find(|condition| condition.kind == "Blocked")
        .unwrap();
    assert_eq!(blocked.status, Truth::True, "{blocked:?}");
    let report = status.preflight.unwrap();
    assert_eq!(report.overall, PreflightOverall::Unhealthy);
}

#[test]
fn low_disk_is_a_warning_between_one_and_two_thresholds() {
    let threshold = PreflightSettings::default().disk_space_threshold;
    for (free, is_low) in [
        (threshold, true),
        (2 * threshold - 1, true),
        (2 * threshold, false),
    ] {
        let mut shop = Shop::ready();
        shop.preflight = Some(snapshot_with_free_space(free));
        let status = shop.status();
        assert_eq!(status.phase, Phase::Ready, "creation continues");
        let found: Vec<_> = status
            .errors
            .iter()
            .map(|error| (error.code, error.severity))
            .collect();
        let expected = is_low.then_some((Code::DiskSpaceLow, Severity::Warning));
        assert_eq!(found, Vec::from_iter(expected), "{free}");
        let Some(error) = status.errors.first() else {
            continue;
        };
        assert_eq!(error.details["freeBytes"], free);
        assert_eq!(error.remedies[0].action, ActionId::FreeDiskSpace);
        let blocked = status.conditions.iter().find(|found| found.kind == "Blocked");
        assert_eq!(blocked.map(|found| found.status), Some(Truth::False));
        // Another amount is the same occurrence.
        shop.previous = Some(status.clone());
        shop.now = NOW + Duration::from_secs(10);
        shop.preflight = Some(snapshot_with_free_space(free + 1));
        if is_low && free + 1 < 2 * threshold {
            assert_eq!(shop.status().errors[0].error_id, error.error_id);
        }
    }
}

#[test]
fn full_disk_is_a_warning_while_nothing_is_created() {
    let mut shop = Shop::ready();
    shop.preflight = Some(snapshot_with_free_space(7));
    let status = shop.status();
    assert_eq!(status.phase, Phase::Ready);
    let found = status.errors.iter().map(|error| (error.code, error.severity));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(Code::DiskSpaceLow, Severity::Warning)]
    );
}

#[test]
fn failed_write_on_a_full_disk_reports_the_usage() {
    let mut shop = Shop::new();
    shop.preflight = Some(snapshot_with_free_space(7));
    let failure = Shop::failure(
        ActionKind::CreateContainer,
        ActionError::DiskFull("no space left on device".to_owned()),
    );
    let until = NOW + Duration::from_secs(10);
    shop.add_wait("db", WaitReason::Retry { until, failure });
    let status = shop.status();
    let error = status
        .errors
        .iter()
        .find(|error| error.code == Code::DiskSpaceLow)
        .unwrap();
    let details = &error.details;
    assert_eq!(
        (&details["verb"], &details["freeBytes"]),
        (&"create-container".into(), &7.into())
    );
}

#[test]
fn full_disk_during_a_build_has_usage_and_cleanup() {
    let mut shop = Shop::new();
    shop.preflight = Some(snapshot_with_free_space(7));
    let full = "Step 2/2 : RUN make: non-zero code: 2: no space left on device";
    let failure = Shop::failure(ActionKind::BuildImage, ActionError::DiskFull(full.to_owned()));
    let until = NOW + Duration::from_secs(10);
    shop.add_wait("db", WaitReason::Retry { until, failure });
    let status = shop.status();
    let mut errors = status.errors.iter();
    let error = errors.find(|error| error.code == Code::DiskSpaceLow).unwrap();
    let details = &error.details;
    assert_eq!(
        (&details["verb"], &details["freeBytes"]),
        (&"build-image".into(), &7.into())
    );
    let threshold = PreflightSettings::default().disk_space_threshold;
    assert_eq!(details["thresholdBytes"], threshold);
    for cleanup in [ActionId::FreeDiskSpace, ActionId::CleanOrphans] {
        assert!(error.suggested_actions.contains(&cleanup), "{cleanup:?}");
    }
}

#[test]
fn disabled_preflight_is_not_reported() {
    let mut shop = Shop::ready();
    shop.preflight = Some(PreflightSnapshot::default());
    assert_eq!(shop.status().preflight, None, "no check has run yet");
    shop.preflight = Some(snapshot_with_free_space(7));
    assert!(shop.status().preflight.is_some());
    shop.accepted.as_mut().unwrap().desired.preflight.enabled = false;
    assert_eq!(shop.status().preflight, None);
}

/// Check of the link from `web` to `db`, in the current state.
fn check_with_error(shop: &Shop, error: Option<LinkError>) -> ConnectivityCheck {
    let topology = ConnectivityInput {
        desired: &shop.accepted.as_ref().unwrap().desired,
        observed: &shop.observed,
        hashes: shop.plan.as_ref().map(|plan| &plan.hashes),
        health: &shop.health,
        outages: &[],
        engine_returned_at: None,
    };
    let target = Target {
        to: name("db"),
        host: "db".to_owned(),
        port: Some(5432),
    };
    let seen = TargetResult {
        addresses: vec![[10, 0, 0, 2].into()],
        error,
        members: vec!["shop-web".to_owned(), "stranger".to_owned()],
    };
    ConnectivityCheck {
        key: topology.request().unwrap().key,
        at: NOW,
        retry_after: Some(Duration::from_secs(20)),
        link_results: vec![LinkResult {
            from: name("web"),
            target,
            result: Ok(seen),
        }],
        is_current: true,
    }
}

fn refused() -> LinkError {
    LinkError::Refused("no".to_owned())
}

#[test]
fn broken_link_is_reported_while_the_check_is_current() {
    let mut shop = Shop::ready();
    shop.attach_all();
    assert_eq!(condition(&shop.status(), "Verified"), Truth::Unknown);
    let current = check_with_error(&shop, None);
    shop.connectivity.checks.insert(shop.env.clone(), current);
    let status = shop.status();
    assert_eq!(condition(&status, "Verified"), Truth::True);
    assert!(
        status
            .connectivity
            .is_some_and(|seen| seen.verified && seen.links[0].tcp)
    );

    let broken = check_with_error(&shop, Some(refused()));
    shop.connectivity.checks.insert(shop.env.clone(), broken.clone());
    let status = shop.status();
    assert_eq!(condition(&status, "Verified"), Truth::False);
    assert_eq!(status.phase, Phase::Ready, "links do not change the phase");
    let error = &status.errors[0];
    assert_eq!(error.code, Code::NetworkUnreachable);
    assert_eq!(error.retry_after, Some(20), "the next check is automatic");
    assert_eq!(error.service.as_deref(), Some("web"));
    assert_eq!(error.container_id.as_deref(), Some("c-web-e1"));
    let members = error.details["members"].as_array().unwrap();
    let count = |name: &str| members.iter().filter(|member| *member == name).count();
    assert_eq!((count("shop-web"), count("stranger")), (1, 1), "{members:?}");
    let link = &status.connectivity.as_ref().unwrap().links[0];
    assert!(link.dns && !link.tcp && link.error.is_some(), "{link:?}");

    let outdated = ConnectivityCheck {
        is_current: false,
        ..broken
    };
    shop.connectivity.checks.insert(shop.env.clone(), outdated);
    let status = shop.status();
    assert_eq!(condition(&status, "Verified"), Truth::Unknown);
    assert!(status.errors.is_empty() && status.connectivity.is_some());

    let unknown = check_with_error(&shop, Some(LinkError::NoSuchName("no".to_owned())));
    shop.connectivity.checks.insert(shop.env.clone(), unknown);
    assert_eq!(shop.status().errors[0].code, Code::DnsResolutionFailed);
    shop.accepted.as_mut().unwrap().desired.verify_connectivity = false;
    let status = shop.status();
    assert_eq!(condition(&status, "Verified"), Truth::Unknown);
    assert!(status.errors.is_empty() && status.connectivity.is_none());
}

#[test]
fn error_names_the_test_of_its_time_also_after_it() {
    let lease = |since| TestLease {
        environment: EnvName::new("shop").unwrap(),
        case: "buy".to_owned(),
        since,
        until: since + Duration::from_secs(600),
        holder: Some("ci".to_owned()),
        purpose: None,
        unverified: None,
    };
    let mut shop = Shop::ready();
    shop.attach_all();
    let broken = check_with_error(&shop, Some(refused()));
    shop.connectivity.checks.insert(shop.env.clone(), broken);
    let test = |shop: &Shop| shop.status().errors[0].details.get("test").cloned();
    assert_eq!(test(&shop), None);
    shop.requests.begin(lease(NOW + Duration::from_secs(1)));
    assert_eq!(test(&shop), None, "the test began later");
    shop.requests = UserRequests::default();
    shop.requests.begin(lease(NOW));
    let status = shop.status();
    let expected =
        serde_json::json!({ "case": "buy", "holder": "ci", "purpose": null, "since": NOW.to_string() });
    assert_eq!(status.errors[0].details["test"], expected);
    let public = super::public_view::environment(&status);
    assert_eq!(public.errors[0].details.get("test"), None);
    shop.requests = UserRequests::default();
    shop.previous = Some(status);
    assert_eq!(test(&shop), Some(expected), "the test has ended");
}

#[test]
fn phase_and_condition_verified_show_the_same_state() {
    let healthy = || {
        let mut shop = Shop::ready();
        shop.attach_all();
        shop
    };
    let broken = check_with_error(&healthy(), Some(refused()));
    let outdated = ConnectivityCheck {
        is_current: false,
        ..broken.clone()
    };
    let checks = [
        None,
        Some(check_with_error(&healthy(), None)),
        Some(broken.clone()),
        Some(outdated),
    ];
    // Changes after the check, which the check task has not compared yet.
    let changes: [fn(&mut Shop); 6] = [
        |_| {},
        |shop| shop.is("web", "e1", ContainerState::Exited),
        |shop| {
            shop.add_running("web", "e1", ProbeStatus::Unhealthy);
            shop.attach_all();
            shop.add_wait("web", WaitReason::Unhealthy { until: None });
        },
        |shop| {
            let hashes = &mut shop.plan.as_mut().unwrap().hashes;
            hashes.insert(name("web"), hash("e2"));
            shop.add_wait("web", WaitReason::Probe);
        },
        |shop| shop.observed.networks.clear(),
        |shop| {
            shop.outages
                .push(Outage::starting_at(NOW).ended(NOW, Duration::ZERO));
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut phases = Vec::new();
        for check in &checks {
            let mut shop = healthy();
            shop.history.last_ready = Some(hash("aaaa"));
            change(&mut shop);
            let checked = check.clone().map(|check| (shop.env.clone(), check));
            shop.connectivity.checks.extend(checked);
            let status = shop.status();
            phases.push(status.phase);
            let is_broken = number == 0 && check.as_ref() == Some(&broken);
            let is_false = condition(&status, "Verified") == Truth::False;
            assert_eq!(is_false, is_broken, "{number}: {status:#?}");
            let mut codes = status.errors.iter().map(|error| error.code);
            assert_eq!(codes.any(|code| code == Code::NetworkUnreachable), is_broken);
        }
        assert_eq!(phases[0] == Phase::Ready, matches!(number, 0 | 4 | 5), "{number}");
        phases.dedup();
        assert_eq!(phases.len(), 1, "a check changes no phase: {phases:?}");
    }
}

#[test]
fn reading_evidence_of_a_ready_service_keeps_the_phase() {
    let evidence = |shop: &Shop| Action::CollectEvidence {
        run: Box::new(shop.history.services[&name("web")].failures[0].clone()),
        lines_since: None,
        port: None,
        http: false,
        by_engine: false,
        targets: Vec::new(),
        host: Box::default(),
    };
    for in_flight in [false, true] {
        let mut shop = Shop::ready();
        shop.add_failure("web", 1, false);
        if in_flight {
            let verb = ActionKind::CollectEvidence;
            shop.add_wait("web", WaitReason::InFlight { verb });
        } else {
            let step = Step {
                subject: shop.subject("web"),
                action: evidence(&shop),
                cause: Cause::Failed,
            };
            shop.plan.as_mut().unwrap().steps.push(step);
        }
        let status = shop.status();
        assert_eq!(
            status.phase,
            Phase::Progressing,
            "something else is to do: {status:#?}"
        );
        shop.plan.as_mut().unwrap().reading_evidence.insert(name("web"));
        let status = shop.status();
        assert_eq!(status.phase, Phase::Ready, "{status:#?}");
        let web = status.services.iter().find(|row| row.name == "web").unwrap();
        assert_eq!(web.state, ServiceState::Ready, "{web:#?}");
        assert_eq!(web.waiting_on, None);
    }
}

/// `retryAfter` of the error with this code, equal in two reports at different times.
fn reported_retry_after(mut shop: Shop, code: Code) -> Option<u64> {
    let status = shop.status();
    let find = |status: &EnvironmentStatus| status.errors.iter().find(|error| error.code == code).cloned();
    let error = find(&status).unwrap_or_else(|| panic!("{code}: {:#?}", status.errors));
    assert_eq!(error.retryable, error.retry_after.is_some(), "{code}");
    assert_eq!(error.retryable, error.class == Class::Transient, "{code}");
    shop.previous = Some(status.clone());
    shop.now = shop.now + Duration::from_millis(700);
    assert!(
        super::same(&shop.status(), &status),
        "{code} writes a new file in every pass"
    );
    error.retry_after
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of all waits with a next attempt")]
fn retryable_errors_report_their_next_attempt() {
    // The failure is 7 s after the start, and the waits end 9.5 s after the start.
    let until = NOW + Duration::from_millis(9_500);
    let retry = |verb: ActionKind, error| WaitReason::Retry {
        until,
        failure: Shop::failure(verb, error),
    };
    let text = || "why".to_owned();
    let start_failed = |error| retry(ActionKind::StartContainer, error);
    let delayed = || WaitReason::RestartDelay { until, attempt: 1 };
    let port = |owner| WaitReason::PortTaken {
        port: tcp(5432),
        owner,
        until,
    };
    let limited = ActionError::RateLimited {
        message: text(),
        retry_after: Some(Duration::from_secs(3)),
    };
    let case = || "one".to_owned();
    let add_wait = [
        (delayed(), Code::ContainerCrash, Some(3)),
        (delayed(), Code::ContainerOom, Some(3)),
        (
            WaitReason::RestartRateLimited { until, limit: 10 },
            Code::ContainerCrash,
            Some(3),
        ),
        (
            WaitReason::TestLease { case: case(), until },
            Code::ContainerCrash,
            Some(3),
        ),
        (
            WaitReason::Unhealthy { until: Some(until) },
            Code::HealthCheckTimeout,
            Some(10),
        ),
        (port(PortOwner::Unknown), Code::PortConflict, Some(10)),
        (
            port(PortOwner::StaleAllocation),
            Code::PortStaleAllocation,
            Some(10),
        ),
        (
            WaitReason::PortsExhausted {
                tried: 100,
                holders: Vec::new(),
                until,
            },
            Code::PortExhaustion,
            None,
        ),
        (
            retry(ActionKind::PullImage, limited),
            Code::RegistryRateLimited,
            Some(10),
        ),
        (
            retry(ActionKind::PullImage, ActionError::PullFailed(text())),
            Code::ImagePullFailed,
            Some(10),
        ),
        (
            retry(ActionKind::CreateContainer, ActionError::DiskFull(text())),
            Code::DiskSpaceLow,
            None,
        ),
        (
            retry(ActionKind::CreateNetwork, ActionError::PoolExhausted(text())),
            Code::NetworkPoolExhausted,
            None,
        ),
        (
            retry(ActionKind::RemoveNetwork, ActionError::NetworkInUse(text())),
            Code::NetworkStuck,
            Some(10),
        ),
        (
            retry(ActionKind::RemoveContainer, ActionError::Busy(text())),
            Code::CleanupFailed,
            Some(10),
        ),
        (
            start_failed(ActionError::StartFailed(text())),
            Code::ContainerStartFailed,
            Some(10),
        ),
        (
            start_failed(ActionError::TimedOut(text())),
            Code::Timeout,
            Some(10),
        ),
        (
            start_failed(ActionError::ConnectionLost(text())),
            Code::ConnectionLost,
            Some(10),
        ),
        (
            start_failed(ActionError::Unreachable(text())),
            Code::DockerUnavailable,
            Some(10),
        ),
    ];
    for (on, code, seconds) in add_wait {
        assert_eq!(on.until(), Some(until), "{on:?}");
        let mut shop = Shop::ready();
        match code {
            Code::ContainerCrash | Code::ContainerOom => {
                shop.add_failure("web", 137, code == Code::ContainerOom);
                shop.now = NOW + Duration::from_secs(8);
            }
            _ => shop.add_running("web", "e1", ProbeStatus::Unhealthy),
        }
        shop.add_wait("web", on.clone());
        assert_eq!(reported_retry_after(shop, code), seconds, "{on:?}");
    }
}

/// Status with a failed pull that is tried again: failures this many seconds before now, oldest first.
fn status_of_failed_pull(error: &ActionError, seconds_ago: &[u64]) -> EnvironmentStatus {
    let mut shop = Shop::new();
    let mut failure: Option<ActionFailure> = None;
    for (attempts, seconds) in (1..).zip(seconds_ago) {
        failure = Some(ActionFailure {
            at: Timestamp(NOW.0 - i64::try_from(*seconds).unwrap() * 1000),
            attempts,
            earlier: failure
                .as_ref()
                .map(ActionFailure::failed_attempts)
                .unwrap_or_default(),
            ..Shop::failure(ActionKind::PullImage, error.clone())
        });
    }
    let failure = failure.unwrap();
    let until = failure.retry_at("db").unwrap();
    shop.add_wait("db", WaitReason::Retry { until, failure });
    shop.status()
}

#[test]
fn long_failures_and_needed_changes_block() {
    let failed = ActionError::PullFailed("connection refused".to_owned());
    let missing = ActionError::ImageNotFound("no such tag".to_owned());
    let away = ActionError::ConnectionLost("reset".to_owned());
    for (error, seconds_ago, expected) in [
        (&failed, &[6, 2][..], "NotBlocked"),
        (&failed, &[40, 5], "ImagePullFailed"),
        (&failed, &[20, 15, 10, 5, 1], "ImagePullFailed"),
        (&missing, &[1], "ImageNotFound"),
        // The engine's breaker ends these waits.
        (&away, &[60, 50, 40, 30, 20, 1], "NotBlocked"),
    ] {
        let status = status_of_failed_pull(error, seconds_ago);
        let blocked = status
            .conditions
            .iter()
            .find(|found| found.kind == "Blocked")
            .unwrap();
        assert_eq!(blocked.reason, expected, "{error} {seconds_ago:?}");
        let reported = &status.errors[0];
        // A check for a change is not announced as a retry.
        assert_eq!(reported.retryable, error != &missing, "{reported:?}");
        assert_eq!(reported.retry_after.is_some(), reported.retryable, "{reported:?}");
        if seconds_ago.len() > 1 {
            let attempts = reported.details["attempts"].as_array().unwrap();
            assert_eq!(attempts.len(), seconds_ago.len(), "{attempts:?}");
        }
    }
}

#[test]
fn failures_in_a_row_are_retried_once_per_minute() {
    let delay = |error: ActionError, attempts| {
        let failure = ActionFailure {
            attempts,
            ..Shop::failure(ActionKind::PullImage, error)
        };
        failure.retry_at("db").unwrap().since(failure.at).as_secs()
    };
    let failed = || ActionError::PullFailed("connection refused".to_owned());
    assert!(delay(failed(), 1) < 3 && delay(failed(), 4) < 20);
    for attempts in [5, 6, 50] {
        assert!((51..=69).contains(&delay(failed(), attempts)), "{attempts}");
    }
    assert!((51..=69).contains(&delay(ActionError::ImageNotFound("no".to_owned()), 1)));
}

#[test]
fn exit_that_the_engine_caused_is_no_error_of_the_service() {
    let mut shop = Shop::ready();
    shop.add_failure("web", 137, false);
    shop.add_wait(
        "web",
        WaitReason::InFlight {
            verb: ActionKind::StartContainer,
        },
    );
    let before = shop.status();
    let row = |status: &EnvironmentStatus| status.services.iter().find(|row| row.name == "web").cloned();
    assert!(row(&before).unwrap().last_error.is_some());
    // The exit was observed before the outage.
    shop.outages
        .push(Outage::starting_at(NOW + Duration::from_secs(8)));
    assert_eq!(row(&shop.status()).unwrap().last_error, None);
}

#[test]
fn lost_events_are_a_warning_of_a_ready_environment() {
    let mut shop = Shop::ready();
    shop.events_lost = Some("status 403: forbidden by a proxy".to_owned());
    let status = shop.status();
    assert_eq!(status.phase, Phase::Ready);
    let [error] = status.errors.as_slice() else {
        panic!("{:?}", status.errors);
    };
    assert_eq!(
        (error.code, error.severity),
        (Code::EventsUnavailable, Severity::Warning)
    );
    assert!(error.message.contains("403") && error.message.contains("up to 10 s later"));
}

#[test]
fn socket_without_access_blocks_and_names_the_group() {
    let mut store = Store::default();
    let reason = describe_refusal("/run/docker.sock", Some("docker"));
    store.apply(WatchEvent::Disconnected(NOW, reason));
    store.apply(WatchEvent::Retrying {
        tries: 12,
        next: Some(NOW + Duration::from_secs(60)),
    });
    let mut shop = Shop::ready();
    shop.breakers.observe(&store, NOW);
    shop.reachable = false;
    shop.reason = store.unreachable_reason().to_owned();
    let status = shop.status();
    let [error] = status.errors.as_slice() else {
        panic!("{:?}", status.errors);
    };
    assert_eq!(error.code, Code::DockerPermissionDenied);
    assert_eq!(
        (error.class, error.retryable, error.retry_after),
        (Class::Human, false, None)
    );
    assert!(error.message.contains("the group `docker`"), "{}", error.message);
    assert_eq!(
        error.remedies[0].command.as_deref(),
        Some("sudo usermod -aG docker \"$USER\"")
    );
    let blocked = status
        .conditions
        .iter()
        .find(|found| found.kind == "Blocked")
        .unwrap();
    assert_eq!(
        (blocked.status, blocked.reason.as_str()),
        (Truth::True, "DockerPermissionDenied")
    );
}

#[test]
fn unreachable_engine_is_reported_with_its_retry_state() {
    let next = NOW + Duration::from_millis(30_200);
    let mut store = Store::default();
    store.apply(WatchEvent::Disconnected(
        NOW,
        "connection refused (os error 111)".to_owned(),
    ));
    store.apply(WatchEvent::Retrying {
        tries: 12,
        next: Some(next),
    });
    let retry_state = |code| {
        let mut shop = Shop::ready();
        shop.breakers.observe(&store, NOW);
        shop.reachable = false;
        shop.reason = store.unreachable_reason().to_owned();
        shop.retry_state = store
            .retry()
            .and_then(|retry_state| Some((retry_state.attempts, retry_state.next?)));
        let status = shop.status();
        let error = status.errors.iter().find(|error| error.code == code).unwrap();
        let details = serde_json::Value::Object(error.details.clone());
        let expected = serde_json::json!({
            "endpoint": "unix:///run/docker.sock", "reason": shop.reason, "errno": 111,
            "since": NOW.to_string(), "tries": 12, "nextTry": next.to_string(),
        });
        assert_eq!(details, expected, "{code}");
        let blocked = status.conditions.iter().find(|found| found.kind == "Blocked");
        let blocked = blocked.map(|found| (found.status, found.reason.clone()));
        assert_eq!(blocked, Some((Truth::True, "RetryExhausted".to_owned())));
        (error.class, reported_retry_after(shop, code))
    };
    assert_eq!(retry_state(Code::DockerUnavailable), (Class::Transient, Some(31)));
    assert_eq!(retry_state(Code::RetryExhausted), (Class::Human, None));
    assert_eq!(store.outage_started_at(), Some(NOW));
    store.apply(WatchEvent::Connected(NOW));
    assert_eq!(store.outage_started_at(), None);
}

#[test]
fn conflicting_file_is_reported_and_changes_nothing_else() {
    let mut shop = Shop::ready();
    let baseline = shop.status();
    let holder = OtherFile {
        file: "e2e.yaml".to_owned(),
        path: "project.name".to_owned(),
        line: Some(2),
    };
    let diagnostic = Diagnostic::error("project.name", "is held by `e2e.yaml`");
    shop.conflicting_spec = Some(vec![diagnostic.conflicts_with(holder)]);
    let status = shop.status();
    let reported: Vec<_> = status.errors.iter().map(|error| error.code).collect();
    assert_eq!(reported, [Code::SpecConflict]);
    assert_eq!(status.errors[0].environment.as_deref(), Some("shop"));
    assert_eq!(
        status.errors[0].details["specPath"],
        "environments/shop/other.e2e.yaml"
    );
    assert_eq!(
        status.errors[0].details["conflictsWith"],
        serde_json::json!({ "file": "e2e.yaml", "path": "project.name", "line": 2 })
    );
    assert_eq!(
        (status.phase, status.conditions),
        (baseline.phase, baseline.conditions)
    );
}

#[test]
fn status_of_any_size_is_cut_and_counts_what_is_missing() {
    let mut shop = Shop::ready();
    let text = "x".repeat(4_000);
    let diagnostic = |line: usize| Diagnostic::error(format!("services[{line}]"), &text);
    shop.diagnostics = Some((Code::SpecInvalid, (0..5_000).map(diagnostic).collect()));
    let status = shop.status();
    let size = serde_json::to_string_pretty(&status).unwrap().len();
    assert!(size < 4 * 1024 * 1024, "{size}");
    assert_eq!(status.diagnostics.len(), 100);
    let note = "the status exceeds 4 MiB, 4900 diagnostics are left out";
    assert_eq!(status.notes, [note]);
    // A status within the limit is complete.
    shop.diagnostics = Some((Code::SpecInvalid, (0..200).map(diagnostic).collect()));
    let status = shop.status();
    assert_eq!((status.diagnostics.len(), status.notes.len()), (200, 0));
}

#[test]
fn every_large_part_of_a_status_can_be_cut() {
    let mut shop = Shop::ready();
    shop.add_failure("db", 1, false);
    shop.add_wait("db", WaitReason::GaveUp { restarts: 1 });
    let mut status = shop.status();
    let (row, port) = (status.services[0].clone(), status.port_mappings[0].clone());
    let mut error = row.last_error.clone().unwrap();
    error.stderr_tail = Some("x".repeat(4_096));
    error
        .details
        .insert("attempts".to_owned(), "x".repeat(20_000).into());
    status.errors = vec![error.clone(); 2_000];
    status.services = vec![row; 500];
    for row in &mut status.services {
        row.last_error = Some(error.clone());
        row.ports = vec![port.clone(); 256];
    }
    status.port_mappings = vec![port; 128_000];
    super::bound::cut(&mut status, super::bound::MAX_BYTES);
    let size = serde_json::to_string_pretty(&status).unwrap().len();
    assert!(size < 4 * 1024 * 1024, "{size}: {:?}", status.notes);
    assert_eq!(status.services.len(), 500, "no service is left out");
}
