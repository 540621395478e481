//! When it is looked, how often, and what is told of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use argus_core::connectivity::{CheckResults, ConnectivityCheck, LinkError, TargetResult};
use argus_core::ident::{ContainerId, EnvName, Hash, NetworkId, ServiceName};
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE, SPEC_HASH};
use argus_core::mode::Mode;
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, InspectInfo, Network, Object, Store, WatchEvent,
};
use argus_core::outcome::ActionError;
use argus_core::plan::Plan;
use argus_core::reconcile::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::fake_backend::FakeBackend;
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::specs::admission::SpecAdmitter;
use crate::specs::admitter::{AdmissionInput, Admitter};

const START: Timestamp = Timestamp(1_000_000);
const SPEC: &str = "version: '1'\nproject: { name: shop }\nnetwork: { name: net }\nservices:\n  db: { image: a, container: { name: shop-db } }\n  \
                    web: { image: a, dependsOn: [db], container: { name: shop-web } }\n";

fn named(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn container(service: &str, started_at: i64, on: bool) -> Container {
    let at = Attachment {
        network: Some(NetworkId::new("n").unwrap()),
        aliases: vec![service.to_owned()],
        address: None,
    };
    Container {
        id: ContainerId::new(service).unwrap(),
        name: format!("shop-{service}"),
        labels: named(&[
            (MANAGED, "true"),
            (ENVIRONMENT, "shop"),
            (SERVICE, service),
            (SPEC_HASH, "ab"),
        ]),
        image: "a".to_owned(),
        state: ContainerState::Running,
        created_at: Timestamp(1),
        networks: on.then(|| ("net".to_owned(), at)).into_iter().collect(),
        inspect: Some(InspectInfo {
            started_at: Some(Timestamp(started_at)),
            finished_at: None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            image_id: None,
            health: None,
            config: Config::default(),
        }),
        stopped_by_other: None,
        oom_at: None,
    }
}

/// `web` depends on `db`, both are up.
fn snapshot(db_started_at: i64, db_is_on: bool) -> Snapshot {
    let reading = AdmissionInput {
        path: Path::new("/specs/e2e.yaml"),
        name: "e2e.yaml",
        bytes: SPEC.as_bytes(),
        variables: BTreeMap::new(),
        digests: BTreeMap::new(),
        documents: BTreeMap::new(),
        host: argus_core::desired::host::HostPaths::default(),
        uuid: String::new(),
        first_seen: Timestamp(1),
    };
    let mut book = SpecRegistry::default();
    book.on_admitted(
        Path::new("e2e.yaml"),
        None,
        SpecAdmitter::default().admit(&reading),
        Timestamp(1),
    );
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(Timestamp(1)));
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::Apply(Object::Network(Arc::new(Network {
        id: NetworkId::new("n").unwrap(),
        name: "net".to_owned(),
        labels: named(&[(MANAGED, "true"), (ENVIRONMENT, "shop")]),
        created_at: Timestamp(1),
    }))));
    for one in [
        container("db", db_started_at, db_is_on),
        container("web", 1, true),
    ] {
        store.apply(WatchEvent::Apply(Object::Container(Arc::new(one))));
    }
    store.apply(WatchEvent::InitDone);
    let hash = Hash::new("ab").unwrap();
    let plan = Plan {
        hashes: ["db", "web"]
            .map(|name| (ServiceName::new(name).unwrap(), hash.clone()))
            .into(),
        ..Plan::default()
    };
    let site = ControllerIdentity {
        controller: "C".into(),
        run: "R".into(),
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let mut snapshot = Snapshot::blank(site, PlannerState::default(), Timestamp(1));
    snapshot.mode = Mode::Full;
    snapshot.desired = Arc::new(book.environments);
    snapshot.store = Arc::new(store);
    snapshot.plans = Arc::new([(EnvName::new("shop").unwrap(), Arc::new(plan))].into());
    snapshot
}

struct Stage {
    clock: Clock,
    backend: Arc<FakeBackend>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    told: watch::Receiver<Arc<CheckResults>>,
}

