//! Probes against servers that are healthy, unhealthy, slow, and absent.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argus_core::desired::{Accepted, HttpOptions, Probe, ProbeHandler};
use argus_core::ident::{ContainerId, EnvName, NetworkId, Protocol, ProtocolPort};
use argus_core::observed::{
    Container, ContainerState, EngineHealth, EngineHealthStatus, Network, Object, Store, WatchEvent,
};
use argus_core::probe::{HealthStates, ProbeStatus};
use argus_core::time::Timestamp;
use argus_crds::{ProbeMethod, ProbeScheme};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::request::{describe_request, probe_once};
use super::target::Target;
use super::{Addresses, ProberIo, http, target, tcp};
use crate::clock::Clock;
use crate::fake_backend::{self, FakeBackend};
use crate::metrics::TaskMetrics;
use crate::specs::SpecRegistry;
use crate::specs::admission::{AdmissionInput, SpecAdmitter};
use crate::specs::parsed_file::ParsedFile;

/// Targets of the only environment.
fn targets(
    specs: &BTreeMap<EnvName, Arc<Accepted>>,
    store: &Store,
    addresses: Addresses,
) -> BTreeMap<ContainerId, Target> {
    let (env, accepted) = specs.first_key_value().unwrap();
    target::wanted(accepted, store.of(env).unwrap(), addresses)
}

/// Starts a server on a free port that handles one connection.
async fn once<F, T>(handle: F) -> (SocketAddr, tokio::task::JoinSet<()>)
where
    F: FnOnce(tokio::net::TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        handle(stream).await;
    });
    (address, server)
}

async fn probe_with_reply(reply: &'static str) -> (bool, String) {
    let (address, _server) = once(move |mut stream| async move {
        let mut request = [0; 1_024];
        let read = stream.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
        stream.write_all(reply.as_bytes()).await.unwrap();
    })
    .await;
    let reply = http::probe(address, "/health", &HttpOptions::default()).await;
    (reply.success, reply.output)
}

#[tokio::test]
async fn http_2xx_and_3xx_are_success() {
    for (reply, success) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
        ("HTTP/1.0 204 No Content\r\n\r\n", true),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://nowhere.invalid/\r\ncontent-length: 0\r\n\r\n",
            true,
        ),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", false),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            false,
        ),
        ("SSH-2.0-OpenSSH\r\n", false),
        ("", false),
    ] {
        let (succeeded, output) = probe_with_reply(reply).await;
        assert_eq!(succeeded, success, "{reply:?}: {output}");
    }
}

#[tokio::test]
async fn port_that_accepts_and_closes_is_a_failure() {
    let (address, _server) = once(|stream| async move { drop(stream) }).await;
    let reply = tcp::probe(address).await;
    assert!(!reply.success, "{}", reply.output);
    let (address, _server) = once(|mut stream| async move {
        let mut byte = [0];
        let _until_the_probe_hangs_up =
            tokio::time::timeout(Duration::from_secs(5), stream.read(&mut byte)).await;
    })
    .await;
    assert!(tcp::probe(address).await.success);
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(!tcp::probe(free).await.success);
}

#[test]
fn request_of_a_probe_contains_no_secret() {
    let command = |words: &[&str]| ProbeHandler::Exec {
        command: words.iter().map(ToString::to_string).collect(),
    };
    for (kind, expected) in [
        (
            ProbeHandler::Http {
                path: "/healthz?token=x".to_owned(),
                port: 8080,
                options: HttpOptions::default(),
            },
            "GET /healthz on :8080",
        ),
        (
            ProbeHandler::Http {
                path: "/".to_owned(),
                port: 8443,
                options: HttpOptions {
                    scheme: ProbeScheme::Https,
                    method: ProbeMethod::Head,
                    headers: [("X-Key".to_owned(), "x".to_owned())].into(),
                    ..HttpOptions::default()
                },
            },
            "HEAD / on :8443 with TLS",
        ),
        (
            ProbeHandler::Log {
                pattern: "ready".to_owned(),
                times: 1,
            },
            "log `ready`",
        ),
        (ProbeHandler::Tcp { port: 5432 }, "connect to :5432"),
        (command(&["pg_isready", "-U", "x"]), "exec pg_isready"),
        (command(&["curl -u x:y"]), "exec curl"),
    ] {
        assert_eq!(describe_request(&kind), expected);
    }
}

