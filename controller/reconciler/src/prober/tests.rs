//! Probes against servers that are good, bad, slow, and not there.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argus_core::desired::ProbeKind;
use argus_core::ident::{ContainerId, HostPort, Protocol};
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
use argus_core::observed::{Config, Container, ContainerState, InspectInfo, Object, Store, WatchEvent};
use argus_core::probe::{HealthStates, ProbeStatus};
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Addresses, ProberIo, http, target, tcp};
use crate::clock::Clock;
use crate::fake_backend::FakeBackend;
use crate::metrics::Tally;
use crate::specs::SpecRegistry;
use crate::specs::admission::SpecAdmitter;
use crate::specs::admitter::{AdmissionInput, Admitter};

/// A server on a free port that handles one connection.
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

async fn answering(answer: &'static str) -> (bool, String) {
    let (address, _server) = once(move |mut stream| async move {
        let mut request = [0; 1_024];
        let read = stream.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let answer = http::probe(address, "/health").await;
    (answer.good, answer.output)
}

#[tokio::test]
async fn two_hundreds_and_three_hundreds_are_good() {
    for (answer, good) in [
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
        let (was_good, output) = answering(answer).await;
        assert_eq!(was_good, good, "{answer:?}: {output}");
    }
}

#[tokio::test]
async fn a_port_that_accepts_and_hangs_up_is_a_proxy_without_a_service() {
    let (address, _server) = once(|stream| async move { drop(stream) }).await;
    let answer = tcp::probe(address).await;
    assert!(!answer.good, "{}", answer.output);
    let (address, _server) = once(|mut stream| async move {
        let mut byte = [0];
        let _until_the_probe_hangs_up =
            tokio::time::timeout(Duration::from_secs(5), stream.read(&mut byte)).await;
    })
    .await;
    assert!(tcp::probe(address).await.good);
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(!tcp::probe(free).await.good);
}

/// A book with one service that is probed by a command.
fn book() -> SpecRegistry {
    book_of(
        "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: nginx:1\n    container:\n      name: shop-api\n      healthcheck:\n        type: exec\n        command: [\"true\"]\n        interval: 10s\n        retries: 2\n        startPeriod: 1s\n",
    )
}

fn book_of(spec: &str) -> SpecRegistry {
    let reading = AdmissionInput {
        path: Path::new("/specs/e2e.yaml"),
        name: "e2e.yaml",
        bytes: spec.as_bytes(),
        variables: BTreeMap::new(),
        digests: BTreeMap::new(),
        documents: std::collections::BTreeMap::new(),
        host: argus_core::desired::host::HostPaths::default(),
        uuid: String::new(),
        first_seen: Timestamp(1),
    };
    let judged = SpecAdmitter::default().admit(&reading);
    assert!(judged.desired.is_some(), "{:#?}", judged.diagnostics);
    let mut book = SpecRegistry::default();
    book.on_admitted(Path::new("e2e.yaml"), None, judged, Timestamp(1));
    book
}

fn store(state: ContainerState, started_at: i64) -> Store {
    world_of(&[container("c", "api", state, started_at)])
}

fn container(id: &str, service: &str, state: ContainerState, started_at: i64) -> Container {
    let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop"), (SERVICE, service)];
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let facts = InspectInfo {
        started_at: Some(Timestamp(started_at)),
        finished_at: None,
        exit_code: 0,
        oom_killed: false,
        error: String::new(),
        image_id: None,
        health: None,
        config: Config::default(),
    };
    Container {
        id: ContainerId::new(id).unwrap(),
        name: format!("shop-{service}"),
        labels,
        image: "nginx:1".to_owned(),
        state,
        created_at: Timestamp(1),
        networks: BTreeMap::new(),
        inspect: Some(facts),
        stopped_by_other: None,
        oom_at: None,
    }
}

fn world_of(containers: &[Container]) -> Store {
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
fn a_command_that_names_a_port_of_the_host_is_run_with_the_one_that_it_has() {
    let book = book_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  db: { image: 'db:1', container: { name: shop-db, ports: ['5432:5432'] } }\n  api:\n    \
         image: 'nginx:1'\n    container:\n      name: shop-api\n      healthcheck: { type: exec, command: ['ask', 'host.docker.internal:5432'] }\n",
    );
    let mut db = container("d", "db", ContainerState::Running, 1);
    let port = |number| HostPort {
        number,
        protocol: Protocol::Tcp,
    };
    if let Some(facts) = &mut db.inspect {
        facts.config.bindings = vec![(port(5432), port(9001))];
    }
    let store = world_of(&[container("c", "api", ContainerState::Running, 1), db]);
    let places = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let wanted = target::wanted(&book.environments, &store, places);
    let asked = &wanted[&ContainerId::new("c").unwrap()].probe.kind;
    let command = ["ask", "host.docker.internal:9001"].map(str::to_owned).to_vec();
    assert_eq!(*asked, ProbeKind::Exec { command });
}

#[tokio::test(start_paused = true)]
async fn what_depends_on_a_service_that_runs_anew_is_asked_at_once() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let fake = FakeBackend::empty();
    *fake.exits.lock().unwrap() = vec![0, 1, 0];
    let book = book_of(
        "version: '1'\nproject: { name: shop }\nservices:\n  db: { image: 'db:1', container: { name: shop-db } }\n  api:\n    image: 'nginx:1'\n    dependsOn: [db]\n    \
         container:\n      name: shop-api\n      healthcheck: { type: exec, command: ['true'], interval: 60s, retries: 1, startPeriod: 1ms }\n",
    );
    let seen_at = |db: i64| {
        Arc::new(world_of(&[
            container("c", "api", ContainerState::Running, 900_000),
            container("d", "db", ContainerState::Running, db),
        ]))
    };
    let (_specs, specs_seen) = watch::channel(Arc::new(book.environments));
    let (stores, worlds_seen) = watch::channel(seen_at(900_000));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let places = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        Arc::new(fake),
        specs_seen,
        worlds_seen,
        ProberIo {
            healths,
            tally: Tally::default(),
        },
        places,
        clock,
        stop.clone(),
    );
    let story = async {
        let id = ContainerId::new("c").unwrap();
        let mut verdict = async |wanted: ProbeStatus| {
            let is = |book: &Arc<HealthStates>| book.get(&id).is_some_and(|health| health.status == wanted);
            seen.wait_for(is).await.unwrap();
            clock.now().since(Timestamp(1_000_000)).as_secs()
        };
        assert_eq!(verdict(ProbeStatus::Healthy).await, 0);
        stores.send_replace(seen_at(1_000_000));
        assert_eq!(verdict(ProbeStatus::Unhealthy).await, 0, "not after its interval");
        assert_eq!(verdict(ProbeStatus::Healthy).await, 60);
        stop.cancel();
    };
    let both = async { tokio::join!(prober, story) };
    tokio::time::timeout(Duration::from_secs(600), both)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_of_one_run_of_a_container_and_told_when_it_flips() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (fake, tally) = (FakeBackend::empty(), Tally::default());
    *fake.exits.lock().unwrap() = vec![1, 1, 0, 0, 1, 1, 0];
    let (_specs, specs_seen) = watch::channel(Arc::new(book().environments));
    let (stores, worlds_seen) = watch::channel(Arc::new(store(ContainerState::Running, 1_000_000)));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let places = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        Arc::new(fake),
        specs_seen,
        worlds_seen,
        ProberIo {
            healths,
            tally: tally.clone(),
        },
        places,
        clock,
        stop.clone(),
    );
    let story = async {
        let mut flips = Vec::new();
        for _ in 0..4 {
            seen.changed().await.unwrap();
            let book = seen.borrow_and_update().clone();
            let health = &book[&ContainerId::new("c").unwrap()];
            assert_eq!(health.started_at, Some(Timestamp(1_000_000)));
            flips.push((health.status, clock.now().since(Timestamp(1_000_000)).as_secs()));
        }
        let expected = [
            (ProbeStatus::Starting, 0),
            (ProbeStatus::Healthy, 0),
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
            "a new run has a verdict of its own"
        );
        stores.send_replace(Arc::new(store(ContainerState::Exited, 1_050_000)));
        seen.wait_for(|book| book.is_empty()).await.unwrap();
        stop.cancel();
    };
    let both = async { tokio::join!(prober, story) };
    // Of the paused clock: a flip that never comes ends the test at once.
    tokio::time::timeout(Duration::from_secs(600), both)
        .await
        .unwrap();
    let heard = |result: &str| tally.probes.with_label_values(&["exec", result]).get();
    assert!(
        heard("bad") >= 4 && heard("good") >= 3,
        "each probe counts, whatever the verdict"
    );
    let timed = tally
        .probe_seconds
        .with_label_values(&["exec"])
        .get_sample_count();
    assert_eq!(timed, heard("bad") + heard("good") + heard("missed"));
}

