//! Tests of overrides: a request stays until its subject changes.

use std::collections::BTreeMap;

use argus_core::action::Subject;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::{Desired, Service};
use argus_core::failed_run::FailedRun;
use argus_core::ident::{ContainerId, Hash};
use argus_core::journal::Event;
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
use argus_core::observed::{Container, ContainerState, InspectInfo, Object, WatchEvent};
use argus_core::plan::Plan;
use argus_core::state::{Attribution, Disruption, Interruption, TestRestart};
use argus_core::user_requests::TestLease;
use argus_core::wait::{Wait, WaitReason};
use sha2::{Digest as _, Sha256};

use super::*;

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn accepted(image: &str, more: &str) -> Arc<Accepted> {
    let text = format!(
        "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    image: {image}\n    container: {{ name: shop-web }}\n{more}"
    );
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    Arc::new(Accepted {
        desired: admit(&written, &SpecContext::default()).desired.unwrap(),
        spec_path: "e2e.yaml".to_owned(),
        lines: argus_core::desired::key_lines::KeyLines::default(),
        accepted_at: Timestamp(1_000),
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: Hash::new(argus_core::hex::hex(&Sha256::digest(&text))).ok(),
        mounted_files: std::collections::BTreeMap::new(),
    })
}

/// Call of a command on the overrides.
trait Request: Fn(&mut Overrides, OverrideInputs<'_>) -> Result<Reply, CommandError> {}

impl<T: Fn(&mut Overrides, OverrideInputs<'_>) -> Result<Reply, CommandError>> Request for T {}

fn begin_test(seconds: u64) -> impl Request {
    move |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
        let lease = TestLease {
            environment: env("shop"),
            case: "buy".to_owned(),
            since: inputs.now,
            until: inputs.now + Duration::from_secs(seconds),
            holder: None,
            purpose: None,
            unverified: None,
        };
        overrides.begin_test(lease, inputs)
    }
}

fn end_test() -> impl Request {
    |overrides: &mut Overrides, inputs: OverrideInputs<'_>| overrides.end_test(&env("shop"), "buy", inputs)
}

fn retry() -> impl Request {
    |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
        overrides.retry_target(&env("shop"), None, inputs)?;
        Ok(Reply::Done)
    }
}

fn take_down() -> impl Request {
    |overrides: &mut Overrides, inputs: OverrideInputs<'_>| overrides.take_down(&env("shop"), inputs)
}

fn rollback() -> impl Request {
    |overrides: &mut Overrides, inputs: OverrideInputs<'_>| overrides.roll_back(&env("shop"), inputs)
}

fn fork(to: &'static str) -> impl Request {
    move |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
        overrides.fork(&env("shop"), &env(to), None, inputs)
    }
}

fn hold(service: Option<&'static str>) -> impl Request {
    move |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
        let hold = Hold {
            environment: env("shop"),
            service: service.map(|name| ServiceName::new(name).unwrap()),
            since: inputs.now,
            until: None,
            stops: false,
            reason: String::new(),
            holder: None,
            command: None,
        };
        overrides.hold(hold, inputs)
    }
}

fn resume() -> impl Request {
    |overrides: &mut Overrides, inputs: OverrideInputs<'_>| overrides.resume(&env("shop"), None, inputs)
}

struct Fixture {
    overrides: Overrides,
    specs: SpecRegistry,
    state: PlannerState,
    store: Store,
    now: Timestamp,
}

impl Fixture {
    fn with(file: &Arc<Accepted>) -> Self {
        let mut specs = SpecRegistry::default();
        specs.scanned = true;
        specs.environments.insert(env("shop"), file.clone());
        let mut fixture = Self {
            overrides: Overrides::default(),
            specs,
            state: PlannerState::default(),
            store: Store::default(),
            now: Timestamp(10_000),
        };
        fixture.state.environments.insert(env("shop"), Arc::default());
        fixture
    }

