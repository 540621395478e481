//! The Docker backend against a real engine: every action and its repetition, every refusal, every loss.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]
#![allow(
    clippy::disallowed_methods,
    reason = "a real engine runs in real time, with a limit"
)]

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argus_backend::{Backend, LogQuery, Progress};
use argus_core::action::{Action, ActionProgress, Binding, ContainerSpec};
use argus_core::desired::{Build, ContainerLimits, Mount, PullPolicy};
use argus_core::ident::{ContainerId, Hash, NetworkId, Protocol, ProtocolPort, ResourceName};
use argus_core::observed::{Container, ContainerState, Store, WatchEvent};
use argus_core::outcome::{ActionError, Done, PortOwner};
use argus_core::time::Timestamp;
use argus_docker::{Docker, Endpoint};
use argus_tests::proxy::Fault;
use argus_tests::{PrivateEngine, Proxy, Registry};
use futures::StreamExt;
use futures::stream::BoxStream;

const LIMIT: Duration = Duration::from_secs(60);
const IMAGE: &str = "busybox:local";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp(i64::try_from(since.as_millis()).expect("before the end of time"))
}

fn docker(engine: &PrivateEngine) -> Docker {
    Docker::new(
        Endpoint::parse(&engine.host()).expect("an endpoint"),
        Arc::new(now),
    )
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).expect("a name")
}

fn labels(env: &str, service: Option<&str>) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        ("argusai.managed", "true"),
        ("argusai.environment", env),
        ("argusai.controller", "me"),
        ("argusai.created-at", "2026-01-01T00:00:00Z"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if let Some(service) = service {
        labels.insert("argusai.service".to_owned(), service.to_owned());
        labels.insert("argusai.spec-hash".to_owned(), "abc123".to_owned());
    }
    labels
}

fn spec(env: &str, service: &str) -> ContainerSpec {
    ContainerSpec {
        image: IMAGE.to_owned(),
        build: String::new(),
        entrypoint: None,
        command: None,
        env_vars: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
        labels: labels(env, Some(service)),
        network: name(&format!("argus-{env}")),
        aliases: vec![service.to_owned()],
        further_networks: BTreeMap::new(),
        bindings: vec![],
        mounts: vec![],
        tmpfs: vec!["/scratch:size=1m".to_owned()],
        extra_hosts: vec![],
        user: None,
        working_dir: None,
        process: Box::default(),
        memory: Some(32 << 20),
        nano_cpus: Some(500_000_000),
        stop_grace: Duration::from_secs(2),
        container_limits: ContainerLimits {
            pids_limit: 100,
            ..ContainerLimits::default()
        },
    }
}

fn published(port: u16) -> Vec<Binding> {
    let address = "127.0.0.1".parse().expect("an address");
    vec![Binding {
        address,
        host: port,
        container: 80,
        protocol: Protocol::Tcp,
    }]
}

struct NoExecutor(Docker);

impl NoExecutor {
    async fn act(&self, act: Action) -> Result<Done, ActionError> {
        self.0.execute(&act, &()).await
    }

