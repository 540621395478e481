//! Cost of a failing engine: the refusal by an open breaker, a preflight, the removal of orphans, recovery after a
//! restart.

use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_backend::sim::{Engine, FaultProfile, Sim};
use argus_core::action::{ActionKind, Subject};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::outcome::ActionError;
use argus_core::state::BreakerRegistry;
use argus_core::time::Timestamp;
use argus_reconciler::BreakerGuard;
use argus_reconciler::breaker_guard::BreakerOpenings;
use argus_tests::fixture::{self, LIMIT};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::figure::Figure;
use crate::{push, raw};

pub(crate) fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The value below which the fraction `part` of all values lies.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a few thousand values"
    )]
    let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len());
    sorted[at - 1]
}

/// Time until a call is refused while the breaker is open: at the gate that every call passes, and on each surface.
pub(crate) fn breaker(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    const CALLS: usize = 100_000;
    let at_gate = gate(CALLS);
    for (part, name, goal) in [
        (0.5, "p50", None),
        (0.99, "p99", Some(("< 100 ms", 1e5))),
        (0.999, "p99.9", Some(("< 5 ms", 5e3))),
    ] {
        let what = format!("`CIRCUIT_OPEN` at the gate, {name} of {CALLS} calls");
        let figure = Figure::new(what, "µs", vec![quantile(&at_gate, part)]);
        push(
            figures,
            if let Some(goal) = goal {
                figure.goal(goal)
            } else {
                figure
            },
        );
    }
    crate::refusals::run(engine, figures);
}

/// Times of refused calls at the gate, in microseconds.
fn gate(calls: usize) -> Vec<f64> {
    let env = EnvName::new("bench").expect("a name");
    let subject = Subject::Service {
        environment: env.clone(),
        service: ServiceName::new("web").expect("a name"),
    };
    let mut breakers = BreakerRegistry::default();
    let refused = Err(ActionError::Unreachable("refused".to_owned()));
    while breakers.engine().is_closed() {
        breakers.on_result(&env, &subject, ActionKind::PullImage, &refused, Timestamp(0));
    }
    let (_open, openings) = watch::channel(BreakerOpenings::of(&breakers, [env].iter()));
    let sim = Sim::new(Engine::new(1, FaultProfile::default()), || Timestamp(0));
    let gated = Arc::new(BreakerGuard::new(sim, openings));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut took = Vec::with_capacity(calls);
        for _ in 0..calls {
            let (timed, request) = wait::timed(|| gated.info());
            // The first poll returns the result: nothing is awaited on the way.
            let started = wait::timed(|| futures::FutureExt::now_or_never(request));
            assert!(
                matches!(started.1, Some(Err(ActionError::CircuitOpen))),
                "the gate refuses immediately"
            );
            took.push(ms(timed + started.0) * 1e3);
        }
        took
    })
}

