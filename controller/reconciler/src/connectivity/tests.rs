//! Tests of the check schedule and of the published results.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use argus_core::action::{ActionKind, Subject};
use argus_core::connectivity::{CheckResults, ConnectivityCheck, LinkError, TargetResult};
use argus_core::failed_run::FailedRun;
use argus_core::ident::{ContainerId, EnvName, Hash, NetworkId, ServiceName};
use argus_core::labels::{ENVIRONMENT, MANAGED, SPEC_HASH};
use argus_core::mode::Mode;
use argus_core::observed::{Attachment, Container, ContainerState, Network, Object, Store, WatchEvent};
use argus_core::outcome::ActionError;
use argus_core::plan::ControllerIdentity;
use argus_core::plan::Plan;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::wait::{Wait, WaitReason};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{CheckSchedule, ConnectivityTask, LinkState, link_state};
use crate::clock::Clock;
use crate::fake_backend::{self, FakeBackend};
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::specs::admission::{AdmissionInput, SpecAdmitter};
use crate::specs::parsed_file::ParsedFile;
use crate::supervise::task_set::{TaskFailure, TaskSet};

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
    let mut container =
        fake_backend::container("shop", service, service, ContainerState::Running, started_at);
    container.labels.insert(SPEC_HASH.to_owned(), "ab".to_owned());
    container.networks = on.then(|| ("net".to_owned(), at)).into_iter().collect();
    container
}

/// Snapshot in which `web` depends on `db` and both are up.
fn snapshot(db_started_at: i64, db_is_on: bool) -> Snapshot {
    snapshot_of([
        container("db", db_started_at, db_is_on),
        container("web", 1, true),
    ])
}

/// A run that began at this time, and has ended.
fn ended(service: &str, started_at: i64) -> Container {
    Container {
        state: ContainerState::Exited,
        ..container(service, started_at, true)
    }
}