    async fn network(&self, env: &str) -> NetworkId {
        let act = Action::CreateNetwork {
            name: name(&format!("argus-{env}")),
            labels: labels(env, None),
            external: false,
        };
        match self.act(act).await {
            Ok(Done::Network(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    async fn create(&self, called: &str, spec: ContainerSpec) -> Result<Done, ActionError> {
        self.act(Action::CreateContainer {
            name: name(called),
            spec: Box::new(spec),
        })
        .await
    }

    async fn container(&self, called: &str, spec: ContainerSpec) -> ContainerId {
        match self.create(called, spec).await {
            Ok(Done::Container(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    async fn start(&self, id: &ContainerId) -> Result<Done, ActionError> {
        self.act(Action::StartContainer { id: id.clone() }).await
    }

    async fn stop(&self, id: &ContainerId) -> Result<Done, ActionError> {
        self.act(Action::StopContainer {
            id: id.clone(),
            grace: Duration::from_secs(2),
        })
        .await
    }

    async fn remove(&self, id: &ContainerId) -> Result<Done, ActionError> {
        self.act(Action::RemoveContainer {
            id: id.clone(),
            name: String::new(),
        })
        .await
    }
}

struct Observer {
    stream: BoxStream<'static, WatchEvent>,
    store: Store,
    seen: Vec<WatchEvent>,
}

impl Observer {
    fn open(docker: &Docker) -> Self {
        Self {
            stream: docker.watch(),
            store: Store::default(),
            seen: Vec::new(),
        }
    }

    /// Applies watch events until the store satisfies `holds`.
    async fn until(&mut self, what: &str, holds: impl Fn(&Store, &[WatchEvent]) -> bool) {
        let waited = tokio::time::timeout(LIMIT, async {
            while !holds(&self.store, &self.seen) {
                let event = self.stream.next().await.expect("the watch never ends");
                self.seen.push(event.clone());
                self.store.apply(event);
            }
        });
        let waited = waited.await;
        assert!(
            waited.is_ok(),
            "timed out: {what}\n{:#?}",
            self.seen.iter().rev().take(12).collect::<Vec<_>>()
        );
    }

    async fn sees(&mut self, id: &ContainerId, what: &str, holds: impl Fn(&Container) -> bool) {
        self.until(what, |store, _| {
            store.container(id).is_some_and(|container| holds(container))
        })
        .await;
    }

    fn stops(&self, id: &ContainerId) -> usize {
        self.seen
            .iter()
            .filter(|event| matches!(event, WatchEvent::StoppedByOther(stopped, _) if stopped == id))
            .count()
    }
}

fn running(container: &Container) -> bool {
    container.state == ContainerState::Running && container.inspect.is_some()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one life cycle from start to end")]
fn every_action_is_repeatable_and_observed() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        let mut observer = Observer::open(&docker);
        observer
            .until("a complete list", |store, _| store.is_synced())
            .await;

        let network = executor.network("life").await;
        assert_eq!(
            executor.network("life").await,
            network,
            "a repeated create adopts"
        );
        let volume = || Action::CreateVolume {
            name: name("argus-life-data"),
            labels: labels("life", None),
            external: false,
        };
        assert_eq!(executor.act(volume()).await, Ok(Done::Applied));
        assert_eq!(executor.act(volume()).await, Ok(Done::Applied));
        observer
            .until("network and volume", |store, _| {
                store.network(&network).is_some() && store.volume("argus-life-data").is_some()
            })
            .await;

        let mut wanted = spec("life", "web");
        wanted.mounts = vec![Mount::Volume {
            name: name("argus-life-data"),
            target: "/data".into(),
            read_only: false,
        }];
        wanted.command = Some(
            ["sh", "-c", "echo out; echo err >&2; sleep 1000"]
                .map(str::to_owned)
                .into(),
        );
        wanted.bindings = published(18080);
        let id = executor.container("argus-life-web", wanted.clone()).await;
        assert_eq!(executor.container("argus-life-web", wanted.clone()).await, id);
        observer
            .sees(&id, "created", |container| {
                container.state == ContainerState::Created
            })
            .await;
        assert_eq!(executor.start(&id).await, Ok(Done::Applied));
        assert_eq!(executor.start(&id).await, Ok(Done::Applied));
        observer
            .sees(&id, "running on its network under its alias", |container| {
                let attached = container.networks.get("argus-life");
                running(container)
                    && attached.is_some_and(|at| {
                        at.network.as_ref() == Some(&network) && at.aliases.contains(&"web".to_owned())
                    })
            })
            .await;
        let seen = observer.store.container(&id).expect("seen").clone();
        let facts = seen.inspect.clone().expect("facts");
        let port = |number| ProtocolPort {
            number,
            protocol: Protocol::Tcp,
        };
        assert_eq!(facts.config.bindings, [(port(80), port(18080))]);
        assert_eq!(
            (facts.config.memory, facts.config.nano_cpus),
            (32 << 20, 500_000_000)
        );
        assert_eq!(facts.config.restart_policy, "no");
        assert!(facts.config.environment.contains(&"GREETING=hello".to_owned()));
        assert_eq!(
            (seen.name.as_str(), seen.image.as_str()),
            ("argus-life-web", IMAGE)
        );

        let request = "echo $GREETING; grep -c ' /scratch tmpfs .*size=1024k' /proc/mounts; exit 3";
        let command = ["sh", "-c", request].map(str::to_owned);
        let result = docker.exec(&id, &command, LIMIT).await.expect("exec");
        assert_eq!(
            (result.exit_code, result.output.as_str()),
            (Some(3), "hello\n1\n")
        );
        let mut lines: Vec<_> = docker.logs(&id, LogQuery::default()).collect().await;
        lines.sort_by_key(|line| line.as_ref().is_ok_and(|line| line.stderr));
        let texts: Vec<_> = lines.into_iter().map(|line| line.expect("a line")).collect();
        assert_eq!(
            texts
                .iter()
                .map(|line| (line.stderr, line.text.as_str()))
                .collect::<Vec<_>>(),
            [(false, "out"), (true, "err")]
        );

        let rename = || Action::RenameContainer {
            id: id.clone(),
            to: name("argus-life-web2"),
        };
        assert_eq!(executor.act(rename()).await, Ok(Done::Applied));
        assert_eq!(executor.act(rename()).await, Ok(Done::Applied));
        observer
            .sees(&id, "renamed", |container| container.name == "argus-life-web2")
            .await;

        let disconnect = || Action::DisconnectNetwork {
            network: "argus-life".into(),
            container: "argus-life-web2".into(),
        };
        assert_eq!(executor.act(disconnect()).await, Ok(Done::Applied));
        assert_eq!(executor.act(disconnect()).await, Ok(Done::Applied));
        observer
            .sees(&id, "on no network", |container| container.networks.is_empty())
            .await;
        let connect = || Action::ConnectNetwork {
            network: network.to_string(),
            container: id.clone(),
            aliases: vec!["web".into()],
            external: false,
        };
        assert_eq!(executor.act(connect()).await, Ok(Done::Applied));
        assert_eq!(executor.act(connect()).await, Ok(Done::Applied));
        observer
            .sees(&id, "connected again", |container| {
                container
                    .networks
                    .get("argus-life")
                    .is_some_and(|at| at.aliases.contains(&"web".to_owned()))
            })
            .await;

        engine.docker_ok(&["pause", id.as_str()]);
        observer
            .sees(&id, "paused", |container| {
                container.state == ContainerState::Paused
            })
            .await;
        let unpause = || Action::UnpauseContainer { id: id.clone() };
        assert_eq!(executor.act(unpause()).await, Ok(Done::Applied));
        assert_eq!(executor.act(unpause()).await, Ok(Done::Applied));
        observer.sees(&id, "running again", running).await;

        let in_use = Action::RemoveNetwork {
            id: network.clone(),
            name: String::new(),
        };
        assert!(matches!(
            executor.act(in_use.clone()).await,
            Err(ActionError::NetworkInUse(_))
        ));
        let remove_volume = || Action::RemoveVolume {
            name: name("argus-life-data"),
        };
        assert!(matches!(
            executor.act(remove_volume()).await,
            Err(ActionError::Busy(_))
        ));

        assert_eq!(executor.stop(&id).await, Ok(Done::Applied));
        assert_eq!(executor.stop(&id).await, Ok(Done::Applied));
        observer
            .sees(&id, "exited", |container| {
                container.state == ContainerState::Exited && container.inspect.is_some()
            })
            .await;
        assert_eq!(observer.stops(&id), 0, "our own stop has no other actor");

        assert_eq!(executor.remove(&id).await, Ok(Done::Applied));
        assert_eq!(executor.remove(&id).await, Ok(Done::Applied));
        assert_eq!(executor.stop(&id).await, Ok(Done::Applied));
        assert_eq!(executor.start(&id).await, Err(ActionError::Gone));
        observer
            .until("gone", |store, _| store.container(&id).is_none())
            .await;
        assert_eq!(executor.act(in_use.clone()).await, Ok(Done::Applied));
        assert_eq!(executor.act(in_use).await, Ok(Done::Applied));
        assert_eq!(executor.act(remove_volume()).await, Ok(Done::Applied));
        assert_eq!(executor.act(remove_volume()).await, Ok(Done::Applied));
        observer
            .until("everything is removed", |store, _| {
                store.network(&network).is_none() && store.volume("argus-life-data").is_none()
            })
            .await;
        let about = docker.info().await.expect("about");
        assert!(
            about.version.contains('.')
                && about.api_version.contains('.')
                && about.data_root.starts_with('/')
        );
    });
}

#[test]
fn external_changes_to_containers_are_observed() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        let network = executor.network("others").await;
        let id = executor.container("argus-others-a", spec("others", "a")).await;
        executor.start(&id).await.expect("start");
        let mut observer = Observer::open(&docker);
        observer.sees(&id, "adopted with its facts", running).await;
        engine.docker_ok(&["stop", "-t", "1", id.as_str()]);
        observer
            .sees(&id, "stopped externally", |container| {
                container.state == ContainerState::Exited && container.stopped_by_other.is_some()
            })
            .await;
        executor.start(&id).await.expect("start");
        observer
            .sees(&id, "started, and the old stop is forgotten", |container| {
                running(container) && container.stopped_by_other.is_none()
            })
            .await;
        engine.docker_ok(&["network", "disconnect", "-f", "argus-others", id.as_str()]);
        observer
            .sees(&id, "on no network", |container| container.networks.is_empty())
            .await;
        engine.docker_ok(&["rm", "-f", id.as_str()]);
        observer
            .until("gone", |store, _| store.container(&id).is_none())
            .await;
        engine.docker_ok(&["network", "rm", "argus-others"]);
        observer
            .until("the network is removed", |store, _| {
                store.network(&network).is_none()
            })
            .await;
        // A requested list comes immediately, and many requests share one list.
        let before = observer.store.last_complete();
        (0..100).for_each(|_| docker.request_relist());
        observer
            .until("a list on demand", |store, _| store.last_complete() > before)
            .await;
    });
}

#[test]
fn foreign_objects_are_never_changed() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        let network = executor.network("foreign").await;
        let ours = executor.container("argus-foreign-a", spec("foreign", "a")).await;
        // `docker commit` copies our labels to every container of the new image.
        engine.docker_ok(&["commit", ours.as_str(), "committed:1"]);
        let inherited =
            engine.docker_ok(&["run", "-d", "--name", "inherits", "committed:1", "sleep", "1000"]);
        let plain = engine.docker_ok(&["run", "-d", "--name", "plain", IMAGE]);
        for id in [&inherited, &plain] {
            let id = ContainerId::new(id.as_str()).expect("an id");
            let acts = [
                Action::StopContainer {
                    id: id.clone(),
                    grace: Duration::ZERO,
                },
                Action::RemoveContainer {
                    id: id.clone(),
                    name: String::new(),
                },
                Action::RenameContainer {
                    id: id.clone(),
                    to: name("x"),
                },
                Action::UnpauseContainer { id: id.clone() },
                Action::StartContainer { id: id.clone() },
                Action::ConnectNetwork {
                    network: network.to_string(),
                    container: id.clone(),
                    aliases: vec![],
                    external: false,
                },
                Action::DisconnectNetwork {
                    network: "bridge".into(),
                    container: id.to_string(),
                },
            ];
            for act in acts {
                let verb = act.verb();
                assert!(
                    matches!(executor.act(act).await, Err(ActionError::NotOwned(_))),
                    "{verb}"
                );
            }
        }
        assert_eq!(
            engine.docker_ok(&["inspect", "-f", "{{.State.Running}}", "inherits", "plain"]),
            "true\ntrue"
        );
        // Names of objects that others own.
        let taken = executor.create("plain", spec("foreign", "b")).await;
        let holder = |result: &Result<Done, ActionError>| match result {
            Err(ActionError::NameTaken { holder }) => holder.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            holder(&taken),
            format!(
                "`plain` ({}): a container that Argus did not create",
                &plain[..12]
            )
        );
        let taken = executor.create("argus-foreign-a", spec("other", "a")).await;
        assert!(
            holder(&taken).ends_with("environment `foreign`, controller `me`"),
            "{taken:?}"
        );
        let foreign = engine.docker_ok(&["network", "create", "foreign-net"]);
        let act = Action::CreateNetwork {
            name: name("foreign-net"),
            labels: labels("foreign", None),
            external: false,
        };
        assert!(holder(&executor.act(act).await).contains("did not create"));
        let act = Action::RemoveNetwork {
            id: NetworkId::new(foreign).expect("an id"),
            name: String::new(),
        };
        assert!(matches!(executor.act(act).await, Err(ActionError::NotOwned(_))));
        engine.docker_ok(&["volume", "create", "foreign-vol"]);
        let act = Action::CreateVolume {
            name: name("foreign-vol"),
            labels: labels("foreign", None),
            external: false,
        };
        assert!(holder(&executor.act(act).await).contains("did not create"));
        assert!(matches!(
            executor
                .act(Action::RemoveVolume {
                    name: name("foreign-vol")
                })
                .await,
            Err(ActionError::NotOwned(_))
        ));
        engine.docker_ok(&["rm", "-f", "inherits", "plain", ours.as_str()]);
    });
}

