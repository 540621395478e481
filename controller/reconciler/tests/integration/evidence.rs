//! Evidence of runs whose log the engine completes after their end, in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue fails"
)]

use std::fs;
use std::time::Duration;

use argus_backend::sim::{Engine, ExitScript, FaultProfile};
use argus_core::action::Action;
use argus_core::time::Timestamp;
use serde_json::{Value, json};

use crate::state::fixture::Fixture;

const SHOP: &str = "version: '1'\nproject: { name: shop }\nresilience: { container: { restartDelay: 1s } }\nservices:\n  \
                    api: { image: 'app:1', container: { name: shop-api } }\n  \
                    web: { image: 'app:1', container: { name: shop-web } }\n";

/// Duration of the first run of both services.
const RUN: Duration = Duration::from_secs(2);

/// Both services crashed once and run again.
struct Crash {
    fixture: Fixture,
    engine: Engine,
}

impl Crash {
    /// The engine writes the last line of `api` this long after its end, and that of `web` before its end.
    async fn with_log_delay(delay: Duration) -> Self {
        let fixture = Fixture::new(FaultProfile::no_faults());
        fixture.write("shop", SHOP);
        let mut engine = fixture.fresh();
        engine.model.enable_output();
        engine.model.delay_log("shop/api", delay);
        for service in ["shop/api", "shop/web"] {
            let script = ExitScript {
                after: RUN,
                code: 3,
                times: 1,
            };
            engine.model.set_script(service, script);
        }
        let run = fixture.start(&fixture.state("s"), engine);
        run.until("both services run again", |_| {
            let model = run.engine().model;
            model.start_count("shop/api") == 2 && model.start_count("shop/web") == 2
        })
        .await;
        let engine = run.engine();
        run.stop().await;
        Self { fixture, engine }
    }

    /// Time from the end of the first run to the start of the second one.
    fn restarted_after(&self, service: &str) -> Duration {
        let model = &self.engine.model;
        let name = format!("shop-{service}");
        let container = model.containers().find(|it| it.name == name).unwrap();
        let starts: Vec<Timestamp> = model
            .calls()
            .iter()
            .filter(|call| call.changed)
            .filter(|call| matches!(&call.action, Action::StartContainer { id } if *id == container.id))
            .map(|call| call.at)
            .collect();
        let [first, second] = starts[..] else {
            panic!("{service} was started at {starts:?}")
        };
        second.since(first + RUN)
    }

    /// Last line on stderr in the evidence, without its time, and the missing parts.
    fn evidence(&self, service: &str) -> (String, Value) {
        let state = self.fixture.state("s");
        let folder = state.join("private/evidence/shop").join(service).join("1");
        let stderr = fs::read_to_string(folder.join("stderr.log")).unwrap();
        let (_, last) = stderr.lines().last().unwrap().split_once(' ').unwrap();
        let facts: Value = serde_json::from_slice(&fs::read(folder.join("evidence.json")).unwrap()).unwrap();
        (last.to_owned(), facts["missing"].clone())
    }
}

#[tokio::test(start_paused = true)]
async fn line_written_after_the_end_of_a_run_is_stored() {
    let crash = Crash::with_log_delay(Duration::from_millis(1_200)).await;
    for service in ["api", "web"] {
        assert_eq!(crash.evidence(service), ("ended with 3".to_owned(), json!([])));
    }
    let took = crash.restarted_after("api");
    assert!(
        took < Duration::from_secs(2),
        "the second read that is equal ends the collection: {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn log_without_an_end_is_truncated_and_delays_one_restart() {
    let crash = Crash::with_log_delay(Duration::from_secs(60)).await;
    let (last, missing) = crash.evidence("api");
    assert!(last.starts_with("line "), "{last}");
    let reason = "stderr: truncated: the engine had not written its end yet";
    assert!(missing.as_array().unwrap().contains(&json!(reason)), "{missing}");
    assert_eq!(crash.evidence("web"), ("ended with 3".to_owned(), json!([])));
    let (api, web) = (crash.restarted_after("api"), crash.restarted_after("web"));
    assert!(
        api < Duration::from_secs(5),
        "at most the deadline of evidence: {api:?}"
    );
    assert!(web < Duration::from_secs(2), "only its own delay: {web:?}");
}
