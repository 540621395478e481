//! Connection faults during the creation of an environment, a removed socket, and changes during an outage.

use std::time::Duration;

use argus_tests::fixture::{LIMIT, container_runs, engine, images, proxied, running, shop, singles};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};

/// Calls time out after 2 or 15 s here; an error that arrives later than this has another cause.
const OUTPUT: Duration = Duration::from_secs(45);
const CREATE: &str = "POST /containers/create";
const START: &str = "POST /containers/*/start";
const LIST: &str = "GET /containers/json";
const ALL: &str = "";

const REFUSAL: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
                       Content-Length: 48\r\n\r\n{\"message\":\"an error of a kind that is unknown\"}";
const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
/// Of the announced length, but not JSON.
const BROKEN_JSON: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n[{\"Id\":\"abc\",\"";
/// Shorter than the announced length.
const CUT_JSON: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n{\"Id\":\"ab";
const GARBAGE: &str = "\u{1}\u{2} this is not HTTP at all\r\n\r\n\r\n";

/// The broken call, its fault, and the error that reports it.
struct Case {
    name: &'static str,
    class: &'static str,
    fault: Fault,
    code: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "late",
        class: CREATE,
        fault: Fault::Delay(Duration::from_secs(30)),
        code: "TIMEOUT",
    },
    Case {
        name: "hung",
        class: START,
        fault: Fault::Hang,
        code: "TIMEOUT",
    },
    Case {
        name: "reset",
        class: CREATE,
        fault: Fault::CloseBefore,
        code: "CONNECTION_LOST",
    },
    // A truncated response to a create is adopted without an error, so only a read can fail by truncation.
    Case {
        name: "halved",
        class: LIST,
        fault: Fault::Cut,
        code: "DOCKER_UNAVAILABLE",
    },
    Case {
        name: "refusal",
        class: START,
        fault: Fault::Answer(REFUSAL),
        code: "CONTAINER_START_FAILED",
    },
    Case {
        name: "short",
        class: CREATE,
        fault: Fault::Answer(CUT_JSON),
        code: "CONNECTION_LOST",
    },
    Case {
        name: "garbled",
        class: START,
        fault: Fault::Answer(GARBAGE),
        code: "CONNECTION_LOST",
    },
    Case {
        name: "nolist",
        class: LIST,
        fault: Fault::Answer(BROKEN_JSON),
        code: "DOCKER_UNAVAILABLE",
    },
    Case {
        name: "noise",
        class: ALL,
        fault: Fault::Answer(GARBAGE),
        code: "DOCKER_UNAVAILABLE",
    },
    Case {
        name: "mute",
        class: ALL,
        fault: Fault::Hang,
        code: "DOCKER_UNAVAILABLE",
    },
];

fn quick() -> Vec<(String, String)> {
    vec![
        ("ARGUS_TIMEOUT_SHORT".into(), "2".into()),
        ("ARGUS_TIMEOUT_LONG".into(), "15".into()),
    ]
}

/// All codes in the status of an environment and of the controller.
fn codes(argus: &Controller<'_>, env: &str) -> Vec<String> {
    let (status, whole) = (argus.status(env), argus.controller_status());
    let output = |document: &serde_json::Value| document["errors"].as_array().cloned().unwrap_or_default();
    let services = status["services"].as_array().cloned().unwrap_or_default();
    let of_services = services.into_iter().map(|service| service["lastError"].clone());
    let all = output(&status)
        .into_iter()
        .chain(output(&whole))
        .chain(of_services)
        .collect::<Vec<_>>();
    all.iter()
        .filter_map(|error| error["code"].as_str().map(str::to_owned))
        .collect()
}

fn broken(engine: &PrivateEngine, number: usize, case: &Case) {
    let name = format!("wire-{}", case.name);
    let proxy = Proxy::start(&engine.scratch(&name).join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        env: quick(),
        ..RunOptions::default()
    };
    // A controller that has listed, and has work in progress.
    let argus = Controller::start(engine, options);
    let port = 18500 + 10 * u16::try_from(number).expect("few");
    argus.write_spec("before.e2e.yaml", &singles(&format!("{name}-0"), &[port], ""));
    argus.wait_ready(&format!("{name}-0"), LIMIT);
    let before = container_runs(engine, &format!("{name}-0"));
    proxy.reset_counts();
    proxy.inject(case.class, case.fault, 1_000_000);
    proxy.cut("GET /events");
    argus.write_spec("e2e.yaml", &singles(&name, &[port + 5, port + 6], ""));
    argus.wait_until(LIMIT, &format!("{name} meets its fault"), || {
        proxy
            .counts()
            .keys()
            .any(|class| class.starts_with(case.class))
            .then_some(())
    });
    let (took, ()) = wait::timed(|| {
        argus.wait_until(OUTPUT, &format!("{name} reports {}", case.code), || {
            codes(&argus, &name)
                .iter()
                .any(|code| code == case.code)
                .then_some(())
        });
    });
    eprintln!("{name}: {} after {took:.1?}", case.code);
    if case.code == "DOCKER_UNAVAILABLE" {
        // Not only because of the cut watch: the outage lasts longer than one more attempt.
        let away = || argus.controller_status()["breaker"]["state"] == "open";
        argus.wait_until(LIMIT, &format!("{name}: the engine's breaker is open"), || {
            away().then_some(())
        });
        wait::all_the_while(
            Duration::from_secs(5),
            "the engine stays reported as unreachable",
            || codes(&argus, &name).iter().any(|code| code == case.code),
        );
    }
    proxy.heal();
    // Automatically, without a reset of the breaker.
    let (took, ready) = wait::timed(|| {
        argus.wait_status(&name, 3 * LIMIT, "is Ready after the fault", |now| {
            now["phase"] == "Ready" && now["stale"] != true
        })
    });
    eprintln!("{name}: Ready {took:.1?} after the fault");
    assert_eq!(ready["errors"], serde_json::json!([]), "{name}: {ready:#}");
    assert_eq!(
        container_runs(engine, &name).len(),
        2,
        "{name}: no service is duplicated"
    );
    let after = container_runs(engine, &format!("{name}-0"));
    assert_eq!(after, before, "{name}: running containers are untouched");
}

#[test]
fn connection_faults_are_reported_and_survived() {
    let engine = PrivateEngine::start();
    images(&engine);
    std::thread::scope(|scope| {
        for (number, case) in CASES.iter().enumerate() {
            let engine = &engine;
            scope.spawn(move || broken(engine, number, case));
        }
    });
}

#[test]
fn slow_connection_is_not_an_error() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "slowly");
    proxy.inject(ALL, Fault::Delay(Duration::from_millis(400)), 1_000_000);
    argus.write_spec("e2e.yaml", &shop("slowly", 18440, "one"));
    let mut output = Vec::new();
    argus.wait_until(LIMIT, "Ready over a slow connection", || {
        output.extend(codes(&argus, "slowly"));
        (argus.status("slowly")["phase"] == "Ready").then_some(())
    });
    // Orphans of other tests on the shared engine are reported as well.
    output.retain(|code| code != "ORPHAN_DETECTED");
    assert_eq!(output, Vec::<String>::new());
    assert_eq!(container_runs(engine, "slowly").len(), 3);
}

#[test]
fn forbidden_event_stream_is_a_warning_and_repairs_continue() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "noevents");
    proxy.inject("GET /events", Fault::Answer(FORBIDDEN), 1_000_000);
    proxy.cut("GET /events");
    argus.write_spec("e2e.yaml", &singles("noevents", &[18470], ""));
    argus.wait_ready("noevents", LIMIT);
    let has = |code: &str| codes(&argus, "noevents").iter().any(|found| found == code);
    argus.wait_until(LIMIT, "the missing events are reported", || {
        has("EVENTS_UNAVAILABLE").then_some(())
    });
    engine.docker_ok(&["rm", "-f", "noevents-s0"]);
    argus.wait_until(LIMIT, "the removed container is back", || {
        running(engine, "noevents-s0").then_some(())
    });
    assert!(!has("DOCKER_UNAVAILABLE") && !has("CIRCUIT_OPEN"));
    proxy.heal();
    argus.wait_until(3 * LIMIT, "the warning ends", || {
        (!has("EVENTS_UNAVAILABLE")).then_some(())
    });
}