/// A process that holds a port in the engine's network namespace.
struct Listener(Child);

impl Listener {
    fn on(engine: &PrivateEngine, port: u16) -> Self {
        let mut command = engine.command_in_netns("busybox");
        command
            .args(["nc", "-l", "-p", &port.to_string()])
            .stdin(Stdio::piped());
        Self(command.spawn().expect("a listener"))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn refused_port_names_its_owner() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        executor.network("ports").await;
        let port = |number| ProtocolPort {
            number,
            protocol: Protocol::Tcp,
        };
        let with = |port| ContainerSpec {
            bindings: published(port),
            ..spec("ports", "a")
        };
        let refusal = |result: Result<Done, ActionError>| match result {
            Err(ActionError::PortTaken(refusal)) => *refusal,
            other => panic!("{other:?}"),
        };
        let mine = executor.container("argus-ports-mine", with(19001)).await;
        executor.start(&mine).await.expect("start");
        engine.docker_ok(&["run", "-d", "--name", "holder", "-p", "127.0.0.1:19002:80", IMAGE]);
        let listener = Listener::on(engine, 19003);
        let ports = [port(19003)].into();
        let waited = tokio::time::timeout(LIMIT, async {
            while docker.port_holders(&ports).await.holders.is_empty() {
                tokio::task::yield_now().await;
            }
        });
        waited.await.expect("the listener opens its port");

        let id = executor.container("argus-ports-1", with(19001)).await;
        let refused = refusal(executor.start(&id).await);
        assert_eq!((refused.port, refused.free_now), (port(19001), false));
        assert_eq!(
            refused.owner,
            PortOwner::Environment {
                environment: "ports".into(),
                service: "a".into()
            }
        );
        assert!(
            [19001, 19002, 19003]
                .into_iter()
                .all(|number| refused.busy.contains_key(&port(number)))
        );

        let id = executor.container("argus-ports-2", with(19002)).await;
        let refused = refusal(executor.start(&id).await);
        assert!(
            matches!(refused.owner, PortOwner::Container { ref name, .. } if name == "holder"),
            "{refused:?}"
        );

        let id = executor.container("argus-ports-3", with(19003)).await;
        let refused = refusal(executor.start(&id).await);
        let command = "busybox nc -l -p 19003".to_owned();
        assert_eq!(
            refused.owner,
            PortOwner::Process {
                pid: listener.0.id(),
                command
            }
        );
        drop(listener);
        assert_eq!(
            executor.start(&id).await,
            Ok(Done::Applied),
            "the same container starts when the port is free"
        );

        let elsewhere = Binding {
            address: "10.99.99.99".parse().expect("an address"),
            ..published(19004).remove(0)
        };
        let id = executor
            .container(
                "argus-ports-4",
                ContainerSpec {
                    bindings: vec![elsewhere],
                    ..spec("ports", "a")
                },
            )
            .await;
        assert!(matches!(executor.start(&id).await, Err(ActionError::Rejected(_))));
        engine.docker_ok(&["rm", "-f", "holder"]);
    });
}

