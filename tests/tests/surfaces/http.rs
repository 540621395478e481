//! HTTP with the real binary on a real engine: routes, access rules, and complete event streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test"
)]

use std::collections::BTreeSet;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use argus_tests::fixture::{LIMIT, container_runs, engine, shop};
use argus_tests::http::{self, Answer, Event, Events, exchange};
use argus_tests::{Controller, RunOptions, wait};
use serde_json::json;

mod evaluations;
mod event_names;
mod limits;
mod output;
mod parity;
mod resume;
mod shutdown;
mod taken_address;

fn listening(args: &[&str]) -> RunOptions {
    let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    RunOptions {
        args: all,
        ..RunOptions::default()
    }
}

/// A controller that serves the socket and an address.
struct HttpFixture<'e> {
    argus: Controller<'e>,
    at: SocketAddr,
    socket: PathBuf,
}

impl HttpFixture<'static> {
    fn open() -> Self {
        Self::of(Controller::start(engine(), listening(&[])))
    }
}

impl<'e> HttpFixture<'e> {
    fn of(argus: Controller<'e>) -> Self {
        let at = argus.wait_until(LIMIT, "the address is published", || {
            let output = argus.controller_status()["http"].as_str()?.to_owned();
            output.strip_prefix("http://")?.parse().ok()
        });
        let socket = argus.state.join("private/argus.sock");
        Self { argus, at, socket }
    }
}

impl HttpFixture<'_> {
    fn connect(&self) -> TcpStream {
        let stream = self.argus.engine().connect(self.at).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends a request over TCP, with these further lines in the head.
    fn request(&self, method: &str, path: &str, head: &str, body: &str) -> Answer {
        let host = if head.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.at)
        };
        let text = format!(
            "{method} {path} HTTP/1.1\r\n{host}{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(self.connect(), text.as_bytes()).expect("a response")
    }

    /// Sends a request over the socket.
    fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        http::request(
            &self.socket,
            method,
            path,
            "application/json",
            body.as_bytes(),
            LIMIT,
        )
        .expect("a response")
    }

    fn bearer(&self) -> String {
        let token = std::fs::read_to_string(self.argus.state.join("private/token")).expect("a token");
        format!("Authorization: Bearer {}\r\n", token.trim())
    }

    fn events(&self, query: &str, last: Option<&str>) -> Events<TcpStream> {
        Events::open(self.connect(), &self.at.to_string(), query, last).expect("a stream")
    }
}

