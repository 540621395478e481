//! The contract of a backend, on the faulty engine in memory and on a real one.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; a real engine is watched in real time, with a limit"
)]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use argus_backend::contract::Drive;
use argus_backend::sim::{Engine, Sim, Weather};
use argus_core::time::Timestamp;
use argus_docker::{Docker, Endpoint};
use argus_tests::PrivateEngine;

const IMAGE: &str = "busybox:local";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

fn block<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

#[test]
fn the_engine_in_memory_keeps_the_contract() {
    for (seed, weather) in [
        Weather::calm(),
        Weather {
            lag: (0, 200),
            call: (0, 20),
            list: (0, 100),
            thin: 50,
            ..Weather::default()
        },
    ]
    .into_iter()
    .enumerate()
    {
        let mut engine = Engine::new(u64::try_from(seed).unwrap(), weather);
        engine.model.has_image(IMAGE);
        let sim = Sim::new(engine, now);
        assert_eq!(
            block(Drive::new(&sim, IMAGE, "contract").through()),
            Ok(()),
            "{weather:?}"
        );
    }
}

#[test]
fn docker_keeps_the_contract() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let outcome = block(async {
        let docker = Docker::new(Endpoint::parse(&engine.host()).unwrap(), Arc::new(now));
        Drive::new(&docker, IMAGE, "contract").through().await
    });
    assert_eq!(outcome, Ok(()));
}