#[test]
fn refusals_name_their_cause() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        let network = executor.network("wrong").await;
        let missing = ContainerSpec {
            image: "nope:1".into(),
            ..spec("wrong", "a")
        };
        assert_eq!(
            executor.create("argus-wrong-1", missing).await,
            Err(ActionError::ImageMissing)
        );
        let unbuilt = ContainerSpec {
            build: "abc".into(),
            ..spec("wrong", "a")
        };
        assert_eq!(
            executor.create("argus-wrong-1", unbuilt).await,
            Err(ActionError::ImageMissing)
        );
        let source = "/nonexistent/argus".to_owned();
        let mount = Mount::Bind {
            source,
            target: "/x".into(),
            read_only: true,
        };
        let mounted = ContainerSpec {
            mounts: vec![mount],
            ..spec("wrong", "a")
        };
        assert!(matches!(
            executor.create("argus-wrong-1", mounted).await,
            Err(ActionError::BadMount(_))
        ));
        let tiny = ContainerSpec {
            memory: Some(1 << 20),
            ..spec("wrong", "a")
        };
        assert!(matches!(
            executor.create("argus-wrong-1", tiny).await,
            Err(ActionError::Rejected(_))
        ));

        let command = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let no_command = ContainerSpec {
            entrypoint: command(&["/no/such"]),
            ..spec("wrong", "a")
        };
        let id = executor.container("argus-wrong-2", no_command).await;
        let received = executor.start(&id).await;
        // With `init` the engine starts the init process, which exits with 127.
        let mut observer = Observer::open(&docker);
        match received {
            Err(ActionError::EntrypointNotFound(_)) => {}
            Ok(Done::Applied) => {
                observer
                    .sees(&id, "127", |container| {
                        container
                            .inspect
                            .as_ref()
                            .is_some_and(|facts| facts.exit_code == 127)
                    })
                    .await;
            }
            other => panic!("{other:?}"),
        }
        let id = executor.container("argus-wrong-3", spec("wrong", "c")).await;
        let removed = executor
            .act(Action::RemoveNetwork {
                id: network,
                name: String::new(),
            })
            .await;
        assert_eq!(removed, Ok(Done::Applied), "only stopped containers are attached");
        assert!(matches!(
            executor.start(&id).await,
            Err(ActionError::NetworkGone(_))
        ));
        let connect = Action::ConnectNetwork {
            network: "0".repeat(64),
            container: id,
            aliases: vec![],
            external: false,
        };
        assert!(matches!(
            executor.act(connect).await,
            Err(ActionError::NetworkGone(_))
        ));
        let refused = pull("127.0.0.1:9/none:1", PullPolicy::Missing);
        assert!(matches!(
            executor.act(refused).await,
            Err(ActionError::PullFailed(_))
        ));
        let pull = pull("../containers/x", PullPolicy::Missing);
        assert!(matches!(executor.act(pull).await, Err(ActionError::Rejected(_))));
    });
}