#[tokio::test]
async fn silent_proxy_of_a_closed_port_is_a_refusal() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (own_address, expected) in [
        (Some(free), "connect to :80: connection refused"),
        (
            Some(open.local_addr().unwrap()),
            "connect to :80: accepted, and closed immediately",
        ),
        (None, "connect to :80: accepted, and closed immediately"),
    ] {
        let (proxy, _server) = once(|stream| async move { drop(stream) }).await;
        let target = Target {
            probe: Probe {
                kind: ProbeHandler::Tcp { port: 80 },
                ..registry_probe()
            },
            started_at: None,
            address: Some(proxy),
            obstacle: String::new(),
            own_address,
            first_line_at: None,
            dependencies_started_at: None,
        };
        let id = ContainerId::new("c").unwrap();
        let (reply, _) = probe_once(&FakeBackend::empty(), &id, &target).await;
        assert_eq!((reply.output.as_str(), reply.success), (expected, false));
    }
}

/// Probe of the service in [`registry`].
fn registry_probe() -> Probe {
    let environments = registry().environments;
    let accepted = environments.values().next().unwrap();
    accepted
        .desired
        .services
        .values()
        .next()
        .unwrap()
        .probe
        .clone()
        .unwrap()
}

/// Registry with one service that is probed by a command.
fn registry() -> SpecRegistry {
    registry_of(
        "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: nginx:1\n    container:\n      name: shop-api\n      healthcheck:\n        type: exec\n        command: [\"true\"]\n        interval: 10s\n        retries: 2\n        startPeriod: 1s\n",
    )
}

pub(super) fn registry_of(spec: &str) -> SpecRegistry {
    let file = ParsedFile::read("e2e.yaml", spec.as_bytes());
    let input = AdmissionInput::new(Path::new("/specs/e2e.yaml"), Timestamp(1));
    let admitted = SpecAdmitter::default().admit(&file, &input, &mut |_| None);
    assert!(admitted.desired.is_some(), "{:#?}", admitted.diagnostics);
    let mut registry = SpecRegistry::default();
    registry.on_admitted(Path::new("e2e.yaml"), None, admitted, Timestamp(1));
    registry
}

pub(super) fn store(state: ContainerState, started_at: i64) -> Store {
    store_of(&[container("c", "api", state, started_at)])
}

pub(super) fn container(id: &str, service: &str, state: ContainerState, started_at: i64) -> Container {
    fake_backend::container("shop", id, service, state, started_at)
}

pub(super) fn store_of(containers: &[Container]) -> Store {
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(Timestamp(1)));
    store.apply(WatchEvent::Init);
    for container in containers {
        store.apply(WatchEvent::Apply(Object::Container(Arc::new(container.clone()))));
    }
    store.apply(WatchEvent::InitDone);
    store
}

#[test]
fn exec_probe_uses_the_actual_host_port() {
    let registry = registry_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  db: { image: 'db:1', container: { name: shop-db, ports: ['5432:5432'] } }\n  api:\n    \
         image: 'nginx:1'\n    container:\n      name: shop-api\n      healthcheck: { type: exec, command: ['ask', 'host.docker.internal:5432'] }\n",
    );
    let mut db = container("d", "db", ContainerState::Running, 1);
    let port = |number| ProtocolPort::new(number, Protocol::Tcp);
    if let Some(info) = &mut db.inspect {
        info.config.bindings = vec![(port(5432), port(9001))];
    }
    let store = store_of(&[container("c", "api", ContainerState::Running, 1), db]);
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let wanted = targets(&registry.environments, &store, addresses);
    let kind = &wanted[&ContainerId::new("c").unwrap()].probe.kind;
    let command = ["ask", "host.docker.internal:9001"].map(str::to_owned).to_vec();
    assert_eq!(*kind, ProbeHandler::Exec { command });
}