impl Stage {
    /// The look that is told next and satisfies this, with how many seconds that took from the start.
    async fn look(&mut self, wanted: impl Fn(&ConnectivityCheck) -> bool) -> (ConnectivityCheck, u64) {
        let env = EnvName::new("shop").unwrap();
        let is = |book: &Arc<CheckResults>| book.checks.get(&env).is_some_and(&wanted);
        let book = self.told.wait_for(is).await.unwrap().clone();
        (book.checks[&env].clone(), self.clock.now().since(START).as_secs())
    }

    fn looks(&self) -> usize {
        self.backend.looks.load(Ordering::SeqCst)
    }

    fn shows(&self, seen: Result<TargetResult, ActionError>) {
        self.backend
            .seen_from
            .lock()
            .unwrap()
            .insert("web".to_owned(), seen);
    }

    /// Lets an hour pass in which nothing else happens.
    async fn hour(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    }
}

fn refused() -> TargetResult {
    TargetResult {
        addresses: Vec::new(),
        error: Some(LinkError::Refused("no".to_owned())),
    }
}

async fn play(first: Snapshot, helpers: bool, story: impl AsyncFnOnce(&mut Stage)) {
    let clock = Clock::virtual_from(START);
    let backend = Arc::new(FakeBackend::empty());
    let (snapshots, seen) = watch::channel(Arc::new(first));
    let book = CheckResults {
        helpers,
        ..CheckResults::default()
    };
    let (books, told) = watch::channel(Arc::new(book));
    let stop = CancellationToken::new();
    let task = super::run(backend.clone(), seen, books, clock, stop.clone());
    let mut stage = Stage {
        clock,
        backend,
        snapshots,
        told,
    };
    let story = async {
        story(&mut stage).await;
        stop.cancel();
    };
    tokio::join!(task, story);
}

#[tokio::test(start_paused = true)]
async fn once_everybody_is_up_it_is_looked_once_and_again_when_somebody_runs_anew() {
    play(snapshot(1, false), true, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "somebody is not on the network");
        stage.snapshots.send_replace(Arc::new(snapshot(1, true)));
        let (look, _) = stage.look(ConnectivityCheck::is_good).await;
        assert_eq!(look.links.len(), 1);
        stage.hour().await;
        assert_eq!(stage.looks(), 1, "what works is not looked at again");
        stage.snapshots.send_replace(Arc::new(snapshot(2, false)));
        stage.look(|look| !look.is_current).await;
        stage.snapshots.send_replace(Arc::new(snapshot(2, true)));
        stage.look(|look| look.is_current).await;
        assert_eq!(stage.looks(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_work_is_told_when_a_second_look_shows_it_too_and_looked_at_until_it_does() {
    play(snapshot(1, true), true, async |stage| {
        stage.shows(Ok(refused()));
        let (bad, took) = stage.look(|_| true).await;
        assert!(
            !bad.is_good() && took == 2 && stage.looks() == 2,
            "{took} {bad:?}"
        );
        stage.hour().await;
        let looks = stage.looks();
        assert!((60..70).contains(&looks), "about once a minute: {looks}");
        let still = stage.look(|_| true).await.0;
        let pauses = (bad.again, still.again);
        assert_eq!(
            pauses,
            (Some(super::AGAIN[1]), Some(super::AGAIN[5])),
            "when it is looked at next is told"
        );
        let told = ConnectivityCheck {
            again: bad.again,
            ..still
        };
        assert_eq!(told, bad, "the same is told once");
        stage.shows(Ok(TargetResult::default()));
        stage.look(ConnectivityCheck::is_good).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_looked_at_is_no_failure_of_the_network() {
    play(snapshot(1, true), true, async |stage| {
        stage.shows(Err(ActionError::Gone));
        let (look, _) = stage.look(|_| true).await;
        assert!(!look.is_good() && look.links[0].error().is_none(), "{look:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_without_helpers_and_while_nothing_may_be_made() {
    play(snapshot(1, true), false, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "no helpers");
    })
    .await;
    let mut safe = snapshot(1, true);
    safe.mode = Mode::Safe;
    play(safe, true, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "mode Safe");
        stage.snapshots.send_replace(Arc::new(snapshot(1, true)));
        stage.look(ConnectivityCheck::is_good).await;
    })
    .await;
}