fn pull(reference: &str, policy: PullPolicy) -> Action {
    Action::PullImage {
        reference: reference.to_owned(),
        policy,
    }
}

#[test]
fn image_that_must_not_be_pulled_is_only_inspected() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    engine.docker_ok(&["tag", IMAGE, "local-only:1"]);
    block(async {
        let docker = docker(engine);
        let present = docker
            .execute(&pull("local-only:1", PullPolicy::Never), &())
            .await;
        assert_eq!(present, Ok(Done::Applied));
        // The engine has a similar one.
        let absent = docker
            .execute(&pull("local-onyl:1", PullPolicy::Never), &())
            .await;
        let Err(error @ ActionError::ImageNotFound(_)) = absent else {
            panic!("{absent:?}");
        };
        assert!(error.to_string().contains("pullPolicy: never"), "{error}");
        assert_eq!(error.similar(), Some("local-only:1"));
    });
}

/// Steps of an action, as they were reported.
#[derive(Default)]
pub(crate) struct Received(pub(crate) Mutex<Vec<String>>);

impl Progress for Received {
    fn report_step(&self, progress: ActionProgress) {
        self.0.lock().expect("a list").push(progress.line);
    }

    fn report_status(&self, _progress: ActionProgress) {}
}

#[test]
fn build_target_selects_the_stage() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("stages");
    block(async {
        let executor = NoExecutor(docker(engine));
        std::fs::write(
            folder.join("Dockerfile"),
            format!("FROM {IMAGE} AS base\nRUN echo base > /stage\n\nFROM base AS late\nRUN false\n"),
        )
        .expect("a file");
        let build_of = |target: &str| Build {
            tag: "built:3".into(),
            target: Some(target.to_owned()),
            digest: Hash::new("03").expect("a hash"),
            context: folder.display().to_string(),
            dockerfile: "Dockerfile".into(),
            args: BTreeMap::new(),
            options: Box::default(),
            excluded: argus_core::desired::excluded::Excluded::default(),
            allowed: false,
        };
        let result = executor.act(Action::BuildImage(build_of("base"))).await;
        assert_eq!(
            result,
            Ok(Done::Applied),
            "the later stage fails and is not built"
        );
        assert_eq!(
            engine
                .docker_ok(&[
                    "run",
                    "--rm",
                    "--network",
                    "none",
                    "built:3",
                    "busybox",
                    "cat",
                    "/stage"
                ])
                .trim(),
            "base"
        );
        match executor.act(Action::BuildImage(build_of("none"))).await {
            Err(ActionError::BuildFailed { message, .. }) => {
                assert!(
                    message.contains("`build.target` is `none`, which is not a stage"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
#[allow(clippy::too_many_lines, reason = "one build and its images")]
fn image_is_built_from_its_context() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("build");
    std::fs::write(
        folder.join("Dockerfile"),
        format!("FROM {IMAGE}\nARG NAME\nCOPY . /app\nRUN echo hi $NAME > /hi\n"),
    )
    .expect("a file");
    std::fs::write(folder.join("kept"), "kept").expect("a file");
    std::fs::write(folder.join("secret"), "secret").expect("a file");
    std::fs::write(folder.join(".dockerignore"), "secret\n").expect("a file");
    let context = folder.display().to_string();
    block(async {
        let docker = docker(engine);
        let executor = NoExecutor(docker.clone());
        executor.network("built").await;
        let args = BTreeMap::from([("NAME".to_owned(), "there".to_owned())]);
        let digest = argus_docker::context_digest(&folder, "Dockerfile", &args).expect("a digest");
        let build = Build {
            tag: "built:1".into(),
            context,
            dockerfile: "Dockerfile".into(),
            target: None,
            args,
            digest: digest.clone(),
            options: Box::default(),
            excluded: argus_core::desired::excluded::Excluded::default(),
            allowed: false,
        };
        let received = Received::default();
        assert_eq!(
            docker
                .execute(&Action::BuildImage(build.clone()), &received)
                .await,
            Ok(Done::Applied)
        );
        assert!(
            received
                .0
                .lock()
                .expect("a list")
                .iter()
                // The number of a step can be that of another build at the same time.
                .filter(|line| ["] FROM", "] COPY", "] RUN"]
                    .iter()
                    .any(|step| line.contains(step)))
                .count()
                >= 3
        );
        let wanted = ContainerSpec {
            image: "built:1".into(),
            build: digest.as_str().to_owned(),
            ..spec("built", "a")
        };
        let id = executor.container("argus-built-a", wanted.clone()).await;
        executor.start(&id).await.expect("start");
        let command = ["sh", "-c", "cat /hi; ls /app"].map(str::to_owned);
        let result = docker.exec(&id, &command, LIMIT).await.expect("exec");
        assert_eq!(result.output, "hi there\nDockerfile\nkept\n");
        let stale = ContainerSpec {
            build: "0".repeat(64),
            ..wanted
        };
        assert_eq!(
            executor.create("argus-built-b", stale).await,
            Err(ActionError::ImageMissing)
        );

        std::fs::write(
            folder.join("Dockerfile"),
            format!("FROM {IMAGE}\nRUN echo before; false\n"),
        )
        .expect("a file");
        let failing = Build {
            tag: "built:2".into(),
            digest: Hash::new("00").expect("a hash"),
            ..build.clone()
        };
        match executor.act(Action::BuildImage(failing)).await {
            Err(ActionError::BuildFailed { message, log, .. }) => {
                assert!(message.contains("exit code: 1"), "{message}");
                assert!(log.contains("before"), "{log}");
            }
            other => panic!("{other:?}"),
        }
        let foreign = Build {
            tag: IMAGE.into(),
            ..build.clone()
        };
        std::fs::write(folder.join("Dockerfile"), format!("FROM {IMAGE}\nRUN echo\n")).expect("a file");
        let id_of_the_tag = || engine.docker_ok(&["image", "inspect", "--format", "{{.Id}}", IMAGE]);
        let before = id_of_the_tag();
        assert_eq!(executor.act(Action::BuildImage(foreign)).await, Ok(Done::Applied));
        assert_eq!(id_of_the_tag(), before, "another tag gets the image");
        let nowhere = Build {
            context: "/nonexistent".into(),
            ..build
        };
        assert!(matches!(
            executor.act(Action::BuildImage(nowhere)).await,
            Err(ActionError::BuildFailed { .. })
        ));
    });
}

#[test]
fn image_is_pulled_from_its_registry() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let registry = Registry::start(engine, 19555);
    engine.docker_ok(&["tag", IMAGE, "app:1"]);
    let pushed = registry.push(engine, "app:1");
    block(async {
        let docker = docker(engine);
        let received = Received::default();
        let pull = |reference: &str| pull(reference, PullPolicy::Missing);
        assert_eq!(docker.execute(&pull(&pushed), &received).await, Ok(Done::Applied));
        assert!(!received.0.lock().expect("a list").is_empty());
        engine.docker_ok(&["image", "inspect", &pushed]);
        assert_eq!(docker.execute(&pull(&pushed), &()).await, Ok(Done::Applied));
        let none = docker
            .execute(&pull(&format!("{}/app:none", registry.address)), &())
            .await;
        assert!(matches!(none, Err(ActionError::ImageNotFound(_))), "{none:?}");
        let none = docker
            .execute(&pull(&format!("{}/nothing", registry.address)), &())
            .await;
        assert!(matches!(none, Err(ActionError::ImageNotFound(_))), "{none:?}");
    });
}

/// The shim process between the engine and a container's process.
fn shim_of(id: &ContainerId) -> String {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let is_shim = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("containerd-shim") && line.contains(id.as_str())
    };
    pids.into_iter().find(is_shim).expect("a shim")
}

fn signal(pid: &str, signal: &str) {
    let sent = std::process::Command::new("busybox")
        .args(["kill", signal, pid])
        .status();
    assert!(sent.expect("busybox runs").success());
}

#[test]
fn hanging_container_delays_no_other() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(&engine);
        let executor = NoExecutor(docker.clone());
        executor.network("hang").await;
        let hung = executor.container("argus-hang-a", spec("hang", "a")).await;
        executor.start(&hung).await.expect("start");
        let mut observer = Observer::open(&docker);
        observer.sees(&hung, "running", running).await;
        let shim = shim_of(&hung);
        signal(&shim, "-STOP");
        let remove = tokio::time::timeout(Duration::from_secs(1), executor.remove(&hung)).await;
        assert!(remove.is_err(), "its removal hangs");
        let well = executor.container("argus-hang-b", spec("hang", "b")).await;
        executor.start(&well).await.expect("start");
        let seen =
            tokio::time::timeout(Duration::from_secs(2), observer.sees(&well, "the other", running)).await;
        assert!(
            seen.is_ok(),
            "it is reported immediately although an inspect hangs"
        );
        let before = observer.store.last_complete();
        docker.request_relist();
        let listed = observer.until("a list", |store, _| store.last_complete() > before);
        assert!(
            tokio::time::timeout(Duration::from_secs(2), listed).await.is_ok(),
            "lists continue"
        );
        assert!(
            matches!(executor.remove(&hung).await, Err(ActionError::Busy(_))),
            "an inspect that hangs is not an outage"
        );
        assert!(observer.store.is_reachable());
        signal(&shim, "-CONT");
        observer
            .until("removed at last", |store, _| store.container(&hung).is_none())
            .await;
    });
}