    fn apply(&mut self, request: &impl Request) -> Result<Reply, CommandError> {
        let inputs = OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            state: &self.state,
            now: self.now,
        };
        request(&mut self.overrides, inputs)
    }

    fn file(&mut self, file: &Arc<Accepted>) {
        self.specs.environments.insert(env("shop"), file.clone());
        self.overrides.drop_ended(&self.specs, self.now);
    }

    /// Expires environments, and returns the time of the next expiry.
    fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.overrides.expire_ttls(OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            state: &self.state,
            now,
        })
    }

    /// Marks the desired revision as ready.
    fn ready(&mut self) {
        let desired = self
            .overrides
            .effective(&self.specs)
            .unwrap_or_else(|| self.specs.environments.clone());
        let history = Arc::make_mut(self.state.environments.get_mut(&env("shop")).unwrap());
        let shop = &desired[&env("shop")].desired;
        history.last_ready = Some(shop.revision.clone());
        let running = running(shop);
        let inputs = OverrideInputs {
            specs: &self.specs,
            store: &running,
            state: &self.state,
            now: self.now,
        };
        self.overrides.record_known_good(&desired, inputs);
    }

    fn image(&self, name: &str) -> Option<String> {
        let effective = self.overrides.effective(&self.specs);
        let desired = effective.as_ref().unwrap_or(&self.specs.environments);
        let web = desired.get(&env(name))?.desired.services.values().next()?;
        Some(web.image.reference().to_owned())
    }
}

#[test]
fn rollback_uses_last_ready_revision_until_the_next_edit() {
    let (one, two, three) = (
        accepted("web:1", ""),
        accepted("web:2", ""),
        accepted("web:3", ""),
    );
    let mut fixture = Fixture::with(&one);
    assert!(
        matches!(fixture.apply(&rollback()), Err(CommandError::Refused(_))),
        "no other revision exists"
    );
    fixture.ready();
    fixture.file(&two);
    let used = fixture.overrides.used_images(&fixture.specs.environments);
    assert_eq!(used, ["web:1", "web:2"].map(str::to_owned).into());
    assert_eq!(
        fixture.apply(&rollback()),
        Ok(Reply::Revision(one.desired.revision.clone()))
    );
    assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
    // The serialized overrides survive a restart.
    let text = serde_json::to_string(&fixture.overrides).unwrap();
    fixture.overrides = serde_json::from_str(&text).unwrap();
    fixture.file(&two);
    assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
    fixture.file(&three);
    assert_eq!(fixture.image("shop").as_deref(), Some("web:3"));
}

#[test]
fn rollback_and_fork_have_the_permission_of_their_file() {
    let of = |image, allowed| {
        let accepted = accepted(image, "");
        Arc::new(Accepted {
            allowed,
            ..Accepted::clone(&accepted)
        })
    };
    let mut fixture = Fixture::with(&of("web:1", false));
    fixture.ready();
    fixture.file(&of("web:2", true));
    assert!(fixture.apply(&rollback()).is_ok() && fixture.apply(&fork("copy")).is_ok());
    let allowed = |fixture: &Fixture| {
        let desired = fixture.overrides.effective(&fixture.specs).unwrap();
        [&desired[&env("shop")], &desired[&env("copy")]].map(|accepted| accepted.allowed)
    };
    // A restart forgets the permission until the file is read.
    let text = serde_json::to_string(&fixture.overrides).unwrap();
    fixture.overrides = serde_json::from_str(&text).unwrap();
    assert_eq!(allowed(&fixture), [false, false]);
    for is_allowed in [true, false] {
        let current = of("web:2", is_allowed);
        let restored = BTreeMap::from([("e2e.yaml".into(), Accepted::clone(&current))]);
        fixture.specs = SpecRegistry::restored(restored);
        fixture.specs.scanned = true;
        fixture.file(&current);
        assert_eq!(allowed(&fixture), [is_allowed; 2]);
    }
}

