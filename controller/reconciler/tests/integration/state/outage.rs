//! An engine that is away for minutes: Argus reports it, retries, and restarts nothing.

use std::time::Duration;

use argus_backend::sim::FaultProfile;
use argus_core::mode::Mode;
use argus_core::wait::WaitReason;
use argus_reconciler::Snapshot;

use super::fixture::{Fixture, env};

const AWAY: Duration = Duration::from_secs(90);

/// An environment that is new during the outage.
const LATE: &str = "version: '1.0'\nproject:\n  name: late\nservices:\n  - name: db\n    image: app:1\n    \
                    container:\n      name: late-db\n";

fn is_waiting_for_the_engine(snapshot: &Snapshot) -> bool {
    let plan = snapshot.plans.get(&env("late"));
    let mut waits = plan.into_iter().flat_map(|plan| &plan.waits);
    waits.any(|wait| matches!(wait.on, WaitReason::Engine { .. } | WaitReason::Breaker { .. }))
}

#[tokio::test(start_paused = true)]
async fn outage_of_90_s_is_reported_and_restarts_nothing() {
    let fixture = Fixture::new(FaultProfile::no_faults());
    let run = fixture.start(&fixture.state("s"), fixture.fresh());
    run.settled().await;
    let before = run.engine().model.calls().len();
    run.take_engine_away(AWAY);
    fixture.write("late", LATE);
    run.until("the new environment reports its wait", is_waiting_for_the_engine)
        .await;
    // The attempts back off: the seventh one follows after a minute.
    let during = run
        .until("the seventh attempt fails", |snapshot| {
            snapshot.store.retry().is_some_and(|retry| retry.attempts >= 7)
        })
        .await;
    assert_eq!(during.mode, Mode::Minimal);
    assert!(!during.state.breakers.engine().is_closed());
    assert!(is_waiting_for_the_engine(&during), "{:#?}", during.plans);
    assert_eq!(run.engine().model.calls().len(), before, "no call is made");
    run.until("the new environment is settled", |snapshot| {
        let plan = snapshot.plans.get(&env("late"));
        plan.is_some_and(|plan| plan.is_settled()) && snapshot.store.of(&env("late")).is_some()
    })
    .await;
    let after = run.settled().await;
    assert_eq!(after.mode, Mode::Full);
    assert!(after.state.breakers.engine().is_closed());
    let outage = after.store.outages().last().unwrap();
    assert!(
        outage.until.unwrap().since(outage.from) >= AWAY,
        "one outage: {outage:?}"
    );
    let engine = run.engine();
    for service in ["shop/api", "mail/smtp", "late/db"] {
        assert_eq!(engine.model.start_count(service), 1, "{service}");
    }
    run.stop().await;
}
