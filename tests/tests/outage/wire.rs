//! A wire that breaks while an environment comes up, a socket that goes, and what happened while nobody looked.

use std::time::Duration;

use argus_tests::fixture::{LIMIT, container_runs, engine, images, proxied, running, shop, singles};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};

/// Calls have 2 or 15 s here; an error that comes later than this waited for something else.
const OUTPUT: Duration = Duration::from_secs(45);
const CREATE: &str = "POST /containers/create";
const START: &str = "POST /containers/*/start";
const LIST: &str = "GET /containers/json";
const ALL: &str = "";

const REFUSAL: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
                       Content-Length: 48\r\n\r\n{\"message\":\"something that nobody has heard of\"}";
/// As long as it says, and not JSON.
const BROKEN_JSON: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n[{\"Id\":\"abc\",\"";
/// Shorter than it says.
const CUT_JSON: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n{\"Id\":\"ab";
const GARBAGE: &str = "\u{1}\u{2} this is not HTTP at all\r\n\r\n\r\n";

/// What is broken, how, and the error that tells it.
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
    // A create that was cut is done, and adopted without a word: only a read can be cut in vain.
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

/// All codes that an environment's status and the controller's tell.
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
    // In the middle of a life: it has looked, and has work of its own.
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
        argus.wait_until(OUTPUT, &format!("{name} tells {}", case.code), || {
            codes(&argus, &name)
                .iter()
                .any(|code| code == case.code)
                .then_some(())
        });
    });
    eprintln!("{name}: {} after {took:.1?}", case.code);
    if case.code == "DOCKER_UNAVAILABLE" {
        // Not only because the watch was cut: it is known for longer than it was looked at once more.
        let away = || argus.controller_status()["breaker"]["state"] == "open";
        argus.wait_until(LIMIT, &format!("{name}: the engine's breaker is open"), || {
            away().then_some(())
        });
        wait::all_the_while(Duration::from_secs(5), "the engine is told to be away", || {
            codes(&argus, &name).iter().any(|code| code == case.code)
        });
    }
    proxy.heal();
    // By itself: nobody resets a breaker.
    let (took, ready) = wait::timed(|| {
        argus.wait_status(&name, 3 * LIMIT, "is Ready on a whole wire", |now| {
            now["phase"] == "Ready" && now["stale"] != true
        })
    });
    eprintln!("{name}: Ready {took:.1?} after the wire was whole");
    assert_eq!(ready["errors"], serde_json::json!([]), "{name}: {ready:#}");
    assert_eq!(
        container_runs(engine, &name).len(),
        2,
        "{name}: no copy of a service"
    );
    let after = container_runs(engine, &format!("{name}-0"));
    assert_eq!(after, before, "{name}: what ran was left alone");
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
    argus.wait_until(LIMIT, "Ready over a slow wire", || {
        output.extend(codes(&argus, "slowly"));
        (argus.status("slowly")["phase"] == "Ready").then_some(())
    });
    // What other tests leave on the engine that they share is told as well.
    output.retain(|code| code != "ORPHAN_DETECTED");
    assert_eq!(output, Vec::<String>::new());
    assert_eq!(container_runs(engine, "slowly").len(), 3);
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
    argus.wait_until(LIMIT, "the missing socket is told", || {
        codes(&argus, "socket")
            .contains(&"DOCKER_UNAVAILABLE".to_owned())
            .then_some(())
    });
    engine.docker_ok(&["rm", "-f", "socket-web"]);
    let _proxy = Proxy::start(&file, &engine.socket());
    argus.wait_until(3 * LIMIT, "what went meanwhile is back", || {
        running(engine, "socket-web").then_some(())
    });
    argus.wait_status("socket", LIMIT, "is Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    let after = container_runs(engine, "socket");
    for name in ["socket-db", "socket-api"] {
        assert_eq!(after[name], before[name], "{name} was left alone");
    }
}

#[test]
fn three_hundred_missed_events_are_repaired() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "deaf");
    argus.write_spec("e2e.yaml", &shop("deaf", 18460, "one"));
    argus.wait_ready("deaf", LIMIT);
    engine.docker_ok(&["run", "-d", "--name", "deaf-stranger", "busybox:local"]);
    let stranger = engine.inspect("deaf-stranger").expect("it runs");
    let before = container_runs(engine, "deaf");
    proxy.refuse();
    argus.wait_until(LIMIT, "nobody listens", || {
        (argus.status("deaf")["stale"] == true).then_some(())
    });
    // First what matters, then more than the engine keeps (256), so that no event of it is left.
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
    eprintln!("deaf: everything runs {took:.1?} after the wire was whole");
    let after = container_runs(engine, "deaf");
    assert_eq!(after["deaf-api"], before["deaf-api"], "what ran was left alone");
    assert_eq!(
        after["deaf-db"].0, before["deaf-db"].0,
        "what was killed is started again, and not made anew"
    );
    let found = engine.inspect("deaf-stranger").expect("it is there still");
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
    assert_eq!(touched, [], "the stranger's own affairs");
}
