//! When it is looked, how often, and what is told of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use argus_core::brain::Site;
use argus_core::connectivity::{Book, Look, Seen, Trouble};
use argus_core::ident::{ContainerId, EnvName, Hash, NetworkId, ServiceName};
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE, SPEC_HASH};
use argus_core::memory::Memory;
use argus_core::mode::Mode;
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, Facts, Network, Object, Sighting, World,
};
use argus_core::outcome::ActError;
use argus_core::plan::Plan;
use argus_core::time::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::fake::Fake;
use crate::outlook::Outlook;
use crate::specs::SpecBook;
use crate::specs::admission::Admission;
use crate::specs::judge::{Judge, Reading};

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
        facts: Some(Facts {
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
fn outlook(db_started_at: i64, db_is_on: bool) -> Outlook {
    let reading = Reading {
        path: Path::new("/specs/e2e.yaml"),
        name: "e2e.yaml",
        bytes: SPEC.as_bytes(),
        variables: BTreeMap::new(),
        digests: BTreeMap::new(),
        documents: BTreeMap::new(),
        uuid: String::new(),
        first_seen: Timestamp(1),
    };
    let mut book = SpecBook::default();
    book.judged(
        Path::new("e2e.yaml"),
        None,
        Admission::default().judge(&reading),
        Timestamp(1),
    );
    let mut world = World::default();
    world.apply(Sighting::Found(Timestamp(1)));
    world.apply(Sighting::ListBegan);
    world.apply(Sighting::Saw(Object::Network(Arc::new(Network {
        id: NetworkId::new("n").unwrap(),
        name: "net".to_owned(),
        labels: named(&[(MANAGED, "true"), (ENVIRONMENT, "shop")]),
        created_at: Timestamp(1),
    }))));
    for one in [
        container("db", db_started_at, db_is_on),
        container("web", 1, true),
    ] {
        world.apply(Sighting::Saw(Object::Container(Arc::new(one))));
    }
    world.apply(Sighting::ListDone);
    let hash = Hash::new("ab").unwrap();
    let plan = Plan {
        hashes: ["db", "web"]
            .map(|name| (ServiceName::new(name).unwrap(), hash.clone()))
            .into(),
        ..Plan::default()
    };
    let site = Site {
        controller: "C".into(),
        run: "R".into(),
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let mut outlook = Outlook::blank(site, Memory::default(), Timestamp(1));
    outlook.mode = Mode::Full;
    outlook.desired = Arc::new(book.environments);
    outlook.world = Arc::new(world);
    outlook.plans = Arc::new([(EnvName::new("shop").unwrap(), Arc::new(plan))].into());
    outlook
}

struct Stage {
    clock: Clock,
    backend: Arc<Fake>,
    outlooks: watch::Sender<Arc<Outlook>>,
    told: watch::Receiver<Arc<Book>>,
}

impl Stage {
    /// The look that is told next and satisfies this, with how many seconds that took from the start.
    async fn look(&mut self, wanted: impl Fn(&Look) -> bool) -> (Look, u64) {
        let env = EnvName::new("shop").unwrap();
        let is = |book: &Arc<Book>| book.looks.get(&env).is_some_and(&wanted);
        let book = self.told.wait_for(is).await.unwrap().clone();
        (book.looks[&env].clone(), self.clock.now().since(START).as_secs())
    }

    fn looks(&self) -> usize {
        self.backend.looks.load(Ordering::SeqCst)
    }

    fn shows(&self, seen: Result<Seen, ActError>) {
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

fn refused() -> Seen {
    Seen {
        addresses: Vec::new(),
        trouble: Some(Trouble::Refused("no".to_owned())),
    }
}

async fn play(first: Outlook, helpers: bool, story: impl AsyncFnOnce(&mut Stage)) {
    let clock = Clock::virtual_from(START);
    let backend = Arc::new(Fake::empty());
    let (outlooks, seen) = watch::channel(Arc::new(first));
    let book = Book {
        helpers,
        ..Book::default()
    };
    let (books, told) = watch::channel(Arc::new(book));
    let stop = CancellationToken::new();
    let task = super::run(backend.clone(), seen, books, clock, stop.clone());
    let mut stage = Stage {
        clock,
        backend,
        outlooks,
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
    play(outlook(1, false), true, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "somebody is not on the network");
        stage.outlooks.send_replace(Arc::new(outlook(1, true)));
        let (look, _) = stage.look(Look::is_good).await;
        assert_eq!(look.links.len(), 1);
        stage.hour().await;
        assert_eq!(stage.looks(), 1, "what works is not looked at again");
        stage.outlooks.send_replace(Arc::new(outlook(2, false)));
        stage.look(|look| !look.is_current).await;
        stage.outlooks.send_replace(Arc::new(outlook(2, true)));
        stage.look(|look| look.is_current).await;
        assert_eq!(stage.looks(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_work_is_told_when_a_second_look_shows_it_too_and_looked_at_until_it_does() {
    play(outlook(1, true), true, async |stage| {
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
        let told = Look {
            again: bad.again,
            ..still
        };
        assert_eq!(told, bad, "the same is told once");
        stage.shows(Ok(Seen::default()));
        stage.look(Look::is_good).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_looked_at_is_no_failure_of_the_network() {
    play(outlook(1, true), true, async |stage| {
        stage.shows(Err(ActError::Gone));
        let (look, _) = stage.look(|_| true).await;
        assert!(!look.is_good() && look.links[0].trouble().is_none(), "{look:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_without_helpers_and_while_nothing_may_be_made() {
    play(outlook(1, true), false, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "no helpers");
    })
    .await;
    let mut safe = outlook(1, true);
    safe.mode = Mode::Safe;
    play(safe, true, async |stage| {
        stage.hour().await;
        assert_eq!(stage.looks(), 0, "mode Safe");
        stage.outlooks.send_replace(Arc::new(outlook(1, true)));
        stage.look(Look::is_good).await;
    })
    .await;
}