#[test]
fn probe_goes_to_the_host_of_the_engine() {
    let address = |publish: [u8; 4], host: Option<&str>, port: &str, is_published: bool| {
        let registry = registry_of(&format!(
            "version: '1'\nproject: {{ name: shop }}\nservices:\n  api:\n    image: 'nginx:1'\n    container:\n      name: shop-api\n      \
             ports: ['{port}']\n      healthcheck: {{ type: tcp, port: 80 }}\n"
        ));
        let mut api = container("c", "api", ContainerState::Running, 1);
        let port = |number| ProtocolPort::new(number, Protocol::Tcp);
        let info = api.inspect.as_mut().unwrap();
        info.config.bindings = is_published.then(|| (port(80), port(9001))).into_iter().collect();
        api.networks.values_mut().next().unwrap().address = Some("172.18.0.2/16".to_owned());
        let addresses = Addresses {
            publish_address: publish.into(),
            engine_host: host.map(|host| host.parse().unwrap()),
        };
        let mut wanted = targets(&registry.environments, &store_of(&[api]), addresses);
        let target = wanted.remove(&ContainerId::new("c").unwrap()).unwrap();
        target
            .address
            .map_or(target.obstacle, |address| address.to_string())
    };
    let (any, loopback, engine) = ([0, 0, 0, 0], [127, 0, 0, 1], Some("198.51.100.7"));
    assert_eq!(address(any, None, "8080:80", true), "127.0.0.1:9001");
    assert_eq!(address(loopback, None, "8080:80", false), "172.18.0.2:80");
    assert_eq!(address(any, engine, "8080:80", true), "198.51.100.7:9001");
    assert_eq!(address(any, engine, "10.0.0.5:8080:80", true), "10.0.0.5:9001");
    let obstacle = address(loopback, engine, "8080:80", true);
    assert!(
        obstacle.contains("on its address 127.0.0.1; start the controller with `--publish-address"),
        "{obstacle}"
    );
    assert_eq!(
        address(any, engine, "8080:80", false),
        "port 80 is not published, and the engine runs on another host"
    );
}

#[test]
fn engine_probes_if_the_image_has_a_health_check() {
    let registry = registry_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  api: { image: 'nginx:1', container: { name: shop-api, healthcheck: { type: docker, \
         port: 80 } } }\n",
    );
    let mut api = container("c", "api", ContainerState::Running, 1);
    api.networks.values_mut().next().unwrap().address = Some("172.18.0.2/16".to_owned());
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let found = |api: &Container| {
        targets(
            &registry.environments,
            &store_of(std::slice::from_ref(api)),
            addresses,
        )
    };
    let target = &found(&api)[&ContainerId::new("c").unwrap()];
    let address = target.address.map(|address| address.to_string());
    assert_eq!(address.as_deref(), Some("172.18.0.2:80"));
    api.inspect.as_mut().unwrap().health = Some(EngineHealth {
        status: EngineHealthStatus::Starting,
        failing_streak: 0,
        output: String::new(),
        recent: Vec::new(),
        checked_at: None,
    });
    assert!(found(&api).is_empty());
}

#[test]
fn probe_goes_to_the_owner_of_a_shared_network() {
    let registry = registry_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  vpn: { image: 'vpn:1', container: { name: shop-vpn } }\n  api:\n    \
         image: 'nginx:1'\n    networkMode: 'service:vpn'\n    container: { name: shop-api, healthcheck: { type: tcp, port: 80 } }\n",
    );
    let mut vpn = container("v", "vpn", ContainerState::Running, 1);
    vpn.networks.values_mut().next().unwrap().address = Some("172.18.0.2/16".to_owned());
    let mut api = container("c", "api", ContainerState::Running, 1);
    api.networks.clear();
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let id = ContainerId::new("c").unwrap();
    let running = store_of(&[vpn.clone(), api.clone()]);
    let wanted = targets(&registry.environments, &running, addresses);
    let address = wanted[&id].address.map(|address| address.to_string());
    assert_eq!(address.as_deref(), Some("172.18.0.2:80"));
    vpn.state = ContainerState::Exited;
    let stopped = store_of(&[vpn, api]);
    assert!(!targets(&registry.environments, &stopped, addresses).contains_key(&id));
}