#[test]
fn sleeping_consumer_catches_up() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(&engine);
        let executor = NoExecutor(docker.clone());
        executor.network("burst").await;
        let mut observer = Observer::open(&docker);
        observer
            .until("a complete list", |store, _| store.is_synced())
            .await;
        let mut ids = Vec::new();
        for n in 0..30 {
            let id = executor
                .container(&format!("argus-burst-{n}"), spec("burst", "a"))
                .await;
            executor
                .act(Action::RenameContainer {
                    id: id.clone(),
                    to: name(&format!("argus-burst-x{n}")),
                })
                .await
                .expect("rename");
            ids.push(id);
        }
        observer
            .until("all of them, inspected", |store, _| {
                ids.iter().all(|id| {
                    let container = store.container(id);
                    container
                        .is_some_and(|container| container.name.contains("-x") && container.inspect.is_some())
                })
            })
            .await;
        for id in &ids {
            executor.remove(id).await.expect("remove");
        }
        observer
            .until("none remains", |store, _| store.containers().count() == 0)
            .await;
    });
}

/// A complete response for [`Fault::Answer`], which lives as long as the test program.
fn response(status: &str, body: &serde_json::Value) -> &'static str {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Box::leak((head + &body).into_boxed_str())
}

/// Removes a network whose removal the engine refuses once, while it lists these containers: their endpoint is freed by force.
async fn removes_by_force(
    engine: &PrivateEngine,
    proxy: &Proxy,
    executor: &NoExecutor,
    (id, name): (NetworkId, &str),
    listed: serde_json::Value,
) {
    let text = engine.docker_ok(&["network", "inspect", name]);
    let networks: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut network = networks[0].clone();
    network["Containers"] = listed;
    proxy.inject("GET /networks/*", Fault::Answer(response("200 OK", &network)), 2);
    let refusal = serde_json::json!({ "message": format!("network {name} has active endpoints") });
    let refused = Fault::Answer(response("403 Forbidden", &refusal));
    proxy.inject("DELETE /networks/*", refused, 1);
    proxy.reset_counts();
    let name = name.to_owned();
    let removed = executor.act(Action::RemoveNetwork { id, name }).await;
    assert_eq!(removed, Ok(Done::Applied));
    let counts = proxy.counts();
    assert_eq!(
        counts.get("POST /networks/*/disconnect"),
        Some(&1),
        "by force: {counts:?}"
    );
    assert_eq!(counts.get("DELETE /networks/*"), Some(&2), "{counts:?}");
}