#[test]
fn expired_environment_is_down_until_an_edit_or_retry() {
    let file = accepted("web:1", "argus: { ttl: 60s }\n");
    let at = |seconds: i64| Timestamp(1_000 + seconds * 1_000);
    let mut fixture = Fixture::with(&file);
    assert_eq!(
        fixture.expire(at(59)),
        Some(at(60)),
        "the planner is woken for the expiry"
    );
    assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
    assert_eq!(fixture.expire(at(60)), None);
    assert_eq!(fixture.image("shop"), None);

    // The expiry survives a restart, and does not count as a request of a person.
    let text = serde_json::to_string(&fixture.overrides).unwrap();
    fixture.overrides = serde_json::from_str(&text).unwrap();
    fixture.file(&file);
    assert_eq!((fixture.expire(at(3_600)), fixture.image("shop")), (None, None));
    assert!(fixture.overrides.ttl_expired.contains(&env("shop")));

    // Brought back, it gets the whole TTL again.
    fixture.now = at(4_000);
    assert_eq!(fixture.apply(&retry()), Ok(Reply::Done));
    assert!(fixture.overrides.ttl_expired.is_empty());
    assert_eq!(fixture.expire(at(4_001)), Some(at(4_060)));
    assert!(fixture.image("shop").is_some());
    assert_eq!((fixture.expire(at(4_060)), fixture.image("shop")), (None, None));

    // An edit of a comment keeps the revision, and starts the TTL again.
    let commented = Arc::new(Accepted {
        file_hash: Hash::new("c0").ok(),
        ..Accepted::clone(&file)
    });
    fixture.now = at(4_500);
    fixture.file(&commented);
    assert_eq!(fixture.expire(at(4_500)), Some(at(4_560)));
    assert!(fixture.image("shop").is_some());
    assert_eq!((fixture.expire(at(4_560)), fixture.image("shop")), (None, None));

    // Another revision has its own acceptance time and TTL.
    let mut edited = Accepted::clone(&accepted("web:1", "argus: { ttl: 2h }\n"));
    edited.accepted_at = at(5_000);
    fixture.file(&Arc::new(edited));
    assert_eq!(
        fixture.expire(at(5_001)),
        Some(at(5_000) + Duration::from_secs(7_200))
    );
    assert!(
        fixture.image("shop").is_some()
            && fixture.overrides.ttl_expired.is_empty()
            && fixture.overrides.retried.is_empty()
    );
}

/// Another revision of the same file, as after an edit in a build context.
fn rebuilt(file: &Accepted, image: &str) -> Arc<Accepted> {
    Arc::new(Accepted {
        file_hash: file.file_hash.clone(),
        ..Accepted::clone(&accepted(image, ""))
    })
}

#[test]
fn environment_is_down_until_an_edit_of_its_spec_file() {
    let file = accepted("web:1", "");
    let mut fixture = Fixture::with(&file);
    fixture.apply(&take_down()).unwrap();
    for image in ["web:2", "web:3"] {
        fixture.file(&rebuilt(&file, image));
        assert_eq!(fixture.image("shop"), None, "{image}");
        // A restart keeps it down.
        let text = serde_json::to_string(&fixture.overrides).unwrap();
        fixture.overrides = serde_json::from_str(&text).unwrap();
    }
    assert!(fixture.overrides.is_down(&rebuilt(&file, "web:3")));
    assert!(!fixture.overrides.is_down(&accepted("web:3", "")));
    // An edit of the file brings it back, and so does a retry, whatever changed before.
    fixture.file(&accepted("web:3", ""));
    assert_eq!(fixture.image("shop").as_deref(), Some("web:3"));
    fixture.apply(&take_down()).unwrap();
    assert_eq!(fixture.image("shop"), None);
    fixture.file(&rebuilt(&accepted("web:3", ""), "web:4"));
    fixture.apply(&retry()).unwrap();
    assert_eq!(fixture.image("shop").as_deref(), Some("web:4"));
    let retried = &fixture.overrides.retried[&env("shop")].0;
    assert_eq!(*retried, accepted("web:4", "").desired.revision);
    assert_eq!(fixture.overrides.down, BTreeMap::new());
}