#[tokio::test(start_paused = true)]
async fn while_the_engine_is_away_nobody_is_asked_and_then_everybody_anew() {
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let fake = Arc::new(FakeBackend::empty());
    *fake.exits.lock().unwrap() = vec![0];
    let here = store(ContainerState::Running, 900_000);
    let mut away = here.clone();
    away.apply(WatchEvent::Disconnected(Timestamp(1_000_000), "cut".to_owned()));
    let (_specs, specs_seen) = watch::channel(Arc::new(book().environments));
    let (stores, worlds_seen) = watch::channel(Arc::new(here.clone()));
    let (healths, mut seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let places = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::run(
        fake.clone(),
        specs_seen,
        worlds_seen,
        ProberIo {
            healths,
            tally: Tally::default(),
        },
        places,
        clock,
        stop.clone(),
    );
    let story = async {
        let id = ContainerId::new("c").unwrap();
        let mut decided = async |wanted: Option<ProbeStatus>| {
            let is = |book: &Arc<HealthStates>| book.get(&id).map(|health| health.status) == wanted;
            seen.wait_for(is).await.unwrap();
            clock.now().since(Timestamp(1_000_000)).as_secs()
        };
        assert_eq!(decided(Some(ProbeStatus::Healthy)).await, 0);
        *fake.exits.lock().unwrap() = vec![-1];
        stores.send_replace(Arc::new(away.clone()));
        let unhealthy = decided(Some(ProbeStatus::Unhealthy));
        let judged = tokio::time::timeout(Duration::from_secs(600), unhealthy).await;
        assert!(judged.is_err(), "it is judged by questions that nobody could put");
        // It is asked at once, and has all its retries.
        *fake.exits.lock().unwrap() = vec![1];
        stores.send_replace(Arc::new(here.clone()));
        assert_eq!(decided(Some(ProbeStatus::Unhealthy)).await, 610);
        // What was found on the way into an outage is found anew.
        stores.send_replace(Arc::new(away.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        stores.send_replace(Arc::new(here.clone()));
        assert_eq!(decided(Some(ProbeStatus::Starting)).await, 670);
        *fake.exits.lock().unwrap() = vec![0];
        assert_eq!(decided(Some(ProbeStatus::Healthy)).await, 670);
        stop.cancel();
    };
    let both = async { tokio::join!(prober, story) };
    tokio::time::timeout(Duration::from_secs(3_600), both)
        .await
        .unwrap();
}
