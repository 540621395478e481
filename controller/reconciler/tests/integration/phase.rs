//! Phase and conditions of an environment whose links fail: every status that a slow start and the checks after it write.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use argus_backend::sim::{Engine, FaultProfile, Sim};
use argus_core::ident::EnvName;
use argus_core::published::Addresses;
use argus_core::state::EnvHistory;
use argus_core::status::{EngineView, StatusInput, environment};
use argus_core::time::Timestamp;
use argus_crds::status::{EnvironmentStatus, Phase, ServiceState, Truth};
use argus_reconciler::clock::Clock;
use argus_reconciler::{Controller, EnvFiles, Snapshot, StatusView};

use crate::options::options;

/// `api` connects to a port of `db` on which no process listens.
const SPEC: &str = "version: '1'\nproject: { name: shop }\nservices:\n  \
                    db: { image: 'app:1', container: { name: shop-db } }\n  \
                    api: { image: 'app:1', dependsOn: [{ service: db, condition: started }], \
                    container: { name: shop-api, environment: { DATABASE: 'db:5432' } } }\n  \
                    web: { image: 'app:1', dependsOn: [{ service: api, condition: started }], container: { name: shop-web } }\n";

/// Virtual time is free, but the disk may be slow.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Renders the statuses, and keeps all of them.
#[derive(Default)]
struct Recorder {
    statuses: Mutex<Vec<EnvironmentStatus>>,
}

impl StatusView for Recorder {
    fn environment(&self, env: &EnvName, snapshot: &Snapshot, _: Option<&str>) -> EnvFiles {
        let (no_history, no_objects) = (EnvHistory::default(), Arc::default());
        let status = environment(&StatusInput {
            env,
            accepted: snapshot.desired.get(env).map(AsRef::as_ref),
            rejected: None,
            conflicting_specs: &[],
            warnings: &[],
            requests: &snapshot.overrides.requests,
            can_roll_back: false,
            specs_scanned: snapshot.specs.scanned,
            specs_problem: None,
            engine: EngineView {
                reachable: snapshot.store.is_reachable(),
                synced: snapshot.store.is_synced(),
                reason: "",
                endpoint: "memory",
                since: None,
                retry: None,
                events_lost: None,
            },
            breakers: &snapshot.state.breakers,
            outages: snapshot.store.outages(),
            observed: snapshot.store.of(env).unwrap_or(&no_objects),
            plan: snapshot.plans.get(env).map(AsRef::as_ref),
            health: &snapshot.health,
            history: snapshot.state.history(env).unwrap_or(&no_history),
            repairs: &snapshot.overrides.repairs,
            refused: &snapshot.state.refused,
            progress: &snapshot.progress,
            preflight: Some(&snapshot.preflight),
            connectivity: &snapshot.links,
            disk_full: None,
            previous: None,
            addresses: Addresses {
                publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                engine_host: None,
            },
            mode: snapshot.mode,
            safe_mode_reason: None,
            controller: "me",
            state_dir: "",
            now: snapshot.as_of,
        });
        let json = serde_json::to_string_pretty(&status).unwrap();
        self.statuses.lock().unwrap().push(status);
        EnvFiles {
            json,
            ..EnvFiles::default()
        }
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, _: &Snapshot, _: Option<&str>) -> String {
        "{}".to_owned()
    }
}

fn verified(status: &EnvironmentStatus) -> Truth {
    let mut conditions = status.conditions.iter();
    conditions.find(|found| found.kind == "Verified").unwrap().status
}

/// All statuses until a minute of failed checks has passed, on an engine whose calls take this many seconds.
async fn statuses(call_seconds: u64) -> Vec<EnvironmentStatus> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("specs")).unwrap();
    std::fs::write(dir.path().join("specs/e2e.yaml"), SPEC).unwrap();
    let clock = Clock::virtual_from(Timestamp(1_763_000_000_000));
    let mut engine = Engine::new(
        7,
        FaultProfile {
            call: (call_seconds * 1_000, call_seconds * 1_000),
            ..FaultProfile::no_faults()
        },
    );
    engine.model.add_image("app:1");
    engine.model.close_port(5_432);
    let sim = Sim::new(engine, move || clock.now());
    let recorder = Arc::new(Recorder::default());
    let controller = Controller::open(options(dir.path(), clock)).unwrap();
    let (handle, running) = controller.start(sim, recorder.clone());
    let env = EnvName::new("shop").unwrap();
    // The delays of the repetitions grow up to this one.
    let is_retried = |snapshot: &Arc<Snapshot>| {
        let check = snapshot.links.checks.get(&env);
        check.is_some_and(|check| check.retry_after >= Some(Duration::from_secs(40)))
    };
    let mut snapshots = handle.snapshots();
    // The value that the wait returns blocks the next snapshot.
    let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(is_retried)).await;
    let waited = waited.map(drop);
    assert!(waited.is_ok(), "{:#?}", handle.snapshot().plans);
    running.stop_token().cancel();
    running.ended().await.unwrap();
    std::mem::take(&mut *recorder.statuses.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn failed_links_change_no_phase_however_slow_the_start() {
    for call_seconds in [0, 1, 3, 10, 20] {
        let statuses = statuses(call_seconds).await;
        let is_ready = |status: &&EnvironmentStatus| status.phase == Phase::Ready;
        let (before, after) = {
            let first = statuses.iter().position(|status| is_ready(&status));
            statuses.split_at(first.unwrap())
        };
        for status in before {
            assert_ne!(verified(status), Truth::False, "{call_seconds} s: {status:#?}");
        }
        for status in after {
            let mut rows = status.services.iter();
            let all_ready = rows.all(|row| row.state == ServiceState::Ready);
            assert!(is_ready(&status) && all_ready, "{call_seconds} s: {status:#?}");
        }
        let failed = after.iter().filter(|status| verified(status) == Truth::False);
        assert!(
            failed.count() > 1,
            "{call_seconds} s: the failure is shown, and its repetition"
        );
    }
}
