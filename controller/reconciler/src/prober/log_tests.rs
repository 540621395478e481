//! Searches of log probes: matches, failures, runs that were ready before, and broken logs.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_backend::LogLine;
use argus_core::desired::hash::hash_of;
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::outcome::ActionError;
use argus_core::probe::{HealthStates, ProbeStatus};
use futures::stream::BoxStream;
use tokio::sync::{mpsc, watch};

use super::super::tests::{container, registry_of, store, store_of};
use super::super::{Addresses, ProberIo};
use super::*;
use crate::clock::Clock;
use crate::fake_backend::FakeBackend;
use crate::overrides::DesiredState;

/// Start of the run, and of the controller.
const START: i64 = 1_000_000;

type Log = BoxStream<'static, Result<LogLine, ActionError>>;

/// Writer of a log, which ends with it, and the log.
fn log() -> (mpsc::UnboundedSender<LogLine>, Log) {
    let (writer, lines) = mpsc::unbounded_channel();
    let lines = futures::stream::unfold(lines, |mut lines| async {
        let line = lines.recv().await?;
        Some((Ok(line), lines))
    });
    (writer, lines.boxed())
}

/// A line that the engine read at this time.
fn line(at: i64, text: &str) -> LogLine {
    LogLine {
        stderr: false,
        text: format!("{} {text}", Timestamp(at)),
    }
}

/// Inputs of the prober, the published health of the container, and the time.
struct Observer {
    specs: watch::Sender<Arc<DesiredState>>,
    stores: watch::Sender<Arc<Store>>,
    healths: watch::Receiver<Arc<HealthStates>>,
    clock: Clock,
}

impl Observer {
    /// Waits for a status. Returns the seconds since the start, and the output of the probe.
    async fn reached(&mut self, status: ProbeStatus) -> (u64, String) {
        let id = ContainerId::new("c").unwrap();
        let is = |healths: &Arc<HealthStates>| healths.get(&id).is_some_and(|health| health.status == status);
        let healths = self.healths.wait_for(is).await.unwrap();
        let seconds = self.clock.now().since(Timestamp(START)).as_secs();
        (seconds, healths[&id].output.clone())
    }
}

/// Spec of a service that is ready after two lines with this pattern.
fn specs(pattern: &str, interval: &str) -> Arc<DesiredState> {
    let registry = registry_of(&format!(
        "version: '1'\nproject: {{ name: shop }}\nservices:\n  api:\n    image: 'nginx:1'\n    container:\n      name: shop-api\n      \
         healthcheck: {{ type: log, pattern: '{pattern}', times: 2, interval: {interval}, retries: 2, startPeriod: 10s }}\n",
    ));
    Arc::new(registry.environments)
}