#[test]
fn detached_container_is_not_probed() {
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let probed = |container: Container| {
        let store = store_of(&[container]);
        targets(&registry().environments, &store, addresses).len()
    };
    let attached = container("c", "api", ContainerState::Running, 1);
    let detached = Container {
        networks: BTreeMap::new(),
        ..attached.clone()
    };
    assert_eq!((probed(attached), probed(detached)), (1, 0));
}

#[test]
fn container_on_a_broken_network_is_not_probed() {
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let id = NetworkId::new("n").unwrap();
    let mut attached = container("c", "api", ContainerState::Running, 1);
    attached.networks.values_mut().next().unwrap().network = Some(id.clone());
    let probed = |is_broken: bool| {
        let mut store = store_of(std::slice::from_ref(&attached));
        let network = Network {
            id: id.clone(),
            name: "argusai-shop-network".to_owned(),
            labels: attached.labels.clone(),
            created_at: Timestamp(1),
            is_broken,
        };
        store.apply(WatchEvent::Apply(Object::Network(Arc::new(network))));
        targets(&registry().environments, &store, addresses).len()
    };
    assert_eq!((probed(false), probed(true)), (1, 0));
}

#[test]
fn probe_prefers_a_network_of_the_environment() {
    let registry = registry_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  api:\n    image: 'nginx:1'\n    container:\n      name: shop-api\n      \
         healthcheck: { type: tcp, port: 80 }\n",
    );
    let mut api = container("c", "api", ContainerState::Running, 1);
    let own = NetworkId::new("n").unwrap();
    let attachment = api.networks.values_mut().next().unwrap();
    let mut external = attachment.clone();
    attachment.network = Some(own.clone());
    attachment.address = Some("172.18.0.2".to_owned());
    external.network = Some(NetworkId::new("macvlan").unwrap());
    external.address = Some("192.0.2.9".to_owned());
    api.networks.insert("a-lan".to_owned(), external);
    let network = Network {
        id: own,
        name: "argusai-shop-network".to_owned(),
        labels: api.labels.clone(),
        created_at: Timestamp(1),
        is_broken: false,
    };
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let address = |store: &Store| {
        let mut wanted = targets(&registry.environments, store, addresses);
        let target = wanted.remove(&ContainerId::new("c").unwrap()).unwrap();
        target.address.unwrap().to_string()
    };
    let mut store = store_of(&[api]);
    assert_eq!(address(&store), "192.0.2.9:80", "all its networks are external");
    store.apply(WatchEvent::Apply(Object::Network(Arc::new(network))));
    assert_eq!(address(&store), "172.18.0.2:80");
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_restarted_service_are_probed_immediately() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let fake = FakeBackend::empty();
    *fake.exit_codes.lock().unwrap() = vec![0, 1, 0];
    let registry = registry_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  db: { image: 'db:1', container: { name: shop-db } }\n  api:\n    image: 'nginx:1'\n    dependsOn: [db]\n    \
         container:\n      name: shop-api\n      healthcheck: { type: exec, command: ['true'], interval: 60s, retries: 1, startPeriod: 1ms }\n",
    );
    let seen_at = |db: i64| {
        Arc::new(store_of(&[
            container("c", "api", ContainerState::Running, 900_000),
            container("d", "db", ContainerState::Running, db),
        ]))
    };
    let (_specs, specs_seen) = watch::channel(Arc::new(registry.environments));
    let (stores, stores_seen) = watch::channel(seen_at(900_000));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        Arc::new(fake),
        specs_seen,
        stores_seen,
        ProberIo {
            healths,
            healthy_runs: BTreeMap::new(),
            pressure: |_| None,
            metrics: TaskMetrics::default(),
        },
        addresses,
        clock,
        stop.clone(),
    );
    let script = async {
        let id = ContainerId::new("c").unwrap();
        let mut reached = async |wanted: ProbeStatus| {
            let is = |registry: &Arc<HealthStates>| {
                registry.get(&id).is_some_and(|health| health.status == wanted)
            };
            seen.wait_for(is).await.unwrap();
            clock.now().since(Timestamp(1_000_000)).as_secs()
        };
        assert_eq!(reached(ProbeStatus::Healthy).await, 0);
        stores.send_replace(seen_at(1_000_000));
        assert_eq!(reached(ProbeStatus::Unhealthy).await, 0, "not after its interval");
        assert_eq!(reached(ProbeStatus::Healthy).await, 60);
        stop.cancel();
    };
    let both = async { tokio::join!(prober, script) };
    tokio::time::timeout(Duration::from_secs(600), both)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn health_belongs_to_one_run_and_is_published_on_change() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (fake, metrics) = (FakeBackend::empty(), TaskMetrics::default());
    *fake.exit_codes.lock().unwrap() = vec![1, 1, 0, 0, 1, 1, 0];
    let (_specs, specs_seen) = watch::channel(Arc::new(registry().environments));
    let (stores, stores_seen) = watch::channel(Arc::new(store(ContainerState::Running, 1_000_000)));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        Arc::new(fake),
        specs_seen,
        stores_seen,
        ProberIo {
            healths,
            healthy_runs: BTreeMap::new(),
            pressure: |_| None,
            metrics: metrics.clone(),
        },
        addresses,
        clock,
        stop.clone(),
    );
    let script = async {
        let mut flips = Vec::new();
        for _ in 0..5 {
            seen.changed().await.unwrap();
            let registry = seen.borrow_and_update().clone();
            let health = &registry[&ContainerId::new("c").unwrap()];
            assert_eq!(health.started_at, Some(Timestamp(1_000_000)));
            assert_eq!(health.failing, flips.len() == 2, "{health:?}");
            flips.push((health.status, clock.now().since(Timestamp(1_000_000)).as_secs()));
        }
        let expected = [
            (ProbeStatus::Starting, 0),
            (ProbeStatus::Healthy, 0),
            (ProbeStatus::Healthy, 20),
            (ProbeStatus::Unhealthy, 30),
            (ProbeStatus::Healthy, 40),
        ];
        assert_eq!(flips, expected);
        stores.send_replace(Arc::new(store(ContainerState::Running, 1_050_000)));
        seen.changed().await.unwrap();
        let mut health = seen
            .borrow_and_update()
            .get(&ContainerId::new("c").unwrap())
            .cloned();
        while health.is_none() {
            seen.changed().await.unwrap();
            health = seen
                .borrow_and_update()
                .get(&ContainerId::new("c").unwrap())
                .cloned();
        }
        assert_eq!(
            health.unwrap().started_at,
            Some(Timestamp(1_050_000)),
            "a new run has its own status"
        );
        stores.send_replace(Arc::new(store(ContainerState::Exited, 1_050_000)));
        seen.wait_for(|registry| registry.is_empty()).await.unwrap();
        stop.cancel();
    };
    let both = async { tokio::join!(prober, script) };
    // In paused time: a missing change ends the test immediately.
    tokio::time::timeout(Duration::from_secs(600), both)
        .await
        .unwrap();
    let count = |result: &str| metrics.probes.with_label_values(&["exec", result]).get();
    assert!(
        count("failure") >= 4 && count("success") >= 3,
        "each probe counts, whatever its result"
    );
    let timed = metrics
        .probe_seconds
        .with_label_values(&["exec"])
        .get_sample_count();
    assert_eq!(timed, count("failure") + count("success") + count("missed"));
}

