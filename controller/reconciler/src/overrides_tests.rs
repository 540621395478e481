//! What people ask for stands until what they asked it about is another.

use argus_core::desired::admit::{SpecContext, admit};
use argus_core::state::{Attribution, Disruption, EnvHistory, FailedRun};

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
        accepted_at: Timestamp(1_000),
        has_pending_edit: false,
    })
}

fn begin_test(seconds: u64) -> Command {
    Command::BeginTest {
        environment: env("shop"),
        case: "buy".to_owned(),
        ttl: Duration::from_secs(seconds),
        holder: None,
        purpose: None,
    }
}

fn end_test() -> Command {
    Command::EndTest {
        environment: env("shop"),
        case: "buy".to_owned(),
    }
}

struct Desk {
    overrides: Overrides,
    specs: SpecRegistry,
    memory: PlannerState,
    store: Store,
    now: Timestamp,
}

impl Desk {
    fn with(file: &Arc<Accepted>) -> Self {
        let mut specs = SpecRegistry::default();
        specs.scanned = true;
        specs.environments.insert(env("shop"), file.clone());
        let mut desk = Self {
            overrides: Overrides::default(),
            specs,
            memory: PlannerState::default(),
            store: Store::default(),
            now: Timestamp(10_000),
        };
        desk.memory
            .environments
            .insert(env("shop"), EnvHistory::default());
        desk
    }

    fn tell(&mut self, command: &Command) -> Result<Reply, CommandError> {
        let facts = OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            memory: &self.memory,
            now: self.now,
        };
        self.overrides.apply(command, facts)
    }

    fn file(&mut self, file: &Arc<Accepted>) {
        self.specs.environments.insert(env("shop"), file.clone());
        self.overrides.drop_expired(&self.specs, self.now);
    }

    /// When the next one has lived for its time.
    fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.overrides.expire(OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            memory: &self.memory,
            now,
        })
    }

    /// The revision that is desired became ready.
    fn ready(&mut self) {
        let desired = self
            .overrides
            .effective(&self.specs)
            .unwrap_or_else(|| self.specs.environments.clone());
        let kept = self.memory.environments.get_mut(&env("shop")).unwrap();
        kept.last_good = Some(desired[&env("shop")].desired.revision.clone());
        let facts = OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            memory: &self.memory,
            now: self.now,
        };
        self.overrides.record_known_good(&desired, facts);
    }

    fn image(&self, name: &str) -> Option<String> {
        let standing = self.overrides.effective(&self.specs);
        let desired = standing.as_ref().unwrap_or(&self.specs.environments);
        let web = desired.get(&env(name))?.desired.services.values().next()?;
        Some(web.image.reference().to_owned())
    }
}

fn rollback() -> Command {
    Command::Rollback {
        environment: env("shop"),
    }
}

#[test]
fn a_rollback_goes_to_the_last_other_revision_that_was_ready_and_ends_with_the_next_file() {
    let (one, two, three) = (
        accepted("web:1", ""),
        accepted("web:2", ""),
        accepted("web:3", ""),
    );
    let mut desk = Desk::with(&one);
    assert!(
        matches!(desk.tell(&rollback()), Err(CommandError::Refused(_))),
        "there is none"
    );
    desk.ready();
    desk.file(&two);
    assert_eq!(
        desk.tell(&rollback()),
        Ok(Reply::Revision(one.desired.revision.clone()))
    );
    assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
    // What is kept of it outlives the process.
    let text = serde_json::to_string(&desk.overrides).unwrap();
    desk.overrides = serde_json::from_str(&text).unwrap();
    desk.file(&two);
    assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
    desk.file(&three);
    assert_eq!(desk.image("shop").as_deref(), Some("web:3"));
}