/// Probes a service that is ready after two lines with `ready: 1`, with one log per request, until the script ends.
async fn probe_logs(
    logs: Vec<Log>,
    healthy_runs: BTreeMap<ContainerId, ReadyRun>,
    script: impl AsyncFnOnce(Observer),
) {
    let clock = Clock::virtual_from(Timestamp(START));
    let fake = FakeBackend::empty();
    *fake.logs.lock().unwrap() = logs.into();
    let (specs, specs_seen) = watch::channel(specs("ready: [0-9]", "10s"));
    let (stores, stores_seen) = watch::channel(Arc::<Store>::default());
    let (healths, seen) = watch::channel(Arc::<HealthStates>::default());
    let stop = CancellationToken::new();
    let io = ProberIo {
        healths,
        healthy_runs,
        pressure: |_| None,
        metrics: TaskMetrics::default(),
    };
    let addresses = Addresses {
        publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
        engine_host: None,
    };
    let prober = super::super::run(
        Arc::new(fake),
        specs_seen,
        stores_seen,
        io,
        addresses,
        clock,
        stop.clone(),
    );
    let script = async {
        // The prober starts before the first list.
        tokio::task::yield_now().await;
        stores.send_replace(Arc::new(store(ContainerState::Running, START)));
        script(Observer {
            specs,
            stores,
            healths: seen,
            clock,
        })
        .await;
        stop.cancel();
    };
    let both = async { tokio::join!(prober, script) };
    // In paused time: a missing change ends the test immediately.
    tokio::time::timeout(Duration::from_secs(36_000), both)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn enough_lines_of_the_run_make_it_healthy_until_its_end() {
    let (writer, lines) = log();
    probe_logs(vec![lines], BTreeMap::new(), async |mut observer| {
        writer.send(line(START - 60_000, "ready: 1")).unwrap();
        writer.send(line(START + 1, "ready: 1")).unwrap();
        let waiting = observer.reached(ProbeStatus::Starting).await;
        assert_eq!(waiting, (0, "log `ready: [0-9]`: 0 of 2 lines match".to_owned()));
        tokio::time::sleep(Duration::from_secs(3)).await;
        writer.send(line(START + 3_000, "ready: 2")).unwrap();
        let ready = observer.reached(ProbeStatus::Healthy).await;
        assert_eq!(ready, (3, "log `ready: [0-9]`: matched".to_owned()));
        drop(writer);
        let changed = observer.healths.changed();
        let changed = tokio::time::timeout(Duration::from_secs(3_600), changed).await;
        assert!(changed.is_err(), "nothing probes it again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn missing_lines_make_it_unhealthy_and_a_late_line_healthy() {
    let (writer, lines) = log();
    probe_logs(vec![lines], BTreeMap::new(), async |mut observer| {
        writer.send(line(START + 1, "ready: 1")).unwrap();
        let failed = observer.reached(ProbeStatus::Unhealthy).await;
        assert_eq!(failed, (30, "log `ready: [0-9]`: 1 of 2 lines match".to_owned()));
        writer.send(line(START + 31_000, "ready: 2")).unwrap();
        assert_eq!(observer.reached(ProbeStatus::Healthy).await.0, 30);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn run_that_was_healthy_before_the_start_needs_no_lines() {
    let id = ContainerId::new("c").unwrap();
    // Other times are the same search.
    let desired = specs("ready: [0-9]", "20s");
    let accepted = desired.values().next().unwrap();
    let probe = accepted.desired.services["api"].probe.clone().unwrap();
    // Older records do not have the search.
    for search in [None, Some(hash_of(&probe.kind))] {
        let run = (id.clone(), (Some(Timestamp(START)), search));
        probe_logs(Vec::new(), [run].into(), async |mut observer| {
            assert_eq!(observer.reached(ProbeStatus::Healthy).await.0, 0);
            let changed = observer.healths.changed();
            let changed = tokio::time::timeout(Duration::from_secs(3_600), changed).await;
            assert!(changed.is_err(), "{changed:?}");
        })
        .await;
    }
    // An edit before the start is another search.
    let run = (id, (Some(Timestamp(START)), Some(hash_of("another probe"))));
    let (_writer, lines) = log();
    probe_logs(vec![lines], [run].into(), async |mut observer| {
        observer.reached(ProbeStatus::Starting).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn broken_log_is_read_again_from_the_start_of_the_run() {
    let first = line(START + 1, "ready: 1");
    let broken = ActionError::Unreachable("cut".to_owned());
    let broken = futures::stream::iter([Ok(first.clone()), Err(broken)]).boxed();
    let (writer, again) = log();
    writer.send(first).unwrap();
    probe_logs(vec![broken, again], BTreeMap::new(), async |mut observer| {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let (_, output) = observer.reached(ProbeStatus::Starting).await;
        assert!(output.contains("cut"), "{output}");
        writer.send(line(START + 15_000, "ready: 2")).unwrap();
        assert_eq!(observer.reached(ProbeStatus::Healthy).await.0, 15);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ready_run_stays_ready_after_a_pause_and_a_network_repair() {
    let (writer, lines) = log();
    // The engine has dropped the lines when the container continues.
    probe_logs(vec![lines], BTreeMap::new(), async |mut observer| {
        for text in ["ready: 1", "ready: 2"] {
            writer.send(line(START + 1, text)).unwrap();
        }
        observer.reached(ProbeStatus::Healthy).await;
        let running = container("c", "api", ContainerState::Running, START);
        let detached = Container {
            networks: BTreeMap::new(),
            ..running.clone()
        };
        for interrupted in [store(ContainerState::Paused, START), store_of(&[detached])] {
            observer.stores.send_replace(Arc::new(interrupted));
            let is_dropped = |healths: &Arc<HealthStates>| healths.is_empty();
            drop(observer.healths.wait_for(is_dropped).await.unwrap());
            let continued = store_of(std::slice::from_ref(&running));
            observer.stores.send_replace(Arc::new(continued));
            let (_, output) = observer.reached(ProbeStatus::Healthy).await;
            assert_eq!(output, "matched before");
        }
        // Another run needs its own lines.
        let next = store(ContainerState::Running, START + 1_000);
        observer.stores.send_replace(Arc::new(next));
        observer.reached(ProbeStatus::Starting).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn edited_search_reads_the_run_again_from_its_start() {
    let ((first_writer, first), (writer, again)) = (log(), log());
    probe_logs(vec![first, again], BTreeMap::new(), async |mut observer| {
        for text in ["ready: 1", "ready: 2"] {
            first_writer.send(line(START + 1, text)).unwrap();
        }
        observer.reached(ProbeStatus::Healthy).await;
        // Other times are the same search.
        observer.specs.send_replace(specs("ready: [0-9]", "20s"));
        let id = ContainerId::new("c").unwrap();
        let is_known = |healths: &Arc<HealthStates>| healths[&id].output == "matched before";
        drop(observer.healths.wait_for(is_known).await.unwrap());

        observer.specs.send_replace(specs("done", "20s"));
        observer.reached(ProbeStatus::Starting).await;
        for (at, text) in [(START - 60_000, "done"), (START + 1, "done"), (START + 2, "done")] {
            writer.send(line(at, text)).unwrap();
        }
        let (_, output) = observer.reached(ProbeStatus::Healthy).await;
        assert_eq!(output, "log `done`: matched");
    })
    .await;
}