#[test]
fn documented_requests_work_and_others_are_refused() {
    let fixture = HttpFixture::open();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("routes", 18700, "one"));
    fixture.argus.wait_ready("routes", LIMIT);
    let document = fixture.send("GET", "/api/v1/openapi.json", "").json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 15, "{paths:#?}");
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let path = path
                .replace("{environment}", "routes")
                .replace("{service}", "web")
                .replace("{code}", "PORT_CONFLICT")
                .replace("{key}", "argus.policy")
                .replace("{mock}", "web")
                .replace("{verb}", "retry")
                .replace("{id}", "nothing");
            if path == "/events" || path == "/mcp" {
                // The stream never ends, and MCP needs further headers: both have tests below.
                continue;
            }
            if path.starts_with("/api/v1/commands/") && path != "/api/v1/commands/retry" {
                // The other commands change the environment: `parity` runs them.
                continue;
            }
            let body = match (method.as_str(), path.as_str()) {
                ("post", "/api/v1/commands") => r#"{"verb":"retry","environment":"routes"}"#,
                ("post", "/api/v1/preflight" | "/api/v1/prune") => "{}",
                ("post", "/api/v1/validate") => r#"{"content":"services: ["}"#,
                ("post", path) if path.ends_with("/network") || path.ends_with("/tests") => "{}",
                ("post", _) => r#"{"environment":"routes"}"#,
                _ => "",
            };
            let answer = fixture.send(&method.to_uppercase(), &path, body);
            // Without a failure no evidence and no incident exists.
            let expected: &[u16] = if path.ends_with("/evidence") || path.ends_with("/nothing") {
                &[404]
            } else if path.ends_with("/requests") || (method == "post" && path.ends_with("/tests")) {
                // `web` is a service, not a mock, and the file has no suites.
                &[409]
            } else {
                &[200, 202]
            };
            assert!(expected.contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
    assert!(paths["/mcp"]["post"].is_object(), "{paths:#?}");
    greets_agents(&fixture);
    let status = fixture.send("GET", "/api/v1/environments/routes", "").json();
    assert_eq!(
        status,
        fixture.argus.status("routes"),
        "the routes are the documented ones"
    );
    is_refused_in_one_form(&fixture);
    let large = format!(r#"{{"verb":"retry","environment":"{}"}}"#, "x".repeat(100_000));
    assert_eq!(fixture.send("POST", "/api/v1/commands", &large).status, 413);
}

/// Asserts that every invalid request gets an error of one form.
fn is_refused_in_one_form(fixture: &HttpFixture<'_>) {
    for (method, path, body, status) in [
        ("GET", "/api/v1/environments/missing", "", 404),
        ("GET", "/api/v1/environments/routes/services/missing", "", 404),
        ("GET", "/api/v1/environments/..%2f..%2fprivate%2ftoken", "", 404),
        ("GET", "/api/v1/environments/../../private/token", "", 404),
        ("GET", "/api/v1/environments/%00", "", 404),
        ("GET", "/api/v1/environments?detail=some", "", 400),
        ("GET", "/api/v1/errors/NOTHING", "", 404),
        ("GET", "/api/v1/keys/nothing", "", 404),
        ("GET", "/nowhere", "", 404),
        ("DELETE", "/api/v1/environments/routes", "", 405),
        ("POST", "/api/v1/commands", r#"{"verb":"explode"}"#, 400),
        ("POST", "/api/v1/commands", "half {", 400),
        (
            "POST",
            "/api/v1/commands/hold",
            r#"{"environment":"routes","forSeconds":"long"}"#,
            400,
        ),
        // A misspelt duration must not become an endless hold.
        (
            "POST",
            "/api/v1/commands/hold",
            r#"{"environment":"routes","forSecond":60}"#,
            400,
        ),
        (
            "POST",
            "/api/v1/commands/retry",
            r#"{"environment":"missing"}"#,
            404,
        ),
        ("POST", "/api/v1/commands/retry", r#"{"environment":"../x"}"#, 400),
        ("POST", "/api/v1/preflight", r#"{"skip":["moon"]}"#, 400),
        ("GET", "/events?moon=1", "", 400),
        ("GET", "/api/v1/environments/routes/wait?for=moon", "", 400),
        (
            "GET",
            "/api/v1/environments/routes/wait?for=gone&timeoutSeconds=0",
            "",
            503,
        ),
        ("GET", "/api/v1/environments/..%2fx/wait", "", 404),
        ("GET", "/api/v1/events?type=moon", "", 400),
        ("GET", "/api/v1/events?type=snapshot", "", 400),
        ("GET", "/api/v1/plan?environment=missing", "", 404),
        ("GET", "/api/v1/plan?environment=../x", "", 400),
        (
            "GET",
            "/api/v1/environments/routes/evidence?service=..%2f..",
            "",
            404,
        ),
        ("POST", "/api/v1/environments/missing/network", "", 404),
        (
            "POST",
            "/api/v1/environments/routes/network",
            r#"{"verify":true}"#,
            400,
        ),
        ("POST", "/api/v1/validate", "", 400),
        ("POST", "/api/v1/prune", r#"{"yes":true}"#, 400),
        ("GET", "/events?type=moon", "", 400),
        (
            "GET",
            "/api/v1/environments/routes/services/web/logs?tail=many",
            "",
            400,
        ),
        ("GET", "/api/v1/environments/%ff", "", 400),
    ] {
        let answer = fixture.send(method, path, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        for key in [
            "type",
            "title",
            "status",
            "detail",
            "code",
            "message",
            "suggestedActions",
            "remedies",
        ] {
            assert!(
                !answer.json()[key].is_null(),
                "{key} of {method} {path}: {answer:?}"
            );
        }
    }
}

/// Asserts that, without the token, exactly the documented routes are readable. Returns the routes that need the token
/// to read.
fn access_rules_match_the_document(fixture: &HttpFixture<'_>) -> BTreeSet<String> {
    let document = fixture.request("GET", "/api/v1/openapi.json", "", "").json();
    let mut private = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, described) in methods.as_object().expect("methods") {
            let path = path
                .replace("{environment}", "doors")
                .replace("{service}", "web")
                .replace("{mock}", "web");
            if path == "/events" {
                continue;
            }
            let needs = described["security"].is_array();
            let refused = fixture.request(&method.to_uppercase(), &path, "", "").status == 401;
            assert_eq!(needs, refused, "{method} {path}");
            if needs && method == "get" {
                let shown = fixture.request("GET", &path, &fixture.bearer(), "").status;
                assert!(shown != 401, "{path}: {shown}");
                private.insert(path);
            }
        }
    }
    private
}

/// Asserts that MCP responds at its documented path.
fn greets_agents(fixture: &HttpFixture<'_>) {
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" },
    }});
    let heads = format!(
        "{}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
        fixture.bearer()
    );
    let answer = fixture.request("POST", "/mcp", &heads, &hello.to_string());
    assert!(
        answer.status == 200 && answer.json()["result"]["serverInfo"]["name"] == "argus",
        "{answer:?}"
    );
}

#[test]
fn local_users_read_and_only_the_owner_writes() {
    let fixture = HttpFixture::open();
    fixture.argus.write_spec("e2e.yaml", &shop("doors", 18710, "one"));
    fixture.argus.wait_ready("doors", LIMIT);
    let retry = r#"{"environment":"doors"}"#;
    assert_eq!(fixture.request("GET", "/api/v1/environments", "", "").status, 200);
    assert_eq!(fixture.request("GET", "/readyz", "", "").status, 200);
    let private = access_rules_match_the_document(&fixture);
    for path in ["/logs", "/services/web/evidence", "/services/web/why"] {
        let path = format!("/api/v1/environments/doors{path}");
        assert!(private.contains(&path), "{path}: {private:?}");
    }
    // The subject of an action in the journal is private.
    let first_intent = |head: &str| {
        fixture
            .request("GET", "/api/v1/events?type=intent", head, "")
            .json()["items"][0]
            .clone()
    };
    assert!(first_intent("")["subject"].is_null() && first_intent("")["action"]["verb"].is_string());
    assert!(first_intent(&fixture.bearer())["subject"].is_object());
    assert_eq!(
        fixture
            .request("POST", "/api/v1/commands/retry", "", retry)
            .status,
        401
    );
    let wrong = "Authorization: Bearer 0000\r\n";
    assert_eq!(
        fixture
            .request("POST", "/api/v1/commands/retry", wrong, retry)
            .status,
        401
    );
    assert_eq!(
        fixture
            .request("POST", "/api/v1/commands/retry", &fixture.bearer(), retry)
            .status,
        202
    );
    // A web page: under a name that resolves to this host, and from a foreign origin.
    let rebound = "Host: evil.test:9470\r\n";
    assert_eq!(
        fixture.request("GET", "/api/v1/environments", rebound, "").status,
        421
    );
    let other = "Origin: http://evil.test\r\n";
    assert_eq!(
        fixture.request("GET", "/api/v1/environments", other, "").status,
        403
    );
    let both = format!("{other}{}", fixture.bearer());
    assert_eq!(
        fixture
            .request("POST", "/api/v1/commands/retry", &both, retry)
            .status,
        403
    );
    // A client that sends its head or body slowly delays no other client.
    let (mut slow_head, mut slow_body) = (fixture.connect(), fixture.connect());
    slow_head
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: loc")
        .unwrap();
    let body = format!(
        "POST /api/v1/commands/retry HTTP/1.1\r\nHost: {}\r\n{}Content-Length: 40\r\n\r\n{{",
        fixture.at,
        fixture.bearer()
    );
    slow_body.write_all(body.as_bytes()).unwrap();
    assert_eq!(fixture.request("GET", "/healthz", "", "").status, 200);
    drop((slow_head, slow_body));
    let ended = fixture.argus.stop();
    assert!(ended.success());
}

/// Reads up to `most` records, until the one with the number `goal`.
fn records(events: &mut Events<TcpStream>, most: usize, goal: u64) -> Vec<Event> {
    let mut records: Vec<Event> = Vec::new();
    let id = |event: &Event| event.id.parse::<u64>().expect("a number");
    while records.len() < most && records.last().is_none_or(|last| id(last) < goal) {
        let Some(event) = events.next_event().expect("the stream continues") else {
            break;
        };
        if event.name != "snapshot" && !event.id.is_empty() {
            records.push(event);
        }
    }
    records
}

/// Like [`records`], but returns only their numbers.
fn ids(events: &mut Events<TcpStream>, most: usize, goal: u64) -> Vec<u64> {
    let number = |event: &Event| event.id.parse().expect("a number");
    records(events, most, goal).iter().map(number).collect()
}

#[test]
fn crash_is_streamed_and_replayed_to_returning_clients() {
    let fixture = HttpFixture::open();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("events", 18720, "one"));
    fixture.argus.wait_ready("events", LIMIT);
    let before = container_runs(engine(), "events");
    let mut events = fixture.events("?environment=events", None);
    let snapshot = events.next_event().unwrap().expect("a snapshot");
    assert_eq!(snapshot.name, "snapshot");
    assert_eq!(
        snapshot.json()["environments"][0]["phase"],
        "Ready",
        "{snapshot:?}"
    );
    engine().kill_all_in("events-web");
    let mut names = Vec::new();
    let mut recovered = None;
    while recovered.is_none() {
        let event = events.next_event().unwrap().expect("the stream continues");
        if event.name == "restart_success" {
            recovered = Some(event.id.clone());
        }
        names.push((event.name, event.id));
    }
    let at = |name: &str| names.iter().position(|(found, _)| found == name);
    let order = ["error", "intent", "restart_attempt", "restart_success"].map(at);
    assert!(order.iter().all(Option::is_some), "{names:?}");
    assert!(order[0] < order[3] && order[2] < order[3], "{names:?}");
    assert_ne!(container_runs(engine(), "events"), before);
    // A client that received only the first event gets the rest, and nothing twice.
    let first = names
        .iter()
        .find(|(_, id)| !id.is_empty())
        .expect("a record")
        .1
        .clone();
    let last: u64 = recovered.expect("an id").parse().unwrap();
    let received: BTreeSet<u64> = names.iter().filter_map(|(_, id)| id.parse().ok()).collect();
    let mut again = fixture.events("?environment=events", Some(&first));
    let repeated: BTreeSet<u64> = ids(&mut again, usize::MAX, last).into_iter().collect();
    let first: u64 = first.parse().unwrap();
    assert_eq!(repeated, received.into_iter().filter(|id| *id > first).collect());
    // Only the requested events.
    let mut only = fixture.events("?type=restart_success", Some("0"));
    assert_eq!(
        only.next_event().unwrap().expect("an event").name,
        "restart_success"
    );
}