#[tokio::test(start_paused = true)]
async fn probes_pause_during_an_outage_and_restart_after_it() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let fake = Arc::new(FakeBackend::empty());
    *fake.exit_codes.lock().unwrap() = vec![0];
    let here = store(ContainerState::Running, 900_000);
    let mut away = here.clone();
    away.apply(WatchEvent::Disconnected(Timestamp(1_000_000), "cut".to_owned()));
    let (_specs, specs_seen) = watch::channel(Arc::new(registry().environments));
    let (stores, stores_seen) = watch::channel(Arc::new(here.clone()));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        fake.clone(),
        specs_seen,
        stores_seen,
        ProberIo {
            healths,
            healthy_runs: BTreeMap::new(),
            pressure: |_| None,
            metrics: TaskMetrics::default(),
        },
        addresses,
        clock,
        stop.clone(),
    );
    let script = async {
        let id = ContainerId::new("c").unwrap();
        let mut decided = async |wanted: Option<ProbeStatus>| {
            let is = |registry: &Arc<HealthStates>| registry.get(&id).map(|health| health.status) == wanted;
            seen.wait_for(is).await.unwrap();
            clock.now().since(Timestamp(1_000_000)).as_secs()
        };
        assert_eq!(decided(Some(ProbeStatus::Healthy)).await, 0);
        *fake.exit_codes.lock().unwrap() = vec![-1];
        stores.send_replace(Arc::new(away.clone()));
        let unhealthy = decided(Some(ProbeStatus::Unhealthy));
        let admitted = tokio::time::timeout(Duration::from_secs(600), unhealthy).await;
        assert!(admitted.is_err(), "probes that cannot be sent changed the status");
        // The probe runs immediately and has all its retries.
        *fake.exit_codes.lock().unwrap() = vec![1];
        stores.send_replace(Arc::new(here.clone()));
        assert_eq!(decided(Some(ProbeStatus::Unhealthy)).await, 610);
        // Results during the outage are discarded.
        stores.send_replace(Arc::new(away.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        stores.send_replace(Arc::new(here.clone()));
        assert_eq!(decided(Some(ProbeStatus::Starting)).await, 670);
        *fake.exit_codes.lock().unwrap() = vec![0];
        assert_eq!(decided(Some(ProbeStatus::Healthy)).await, 670);
        stop.cancel();
    };
    let both = async { tokio::join!(prober, script) };
    tokio::time::timeout(Duration::from_secs(3_600), both)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn container_is_inspected_once_before_it_becomes_unhealthy() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let fake = Arc::new(FakeBackend::empty());
    *fake.exit_codes.lock().unwrap() = vec![0];
    let (_specs, specs_seen) = watch::channel(Arc::new(registry().environments));
    let (_stores, stores_seen) = watch::channel(Arc::new(store(ContainerState::Running, 900_000)));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let io = ProberIo {
        healths,
        healthy_runs: BTreeMap::new(),
        pressure: |_| None,
        metrics: TaskMetrics::default(),
    };
    let prober = super::run(
        fake.clone(),
        specs_seen,
        stores_seen,
        io,
        addresses,
        clock,
        stop.clone(),
    );
    let script = async {
        let id = ContainerId::new("c").unwrap();
        let is = |wanted: ProbeStatus| {
            let id = id.clone();
            move |healths: &Arc<HealthStates>| healths.get(&id).is_some_and(|health| health.status == wanted)
        };
        seen.wait_for(is(ProbeStatus::Healthy)).await.unwrap();
        // The container was killed, and the event of its end is late.
        fake.is_ended.store(true, Ordering::SeqCst);
        *fake.exit_codes.lock().unwrap() = vec![1];
        let wait = Duration::from_secs(120);
        let counted = tokio::time::timeout(wait, seen.wait_for(is(ProbeStatus::Unhealthy)))
            .await
            .is_ok();
        assert!(!counted, "the failed probe of an ended run counted");
        fake.is_ended.store(false, Ordering::SeqCst);
        let inspects = fake.inspects.load(Ordering::SeqCst);
        seen.wait_for(is(ProbeStatus::Unhealthy)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(
            fake.inspects.load(Ordering::SeqCst),
            inspects + 1,
            "one inspect per change"
        );
        stop.cancel();
    };
    let both = async { tokio::join!(prober, script) };
    tokio::time::timeout(Duration::from_secs(3_600), both)
        .await
        .unwrap();
}
