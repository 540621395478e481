//! Every action returns a result within its deadline and within the concurrency limits.

use std::sync::atomic::Ordering;

use argus_core::action::{Cause, Deadlines, Subject};
use argus_core::connectivity::Target;
use argus_core::failed_run::{FailedRun, Stopper};
use argus_core::ident::{ContainerId, NetworkId};

use super::*;
use crate::breaker_guard::BreakerOpenings;
use crate::fake_backend::{FakeBackend, FakeReply};
use crate::journal::handle;

/// Values that must live as long as the executor: the state directory and the journal writer.
type Guards = (tempfile::TempDir, TaskSet<(), ()>);

fn executor(
    replies: &[(&'static str, FakeReply)],
) -> (Executor<FakeBackend>, Arc<BreakerGuard<FakeBackend>>, Guards) {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let mut fake = FakeBackend::empty();
    fake.replies = replies.iter().copied().collect();
    let openings = watch::channel(BreakerOpenings::default()).1;
    let fake = Arc::new(BreakerGuard::new(fake, openings));
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (journal, writer, ..) = handle::open(&state.journal(), "RUN", clock, handle::DEFAULT_MAX_SIZE);
    let mut tasks = TaskSet::default();
    tasks.start((), writer.run());
    let executor = Executor::new(fake.clone(), Deadlines::default(), state, journal, clock);
    (executor, fake, (dir, tasks))
}

fn shop() -> EnvName {
    EnvName::new("shop").unwrap()
}

fn id(text: &str) -> ContainerId {
    ContainerId::new(text).unwrap()
}

fn step(action: Action) -> Step {
    let subject = match &action {
        Action::PullImage { reference, .. } => Subject::Image {
            key: reference.clone(),
        },
        Action::RemoveNetwork { id, .. } => Subject::ExtraNetwork { id: id.clone() },
        Action::StartContainer { id } | Action::StopContainer { id, .. } => {
            Subject::ExtraContainer { id: id.clone() }
        }
        other => panic!("{other:?}"),
    };
    Step {
        subject,
        action,
        cause: Cause::Missing,
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_call_ends_at_its_deadline_with_unknown_outcome() {
    for (action, seconds) in [
        (Action::StartContainer { id: id("a") }, 30),
        (
            Action::StopContainer {
                id: id("a"),
                grace: Duration::from_secs(7),
            },
            17,
        ),
        (
            Action::RemoveNetwork {
                id: NetworkId::new("n").unwrap(),
                name: "n".to_owned(),
            },
            30,
        ),
    ] {
        let (mut executor, _, _dir) = executor(&[(action.verb(), FakeReply::Never)]);
        let verb = action.verb();
        executor.submit(&shop(), String::new(), step(action));
        let finished = executor.next_result().await;
        let text = format!("{verb} did not answer within {seconds} s");
        assert_eq!(finished.outcome, Err(ActionError::TimedOut(text)));
        assert_eq!(finished.took.as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_call_is_an_unknown_outcome() {
    let (mut executor, _, _dir) = executor(&[("start-container", FakeReply::Panic)]);
    executor.submit(
        &shop(),
        String::new(),
        step(Action::StartContainer { id: id("a") }),
    );
    let finished = executor.next_result().await;
    assert_eq!(
        finished.outcome,
        Err(ActionError::Unknown(
            "start-container panicked: no way".to_owned()
        ))
    );
    assert_eq!(executor.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn four_mutations_and_a_pull_run_in_parallel() {
    let second = FakeReply::After(Duration::from_secs(1));
    let (mut executor, fake, _dir) =
        executor(&[("start-container", second), ("pull-image", FakeReply::Never)]);
    let mut progress = executor.progress();
    executor.submit(
        &shop(),
        String::new(),
        step(Action::PullImage {
            reference: "nginx:1".to_owned(),
            policy: argus_core::desired::PullPolicy::Missing,
        }),
    );
    for n in 0..10 {
        executor.submit(
            &shop(),
            String::new(),
            step(Action::StartContainer {
                id: id(&n.to_string()),
            }),
        );
    }
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let finished = executor.next_result().await;
        assert_eq!(finished.outcome, Ok(Done::Applied));
        longest = longest.max(finished.took);
        let answered_in = finished.answered_in.unwrap();
        assert_eq!(answered_in.as_secs(), 1, "without the wait for a permit");
    }
    assert_eq!(
        longest.as_secs(),
        3,
        "ten actions of one second each, four in parallel"
    );
    assert_eq!(fake.engine().max_in_flight.load(Ordering::SeqCst), 5);
    let image = Subject::Image {
        key: "nginx:1".to_owned(),
    };
    assert_eq!(
        progress.read(),
        ProgressMap::from([(image, "started".to_owned().into())])
    );
    executor.cancel_long_running();
    assert_eq!(executor.next_result().await.outcome, Err(ActionError::Cancelled));
    assert!(progress.read().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_pull_keeps_its_log() {
    let (mut executor, _, dir) = executor(&[("pull-image", FakeReply::Never)]);
    for reference in ["nginx:1", "nginx:2"] {
        let reference = reference.to_owned();
        executor.submit(
            &shop(),
            String::new(),
            step(Action::PullImage {
                reference,
                policy: argus_core::desired::PullPolicy::Missing,
            }),
        );
    }
    let mut progress = executor.progress();
    while progress.read().len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    executor.cancel_images(&["nginx:1".to_owned()].into());
    let finished = executor.next_result().await;
    assert_eq!(finished.outcome, Err(ActionError::Cancelled));
    assert_eq!(finished.step.subject.image_key(), Some("nginx:1"));
    let log = StateDir::at(dir.0.path().join("state")).build_log("nginx:1");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "started\ncancelled\n");
    assert_eq!(executor.in_flight(), 1, "the other pull continues");
}

#[tokio::test]
async fn pull_output_is_written_to_its_log() {
    let (mut executor, _, dir) = executor(&[]);
    executor.submit(
        &shop(),
        String::new(),
        step(Action::PullImage {
            reference: "r.io/nginx:1".to_owned(),
            policy: argus_core::desired::PullPolicy::Missing,
        }),
    );
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Applied));
    let log = StateDir::at(dir.0.path().join("state")).build_log("r.io/nginx:1");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "started\nended\n");
}

#[tokio::test(start_paused = true)]
async fn actions_planned_before_the_breaker_opened_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let mut fake = FakeBackend::empty();
    fake.replies = [("start-container", FakeReply::After(Duration::from_secs(1)))].into();
    let (open, openings) = watch::channel(BreakerOpenings::default());
    let fake = Arc::new(BreakerGuard::new(fake, openings));
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (journal, writer, ..) = handle::open(&state.journal(), "RUN", clock, handle::DEFAULT_MAX_SIZE);
    let mut tasks = TaskSet::default();
    tasks.start((), writer.run());
    let mut executor = Executor::new(fake, Deadlines::default(), state, journal, clock);
    for number in 0..10 {
        let id = id(&format!("c{number}"));
        executor.submit(&shop(), String::new(), step(Action::StartContainer { id }));
    }
    let first = executor.next_result().await;
    assert_eq!(first.outcome, Ok(Done::Applied));
    let mut breakers = argus_core::state::BreakerRegistry::default();
    let refused = Err(ActionError::Unreachable("refused".to_owned()));
    for _ in 0..5 {
        let kind = first.step.action.kind();
        breakers.on_result(&shop(), &first.step.subject, kind, &refused, clock.now());
    }
    open.send_replace(BreakerOpenings::of(&breakers, [shop()].iter()));
    let mut refused_count = 0;
    for _ in 0..9 {
        let finished = executor.next_result().await;
        refused_count += usize::from(finished.outcome == Err(ActionError::CircuitOpen));
    }
    // Four permits: four actions have ended, four may be in flight, and the rest waits for a permit.
    assert!((2..=6).contains(&refused_count), "{refused_count} of 9");
    executor.submit(
        &shop(),
        String::new(),
        step(Action::StartContainer { id: id("probe") }),
    );
    assert_eq!(
        executor.next_result().await.outcome,
        Ok(Done::Applied),
        "planned after the breaker opened"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_evidence_is_recorded_on_disk() {
    let (mut executor, _, dir) = executor(&[("collect-evidence", FakeReply::Never)]);
    executor.submit(
        &shop(),
        String::new(),
        Step {
            subject: Subject::Service {
                environment: argus_core::ident::EnvName::new("shop").unwrap(),
                service: argus_core::ident::ServiceName::new("web").unwrap(),
            },
            action: Action::CollectEvidence {
                run: Box::new(FailedRun {
                    number: 1,
                    revision: "r1".to_owned(),
                    image: "web:1".to_owned(),
                    probe_output: vec!["503".to_owned()],
                    ..FailedRun::new(id("a"), Timestamp(0))
                }),
                lines_since: None,
                port: None,
                http: false,
                by_engine: true,
                targets: Vec::new(),
                host: Box::default(),
            },
            cause: Cause::Failed,
        },
    );
    let finished = executor.next_result().await;
    assert!(
        matches!(finished.outcome, Err(ActionError::TimedOut(_))),
        "{finished:?}"
    );
    let folder = StateDir::at(dir.0.path().join("state")).evidence_run("shop", "web", 1);
    let facts = std::fs::read(folder.join(evidence_store::FACTS_FILE)).unwrap();
    let facts: evidence_store::EvidenceFacts = serde_json::from_slice(&facts).unwrap();
    assert_eq!(facts.missing.len(), 1, "{facts:?}");
    assert_eq!(facts.probe_output, ["503"]);
    let run = facts.run;
    assert_eq!(
        (run.revision.as_deref(), run.image.as_deref(), run.stopped_by),
        (Some("r1"), Some("web:1"), Some(Stopper::Engine))
    );
}

/// Collection of the evidence of a failed run, with a check of its network.
fn collect_evidence() -> Step {
    let service = argus_core::ident::ServiceName::new("web").unwrap();
    let target = Target {
        to: service.clone(),
        host: "web".to_owned(),
        port: Some(80),
    };
    Step {
        subject: Subject::Service {
            environment: shop(),
            service,
        },
        action: Action::CollectEvidence {
            run: Box::new(FailedRun::new(id("a"), Timestamp(0))),
            lines_since: None,
            port: Some(80),
            http: true,
            by_engine: false,
            targets: vec![target],
            host: Box::default(),
        },
        cause: Cause::Failed,
    }
}

#[tokio::test(start_paused = true)]
async fn diagnoses_are_limited() {
    let (mut executor, _fake, _dir) = executor(&[]);
    for _ in 0..=MAX_DIAGNOSES {
        executor.diagnose(&collect_evidence());
    }
    let mut missing = 0;
    for _ in 0..=MAX_DIAGNOSES {
        let Ok(Done::Diagnosis(diagnosis)) = executor.next_result().await.outcome else {
            panic!("no diagnosis");
        };
        missing += usize::from(diagnosis.missing.is_some());
    }
    assert_eq!(missing, 1, "the one above the limit");
}

#[tokio::test(start_paused = true)]
async fn diagnosis_follows_the_evidence_unless_the_run_ended() {
    for is_ended in [false, true] {
        let (mut executor, fake, _dir) = executor(&[]);
        fake.engine().is_ended.store(is_ended, Ordering::SeqCst);
        let step = collect_evidence();
        executor.submit(&shop(), String::new(), step.clone());
        assert_eq!(executor.next_result().await.outcome, Ok(Done::Applied));
        assert_eq!(executor.in_flight(), 0, "no action waits for the diagnosis");
        let finished = executor.next_result().await;
        assert_eq!(finished.step, step);
        let Ok(Done::Diagnosis(diagnosis)) = finished.outcome else {
            panic!("{:?}", finished.outcome);
        };
        assert_eq!(diagnosis.missing.is_some(), is_ended, "{diagnosis:?}");
        let tcp = diagnosis.results.get("tcp web:80").map(String::as_str);
        assert_eq!(tcp, (!is_ended).then_some("connected"));
    }
}

#[tokio::test]
async fn action_runs_only_after_its_intent_is_on_disk() {
    let (mut executor, fake, (dir, _tasks)) = executor(&[("stop-container", FakeReply::Never)]);
    let state = StateDir::at(dir.path().join("state"));
    let lines = || std::fs::read_to_string(state.journal()).unwrap_or_default();
    executor.submit(
        &shop(),
        String::new(),
        step(Action::StartContainer { id: id("a") }),
    );
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Applied));
    assert_eq!(fake.engine().max_in_flight.load(Ordering::SeqCst), 1);
    assert!(lines().starts_with("{\"v\":1,\"seq\":1,") && lines().contains("\"kind\":\"intent\""));
    // The journal is replaced by a folder, so that it can be neither written nor created.
    std::fs::remove_file(state.journal()).unwrap();
    std::fs::create_dir(state.journal()).unwrap();
    for (round, name) in ["b", "c"].into_iter().enumerate() {
        executor.submit(
            &shop(),
            String::new(),
            step(Action::StartContainer { id: id(name) }),
        );
        let outcome = executor.next_result().await.outcome;
        assert!(
            matches!(outcome, Err(ActionError::JournalUnwritable(_))),
            "{round}: {outcome:?}"
        );
    }
    // Even a read is refused: its evidence goes to the same disk.
    executor.submit(
        &shop(),
        String::new(),
        Step {
            subject: Subject::ExtraContainer { id: id("d") },
            action: Action::CollectEvidence {
                run: Box::new(FailedRun::new(id("d"), Timestamp(0))),
                lines_since: None,
                port: None,
                http: false,
                by_engine: false,
                targets: Vec::new(),
                host: Box::default(),
            },
            cause: Cause::Missing,
        },
    );
    assert!(matches!(
        executor.next_result().await.outcome,
        Err(ActionError::JournalUnwritable(_))
    ));
    assert_eq!(
        fake.engine().actions.load(Ordering::SeqCst),
        1,
        "no other action was started"
    );
    // A writable journal is not enough: a person must resume the controller.
    std::fs::remove_dir(state.journal()).unwrap();
    executor.submit(
        &shop(),
        String::new(),
        step(Action::StartContainer { id: id("b") }),
    );
    let outcome = executor.next_result().await.outcome;
    assert!(
        matches!(outcome, Err(ActionError::JournalUnwritable(_))),
        "{outcome:?}"
    );
    executor.journal.leave_safe_mode().await.unwrap();
    executor.submit(
        &shop(),
        String::new(),
        step(Action::StartContainer { id: id("b") }),
    );
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Applied));
    assert_eq!(fake.engine().actions.load(Ordering::SeqCst), 2);
    assert!(lines().contains("\"event\":\"resumed\""), "{}", lines());
    assert!(
        executor.journal.leave_safe_mode().await.is_err(),
        "there is nothing to resume"
    );
}