#[test]
fn container_with_twice_refused_start_is_replaced() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "refused");
    proxy.reset_counts();
    proxy.inject(START, Fault::Answer(REFUSAL), 2);
    argus.write_spec("e2e.yaml", &singles("refused", &[18480], ""));
    let ready = argus.wait_status("refused", LIMIT, "is Ready", |now| now["phase"] == "Ready");
    let counts = proxy.counts();
    assert_eq!((counts[START], counts[CREATE]), (3, 2), "{counts:?}");
    assert_eq!(ready["services"][0]["restarts"], 0);
}

#[test]
fn recreated_socket_is_found() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "socket");
    argus.write_spec("e2e.yaml", &shop("socket", 18450, "one"));
    argus.wait_ready("socket", LIMIT);
    let before = container_runs(engine, "socket");
    let file = engine.scratch("socket").join("p.sock");
    drop(proxy);
    assert!(!file.exists());
    argus.wait_until(LIMIT, "the missing socket is reported", || {
        codes(&argus, "socket")
            .contains(&"DOCKER_UNAVAILABLE".to_owned())
            .then_some(())
    });
    engine.docker_ok(&["rm", "-f", "socket-web"]);
    let _proxy = Proxy::start(&file, &engine.socket());
    argus.wait_until(3 * LIMIT, "everything removed during the outage is back", || {
        running(engine, "socket-web").then_some(())
    });
    argus.wait_status("socket", LIMIT, "is Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    let after = container_runs(engine, "socket");
    for name in ["socket-db", "socket-api"] {
        assert_eq!(after[name], before[name], "{name} is untouched");
    }
}