/// Snapshot in which `web` depends on `db`, with these containers.
fn snapshot_of(containers: [Container; 2]) -> Snapshot {
    let file = ParsedFile::read("e2e.yaml", SPEC.as_bytes());
    let input = AdmissionInput::new(Path::new("/specs/e2e.yaml"), Timestamp(1));
    let mut results = SpecRegistry::default();
    results.on_admitted(
        Path::new("e2e.yaml"),
        None,
        SpecAdmitter::default().admit(&file, &input, &mut |_| None),
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
        is_broken: false,
    }))));
    for one in containers {
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
    let identity = ControllerIdentity {
        controller: "C".into(),
        run: "R".into(),
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let mut snapshot = Snapshot::blank(identity, PlannerState::default(), Timestamp(1));
    snapshot.mode = Mode::Full;
    snapshot.desired = Arc::new(results.environments);
    snapshot.store = Arc::new(store);
    snapshot.plans = Arc::new([(EnvName::new("shop").unwrap(), Arc::new(plan))].into());
    snapshot
}

/// Snapshot before the first start of `web`, whose plan waits for this.
fn starting(on: WaitReason) -> Snapshot {
    let created = Container {
        state: ContainerState::Created,
        ..container("web", 1, true)
    };
    let mut snapshot = snapshot_of([container("db", 1, true), created]);
    let env = EnvName::new("shop").unwrap();
    let plan = Arc::make_mut(&mut snapshot.plans).get_mut(&env).unwrap();
    let service = ServiceName::new("web").unwrap();
    let subject = Subject::Service {
        environment: env,
        service,
    };
    Arc::make_mut(plan).waits = vec![Wait { subject, on }];
    snapshot
}

struct Fixture {
    clock: Clock,
    backend: Arc<FakeBackend>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    published: watch::Receiver<Arc<CheckResults>>,
}

impl Fixture {
    /// Waits for a published check that matches, and returns it with the seconds since the start.
    async fn wait_for_check(
        &mut self,
        wanted: impl Fn(&ConnectivityCheck) -> bool,
    ) -> (ConnectivityCheck, u64) {
        let env = EnvName::new("shop").unwrap();
        let is = |results: &Arc<CheckResults>| results.checks.get(&env).is_some_and(&wanted);
        let results = self.published.wait_for(is).await.unwrap().clone();
        (
            results.checks[&env].clone(),
            self.clock.now().since(START).as_secs(),
        )
    }

    fn check_count(&self) -> usize {
        self.backend.check_count.load(Ordering::SeqCst)
    }

    fn set_result(&self, seen: Result<TargetResult, ActionError>) {
        self.set_result_from("web", seen);
    }

    /// Sets the result of checks from a container or a network.
    fn set_result_from(&self, source: &str, seen: Result<TargetResult, ActionError>) {
        self.backend
            .link_results
            .lock()
            .unwrap()
            .insert(source.to_owned(), seen);
    }

    /// Lets an hour pass without other events.
    async fn hour(&self) {
        self.pause(3_600).await;
    }

    async fn pause(&self, seconds: u64) {
        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
    }
}

fn refused() -> TargetResult {
    TargetResult {
        error: Some(LinkError::Refused("no".to_owned())),
        ..TargetResult::default()
    }
}

async fn run_script(first: Snapshot, helpers: bool, script: impl AsyncFnOnce(&mut Fixture)) {
    let clock = Clock::virtual_from(START);
    let backend = Arc::new(FakeBackend::empty());
    let (snapshots, seen) = watch::channel(Arc::new(first));
    let results = CheckResults {
        helpers_allowed: helpers,
        ..CheckResults::default()
    };
    let (sender, published) = watch::channel(Arc::new(results));
    let stop = CancellationToken::new();
    let task = super::run(backend.clone(), seen, sender, clock, stop.clone());
    let mut fixture = Fixture {
        clock,
        backend,
        snapshots,
        published,
    };
    let script = async {
        script(&mut fixture).await;
        stop.cancel();
    };
    tokio::join!(task, script);
}

#[tokio::test(start_paused = true)]
async fn links_are_checked_once_all_are_up_and_after_a_restart() {
    run_script(snapshot(1, false), true, async |fixture| {
        fixture.hour().await;
        assert_eq!(fixture.check_count(), 0, "`db` is not on the network");
        fixture.snapshots.send_replace(Arc::new(snapshot(1, true)));
        let (wait_for_check, _) = fixture.wait_for_check(ConnectivityCheck::is_good).await;
        assert_eq!(wait_for_check.link_results.len(), 1);
        fixture.hour().await;
        assert_eq!(fixture.check_count(), 1, "working links are not checked again");
        fixture.snapshots.send_replace(Arc::new(snapshot(2, false)));
        fixture
            .wait_for_check(|wait_for_check| !wait_for_check.is_current)
            .await;
        fixture.snapshots.send_replace(Arc::new(snapshot(2, true)));
        fixture
            .wait_for_check(|wait_for_check| wait_for_check.is_current)
            .await;
        assert_eq!(fixture.check_count(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn failed_links_are_published_after_two_checks_and_retried() {
    run_script(snapshot(1, true), true, async |fixture| {
        fixture.set_result(Ok(refused()));
        let (bad, took) = fixture.wait_for_check(|_| true).await;
        assert!(
            !bad.is_good() && took == 2 && fixture.check_count() == 2,
            "{took} {bad:?}"
        );
        fixture.hour().await;
        let check_count = fixture.check_count();
        assert!(
            (60..70).contains(&check_count),
            "about once a minute: {check_count}"
        );
        let still = fixture.wait_for_check(|_| true).await.0;
        let pauses = (bad.retry_after, still.retry_after);
        assert_eq!(
            pauses,
            (Some(super::RETRY_DELAYS[1]), Some(super::RETRY_DELAYS[5])),
            "the time of the next check is published"
        );
        let published = ConnectivityCheck {
            retry_after: bad.retry_after,
            ..still
        };
        assert_eq!(published, bad, "an equal result is published once");
        fixture.set_result(Ok(TargetResult::default()));
        fixture.wait_for_check(ConnectivityCheck::is_good).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn start_holds_back_the_check_until_all_are_up() {
    let verb = ActionKind::StartContainer;
    run_script(starting(WaitReason::InFlight { verb }), true, async |fixture| {
        fixture.set_result(Ok(refused()));
        fixture.set_result_from("n", Ok(refused()));
        fixture.pause(59).await;
        fixture
            .snapshots
            .send_replace(Arc::new(starting(WaitReason::Probe)));
        fixture.pause(59).await;
        assert_eq!(
            fixture.check_count(),
            0,
            "each progress of the start holds it back"
        );
        fixture.snapshots.send_replace(Arc::new(snapshot(1, true)));
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!((took, fixture.check_count()), (120, 2), "{check:?}");
        assert!(!check.is_good() && check.key.down.is_empty(), "{check:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn later_times_of_a_start_are_no_progress() {
    let until = |seconds: i64| WaitReason::MinimumRunTime {
        until: Timestamp(START.0 + seconds * 1_000),
    };
    run_script(starting(until(0)), true, async |fixture| {
        fixture.set_result_from("n", Ok(refused()));
        for seconds in [20, 40, 55] {
            fixture.pause(15).await;
            fixture.snapshots.send_replace(Arc::new(starting(until(seconds))));
        }
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!((took, check.key.down.len()), (62, 1), "{check:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn start_without_progress_or_with_a_failure_is_checked() {
    run_script(starting(WaitReason::Probe), true, async |fixture| {
        fixture.set_result_from("n", Ok(refused()));
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!((took, check.key.down.len()), (62, 1), "{check:?}");
    })
    .await;
    run_script(starting(WaitReason::Probe), true, async |fixture| {
        fixture.set_result_from("n", Ok(refused()));
        fixture.pause(20).await;
        let until = Timestamp(START.0 + 3_600_000);
        let delayed = starting(WaitReason::RestartDelay { until, attempt: 1 });
        fixture.snapshots.send_replace(Arc::new(delayed));
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!((took, check.key.down.len()), (27, 1), "{check:?}");
    })
    .await;
    let mut failed = starting(WaitReason::Probe);
    let web = ServiceName::new("web").unwrap();
    let run = FailedRun::new(ContainerId::new("web").unwrap(), Timestamp(1));
    let environments = &mut Arc::make_mut(&mut failed.state).environments;
    let history = environments.entry(EnvName::new("shop").unwrap()).or_default();
    Arc::make_mut(history).service_mut(&web).failures.push(run);
    run_script(failed, true, async |fixture| {
        fixture.set_result_from("n", Ok(refused()));
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!((took, check.key.down.len()), (7, 1), "{check:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn check_that_cannot_run_is_not_a_link_error() {
    run_script(snapshot(1, true), true, async |fixture| {
        fixture.set_result(Err(ActionError::Gone));
        let (wait_for_check, _) = fixture.wait_for_check(|_| true).await;
        assert!(
            !wait_for_check.is_good() && wait_for_check.link_results[0].error().is_none(),
            "{wait_for_check:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_checks_run_without_helpers_or_in_mode_safe() {
    run_script(snapshot(1, true), false, async |fixture| {
        fixture.hour().await;
        assert_eq!(fixture.check_count(), 0, "no helpers");
    })
    .await;
    let mut safe = snapshot(1, true);
    safe.mode = Mode::Safe;
    run_script(safe, true, async |fixture| {
        fixture.hour().await;
        assert_eq!(fixture.check_count(), 0, "mode Safe");
        fixture.snapshots.send_replace(Arc::new(snapshot(1, true)));
        fixture.wait_for_check(ConnectivityCheck::is_good).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn links_of_a_crash_loop_are_checked_from_the_network() {
    let crashed = |started_at| snapshot_of([container("db", 1, true), ended("web", started_at)]);
    run_script(crashed(1), true, async |fixture| {
        fixture.set_result_from("n", Ok(refused()));
        let (check, took) = fixture.wait_for_check(|_| true).await;
        let link = &check.link_results[0];
        assert!(link.error().is_some() && took == 7, "{took} {check:?}");
        assert_eq!(check.reattach_candidates(), Vec::<&ServiceName>::new());
        fixture.set_result_from("n", Ok(TargetResult::default()));
        fixture.wait_for_check(ConnectivityCheck::is_good).await;
        let check_count = fixture.check_count();
        fixture.snapshots.send_replace(Arc::new(crashed(2)));
        fixture.hour().await;
        assert_eq!(fixture.check_count(), check_count, "another crash is no change");
        fixture.snapshots.send_replace(Arc::new(snapshot(1, true)));
        fixture
            .wait_for_check(|check| check.is_current && check.key.down.is_empty())
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn links_to_a_service_that_is_down_are_unverified() {
    let crashed = snapshot_of([ended("db", 1), container("web", 1, true)]);
    run_script(crashed.clone(), true, async |fixture| {
        let (check, took) = fixture.wait_for_check(|_| true).await;
        assert_eq!(
            check.link_results[0].result,
            Err("`db` is not running".to_owned())
        );
        assert_eq!(took, 5);
        fixture.hour().await;
        assert_eq!(fixture.check_count(), 0, "no helper can verify it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn test_begins_verified_only_after_a_current_check() {
    let env = EnvName::new("shop").unwrap();
    let state = async |now: Snapshot, result: TargetResult| {
        let mut checked = now.clone();
        run_script(now, true, async |fixture| {
            fixture.set_result(Ok(result));
            fixture.wait_for_check(|_| true).await;
            checked.links = fixture.published.borrow().clone();
        })
        .await;
        checked
    };
    let up = snapshot(1, true);
    assert!(matches!(link_state(&up, &env), LinkState::Pending(_)));
    let good = state(up.clone(), TargetResult::default()).await;
    assert_eq!(link_state(&good, &env), LinkState::Verified);
    let mut restarted = snapshot(2, true);
    restarted.links = good.links.clone();
    assert!(
        matches!(link_state(&restarted, &env), LinkState::Pending(_)),
        "the check is older than the run"
    );
    let broken = state(up.clone(), refused()).await;
    assert!(matches!(link_state(&broken, &env), LinkState::Broken(_)));
    let down = snapshot_of([ended("db", 1), container("web", 1, true)]);
    let down = state(down, TargetResult::default()).await;
    let reason = "`db` is not running".to_owned();
    assert_eq!(link_state(&down, &env), LinkState::Unverified(reason));
    let mut disabled = up;
    disabled.links = Arc::new(CheckResults {
        helpers_allowed: false,
        ..CheckResults::default()
    });
    let reason = "helper containers are disabled".to_owned();
    assert_eq!(link_state(&disabled, &env), LinkState::Unverified(reason));
}

#[tokio::test(start_paused = true)]
async fn failed_task_of_an_impossible_check_is_not_repeated() {
    let env = EnvName::new("shop").unwrap();
    let mut task = ConnectivityTask {
        backend: Arc::new(FakeBackend::empty()),
        clock: Clock::virtual_from(START),
        schedules: [(env.clone(), CheckSchedule::default())].into(),
        tasks: TaskSet::default(),
        results: CheckResults::default(),
        engine_returned_at: None,
    };
    // The services stopped during the check.
    task.on_checked(&env, Err(TaskFailure::Aborted));
    assert_eq!(task.schedules[&env].due, None);
    // A time without a possible check causes no wake-up.
    let schedule = CheckSchedule {
        due: Some(START),
        ..CheckSchedule::default()
    };
    task.schedules.insert(env, schedule);
    task.start_next();
    assert!(task.tasks.is_empty());
    assert_eq!(task.next_due(), None);
}