#[test]
fn down_of_an_earlier_version_lasts_until_the_next_edit() {
    let file = accepted("web:1", "");
    let mut fixture = Fixture::with(&file);
    let revision = &file.desired.revision;
    fixture.overrides = serde_json::from_str(&format!(r#"{{"down":{{"shop":"{revision}"}}}}"#)).unwrap();
    // Before the first scan, the file is unknown.
    let unread = Arc::new(Accepted {
        file_hash: None,
        ..Accepted::clone(&file)
    });
    for seen in [&unread, &file, &rebuilt(&file, "web:2")] {
        fixture.file(seen);
        assert_eq!(fixture.image("shop"), None);
    }
    fixture.file(&accepted("web:2", ""));
    assert_eq!(fixture.image("shop").as_deref(), Some("web:2"));
}

#[test]
fn expired_environment_stays_until_its_test_ends() {
    let mut fixture = Fixture::with(&accepted("web:1", "argus: { ttl: 60s }\n"));
    let begin = begin_test(600);
    assert!(matches!(fixture.apply(&begin), Ok(Reply::TestLease(_))));
    let until = fixture.overrides.requests.test_leases[0].until;
    let expiry = fixture.now + Duration::from_secs(60);
    assert_eq!(
        fixture.expire(expiry),
        Some(until),
        "the planner is woken when the lease expires"
    );
    assert!(fixture.image("shop").is_some());
    let end = end_test();
    assert!(fixture.apply(&end).is_ok());
    assert_eq!((fixture.expire(expiry), fixture.image("shop")), (None, None));
}

#[test]
fn nothing_expires_while_its_file_or_folder_is_uncertain() {
    let mut edited = Accepted::clone(&accepted("web:1", "argus: { ttl: 60s }\n"));
    edited.has_pending_edit = true;
    let mut fixture = Fixture::with(&Arc::new(edited));
    assert_eq!(fixture.expire(Timestamp(90_000_000)), None);
    assert!(fixture.image("shop").is_some());

    fixture = Fixture::with(&accepted("web:1", "argus: { ttl: 60s }\n"));
    fixture.specs.suspend_grace_periods("not mounted".to_owned());
    assert_eq!(fixture.expire(Timestamp(90_000_000)), None);
    fixture.specs.resume_grace_periods(Timestamp(90_000_000));
    fixture.specs.scanned = false;
    assert_eq!(fixture.expire(Timestamp(90_000_000)), None);
    assert!(fixture.image("shop").is_some());
    fixture.specs.scanned = true;
    fixture.expire(Timestamp(90_000_000));
    assert_eq!(fixture.image("shop"), None);
}

#[test]
fn revision_past_its_deadline_is_rolled_back() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    let mut fixture = Fixture::with(&one);
    let due = |fixture: &mut Fixture, at: i64| {
        let inputs = OverrideInputs {
            specs: &fixture.specs,
            store: &fixture.store,
            state: &fixture.state,
            now: Timestamp(at),
        };
        fixture.overrides.roll_back_automatically(inputs)
    };
    fixture.store = listed();
    assert_eq!(due(&mut fixture, 100_000), None, "nothing to go back to");
    fixture.ready();
    fixture.file(&two);
    assert_eq!(due(&mut fixture, 101_000), Some(Timestamp(161_000)));
    assert_eq!(due(&mut fixture, 160_999), Some(Timestamp(161_000)));
    assert_eq!(fixture.image("shop").as_deref(), Some("web:2"));
    assert_eq!(due(&mut fixture, 161_000), None);
    assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
}

#[test]
fn failed_optional_service_causes_no_rollback() {
    let rolled_back = |criticality: &str| {
        let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
        let more = format!("    criticality: {criticality}\n{auto}");
        let (one, two) = (accepted("web:1", &more), accepted("web:2", &more));
        let mut fixture = Fixture::with(&one);
        fixture.store = listed();
        fixture.ready();
        fixture.file(&two);
        let history = Arc::make_mut(fixture.state.environments.get_mut(&env("shop")).unwrap());
        history.last_ready = Some(two.desired.revision.clone());
        let container = argus_core::ident::ContainerId::new("a").unwrap();
        let web = two.desired.services.keys().next().unwrap();
        let web = history.service_mut(web);
        web.failures.push(FailedRun::new(container, Timestamp(90_000)));
        for at in [100_000, 160_000] {
            let inputs = OverrideInputs {
                specs: &fixture.specs,
                store: &fixture.store,
                state: &fixture.state,
                now: Timestamp(at),
            };
            fixture.overrides.roll_back_automatically(inputs);
        }
        fixture.image("shop").as_deref() == Some("web:1")
    };
    assert!(rolled_back("important"));
    assert!(!rolled_back("recoverable") && !rolled_back("optional"));
}

fn listed() -> Store {
    store_of(Vec::new())
}

fn store_of(containers: Vec<Container>) -> Store {
    let mut store = Store::default();
    let objects = containers
        .into_iter()
        .map(|container| Object::Container(Arc::new(container)));
    let first = [WatchEvent::Connected(Timestamp(1)), WatchEvent::Init];
    let events = first.into_iter().chain(objects.map(WatchEvent::Apply));
    for event in events.chain([WatchEvent::InitDone]) {
        store.apply(event);
    }
    store
}

/// A container of each service that runs since the start of the test.
fn running(desired: &Desired) -> Store {
    let container = |service: &Service| Container {
        id: ContainerId::new(service.name.as_str()).unwrap(),
        name: service.container_name.to_string(),
        labels: [
            (MANAGED, "true"),
            (ENVIRONMENT, "shop"),
            (SERVICE, service.name.as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        image: service.image.reference().to_owned(),
        state: ContainerState::Running,
        created_at: Timestamp(0),
        networks: BTreeMap::new(),
        inspect: Some(InspectInfo {
            started_at: Some(Timestamp(0)),
            ..InspectInfo::default()
        }),
        stopped_by_other: None,
        oom_at: None,
    };
    store_of(desired.services.values().map(container).collect())
}

#[test]
fn deadline_counts_only_time_in_which_a_revision_can_run() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    let mut fixture = Fixture::with(&one);
    fixture.ready();
    fixture.file(&two);
    let due = |fixture: &mut Fixture, second: i64| {
        fixture.now = Timestamp(second * 1_000);
        let inputs = OverrideInputs {
            specs: &fixture.specs,
            store: &fixture.store,
            state: &fixture.state,
            now: fixture.now,
        };
        fixture
            .overrides
            .roll_back_automatically(inputs)
            .map(|at| at.0 / 1_000)
    };
    assert_eq!(due(&mut fixture, 1_000), None, "the engine is absent");
    fixture.store = listed();
    assert_eq!(due(&mut fixture, 1_100), Some(1_160));
    fixture.apply(&hold(None)).unwrap();
    assert_eq!(due(&mut fixture, 1_170), None, "it is held");
    fixture.apply(&resume()).unwrap();
    assert_eq!(due(&mut fixture, 2_000), Some(2_060));
    // A restart of the controller restarts the attempt.
    let text = serde_json::to_string(&fixture.overrides).unwrap();
    fixture.overrides = serde_json::from_str(&text).unwrap();
    assert_eq!(due(&mut fixture, 3_000), Some(3_060));
    assert_eq!(fixture.image("shop").as_deref(), Some("web:2"));
    due(&mut fixture, 3_060);
    assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
}

#[test]
fn retry_reverts_only_automatic_rollbacks() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    for automatic in [true, false] {
        let mut fixture = Fixture::with(&one);
        fixture.store = listed();
        fixture.ready();
        fixture.file(&two);
        if automatic {
            for at in [100_000, 160_000] {
                let inputs = OverrideInputs {
                    specs: &fixture.specs,
                    store: &fixture.store,
                    state: &fixture.state,
                    now: Timestamp(at),
                };
                fixture.overrides.roll_back_automatically(inputs);
            }
        } else {
            fixture.apply(&rollback()).unwrap();
        }
        assert_eq!(fixture.image("shop").as_deref(), Some("web:1"));
        fixture.apply(&retry()).unwrap();
        let expected = if automatic { "web:2" } else { "web:1" };
        assert_eq!(fixture.image("shop").as_deref(), Some(expected));
        let inputs = OverrideInputs {
            specs: &fixture.specs,
            store: &fixture.store,
            state: &fixture.state,
            now: Timestamp(170_000),
        };
        let next = fixture.overrides.roll_back_automatically(inputs);
        let expected = automatic.then_some(Timestamp(230_000));
        assert_eq!(next, expected, "the whole deadline applies again");
    }
}

#[test]
fn fork_runs_next_to_its_original_until_taken_down() {
    let mut fixture = Fixture::with(&accepted("web:1", ""));
    let failed_run = FailedRun::new(ContainerId::new("c").unwrap(), Timestamp(1));
    let history = fixture.state.environments.entry(env("shop")).or_default();
    let web = Arc::make_mut(history).service_mut(&ServiceName::new("web").unwrap());
    web.failures = vec![failed_run];
    assert_eq!(fixture.apply(&fork("two")), Ok(Reply::Forked(env("two"))));
    assert!(matches!(
        fixture.apply(&fork("two")),
        Err(CommandError::Refused(_))
    ));
    assert!(matches!(
        fixture.apply(&fork("shop")),
        Err(CommandError::Refused(_))
    ));
    assert_eq!(fixture.image("two").as_deref(), Some("web:1"));
    let notes = &fixture.overrides.forks[&env("two")].desired.notes;
    let has_summary = notes
        .iter()
        .any(|note| note.contains("`web` of `shop` failed once"));
    assert!(has_summary, "{notes:?}");
    // The next revision of the original does not affect the fork.
    fixture.file(&accepted("web:2", ""));
    assert_eq!(fixture.image("two").as_deref(), Some("web:1"));
    let down =
        |overrides: &mut Overrides, inputs: OverrideInputs<'_>| overrides.take_down(&env("two"), inputs);
    assert_eq!(fixture.apply(&down), Ok(Reply::Done));
    assert_eq!(
        (fixture.image("two"), fixture.image("shop").as_deref()),
        (None, Some("web:2"))
    );
    assert_eq!(fixture.apply(&down), Err(CommandError::Unknown(env("two"))));
}

#[test]
fn temporary_fork_ends_with_its_time_or_its_hold() {
    let mut fixture = Fixture::with(&accepted("web:1", ""));
    for name in ["two", "three"] {
        let fork = move |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
            overrides.fork(&env("shop"), &env(name), Some(Duration::from_secs(60)), inputs)
        };
        assert_eq!(fixture.apply(&fork), Ok(Reply::Forked(env(name))));
    }
    let start = fixture.now;
    let hold = move |overrides: &mut Overrides, inputs: OverrideInputs<'_>| {
        let hold = Hold {
            environment: env("three"),
            service: None,
            since: inputs.now,
            until: Some(start + Duration::from_secs(90)),
            stops: false,
            reason: String::new(),
            holder: None,
            command: None,
        };
        overrides.hold(hold, inputs)
    };
    assert_eq!(fixture.apply(&hold), Ok(Reply::Done));
    for (after, next, left) in [
        (59, Some(60), &["three", "two"][..]),
        (60, Some(90), &["three"]),
        (90, None, &[]),
    ] {
        fixture.now = start + Duration::from_secs(after);
        let due = fixture.overrides.expire_ttls(OverrideInputs {
            specs: &fixture.specs,
            store: &fixture.store,
            state: &fixture.state,
            now: fixture.now,
        });
        assert_eq!(due, next.map(|next| start + Duration::from_secs(next)));
        let forks: Vec<_> = fixture.overrides.forks.keys().map(EnvName::as_str).collect();
        assert_eq!(forks, left, "after {after} s");
    }
}

