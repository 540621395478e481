//! Connection faults during the creation of an environment, a removed socket, and changes during an outage.

use std::time::Duration;

use argus_tests::fixture::{
    LIMIT, condition, container_runs, engine, proxied, proxied_with, running, shop, singles, text,
};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Proxy, RunOptions, http};
use serde_json::Value;

use super::{engine_breaker_states, error, journal_events, json};

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
/// Complete JSON, but its id has the wrong type.
const ODD_LIST: &str =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 16\r\n\r\n[{\"Id\":[\"odd\"]}]";
/// Shorter than the announced length.
const CUT_JSON: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n{\"Id\":\"ab";
const GARBAGE: &str = "\u{1}\u{2} this is not HTTP at all\r\n\r\n\r\n";

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

/// Number of requests whose class starts with `class`.
fn requests(proxy: &Proxy, class: &str) -> usize {
    let counts = proxy.counts();
    let matching = counts.iter().filter(|(found, _)| found.starts_with(class));
    matching.map(|(_, count)| count).sum()
}

/// Waits for a call trace of the error on every interface, with the deadline that follows from [`quick`].
fn assert_deadline(argus: &Controller<'_>, env: &str) {
    let socket = argus.state.join("private/argus.sock");
    let path = format!("/api/v1/environments/{env}?debug=true");
    argus.wait_until(LIMIT, "the call traces have the deadline", || {
        let by_command = argus.cli(&["describe", env, "-o", "json", "--debug"]);
        let by_command: Value = serde_json::from_slice(&by_command.stdout).ok()?;
        let by_http = http::request(&socket, "GET", &path, "application/json", b"", LIMIT).ok()?;
        // While a call is in progress, the status does not have the error of the last one.
        [by_command, by_http.json()]
            .iter()
            .all(|status| {
                let error = error(status, "TIMEOUT");
                error.is_some_and(|error| {
                    error["debug"][0]["deadlineMs"] == 15_000 && error["details"]["deadlineMs"] == 15_000
                })
            })
            .then_some(())
    });
}

/// Breaks all calls of a class while a controller that has listed creates an environment. Its error is `code`. After the fault, everything
/// becomes Ready automatically. `port` and the next two are free.
fn check(name: &str, port: u16, class: &str, fault: Fault, code: &str) {
    let name = format!("wire-{name}");
    let options = RunOptions {
        env: quick(),
        ..RunOptions::default()
    };
    let engine = engine();
    let (proxy, argus) = proxied_with(engine, &name, options);
    let calm = format!("{name}-0");
    argus.write_spec("before.e2e.yaml", &singles(&calm, &[port], ""));
    argus.wait_ready(&calm, LIMIT);
    let before = container_runs(engine, &calm);
    let earlier = journal_events(&argus, "error").len();
    proxy.reset_counts();
    proxy.inject(class, fault, 1_000_000);
    proxy.cut("GET /events");
    argus.write_spec("e2e.yaml", &singles(&name, &[port + 1, port + 2], ""));
    argus.wait_until(LIMIT, "a call meets the fault", || {
        (requests(&proxy, class) > 0).then_some(())
    });
    // The fault persists, so its error stays in the status until it ends.
    argus.wait_until(LIMIT, &format!("the status has {code}"), || {
        codes(&argus, &name)
            .iter()
            .any(|found| found == code)
            .then_some(())
    });
    if code == "TIMEOUT" {
        assert_deadline(&argus, &name);
    }
    // An engine that cannot be reached is an error of the controller.
    let is_of_it = |error: &Value| match error["environment"].as_str() {
        Some(environment) => environment == name,
        None => code == "DOCKER_UNAVAILABLE",
    };
    argus.wait_until(LIMIT, &format!("the journal has {code}"), || {
        let errors = journal_events(&argus, "error");
        let mut errors = errors.iter().skip(earlier);
        errors
            .any(|error| error["code"] == code && is_of_it(error))
            .then_some(())
    });
    if code == "DOCKER_UNAVAILABLE" {
        // Not only because of the cut watch: the outage lasts longer than one more attempt.
        argus.wait_until(LIMIT, "the engine's breaker is open", || {
            (argus.controller_status()["breaker"]["state"] == "open").then_some(())
        });
        let (states, seen) = (engine_breaker_states(&argus), requests(&proxy, class));
        assert_eq!(states.first().map(String::as_str), Some("open"), "{states:?}");
        argus.wait_until(LIMIT, "further attempts meet the fault", || {
            (requests(&proxy, class) >= seen + 4).then_some(())
        });
        let later = engine_breaker_states(&argus).split_off(states.len());
        assert!(!later.contains(&"closed".to_owned()), "{later:?}");
        let found = codes(&argus, &name);
        assert!(
            found.iter().any(|found| found == code),
            "it is reported: {found:?}"
        );
    }
    proxy.heal();
    // Automatically, without a reset of the breaker.
    let ready = argus.wait_status(&name, 3 * LIMIT, "is Ready after the fault", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    assert_eq!(ready["errors"], serde_json::json!([]), "{ready:#}");
    let services = container_runs(engine, &name).len();
    assert_eq!(services, 2, "no service is duplicated");
    let after = container_runs(engine, &calm);
    assert_eq!(after, before, "running containers are untouched");
}

#[test]
fn late_create_is_reported_and_survived() {
    let late = Fault::Delay(Duration::from_secs(30));
    check("late", 18500, CREATE, late, "TIMEOUT");
}

#[test]
fn unanswered_start_is_reported_and_survived() {
    check("hung", 18510, START, Fault::Hang, "TIMEOUT");
}

#[test]
fn reset_create_is_reported_and_survived() {
    check("reset", 18520, CREATE, Fault::CloseBefore, "CONNECTION_LOST");
}

// A truncated response to a create is adopted without an error, so only a read can fail by truncation.
#[test]
fn truncated_list_is_reported_and_survived() {
    check("halved", 18530, LIST, Fault::Cut, "DOCKER_UNAVAILABLE");
}

#[test]
fn unknown_refusal_of_a_start_is_reported_and_survived() {
    check(
        "refusal",
        18540,
        START,
        Fault::Answer(REFUSAL),
        "CONTAINER_START_FAILED",
    );
}

#[test]
fn short_answer_to_a_create_is_reported_and_survived() {
    check("short", 18550, CREATE, Fault::Answer(CUT_JSON), "CONNECTION_LOST");
}

#[test]
fn garbled_answer_to_a_start_is_reported_and_survived() {
    check("garbled", 18560, START, Fault::Answer(GARBAGE), "CONNECTION_LOST");
}

#[test]
fn list_that_is_no_json_is_reported_and_survived() {
    check(
        "nolist",
        18570,
        LIST,
        Fault::Answer(BROKEN_JSON),
        "DOCKER_UNAVAILABLE",
    );
}

#[test]
fn list_of_a_wrong_type_is_shown_and_listed_again() {
    let engine = engine();
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".into(), "listInterval=1s".into())],
        ..RunOptions::default()
    };
    let (proxy, argus) = proxied_with(engine, "oddlist", options);
    argus.write_spec("e2e.yaml", &singles("oddlist", &[18575], ""));
    argus.wait_ready("oddlist", LIMIT);
    let before = container_runs(engine, "oddlist");
    proxy.reset_counts();
    // The list after the odd one has no answer before the end of the faults.
    proxy.inject(LIST, Fault::Answer(ODD_LIST), 1);
    proxy.inject(LIST, Fault::Hang, 1_000_000);
    let readable = |status: &str, reason: &str| {
        argus.wait_until(LIMIT, reason, || {
            let found = condition(&argus.controller_status(), "EngineReadable");
            (found["status"] == status && found["reason"] == reason).then(|| text(&found["message"]))
        })
    };
    let message = readable("False", "Unreadable");
    let version = text(&engine.api("GET", "/version", None).json()["Version"]);
    let expected = format!("cannot read the list of containers of the engine (version {version})");
    assert!(message.starts_with(&expected), "{message}");
    proxy.heal();
    readable("True", "Readable");
    let (_, events) = json(&argus, &["events", "--type", "watch_degraded"]);
    let items = events["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{events:#}");
    assert_eq!(items[0]["text"], "[{\"Id\":[\"odd\"]}]", "{events:#}");
    assert_eq!(items[0]["version"], version, "{events:#}");
    argus.wait_ready("oddlist", LIMIT);
    assert_eq!(container_runs(engine, "oddlist"), before);
    assert_eq!(proxy.writes_but_the_lease(), []);
}

#[test]
fn engine_that_answers_garbage_is_reported_and_survived() {
    check("noise", 18580, ALL, Fault::Answer(GARBAGE), "DOCKER_UNAVAILABLE");
}

#[test]
fn engine_that_answers_nothing_is_reported_and_survived() {
    check("mute", 18590, ALL, Fault::Hang, "DOCKER_UNAVAILABLE");
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
    assert!(ready["breaker"].is_null(), "no failure is counted: {ready:#}");
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
    argus.wait_until(3 * LIMIT, "everything runs again", || {
        ["deaf-db", "deaf-api", "deaf-web"]
            .iter()
            .all(|name| running(engine, name))
            .then_some(())
    });
    argus.wait_status("deaf", LIMIT, "is Ready again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
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