#[test]
fn endpoint_of_a_removed_container_is_freed_by_its_name() {
    let engine = PrivateEngine::start();
    let proxy = Proxy::start(&engine.scratch("zombie").join("docker.sock"), &engine.socket());
    block(async {
        let endpoint = Endpoint::parse(&proxy.host()).expect("an endpoint");
        let executor = NoExecutor(Docker::new(endpoint, Arc::new(now)));
        let id = executor.network("zombie").await;
        // An engine that was killed during a removal keeps the endpoint without its container.
        let listed = serde_json::json!({ "0".repeat(64): { "Name": "ghost" } });
        removes_by_force(&engine, &proxy, &executor, (id, "argus-zombie"), listed).await;
    });
    let left = engine.docker_ok(&["network", "ls", "-q", "--filter", "name=argus-zombie"]);
    assert_eq!(left.trim(), "");
}

#[test]
fn endpoint_of_a_detached_container_is_freed_by_its_name() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image(IMAGE, &[]);
    let proxy = Proxy::start(&engine.scratch("kept").join("docker.sock"), &engine.socket());
    block(async {
        let endpoint = Endpoint::parse(&proxy.host()).expect("an endpoint");
        let executor = NoExecutor(Docker::new(endpoint, Arc::new(now)));
        let elsewhere = ContainerSpec {
            network: name("bridge"),
            aliases: vec![],
            ..spec("kept", "a")
        };
        let container = executor.container("argus-kept-a", elsewhere).await;
        assert_eq!(executor.start(&container).await, Ok(Done::Applied));
        // An engine that cannot find the bridge detaches the containers, but can keep their endpoints. It does not list
        // all of them.
        for listed in [
            serde_json::json!({}),
            serde_json::json!({ container.as_str(): { "Name": "argus-kept-a" } }),
        ] {
            let id = executor.network("kept").await;
            removes_by_force(&engine, &proxy, &executor, (id, "argus-kept"), listed).await;
        }
    });
    let left = engine.docker_ok(&["network", "ls", "-q", "--filter", "name=argus-kept"]);
    assert_eq!(left.trim(), "");
}

#[test]
fn broken_connection_gives_honest_outcomes() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image(IMAGE, &[]);
    let proxy = Proxy::start(&engine.scratch("wire").join("docker.sock"), &engine.socket());
    block(async {
        let docker = Docker::new(
            Endpoint::parse(&proxy.host()).expect("an endpoint"),
            Arc::new(now),
        );
        let executor = NoExecutor(docker.clone());
        let mut observer = Observer::open(&docker);
        observer
            .until("a complete list", |store, _| store.is_synced())
            .await;
        let network = executor.network("wire").await;
        // The response is lost but the work is done: the retry adopts the result.
        proxy.inject("POST /containers/create", Fault::CloseAfter, 1);
        let lost = executor.create("argus-wire-a", spec("wire", "a")).await;
        assert!(
            matches!(&lost, Err(error) if error.is_outcome_unknown()),
            "{lost:?}"
        );
        let id = executor.container("argus-wire-a", spec("wire", "a")).await;
        proxy.inject("POST /containers/*/start", Fault::CloseAfter, 1);
        assert!(matches!(executor.start(&id).await, Err(error) if error.is_outcome_unknown()));
        assert_eq!(executor.start(&id).await, Ok(Done::Applied));
        proxy.inject("GET /containers/*/json", Fault::CloseBefore, 1);
        assert!(
            matches!(executor.remove(&id).await, Err(ActionError::Unreachable(_))),
            "nothing was done"
        );
        observer.sees(&id, "running", running).await;

        let before = observer.store.last_complete();
        assert!(proxy.cut("GET /events") > 0);
        // The engine answers a ping, so only a list follows.
        observer
            .until("listed again", |store, _| {
                assert!(store.is_reachable(), "a lost event stream is no lost engine");
                store.last_complete() > before
            })
            .await;
        proxy.refuse();
        let refused = executor
            .act(Action::RemoveNetwork {
                id: network,
                name: String::new(),
            })
            .await;
        assert!(
            matches!(&refused, Err(error) if matches!(error, ActionError::Unreachable(_)) || error.is_outcome_unknown()),
            "{refused:?}"
        );
        observer
            .until("lost again", |store, _| !store.is_reachable())
            .await;
        proxy.heal();
        observer
            .until("found again", |store, _| store.is_reachable())
            .await;
        assert_eq!(executor.remove(&id).await, Ok(Done::Applied));
    });
}