#[test]
fn ten_thousand_events_reach_500_clients_exactly_once() {
    const FAULTY: u64 = 10_000;
    // The clients read sequentially, so each requests only this many events.
    const CROWD: usize = 200;
    let fixture = HttpFixture::open();
    fixture.argus.write_spec("e2e.yaml", &shop("load", 18730, "one"));
    fixture.argus.wait_ready("load", LIMIT);
    let mut first = fixture.events("", None);
    let begin: u64 = first
        .next_event()
        .unwrap()
        .expect("a snapshot")
        .id
        .parse()
        .unwrap();
    // No record matches this stream, so it receives only heartbeats.
    let mut silent = fixture.events("?type=stop", None);
    // These clients never read.
    let unread: Vec<_> = (0..20).map(|_| fixture.events("", None)).collect();
    let mut many: Vec<_> = (0..500)
        .map(|_| fixture.events("?type=snapshot,command&environment=crowd", None))
        .collect();
    for stream in &mut many {
        // From here on the stream misses nothing.
        assert_eq!(stream.next_event().unwrap().expect("a snapshot").name, "snapshot");
    }
    let pid = fixture.argus.controller_status()["pid"].as_u64().expect("a pid");
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .expect("a line")
            .to_owned();
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<u64>().ok())
            .expect("a number")
    };
    let small = resident();
    let (goal, whole) = std::thread::scope(|scope| {
        // The client that is connected from the start.
        let whole = scope.spawn(|| {
            let (mut whole, mut commands) = (Vec::new(), 0);
            while commands < FAULTY {
                let [event] = &records(&mut first, 1, u64::MAX)[..] else {
                    panic!("the stream ended after {commands} commands");
                };
                commands += u64::from(event.name == "command");
                whole.push(event.id.parse::<u64>().expect("a number"));
            }
            whole
        });
        for _ in 0..4 {
            scope.spawn(|| many_commands(&fixture.socket, FAULTY / 4));
        }
        let crowd: Vec<_> = many
            .chunks_mut(125)
            .map(|some| {
                let received = |stream: &mut Events<TcpStream>| ids(stream, CROWD, u64::MAX);
                scope.spawn(move || some.iter_mut().map(received).collect::<Vec<_>>())
            })
            .collect();
        // A client that reconnects repeatedly in the middle.
        let (mut last, mut output) = (begin, 0);
        let mut of_crowd = Vec::new();
        while output < FAULTY {
            let mut stream = fixture.events("?type=command", Some(&last.to_string()));
            let most = usize::try_from(FAULTY - output).unwrap().min(700);
            for event in records(&mut stream, most, u64::MAX) {
                let id = event.id.parse().expect("a number");
                assert!(id > last, "{id} after {last}");
                last = id;
                output += 1;
                of_crowd.extend((event.json()["environment"] == "crowd").then_some(id));
            }
        }
        assert_eq!(of_crowd.len(), CROWD);
        for some in crowd {
            for received in some.join().expect("a reader") {
                assert_eq!(received, of_crowd, "no loss and no repetition for any client");
            }
        }
        (last, whole.join().expect("a reader"))
    });
    // It received the same.
    assert_eq!(whole.last(), Some(&goal));
    let expected: Vec<u64> = (begin + 1..=begin + whole.len() as u64).collect();
    assert_eq!(whole, expected);
    let grown = resident().saturating_sub(small);
    assert!(
        grown < 64 * 1024,
        "{grown} KiB for twenty clients that never read and five hundred that do"
    );
    // No other work was delayed.
    engine().kill_all_in("load-web");
    fixture.argus.wait_status("load", LIMIT, "healed", |status| {
        status["phase"] == "Ready" && Controller::service(status, "web")["restarts"] == 1
    });
    let heartbeat = silent.comment().expect("the stream continues");
    assert_eq!(heartbeat.as_deref(), Some("alive"));
    drop((unread, many));
    wait::until(LIMIT, "it responds as before", || {
        (fixture.request("GET", "/healthz", "", "").status == 200).then_some(())
    });
}

