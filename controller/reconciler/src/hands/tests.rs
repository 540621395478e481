//! Every act comes back, within its deadline and never too many at once.

use std::sync::atomic::Ordering;

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::plan::{Cause, Subject};

use super::*;
use crate::fake::{Answer, Fake};
use crate::history::journal;

/// What has to live as long as the hands: the folder, and the one who writes the journal.
type Around = (tempfile::TempDir, Crew<(), ()>);

fn hands(answers: &[(&'static str, Answer)]) -> (Hands<Fake>, Arc<Fake>, Around) {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
    let mut fake = Fake::empty();
    fake.answers = answers.iter().copied().collect();
    let fake = Arc::new(fake);
    let clock = Clock::virtual_from(Timestamp(1_000_000));
    let (journal, writer, ..) = journal::open(&state.journal(), "RUN", clock, journal::LIMIT);
    let mut crew = Crew::default();
    crew.start((), writer.run());
    let hands = Hands::new(fake.clone(), Deadlines::default(), state, journal, clock);
    (hands, fake, (dir, crew))
}

fn id(text: &str) -> ContainerId {
    ContainerId::new(text).unwrap()
}

fn step(act: Act) -> Step {
    let subject = match &act {
        Act::PullImage { reference } => Subject::Image {
            key: reference.clone(),
        },
        Act::RemoveNetwork { id, .. } => Subject::StrayNetwork { id: id.clone() },
        Act::StartContainer { id } | Act::StopContainer { id, .. } => {
            Subject::StrayContainer { id: id.clone() }
        }
        other => panic!("{other:?}"),
    };
    Step {
        subject,
        act,
        because: Cause::Missing,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline_with_an_unknown_outcome() {
    for (act, seconds) in [
        (Act::StartContainer { id: id("a") }, 30),
        (
            Act::StopContainer {
                id: id("a"),
                grace: Duration::from_secs(7),
            },
            17,
        ),
        (
            Act::RemoveNetwork {
                id: NetworkId::new("n").unwrap(),
                name: "n".to_owned(),
            },
            30,
        ),
    ] {
        let (mut hands, _, _dir) = hands(&[(act.verb(), Answer::Never)]);
        let verb = act.verb();
        hands.begin(step(act));
        let finished = hands.finished().await;
        let text = format!("{verb} did not answer within {seconds} s");
        assert_eq!(finished.outcome, Err(ActError::Unknown(text)));
        assert_eq!(finished.took.as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_call_is_an_unknown_outcome() {
    let (mut hands, _, _dir) = hands(&[("start-container", Answer::Panic)]);
    hands.begin(step(Act::StartContainer { id: id("a") }));
    let finished = hands.finished().await;
    assert_eq!(
        finished.outcome,
        Err(ActError::Unknown("start-container panicked: no way".to_owned()))
    );
    assert_eq!(hands.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn four_mutations_at_once_and_a_pull_beside_them() {
    let second = Answer::After(Duration::from_secs(1));
    let (mut hands, fake, _dir) = hands(&[("start-container", second), ("pull-image", Answer::Never)]);
    let board = hands.board();
    hands.begin(step(Act::PullImage {
        reference: "nginx:1".to_owned(),
    }));
    for n in 0..10 {
        hands.begin(step(Act::StartContainer {
            id: id(&n.to_string()),
        }));
    }
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let finished = hands.finished().await;
        assert_eq!(finished.outcome, Ok(Done::Ok));
        longest = longest.max(finished.took);
    }
    assert_eq!(longest.as_secs(), 3, "ten acts of a second, four at once");
    assert_eq!(fake.most.load(Ordering::SeqCst), 5);
    let image = Subject::Image {
        key: "nginx:1".to_owned(),
    };
    assert_eq!(*board.borrow(), Board::from([(image, "begun".to_owned())]));
    hands.abandon_heavy();
    let finished = hands.finished().await;
    assert_eq!(
        finished.outcome,
        Err(ActError::Unknown("pull-image was abandoned".to_owned()))
    );
    assert!(board.borrow().is_empty());
}

#[tokio::test]
async fn what_a_pull_said_is_kept() {
    let (mut hands, _, dir) = hands(&[]);
    hands.begin(step(Act::PullImage {
        reference: "r.io/nginx:1".to_owned(),
    }));
    assert_eq!(hands.finished().await.outcome, Ok(Done::Ok));
    let log = StateDir::at(dir.0.path().join("state")).build_log("r.io/nginx:1");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "begun\nended\n");
}

#[tokio::test]
async fn an_act_is_done_when_its_intent_is_on_disk_and_not_before() {
    let (mut hands, fake, (dir, _crew)) = hands(&[("stop-container", Answer::Never)]);
    let state = StateDir::at(dir.path().join("state"));
    let lines = || std::fs::read_to_string(state.journal()).unwrap_or_default();
    hands.begin(step(Act::StartContainer { id: id("a") }));
    assert_eq!(hands.finished().await.outcome, Ok(Done::Ok));
    assert_eq!(fake.most.load(Ordering::SeqCst), 1);
    assert!(lines().starts_with("{\"v\":1,\"seq\":1,") && lines().contains("\"kind\":\"intent\""));
    // Somebody puts a folder where the journal was: it can neither be written nor made anew.
    std::fs::remove_file(state.journal()).unwrap();
    std::fs::create_dir(state.journal()).unwrap();
    for (round, name) in ["b", "c"].into_iter().enumerate() {
        hands.begin(step(Act::StartContainer { id: id(name) }));
        let outcome = hands.finished().await.outcome;
        assert!(
            matches!(outcome, Err(ActError::JournalUnwritable(_))),
            "{round}: {outcome:?}"
        );
    }
    // Not even what changes nothing: it writes to the same disk.
    hands.begin(Step {
        subject: Subject::StrayContainer { id: id("d") },
        act: Act::KeepEvidence {
            id: id("d"),
            number: 1,
            since: None,
            port: None,
            probe_said: vec![],
        },
        because: Cause::Missing,
    });
    assert!(matches!(
        hands.finished().await.outcome,
        Err(ActError::JournalUnwritable(_))
    ));
    assert_eq!(fake.acts.load(Ordering::SeqCst), 1, "nothing else was begun");
    // Writable again is not enough, a person has to say so.
    std::fs::remove_dir(state.journal()).unwrap();
    hands.begin(step(Act::StartContainer { id: id("b") }));
    let outcome = hands.finished().await.outcome;
    assert!(
        matches!(outcome, Err(ActError::JournalUnwritable(_))),
        "{outcome:?}"
    );
    hands.journal.resume().await.unwrap();
    hands.begin(step(Act::StartContainer { id: id("b") }));
    assert_eq!(hands.finished().await.outcome, Ok(Done::Ok));
    assert_eq!(fake.acts.load(Ordering::SeqCst), 2);
    assert!(lines().contains("\"note\":\"resumed\""), "{}", lines());
    assert!(
        hands.journal.resume().await.is_err(),
        "there is nothing to resume"
    );
}