#[test]
fn events_are_reported_after_a_cut_of_their_stream() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let proxy = Proxy::start(&engine.scratch("mute").join("docker.sock"), &engine.socket());
    block(async {
        let docker = Docker::new(
            Endpoint::parse(&proxy.host()).expect("an endpoint"),
            Arc::new(now),
        );
        let executor = NoExecutor(docker.clone());
        let network = executor.network("mute").await;
        let id = executor.container("argus-mute-a", spec("mute", "a")).await;
        executor.start(&id).await.expect("start");
        let mut observer = Observer::open(&docker);
        observer.sees(&id, "running", running).await;
        assert!(proxy.cut("GET /events") > 0);
        observer
            .until("the cut is reported", |_, seen| {
                seen.contains(&WatchEvent::StreamGap)
            })
            .await;
        engine.docker_ok(&["stop", "-t", "1", id.as_str()]);
        observer
            .sees(&id, "stopped externally, as only an event shows", |container| {
                container.stopped_by_other.is_some()
            })
            .await;
        assert!(
            observer.store.is_reachable(),
            "the engine itself was always reachable"
        );
        assert_eq!(executor.remove(&id).await, Ok(Done::Applied));
        let remove_network = Action::RemoveNetwork {
            id: network,
            name: String::new(),
        };
        assert_eq!(executor.act(remove_network).await, Ok(Done::Applied));
    });
}

#[test]
fn engine_with_pings_but_no_lists_is_connected_once() {
    const HALF: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n[{\"I\"";
    let engine = PrivateEngine::start();
    let proxy = Proxy::start(&engine.scratch("half").join("docker.sock"), &engine.socket());
    block(async {
        let docker = Docker::new(
            Endpoint::parse(&proxy.host()).expect("an endpoint"),
            Arc::new(now),
        );
        let mut observer = Observer::open(&docker);
        observer
            .until("a complete list", |store, _| store.is_synced())
            .await;
        let found = |seen: &[WatchEvent]| {
            let all = seen.iter();
            all.filter(|one| matches!(one, WatchEvent::Connected(_))).count()
        };
        proxy.inject("GET /containers/json", Fault::Answer(HALF), 1_000_000);
        proxy.cut("GET /events");
        // One more attempt may find it, until a list fails.
        observer
            .until("three failed attempts", |store, _| {
                store.retry().is_some_and(|away| away.attempts >= 3)
            })
            .await;
        assert!(
            found(&observer.seen) <= 2,
            "{:#?}",
            observer.seen.iter().rev().take(12).collect::<Vec<_>>()
        );
        proxy.heal();
        observer
            .until("found and listed", |store, _| {
                store.is_reachable() && store.is_synced()
            })
            .await;
    });
}

#[test]
fn engine_that_leaves_and_returns_is_followed() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image(IMAGE, &[]);
    block(async {
        let docker = docker(&engine);
        let executor = NoExecutor(docker.clone());
        executor.network("loss").await;
        let id = executor.container("argus-loss-a", spec("loss", "a")).await;
        executor.start(&id).await.expect("start");
        let mut observer = Observer::open(&docker);
        observer.sees(&id, "running", running).await;
        engine.kill9();
        observer.until("lost", |store, _| !store.is_reachable()).await;
        assert!(matches!(
            executor.start(&id).await,
            Err(ActionError::Unreachable(_))
        ));
        let before = observer.store.last_complete();
        engine.start_again();
        observer
            .until("found and listed", |store, _| {
                store.is_reachable() && store.last_complete() > before
            })
            .await;
        observer
            .sees(&id, "killed by the restart", |container| {
                container.state == ContainerState::Exited && container.inspect.is_some()
            })
            .await;
        engine.freeze();
        docker.request_relist();
        // A stop signal takes a moment to reach every thread.
        let frozen = tokio::time::timeout(LIMIT, async { while docker.ping().await.is_ok() {} }).await;
        assert!(frozen.is_ok(), "a ping has a deadline");
        observer
            .until("a frozen engine is lost", |store, _| !store.is_reachable())
            .await;
        engine.thaw();
        observer
            .until("found again", |store, _| store.is_reachable())
            .await;
    });
}

#[test]
fn watch_waits_for_an_absent_engine() {
    let engine = PrivateEngine::start();
    engine.stop();
    block(async {
        let docker = docker(&engine);
        let mut observer = Observer::open(&docker);
        observer
            .until("lost from the start", |store, _| {
                !store.unreachable_reason().is_empty()
            })
            .await;
        assert!(matches!(docker.info().await, Err(ActionError::Unreachable(_))));
        engine.start_again();
        observer.until("found", |store, _| store.is_synced()).await;
    });
}