#[test]
fn what_has_lived_for_its_time_is_down_until_its_file_changes_or_somebody_brings_it_back() {
    let file = accepted("web:1", "argus: { ttl: 60s }\n");
    let at = |seconds: i64| Timestamp(1_000 + seconds * 1_000);
    let mut desk = Desk::with(&file);
    assert_eq!(desk.expire(at(59)), Some(at(60)), "it is woken for that");
    assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
    assert_eq!(desk.expire(at(60)), None);
    assert_eq!(desk.image("shop"), None);

    // It outlives the process, and is no order of a person.
    let text = serde_json::to_string(&desk.overrides).unwrap();
    desk.overrides = serde_json::from_str(&text).unwrap();
    desk.file(&file);
    assert_eq!((desk.expire(at(3_600)), desk.image("shop")), (None, None));
    assert!(desk.overrides.expired.contains(&env("shop")));

    // Brought back it lives for as long again.
    desk.now = at(4_000);
    let retry = Command::Retry {
        environment: env("shop"),
    };
    assert_eq!(desk.tell(&retry), Ok(Reply::Done));
    assert!(desk.overrides.expired.is_empty());
    assert_eq!(desk.expire(at(4_001)), Some(at(4_060)));
    assert!(desk.image("shop").is_some());
    assert_eq!((desk.expire(at(4_060)), desk.image("shop")), (None, None));

    // Another revision was accepted when it was accepted, and says how long it lives.
    let mut edited = Accepted::clone(&accepted("web:1", "argus: { ttl: 2h }\n"));
    edited.accepted_at = at(5_000);
    desk.file(&Arc::new(edited));
    assert_eq!(
        desk.expire(at(5_001)),
        Some(at(5_000) + Duration::from_secs(7_200))
    );
    assert!(
        desk.image("shop").is_some()
            && desk.overrides.expired.is_empty()
            && desk.overrides.revived.is_empty()
    );
}

#[test]
fn what_has_lived_for_its_time_stays_until_the_test_on_it_has_ended() {
    let mut desk = Desk::with(&accepted("web:1", "argus: { ttl: 60s }\n"));
    let begin = begin_test(600);
    assert!(matches!(desk.tell(&begin), Ok(Reply::TestLease(_))));
    let until = desk.overrides.requests.leases[0].until;
    let over = desk.now + Duration::from_secs(60);
    assert_eq!(
        desk.expire(over),
        Some(until),
        "it is woken when the lease ends by itself"
    );
    assert!(desk.image("shop").is_some());
    let end = end_test();
    assert!(desk.tell(&end).is_ok());
    assert_eq!((desk.expire(over), desk.image("shop")), (None, None));
}

#[test]
fn nothing_goes_for_its_time_while_its_file_or_the_folder_is_in_doubt() {
    let mut disputed = Accepted::clone(&accepted("web:1", "argus: { ttl: 60s }\n"));
    disputed.has_pending_edit = true;
    let mut desk = Desk::with(&Arc::new(disputed));
    assert_eq!(desk.expire(Timestamp(90_000_000)), None);
    assert!(desk.image("shop").is_some());

    desk = Desk::with(&accepted("web:1", "argus: { ttl: 60s }\n"));
    desk.specs.pause("not mounted".to_owned());
    assert_eq!(desk.expire(Timestamp(90_000_000)), None);
    desk.specs.resume(Timestamp(90_000_000));
    desk.specs.scanned = false;
    assert_eq!(desk.expire(Timestamp(90_000_000)), None);
    assert!(desk.image("shop").is_some());
    desk.specs.scanned = true;
    desk.expire(Timestamp(90_000_000));
    assert_eq!(desk.image("shop"), None);
}

#[test]
fn a_revision_that_misses_its_deadline_gives_way_by_itself() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    let mut desk = Desk::with(&one);
    let due = |desk: &mut Desk, at: i64| {
        let facts = OverrideInputs {
            specs: &desk.specs,
            store: &desk.store,
            memory: &desk.memory,
            now: Timestamp(at),
        };
        desk.overrides.roll_back_automatically(facts)
    };
    desk.store = listed();
    assert_eq!(due(&mut desk, 100_000), None, "nothing to go back to");
    desk.ready();
    desk.file(&two);
    assert_eq!(due(&mut desk, 101_000), Some(Timestamp(161_000)));
    assert_eq!(due(&mut desk, 160_999), Some(Timestamp(161_000)));
    assert_eq!(desk.image("shop").as_deref(), Some("web:2"));
    assert_eq!(due(&mut desk, 161_000), None);
    assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
}