fn disruption(at: i64, case: &str) -> Disruption {
    Disruption {
        case: case.to_owned(),
        service: ServiceName::new("web").unwrap(),
        number: Some(1),
        at: Timestamp(at),
        cause: Interruption::Exit,
        attribution: Attribution::Service,
        suspected: false,
        by: None,
    }
}

fn restart(at: i64) -> TestRestart {
    TestRestart {
        case: "sell".to_owned(),
        service: ServiceName::new("web").unwrap(),
        at: Timestamp(at),
        reason: Interruption::Exit,
        number: Some(1),
        by: None,
    }
}

#[test]
fn test_report_contains_failures_of_its_own_time() {
    let mut fixture = Fixture::with(&accepted("web:1", ""));
    let end = end_test();
    assert!(matches!(fixture.apply(&end), Err(CommandError::Refused(_))));
    let begin = begin_test(600);
    assert!(matches!(fixture.apply(&begin), Ok(Reply::TestLease(_))));
    let history = Arc::make_mut(fixture.state.environments.get_mut(&env("shop")).unwrap());
    history.restarts = vec![restart(9_000), restart(13_000)];
    // A failure during parallel tests is recorded for one of them.
    history.disruptions = vec![
        disruption(9_000, "buy"),
        disruption(11_000, "buy"),
        disruption(12_000, "sell"),
    ];
    fixture.now = Timestamp(20_000);
    let Ok(Reply::Test(report)) = fixture.apply(&end) else {
        panic!("it ran")
    };
    assert_eq!((report.restart_count, report.disruptions.len()), (1, 2));
    assert_eq!(
        (report.restarts[0].at, report.restarts[0].case.as_str()),
        (Timestamp(13_000), "buy")
    );
    assert_eq!(report.disruptions[0].at, Timestamp(11_000));
    assert!(
        report
            .disruptions
            .iter()
            .all(|disruption| disruption.case == "buy")
    );
}

