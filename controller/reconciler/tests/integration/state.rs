//! Start with a state directory in any condition: no crash, no removal, no restart of running containers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

mod damage;
pub(crate) mod fixture;
mod mounts;
mod outage;

use argus_backend::sim::{Engine, FaultProfile};
use argus_core::mode::Mode;
use argus_core::outcome::ActionError;
use argus_core::wait::WaitReason;
use argus_crds::incident::Incident;
use argus_reconciler::{Command, CommandError};
use fixture::{Fixture, SHOP, copied, env, incidents};

#[tokio::test(start_paused = true)]
async fn damaged_state_never_causes_removals_or_restarts() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    let first = fixture.start(&fixture.state("first"), fixture.fresh());
    first.settled().await;
    let engine = first.engine();
    let before = engine.model.calls().len();
    let killed = fixture.state("killed");
    copied(&fixture.state("first"), &killed);
    first.stop().await;
    let stopped = fixture.state("first");
    assert!(
        incidents(&stopped).is_empty(),
        "a first start and a clean stop cause no incident"
    );

    let damages = damage::all();
    assert!(damages.len() >= 200, "{} are too few", damages.len());
    for (number, (name, damage)) in damages.into_iter().enumerate() {
        let image = if number % 3 == 0 { &stopped } else { &killed };
        let state = fixture.state(&format!("s{number}"));
        copied(image, &state);
        damage(&state);
        let run = fixture.start(&state, engine.clone());
        let snapshot = run.settled().await;
        assert_eq!(snapshot.mode, Mode::Full, "{name}");
        let after = run.engine();
        let calls = &after.model.calls()[before..];
        assert!(calls.is_empty(), "{name}: {calls:?}");
        assert_eq!(after.model.foreign_actions(), [""; 0], "{name}");
        let ids = |engine: &Engine| {
            engine
                .model
                .containers()
                .map(|it| it.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&after), ids(&engine), "{name}");
        run.stop().await;
        if number % 3 != 0 && state.join("controller.json").is_file() && !name.contains("everything") {
            let all = incidents(&state);
            assert!(all.len() <= 1, "{name}: {all:?}");
            for incident in all {
                assert_eq!(incident.adopted.len(), 2, "{name}: {incident:?}");
            }
        }
        std::fs::remove_dir_all(&state).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_registry_and_a_broken_file_remove_nothing() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    let state = fixture.state("s");
    let run = fixture.start(&state, fixture.fresh());
    run.settled().await;
    let engine = run.engine();
    run.stop().await;
    let before = engine.model.calls().len();
    std::fs::remove_dir_all(state.join("private")).unwrap();
    fixture.write("shop", "project: [");
    let run = fixture.start(&state, engine);
    let snapshot = run
        .until("the wait is reported", |snapshot| {
            let plan = snapshot.plans.get(&env("shop"));
            snapshot.is_complete()
                && plan.is_some_and(|plan| plan.waits.iter().any(|wait| wait.on == WaitReason::SpecPending))
        })
        .await;
    assert!(!snapshot.specs.environments.contains_key(&env("shop")));
    run.pause(60).await;
    assert_eq!(run.engine().model.calls().len(), before, "nothing is done");
    // Fixed, it is adopted again. Removed after that, its resources are removed.
    fixture.write("shop", SHOP);
    run.settled().await;
    assert_eq!(run.engine().model.calls().len(), before, "it is adopted");
    fixture.remove("shop");
    run.until("it is gone", |snapshot| {
        snapshot.store.of(&env("shop")).is_none() && snapshot.store.of(&env("mail")).is_some()
    })
    .await;
    run.stop().await;
}

/// Number of created containers.
fn created_count(engine: &Engine) -> usize {
    let changes = engine.model.calls().iter().filter(|call| call.changed);
    changes
        .filter(|call| call.action.verb() == "create-container")
        .count()
}