#[test]
fn what_failed_and_is_not_required_rolls_nothing_back() {
    let rolled_back = |criticality: &str| {
        let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
        let more = format!("    criticality: {criticality}\n{auto}");
        let (one, two) = (accepted("web:1", &more), accepted("web:2", &more));
        let mut desk = Desk::with(&one);
        desk.store = listed();
        desk.ready();
        desk.file(&two);
        let kept = desk.memory.environments.get_mut(&env("shop")).unwrap();
        kept.last_good = Some(two.desired.revision.clone());
        let container = argus_core::ident::ContainerId::new("a").unwrap();
        let web = two.desired.services.keys().next().unwrap();
        let web = kept.services.entry(web.clone()).or_default();
        web.failures.push(FailedRun::of(container, Timestamp(90_000)));
        for at in [100_000, 160_000] {
            let facts = OverrideInputs {
                specs: &desk.specs,
                store: &desk.store,
                memory: &desk.memory,
                now: Timestamp(at),
            };
            desk.overrides.roll_back_automatically(facts);
        }
        desk.image("shop").as_deref() == Some("web:1")
    };
    assert!(rolled_back("important"));
    assert!(!rolled_back("recoverable") && !rolled_back("optional"));
}

fn listed() -> Store {
    use argus_core::observed::WatchEvent;
    let mut store = Store::default();
    for event in [
        WatchEvent::Connected(Timestamp(1)),
        WatchEvent::Init,
        WatchEvent::InitDone,
    ] {
        store.apply(event);
    }
    store
}

#[test]
fn only_the_time_in_which_a_revision_could_be_tried_runs_its_deadline() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    let mut desk = Desk::with(&one);
    desk.ready();
    desk.file(&two);
    let due = |desk: &mut Desk, second: i64| {
        desk.now = Timestamp(second * 1_000);
        let facts = OverrideInputs {
            specs: &desk.specs,
            store: &desk.store,
            memory: &desk.memory,
            now: desk.now,
        };
        desk.overrides
            .roll_back_automatically(facts)
            .map(|at| at.0 / 1_000)
    };
    assert_eq!(due(&mut desk, 1_000), None, "there is no engine to try it on");
    desk.store = listed();
    assert_eq!(due(&mut desk, 1_100), Some(1_160));
    let hold = Command::Hold {
        environment: env("shop"),
        service: None,
        until: None,
        reason: String::new(),
        holder: None,
    };
    desk.tell(&hold).unwrap();
    assert_eq!(due(&mut desk, 1_170), None, "it is held");
    let resume = Command::Resume {
        environment: env("shop"),
        service: None,
    };
    desk.tell(&resume).unwrap();
    assert_eq!(due(&mut desk, 2_000), Some(2_060));
    // A controller that was away starts it anew.
    let text = serde_json::to_string(&desk.overrides).unwrap();
    desk.overrides = serde_json::from_str(&text).unwrap();
    assert_eq!(due(&mut desk, 3_000), Some(3_060));
    assert_eq!(desk.image("shop").as_deref(), Some("web:2"));
    due(&mut desk, 3_060);
    assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
}

#[test]
fn a_retry_takes_back_what_was_rolled_back_by_itself_and_not_what_a_person_rolled_back() {
    let auto = "argus: { rollback: { auto: true, deadline: 60s } }\n";
    let (one, two) = (accepted("web:1", auto), accepted("web:2", auto));
    let retry = Command::Retry {
        environment: env("shop"),
    };
    for by_itself in [true, false] {
        let mut desk = Desk::with(&one);
        desk.store = listed();
        desk.ready();
        desk.file(&two);
        if by_itself {
            for at in [100_000, 160_000] {
                let facts = OverrideInputs {
                    specs: &desk.specs,
                    store: &desk.store,
                    memory: &desk.memory,
                    now: Timestamp(at),
                };
                desk.overrides.roll_back_automatically(facts);
            }
        } else {
            desk.tell(&rollback()).unwrap();
        }
        assert_eq!(desk.image("shop").as_deref(), Some("web:1"));
        desk.tell(&retry).unwrap();
        let expected = if by_itself { "web:2" } else { "web:1" };
        assert_eq!(desk.image("shop").as_deref(), Some(expected));
        let facts = OverrideInputs {
            specs: &desk.specs,
            store: &desk.store,
            memory: &desk.memory,
            now: Timestamp(170_000),
        };
        let next = desk.overrides.roll_back_automatically(facts);
        let expected = by_itself.then_some(Timestamp(230_000));
        assert_eq!(next, expected, "and it has its whole deadline again");
    }
}