#[test]
fn test_past_its_lease_still_has_a_report() {
    let mut fixture = Fixture::with(&accepted("web:1", ""));
    let end = end_test();
    let begin = begin_test(60);
    fixture.now = Timestamp(100_000);
    for (ended, is_reported) in [(3_700_000, true), (3_760_000, false)] {
        fixture.now = Timestamp(100_000);
        fixture.apply(&begin).unwrap();
        let history = Arc::make_mut(fixture.state.environments.get_mut(&env("shop")).unwrap());
        history.disruptions = [110_000, 170_000].map(|at| disruption(at, "other")).to_vec();
        fixture.now = Timestamp(ended);
        fixture.overrides.drop_ended(&fixture.specs, fixture.now);
        assert!(
            fixture
                .overrides
                .requests
                .test_lease(&env("shop"), fixture.now)
                .is_none()
        );
        assert_eq!(
            fixture.overrides.requests.next_end(fixture.now),
            None,
            "the end of the report needs no wake-up"
        );
        match fixture.apply(&end) {
            Ok(Reply::Test(report)) if is_reported => {
                assert_eq!(report.lease_ended_at, Some(Timestamp(160_000).to_string()));
                assert_eq!(
                    report.disruptions.len(),
                    1,
                    "failures after the lease do not count"
                );
            }
            Err(CommandError::Refused(_)) if !is_reported => {}
            other => panic!("at {ended}: {other:?}"),
        }
    }
}