#[tokio::test(start_paused = true)]
async fn open_intents_of_a_killed_run_are_resolved_and_reported() {
    // Every call takes five seconds: the controller dies while some are in flight.
    let slow = FaultProfile {
        call: (5_000, 5_000),
        ..FaultProfile::no_faults()
    };
    let fixture = Fixture::new(slow);
    let (first, state) = (fixture.state("first"), fixture.state("second"));
    let run = fixture.start(&first, fixture.fresh());
    let journal = first.join("private/journal.jsonl");
    run.until("containers are being created", |_| {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("create-container"))
            .count()
            >= 2
    })
    .await;
    copied(&first, &state);
    let engine = run.engine();
    // Result without a kill.
    run.settled().await;
    let created_without_kill = created_count(&run.engine());
    run.stop().await;
    // The engine completes the calls in flight later, as a real one does.
    let run = fixture.start(&state, engine);
    let snapshot = run.settled().await;
    assert_eq!(snapshot.mode, Mode::Full);
    let all = incidents(&state);
    let [incident] = &all[..] else { panic!("{all:?}") };
    assert!(!incident.clean && incident.died.is_some() && incident.last_seen.is_some());
    assert!(incident.open_intents.len() >= 2, "{incident:#?}");
    for open in &incident.open_intents {
        assert!(
            ["done", "notApplied", "repeat"].contains(&open.resolution.as_str()),
            "{open:?}"
        );
    }
    let engine = run.engine();
    for service in ["shop-api", "mail-smtp"] {
        let count = engine.model.containers().filter(|it| it.name == service).count();
        assert_eq!(count, 1, "{service}");
    }
    assert_eq!(
        created_count(&engine),
        created_without_kill,
        "containers in creation are adopted and not created twice"
    );
    run.stop().await;
    // The recovery is complete: the next start has no open intents.
    let run = fixture.start(&state, engine);
    run.settled().await;
    let all = incidents(&state);
    assert_eq!(all.len(), 1, "{all:#?}");
    run.stop().await;
    let schema = argus_crds::schema::incident_schema();
    let version = &schema["properties"]["schemaVersion"];
    assert!(version.is_object(), "{schema:#}");
    assert_eq!(incident.schema_version, 1);
    assert_ne!(*incident, Incident::default());
}

#[tokio::test(start_paused = true)]
async fn killed_run_is_checked_in_mode_recovery_first() {
    let slow_list = FaultProfile {
        list: (5_000, 5_000),
        ..FaultProfile::no_faults()
    };
    let fixture = Fixture::new(slow_list);
    let (first, state) = (fixture.state("first"), fixture.state("second"));
    let run = fixture.start(&first, fixture.fresh());
    run.settled().await;
    copied(&first, &state);
    run.lose("shop-api");
    let engine = run.engine();
    let before = engine.model.calls().len();
    run.stop().await;
    let run = fixture.start(&state, engine);
    let during = run
        .until("the check of all state", |snapshot| {
            snapshot.mode == Mode::Recovery
        })
        .await;
    let why = during.mode_reason().unwrap();
    assert!(why.contains("did not end with a clean stop"), "{why}");
    assert!(!during.store.is_synced());
    assert_eq!(run.engine().model.calls().len(), before, "nothing is done yet");
    let after = run.settled().await;
    assert_eq!(after.mode, Mode::Full);
    assert_eq!(incidents(&state).len(), 1);
    assert!(run.engine().model.calls().len() > before, "it is created again");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unwritable_journal_stops_all_actions_and_is_reported() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    let state = fixture.state("s");
    let run = fixture.start(&state, fixture.fresh());
    run.settled().await;
    let before = run.engine().model.calls().len();
    let journal = state.join("private/journal.jsonl");
    let refused = run.handle.send(Command::ResumeController, String::new()).await;
    assert!(matches!(refused, Err(CommandError::Refused(_))), "{refused:?}");
    std::fs::rename(&journal, state.join("away")).unwrap();
    std::fs::create_dir(&journal).unwrap();
    run.lose("shop-api");
    let snapshot = run
        .until("mode Safe", |snapshot| snapshot.mode == Mode::Safe)
        .await;
    assert!(snapshot.mode_reason().unwrap().contains("journal"));
    run.until("the wait is reported", |snapshot| {
        let plan = snapshot.plans.get(&env("shop"));
        plan.is_some_and(|plan| {
            plan.waits
                .iter()
                .any(|wait| matches!(wait.on, WaitReason::Safe { .. }))
        })
    })
    .await;
    run.lose("mail-smtp");
    run.pause(120).await;
    assert_eq!(run.engine().model.calls().len(), before, "nothing was done");
    let refused = run.handle.send(Command::ResumeController, String::new()).await;
    assert!(matches!(refused, Err(CommandError::Safe(_))), "{refused:?}");
    std::fs::remove_dir(&journal).unwrap();
    run.pause(60).await;
    assert_eq!(run.handle.snapshot().mode, Mode::Safe, "writable is not enough");
    assert_eq!(run.engine().model.calls().len(), before);
    run.handle
        .send(Command::ResumeController, String::new())
        .await
        .unwrap();
    let snapshot = run.settled().await;
    assert_eq!(snapshot.mode, Mode::Full);
    let failures = &snapshot.state.action_failures;
    let ours = |failure: &argus_core::action::ActionFailure| {
        matches!(failure.error, ActionError::JournalUnwritable(_))
    };
    assert!(!failures.values().any(ours), "no action failure is recorded");
    run.stop().await;
}