/// `argus preflight` of one spec on a healthy engine, compared with the reads that it needs.
pub(crate) fn preflight(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    const READS: [&str; 6] = [
        "/_ping",
        "/version",
        "/info",
        "/containers/json?all=1",
        "/networks",
        "/volumes",
    ];
    let controller = Controller::prepare(engine, RunOptions::default());
    controller.write_spec("e2e.yaml", &crate::plain("checked", 10));
    let (mut baselines, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..pairs * 3 {
        let (took, ()) = wait::timed(|| {
            for path in READS {
                assert!(engine.api("GET", path, None).ok(), "{path}");
            }
        });
        baselines.push(ms(took));
        let (took, output) = wait::timed(|| controller.cli(&["preflight"]));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        ours.push(ms(took));
    }
    push(
        figures,
        Figure::new(
            "baseline of a preflight: six reads, one after the other",
            "ms",
            baselines,
        ),
    );
    let what = "`argus preflight`, healthy engine, 10 services, from its start to its end";
    push(
        figures,
        Figure::new(what, "ms", ours).goal_for_each(("each ≤ 10 s", 10_000.0)),
    );
    let proxy = Proxy::start(&engine.scratch("checked").join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::prepare(engine, options);
    controller.write_spec("e2e.yaml", &crate::plain("checked", 10));
    let mut hanging = Vec::new();
    for _ in 0..pairs * 2 {
        proxy.inject("GET /info", Fault::Hang, 1_000);
        let (took, _) = wait::timed(|| controller.cli(&["preflight"]));
        proxy.heal();
        hanging.push(ms(took));
    }
    let what = "`argus preflight`, the engine does not answer `GET /info`, from its start to its end";
    push(
        figures,
        Figure::new(what, "ms", hanging).goal_for_each(("each ≤ 10 s", 10_000.0)),
    );
}

/// Removal of twenty orphans on four networks: `argus orphans --clean`, compared with a client that only stops and
/// removes.
pub(crate) fn orphans(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    const COUNT: usize = 20;
    const NETWORKS: usize = 4;
    let options = RunOptions {
        env: vec![(
            "ARGUS_WAITS".to_owned(),
            format!("orphanAge={}s", GRACE.as_secs()),
        )],
        ..RunOptions::default()
    };
    let controller = Controller::prepare(engine, options);
    let label = "argusai.project=orphaned";
    let (mut baselines, mut ours, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..pairs {
        plant(engine, COUNT, NETWORKS, &Value::Null);
        let (baseline, ()) = wait::timed(|| raw::clean(engine, "orphan", COUNT, NETWORKS));
        assert!(
            engine.containers_with(label).is_empty(),
            "all orphans are removed"
        );
        plant(engine, COUNT, NETWORKS, &Value::Null);
        let took = clean(engine, &controller);
        baselines.push(ms(baseline));
        ours.push(ms(took));
        ratios.push(took.as_secs_f64() / baseline.as_secs_f64());
    }
    let baseline = "baseline: a raw client stops and removes 20 containers, 8 in parallel, then 4 networks";
    push(figures, Figure::new(baseline, "ms", baselines));
    let what = "`argus orphans --clean`: 20 containers with 4 networks, from its start to its end";
    push(figures, Figure::new(what, "ms", ours));
    let ratio = Figure::new("ratio, removal of 20 orphans with 4 networks", "×", ratios);
    push(figures, ratio.goal(("≤ 1.10 × baseline", 1.10)));
    let ignores_sigterm = json!(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]);
    let mut times = Vec::new();
    for _ in 0..pairs * 2 {
        plant(engine, COUNT, NETWORKS, &ignores_sigterm);
        times.push(ms(clean(engine, &controller)));
    }
    let what = "`argus orphans --clean`: 20 containers that ignore SIGTERM, from its start to its end";
    push(
        figures,
        Figure::new(what, "ms", times).goal_for_each(("each ≤ 30 s", 30_000.0)),
    );
}

/// Age of an orphan that `argus orphans --clean` removes.
const GRACE: Duration = Duration::from_secs(1);

/// Time of `argus orphans --clean`.
fn clean(engine: &PrivateEngine, controller: &Controller<'_>) -> Duration {
    let words = ["orphans", "--clean", "--project", "orphaned"];
    let (took, output) = wait::timed(|| controller.cli(&words));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        engine.containers_with("argusai.project=orphaned").is_empty(),
        "all orphans are removed"
    );
    took
}

/// Creates resources of a dead controller: no lease covers them, and they are older than the grace period. Without a command, the containers
/// run that of their image.
fn plant(engine: &PrivateEngine, count: usize, networks: usize, command: &Value) {
    let labels = json!({ "argusai.managed": "true", "argusai.project": "orphaned", "argusai.environment": "orphaned",
        "argusai.service": "gone", "argusai.controller": "dead", "argusai.run-id": "r",
        "argusai.created-at": "2026-01-01T00:00:00Z" });
    for number in 0..networks {
        let body = json!({ "Name": format!("orphan-n{number}"), "Driver": "bridge", "Labels": labels });
        let answer = engine.api("POST", "/networks/create", Some(&body));
        assert!(answer.ok(), "{answer:?}");
    }
    for number in 0..count {
        let network = format!("orphan-n{}", number % networks);
        let body = json!({ "Image": "busybox:local", "Cmd": command, "Labels": labels,
            "HostConfig": { "NetworkMode": network, "Init": true } });
        let path = format!("/containers/create?name=orphan-s{number}");
        let answer = engine.api("POST", &path, Some(&body));
        assert!(answer.ok(), "{answer:?}");
        let answer = engine.api("POST", &format!("/containers/orphan-s{number}/start"), None);
        assert!(answer.ok(), "{answer:?}");
    }
    wait::all_the_while(GRACE * 2, "the orphans grow older than the grace period", || {
        engine.containers_with("argusai.project=orphaned").len() == count
    });
}

/// Time from the engine's first response after a restart until ten environments of two services with health checks are
/// Ready again.
///
/// The baseline is a client that starts all twenty in parallel and probes them until they are healthy.
pub(crate) fn recovery(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    const ENVIRONMENTS: u16 = 10;
    const FIRST: u16 = 22_000;
    let (mut baselines, mut ours, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..pairs {
        let count = 2 * usize::from(ENVIRONMENTS);
        raw::up(engine, "bareback", count, Some(FIRST));
        engine.restart();
        let (baseline, ()) = wait::timed(|| raw::again(engine, "bareback", count, FIRST));
        raw::down(engine, "bareback", count);

        let controller = Controller::start(engine, RunOptions::default());
        let names: Vec<_> = (0..ENVIRONMENTS).map(|number| format!("back{number}")).collect();
        for (number, name) in (0..).zip(&names) {
            let port = FIRST + 2 * number;
            let text = fixture::singles(name, &[port, port + 1], "");
            controller.write_spec(&format!("{name}.e2e.yaml"), &text);
        }
        for name in &names {
            controller.wait_ready(name, LIMIT * 2);
        }
        engine.restart();
        let (took, ()) = wait::timed(|| {
            for name in &names {
                controller.wait_status(name, LIMIT * 3, "is Ready again", |now| {
                    now["phase"] == "Ready"
                        && now["stale"] != true
                        && fixture::condition(now, "EngineReachable")["status"] == "True"
                        && engine
                            .containers_with(&format!("argusai.project={name}"))
                            .iter()
                            .all(|found| found["State"] == "running")
                });
            }
        });
        for name in &names {
            crate::argus_down_file(engine, &controller, name, &format!("{name}.e2e.yaml"));
        }
        baselines.push(ms(baseline));
        ours.push(ms(took));
        ratios.push(took.as_secs_f64() / baseline.as_secs_f64());
    }
    let baseline = "baseline: a raw client starts 20 containers after an engine restart, four in flight, and probes each until it answers";
    push(figures, Figure::new(baseline, "ms", baselines));
    let what = "10 environments (20 services) Ready again, from the engine's first response after a restart";
    push(figures, Figure::new(what, "ms", ours));
    push(
        figures,
        Figure::new("ratio, Ready again after an engine restart", "×", ratios),
    );
}