#[test]
fn hold_of_a_missing_service_is_refused() {
    let mut fixture = Fixture::with(&accepted("web:1", ""));
    assert!(matches!(
        fixture.apply(&hold(Some("missing"))),
        Err(CommandError::Refused(_))
    ));
    assert_eq!(fixture.apply(&hold(Some("web"))), Ok(Reply::Done));
    assert_eq!(fixture.apply(&resume()), Ok(Reply::Done));
    assert!(matches!(fixture.apply(&resume()), Err(CommandError::Refused(_))));
}

#[test]
fn lease_ends_when_a_critical_service_is_given_up() {
    let mut fixture = Fixture::with(&accepted("web:1", "    criticality: critical\n"));
    fixture.apply(&begin_test(60)).unwrap();
    let plan = |on| {
        let subject = Subject::Service {
            environment: env("shop"),
            service: ServiceName::new("web").unwrap(),
        };
        let plan = Plan {
            waits: vec![Wait { subject, on }],
            ..Plan::default()
        };
        BTreeMap::from([(env("shop"), Arc::new(plan))])
    };
    let (now, desired) = (fixture.now, fixture.specs.environments.clone());
    let mut ended = |on| fixture.overrides.end_lost_leases(&desired, &plan(on), now);
    assert_eq!(ended(WaitReason::Probe), []);
    let event = Event::LeaseEnded {
        environment: env("shop"),
        case: "buy".to_owned(),
        holder: None,
        service: "web".to_owned(),
    };
    assert_eq!(ended(WaitReason::GaveUp { restarts: 3 }), [event]);
    assert_eq!(ended(WaitReason::GaveUp { restarts: 3 }), [], "it has ended");
    let Ok(Reply::Test(report)) = fixture.apply(&end_test()) else {
        panic!("the test can still be ended");
    };
    assert_eq!(report.lease_ended_at, Some(now.to_string()));
}