/// Sends commands about missing environments: the journal records each refusal. One of fifty is about `crowd`.
fn many_commands(socket: &std::path::Path, number: u64) {
    let request = |env: &str| {
        let body = json!({ "verb": "retry", "environment": env }).to_string();
        let length = body.len();
        format!("POST /api/v1/commands HTTP/1.1\r\nHost: argus\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let (no_one, crowd) = (request("missing"), request("crowd"));
    let stream = UnixStream::connect(socket).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut stream = BufReader::new(stream);
    for turn in 0..number {
        let request = if turn % 50 == 0 { &crowd } else { &no_one };
        let sent = stream.get_mut().write_all(request.as_bytes());
        sent.expect("the server accepts a request");
        let answer = http::next(&mut stream).expect("a response").json();
        assert!(answer["code"] == "PREREQ_MISSING", "{answer}");
    }
}

#[test]
fn special_files_and_unread_streams_delay_no_one_else() {
    let fixture = HttpFixture::open();
    fixture.argus.write_spec("e2e.yaml", &shop("aside", 18740, "one"));
    fixture.argus.wait_ready("aside", LIMIT);
    engine().kill_all_in("aside-web");
    fixture.argus.wait_status("aside", LIMIT, "healed", |status| {
        status["phase"] == "Ready" && Controller::service(status, "web")["restarts"] == 1
    });
    // A client that requests more than the kernel buffers, and reads none of it.
    let mut unread = fixture.connect();
    let request = format!(
        "GET /api/v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n",
        fixture.at
    );
    unread.write_all(request.repeat(2_000).as_bytes()).unwrap();
    // The stored log of a run becomes a file that never ends.
    let kept = fixture
        .argus
        .state
        .join("private/evidence/aside/web/1/stderr.log");
    std::fs::remove_file(&kept).expect("the log was stored");
    let made = std::process::Command::new("mkfifo").arg(&kept).status().unwrap();
    assert!(made.success());
    std::thread::scope(|scope| {
        let path = "/api/v1/environments/aside/services/web/evidence";
        // More requests than the server has threads.
        let slow: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| fixture.send("GET", path, "")))
            .collect();
        for _ in 0..50 {
            assert_eq!(fixture.send("GET", "/healthz", "").status, 200);
            assert_eq!(fixture.send("GET", "/api/v1/environments/aside", "").status, 200);
        }
        let retried = fixture.send("POST", "/api/v1/commands/retry", r#"{"environment":"aside"}"#);
        assert_eq!(retried.status, 202, "{retried:?}");
        // A read of the file would wait for a writer, and there is none.
        for pending in slow {
            let answer = pending.join().unwrap();
            assert_ne!(answer.status, 200, "{answer:?}");
        }
    });
    drop(unread);
}
