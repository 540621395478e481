//! The contract of a backend, on the simulated engine in memory and on a real one.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed step ends the test; a real engine runs in real time, with a limit"
)]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use argus_backend::contract::ContractTest;
use argus_backend::sim::{Engine, FaultProfile, Sim};
use argus_core::action::Deadlines;
use argus_core::desired::Build;
use argus_core::ident::Hash;
use argus_core::time::Timestamp;
use argus_docker::{Docker, Endpoint, OwnImageBuilder};
use argus_tests::{PrivateEngine, binary};

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
fn sim_fulfils_the_backend_contract() {
    for (seed, faults) in [
        FaultProfile::no_faults(),
        FaultProfile {
            lag: (0, 200),
            call: (0, 20),
            list: (0, 100),
            without_inspect: 50,
            ..FaultProfile::default()
        },
    ]
    .into_iter()
    .enumerate()
    {
        let mut engine = Engine::new(u64::try_from(seed).unwrap(), faults);
        engine.model.add_image(IMAGE);
        let sim = Sim::new(engine, now);
        assert_eq!(
            block(ContractTest::new(&sim, IMAGE, "contract").run()),
            Ok(()),
            "{faults:?}"
        );
    }
}

#[test]
fn docker_fulfils_the_backend_contract() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let outcome = block(async {
        let endpoint = Endpoint::parse(&engine.host()).unwrap();
        let docker = Docker::with_own_image(
            endpoint,
            Arc::new(now),
            Some(own_image(engine)),
            Deadlines::default(),
            argus_core::delays::Delays::default().list_interval,
            None,
        );
        ContractTest::new(&docker, IMAGE, "contract").run().await
    });
    assert_eq!(outcome, Ok(()));
}

/// The image of helpers, built from the program of this build.
fn own_image(engine: &PrivateEngine) -> OwnImageBuilder {
    let folder = engine.scratch("own-image");
    for place in ["lib", "lib64"] {
        std::fs::create_dir_all(folder.join(place)).unwrap();
        for library in binary::libraries(&binary::argus()) {
            let name = library.file_name().unwrap();
            std::fs::copy(&library, folder.join(place).join(name)).unwrap();
        }
    }
    std::fs::copy(binary::argus(), folder.join("argus")).unwrap();
    let dockerfile = "FROM scratch\nCOPY argus /argus\nCOPY lib /lib\nCOPY lib64 /lib64\n\
                      ENV LD_LIBRARY_PATH=/lib LLVM_PROFILE_FILE=/dev/null\nENTRYPOINT [\"/argus\"]\n";
    std::fs::write(folder.join("Dockerfile"), dockerfile).unwrap();
    let build = Build {
        tag: "contract/own:1".to_owned(),
        context: folder.display().to_string(),
        dockerfile: "Dockerfile".to_owned(),
        target: None,
        args: std::collections::BTreeMap::new(),
        digest: Hash::new("1").unwrap(),
        options: Box::default(),
        excluded: argus_core::desired::excluded::Excluded::default(),
        allowed: false,
    };
    Arc::new(move || Ok(build.clone()))
}