#[test]
fn three_hundred_missed_events_are_repaired() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "deaf");
    argus.write_spec("e2e.yaml", &shop("deaf", 18460, "one"));
    argus.wait_ready("deaf", LIMIT);
    engine.docker_ok(&["run", "-d", "--name", "deaf-stranger", "busybox:local"]);
    let stranger = engine.inspect("deaf-stranger").expect("the container runs");
    let before = container_runs(engine, "deaf");
    proxy.refuse();
    argus.wait_until(LIMIT, "the port is closed", || {
        (argus.status("deaf")["stale"] == true).then_some(())
    });
    // First the relevant event, then more than the engine keeps (256), so that no event of it remains.
    engine.docker_ok(&["kill", "deaf-db"]);
    engine.docker_ok(&["rm", "-f", "deaf-web"]);
    for number in 0..300 {
        let name = ["deaf-stranger", "deaf-foreigner"][number % 2];
        let other = ["deaf-stranger", "deaf-foreigner"][1 - number % 2];
        let renamed = engine.api("POST", &format!("/containers/{name}/rename?name={other}"), None);
        assert!(renamed.ok(), "{renamed:?}");
    }
    proxy.reset_counts();
    proxy.heal();
    let (took, ()) = wait::timed(|| {
        argus.wait_until(3 * LIMIT, "everything runs again", || {
            ["deaf-db", "deaf-api", "deaf-web"]
                .iter()
                .all(|name| running(engine, name))
                .then_some(())
        });
    });
    argus.wait_status("deaf", LIMIT, "is Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    eprintln!("deaf: everything runs {took:.1?} after the fault");
    let after = container_runs(engine, "deaf");
    assert_eq!(
        after["deaf-api"], before["deaf-api"],
        "running containers are untouched"
    );
    assert_eq!(
        after["deaf-db"].0, before["deaf-db"].0,
        "a killed container is started again, not recreated"
    );
    let found = engine
        .inspect("deaf-stranger")
        .expect("the container still exists");
    assert_eq!(
        (&found["Id"], &found["State"]),
        (&stranger["Id"], &stranger["State"])
    );
    let id = stranger["Id"].as_str().expect("an id");
    let touched: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(|write| write.request.contains(id) || write.request.contains("deaf-stranger"))
        .collect();
    assert_eq!(touched, [], "no call touched the foreign container");
}
