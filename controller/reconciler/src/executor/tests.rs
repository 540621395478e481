//! Every act comes back, within its deadline and never too many at once.

use std::sync::atomic::Ordering;

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::plan::{Cause, Deadlines, Subject};

use super::*;
use crate::fake_backend::{FakeBackend, FakeReply};
use crate::journal::handle;

/// What has to live as long as the hands: the folder, and the one who writes the journal.
type Around = (tempfile::TempDir, TaskSet<(), ()>);

fn executor(answers: &[(&'static str, FakeReply)]) -> (Executor<FakeBackend>, Arc<FakeBackend>, Around) {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let mut fake = FakeBackend::empty();
    fake.answers = answers.iter().copied().collect();
    let fake = Arc::new(fake);
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (journal, writer, ..) = handle::open(&state.journal(), "RUN", clock, handle::LIMIT);
    let mut tasks = TaskSet::default();
    tasks.start((), writer.run());
    let epochs = watch::channel(BreakerEpochs::default()).1;
    let executor = Executor::new(fake.clone(), epochs, Deadlines::default(), state, journal, clock);
    (executor, fake, (dir, tasks))
}

fn shop() -> EnvName {
    EnvName::new("shop").unwrap()
}

fn id(text: &str) -> ContainerId {
    ContainerId::new(text).unwrap()
}

fn step(act: Action) -> Step {
    let subject = match &act {
        Action::PullImage { reference } => Subject::Image {
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
        action: act,
        cause: Cause::Missing,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline_with_an_unknown_outcome() {
    for (act, seconds) in [
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
        let (mut executor, _, _dir) = executor(&[(act.verb(), FakeReply::Never)]);
        let verb = act.verb();
        executor.submit(&shop(), step(act));
        let finished = executor.next_result().await;
        let text = format!("{verb} did not answer within {seconds} s");
        assert_eq!(finished.outcome, Err(ActionError::TimedOut(text)));
        assert_eq!(finished.took.as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_call_is_an_unknown_outcome() {
    let (mut executor, _, _dir) = executor(&[("start-container", FakeReply::Panic)]);
    executor.submit(&shop(), step(Action::StartContainer { id: id("a") }));
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
async fn four_mutations_at_once_and_a_pull_beside_them() {
    let second = FakeReply::After(Duration::from_secs(1));
    let (mut executor, fake, _dir) =
        executor(&[("start-container", second), ("pull-image", FakeReply::Never)]);
    let mut board = executor.progress();
    executor.submit(
        &shop(),
        step(Action::PullImage {
            reference: "nginx:1".to_owned(),
        }),
    );
    for n in 0..10 {
        executor.submit(
            &shop(),
            step(Action::StartContainer {
                id: id(&n.to_string()),
            }),
        );
    }
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let finished = executor.next_result().await;
        assert_eq!(finished.outcome, Ok(Done::Ok));
        longest = longest.max(finished.took);
    }
    assert_eq!(longest.as_secs(), 3, "ten acts of a second, four at once");
    assert_eq!(fake.most.load(Ordering::SeqCst), 5);
    let image = Subject::Image {
        key: "nginx:1".to_owned(),
    };
    assert_eq!(board.read(), ProgressMap::from([(image, "begun".to_owned())]));
    executor.abort_long_running();
    let finished = executor.next_result().await;
    assert_eq!(
        finished.outcome,
        Err(ActionError::Unknown("pull-image was abandoned".to_owned()))
    );
    assert!(board.read().is_empty());
}

#[tokio::test]
async fn what_a_pull_said_is_kept() {
    let (mut executor, _, dir) = executor(&[]);
    executor.submit(
        &shop(),
        step(Action::PullImage {
            reference: "r.io/nginx:1".to_owned(),
        }),
    );
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Ok));
    let log = StateDir::at(dir.0.path().join("state")).build_log("r.io/nginx:1");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "begun\nended\n");
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_on_before_a_breaker_opened_is_turned_back_without_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let mut fake = FakeBackend::empty();
    fake.answers = [("start-container", FakeReply::After(Duration::from_secs(1)))].into();
    let fake = Arc::new(fake);
    let (open, epochs) = watch::channel(BreakerEpochs::default());
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (journal, writer, ..) = handle::open(&state.journal(), "RUN", clock, handle::LIMIT);
    let mut tasks = TaskSet::default();
    tasks.start((), writer.run());
    let mut executor = Executor::new(fake.clone(), epochs, Deadlines::default(), state, journal, clock);
    for number in 0..10 {
        let id = id(&format!("c{number}"));
        executor.submit(&shop(), step(Action::StartContainer { id }));
    }
    let first = executor.next_result().await;
    assert_eq!(first.outcome, Ok(Done::Ok));
    let mut breakers = argus_core::state::BreakerRegistry::default();
    let refused = Err(ActionError::Unreachable("refused".to_owned()));
    for _ in 0..5 {
        breakers.on_result(&shop(), &first.step.subject, &refused, clock.now());
    }
    open.send_replace(BreakerEpochs::of(&breakers, [shop()].iter()));
    let mut turned_back = 0;
    for _ in 0..9 {
        let finished = executor.next_result().await;
        turned_back += usize::from(finished.outcome == Err(ActionError::CircuitOpen));
    }
    // Four permits: four have ended, four may be on their way, the rest was waiting.
    assert!((2..=6).contains(&turned_back), "{turned_back} of 9");
    executor.submit(&shop(), step(Action::StartContainer { id: id("probe") }));
    assert_eq!(
        executor.next_result().await.outcome,
        Ok(Done::Ok),
        "decided on since"
    );
}

#[tokio::test(start_paused = true)]
async fn evidence_that_did_not_come_is_on_disk_as_missing() {
    let (mut executor, _, dir) = executor(&[("collect-evidence", FakeReply::Never)]);
    executor.submit(
        &shop(),
        Step {
            subject: Subject::Service {
                environment: argus_core::ident::EnvName::new("shop").unwrap(),
                service: argus_core::ident::ServiceName::new("web").unwrap(),
            },
            action: Action::CollectEvidence {
                id: id("a"),
                number: 1,
                exit_code: None,
                since: None,
                port: None,
                probe_said: vec!["503".to_owned()],
            },
            cause: Cause::Failed,
        },
    );
    let finished = executor.next_result().await;
    assert!(
        matches!(finished.outcome, Err(ActionError::TimedOut(_))),
        "{finished:?}"
    );
    let folder = StateDir::at(dir.0.path().join("state")).run("shop", "web", 1);
    let facts = std::fs::read(folder.join(evidence_store::FACTS)).unwrap();
    let facts: evidence_store::EvidenceFacts = serde_json::from_slice(&facts).unwrap();
    assert_eq!(facts.missing.len(), 1, "{facts:?}");
    assert_eq!(facts.probe_output, ["503"]);
}

#[tokio::test]
async fn an_act_is_done_when_its_intent_is_on_disk_and_not_before() {
    let (mut executor, fake, (dir, _crew)) = executor(&[("stop-container", FakeReply::Never)]);
    let state = StateDir::at(dir.path().join("state"));
    let lines = || std::fs::read_to_string(state.journal()).unwrap_or_default();
    executor.submit(&shop(), step(Action::StartContainer { id: id("a") }));
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Ok));
    assert_eq!(fake.most.load(Ordering::SeqCst), 1);
    assert!(lines().starts_with("{\"v\":1,\"seq\":1,") && lines().contains("\"kind\":\"intent\""));
    // Somebody puts a folder where the journal was: it can neither be written nor made anew.
    std::fs::remove_file(state.journal()).unwrap();
    std::fs::create_dir(state.journal()).unwrap();
    for (round, name) in ["b", "c"].into_iter().enumerate() {
        executor.submit(&shop(), step(Action::StartContainer { id: id(name) }));
        let outcome = executor.next_result().await.outcome;
        assert!(
            matches!(outcome, Err(ActionError::JournalUnwritable(_))),
            "{round}: {outcome:?}"
        );
    }
    // Not even what changes nothing: it writes to the same disk.
    executor.submit(
        &shop(),
        Step {
            subject: Subject::ExtraContainer { id: id("d") },
            action: Action::CollectEvidence {
                id: id("d"),
                number: 1,
                exit_code: None,
                since: None,
                port: None,
                probe_said: vec![],
            },
            cause: Cause::Missing,
        },
    );
    assert!(matches!(
        executor.next_result().await.outcome,
        Err(ActionError::JournalUnwritable(_))
    ));
    assert_eq!(fake.acts.load(Ordering::SeqCst), 1, "nothing else was begun");
    // Writable again is not enough, a person has to say so.
    std::fs::remove_dir(state.journal()).unwrap();
    executor.submit(&shop(), step(Action::StartContainer { id: id("b") }));
    let outcome = executor.next_result().await.outcome;
    assert!(
        matches!(outcome, Err(ActionError::JournalUnwritable(_))),
        "{outcome:?}"
    );
    executor.journal.resume().await.unwrap();
    executor.submit(&shop(), step(Action::StartContainer { id: id("b") }));
    assert_eq!(executor.next_result().await.outcome, Ok(Done::Ok));
    assert_eq!(fake.acts.load(Ordering::SeqCst), 2);
    assert!(lines().contains("\"note\":\"resumed\""), "{}", lines());
    assert!(
        executor.journal.resume().await.is_err(),
        "there is nothing to resume"
    );
}