#[test]
fn a_fork_stands_beside_its_original_until_it_is_taken_down() {
    let mut desk = Desk::with(&accepted("web:1", ""));
    let fork = |to: &str| Command::Fork {
        environment: env("shop"),
        to: env(to),
    };
    assert_eq!(desk.tell(&fork("two")), Ok(Reply::Forked(env("two"))));
    assert!(matches!(desk.tell(&fork("two")), Err(CommandError::Refused(_))));
    assert!(matches!(desk.tell(&fork("shop")), Err(CommandError::Refused(_))));
    assert_eq!(desk.image("two").as_deref(), Some("web:1"));
    // The original's next revision does not concern it.
    desk.file(&accepted("web:2", ""));
    assert_eq!(desk.image("two").as_deref(), Some("web:1"));
    let down = Command::Down {
        environment: env("two"),
    };
    assert_eq!(desk.tell(&down), Ok(Reply::Done));
    assert_eq!(
        (desk.image("two"), desk.image("shop").as_deref()),
        (None, Some("web:2"))
    );
    assert_eq!(desk.tell(&down), Err(CommandError::Unknown(env("two"))));
}

#[test]
fn a_test_has_the_failures_of_its_own_time_in_its_report() {
    let mut desk = Desk::with(&accepted("web:1", ""));
    let end = end_test();
    assert!(matches!(desk.tell(&end), Err(CommandError::Refused(_))));
    let begin = begin_test(600);
    assert!(matches!(desk.tell(&begin), Ok(Reply::TestLease(_))));
    let found = |at: i64, case: &str| Disruption {
        case: case.to_owned(),
        service: ServiceName::new("web").unwrap(),
        number: 1,
        at: Timestamp(at),
        attribution: Attribution::Test,
    };
    let kept = desk.memory.environments.get_mut(&env("shop")).unwrap();
    // Of tests that run at once one is named.
    kept.disruptions = vec![found(9_000, "buy"), found(11_000, "buy"), found(12_000, "sell")];
    desk.now = Timestamp(20_000);
    let Ok(Reply::Test(report)) = desk.tell(&end) else {
        panic!("it ran")
    };
    assert_eq!((report.restarts_during_run, report.disruptions.len()), (2, 2));
    assert_eq!(report.disruptions[0].at, Timestamp(11_000));
    assert!(report.disruptions.iter().all(|found| found.case == "buy"));
}

#[test]
fn a_test_that_outlived_its_lease_still_has_its_report() {
    let mut desk = Desk::with(&accepted("web:1", ""));
    let end = end_test();
    let begin = begin_test(60);
    desk.now = Timestamp(100_000);
    for (ended, told) in [(3_700_000, true), (3_760_000, false)] {
        desk.now = Timestamp(100_000);
        desk.tell(&begin).unwrap();
        let kept = desk.memory.environments.get_mut(&env("shop")).unwrap();
        kept.disruptions = [110_000, 170_000]
            .map(|at| Disruption {
                case: "other".to_owned(),
                service: ServiceName::new("web").unwrap(),
                number: 1,
                at: Timestamp(at),
                attribution: Attribution::Test,
            })
            .to_vec();
        desk.now = Timestamp(ended);
        desk.overrides.drop_expired(&desk.specs, desk.now);
        assert!(desk.overrides.requests.lease(&env("shop"), desk.now).is_none());
        assert_eq!(
            desk.overrides.requests.next_end(desk.now),
            None,
            "nobody is woken for it"
        );
        match desk.tell(&end) {
            Ok(Reply::Test(report)) if told => {
                assert_eq!(report.expired, Some(Timestamp(160_000).to_string()));
                assert_eq!(
                    report.restarts_during_run, 1,
                    "what came after its lease is not its own"
                );
            }
            Err(CommandError::Refused(_)) if !told => {}
            other => panic!("at {ended}: {other:?}"),
        }
    }
}

#[test]
fn a_hold_of_what_is_not_there_is_refused() {
    let mut desk = Desk::with(&accepted("web:1", ""));
    let hold = |service: &str| Command::Hold {
        environment: env("shop"),
        service: Some(ServiceName::new(service).unwrap()),
        until: None,
        reason: String::new(),
        holder: None,
    };
    assert!(matches!(
        desk.tell(&hold("nobody")),
        Err(CommandError::Refused(_))
    ));
    assert_eq!(desk.tell(&hold("web")), Ok(Reply::Done));
    let resume = Command::Resume {
        environment: env("shop"),
        service: None,
    };
    assert_eq!(desk.tell(&resume), Ok(Reply::Done));
    assert!(matches!(desk.tell(&resume), Err(CommandError::Refused(_))));
}
