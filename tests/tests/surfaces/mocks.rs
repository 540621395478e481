//! The real `argus mock`: responses over the network, reloads, shutdown, recordings.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use argus_tests::mock::{Client, MockServer};
use argus_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

const DOCUMENT: &str = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /things/{id}:
    put:
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: '#/components/schemas/Thing' } } }
      responses: { '200': { description: ok, content: { application/json: { schema: { $ref: '#/components/schemas/Thing' } } } } }
components:
  schemas:
    Thing:
      type: object
      required: [id, size]
      properties: { id: { type: integer, readOnly: true }, size: { type: integer, minimum: 1 }, note: { type: string } }
";

fn config(mock: &Value, document: Option<&str>) -> Value {
    let mut mock = mock.clone();
    mock["port"] = json!(1);
    json!({ "version": 1, "name": "m", "mock": mock, "document": document })
}

fn saying(word: &str) -> Value {
    config(
        &json!({ "routes": [{ "method": "GET", "path": "/word", "response": { "body": word } }] }),
        None,
    )
}

#[test]
fn mock_serves_routes_and_reports_requests() {
    let mock = MockServer::start(&config(
        &json!({ "routes": [
            { "method": "POST", "path": "/users/:id", "when": { "body": { "kind": "new" } },
              "response": { "status": 201, "body": { "id": "{{request.params.id}}", "name": "{{request.body.user.name}}" } } },
            { "method": "ANY", "path": "/files/*rest", "response": { "body": "{{request.params.rest}}" } },
            { "method": "GET", "path": "/slow", "response": { "delay": "60ms" } },
        ] }),
        None,
    ));
    let mut client = mock.connect();
    let made = client
        .request(
            "POST",
            "/users/7?token=hunter2",
            &["authorization: hunter2"],
            r#"{"kind":"new","user":{"name":"ann"}}"#,
        )
        .expect("a response");
    assert_eq!(
        (made.status, made.json()),
        (201, json!({ "id": "7", "name": "ann" }))
    );
    let tricky = client
        .request("DELETE", "/files/a%2Fb/../c//d", &[], "")
        .expect("a response");
    assert_eq!(String::from_utf8_lossy(&tricky.body), "c//d");
    assert_eq!(
        client
            .request("GET", "/slow", &[], "")
            .expect("a response")
            .status,
        200
    );
    let missed = client
        .request("POST", "/users/7", &[], r#"{"kind":"old"}"#)
        .expect("a response");
    assert_eq!(missed.status, 404);
    assert_eq!(missed.json()["error"]["code"], "MOCK_NO_ROUTE");
    assert_eq!(
        missed.json()["error"]["details"]["nearest"]["because"],
        "in the body `kind` is `\"old\"`, not `\"new\"`"
    );
    let page = mock.request("GET", "/__argus/requests?after=1", "").json();
    assert_eq!(page["total"], 4);
    let requests = page["requests"].as_array().expect("requests");
    let matched: Vec<_> = requests
        .iter()
        .map(|request| request["matched"].as_str())
        .collect();
    assert_eq!(
        matched,
        [
            Some("routes[1] ANY /files/*rest"),
            Some("routes[2] GET /slow"),
            None
        ]
    );
    assert!(requests[1]["durationMs"].as_u64() >= Some(60), "{page}");
    let all = mock.request("GET", "/__argus/requests", "").json().to_string();
    assert!(!all.contains("hunter2") && all.contains("[redacted]"), "{all}");
}

#[test]
fn invalid_mock_requests_are_refused_in_isolation() {
    let mock = MockServer::start(&saying("here"));
    let large = mock.request("POST", "/word", &"x".repeat((10 << 20) + 1));
    assert_eq!(large.status, 413);
    let header = format!("x-long: {}", "y".repeat(128 * 1024));
    let long = mock
        .connect()
        .request("GET", "/word", &[&header], "")
        .expect("a response");
    assert_eq!(long.status, 431);
    let mut odd = mock.connect();
    odd.send(b"\x16\x03\x01 this is TLS\r\n\r\n")
        .expect("bytes are sent");
    assert!(odd.read().is_ok_and(|answer| answer.status == 400));
    // Clients that never end their request delay no other client.
    let mut slow: Vec<Client> = (0..50).map(|_| mock.connect()).collect();
    for client in &mut slow {
        client
            .send(b"POST /word HTTP/1.1\r\nhost: m\r\ncontent-length: 9\r\n\r\nab")
            .expect("bytes are sent");
    }
    assert_eq!(mock.request("GET", "/word", "").status, 200);
}

#[test]
fn new_mock_file_loses_no_request() {
    let mock = MockServer::start(&saying("word 0"));
    let (stop, request) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for keeps in [true, true, false] {
            let (mock, stop, request) = (&mock, &stop, &request);
            threads.spawn(move || {
                let mut client = mock.connect();
                while !stop.load(Ordering::Relaxed) {
                    if !keeps {
                        client = mock.connect();
                    }
                    let answer = client
                        .request("GET", "/word", &[], "")
                        .expect("no request is lost");
                    assert!(
                        answer.status == 200 && answer.body.starts_with(b"word "),
                        "{answer:?}"
                    );
                    request.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=200 {
            mock.replace(&saying(&format!("word {number}")).to_string());
            match number % 4 {
                // The mock finds the file without a signal.
                0 => {}
                1 => mock.signal(Signal::HUP),
                2 => assert_eq!(mock.request("POST", "/__argus/reload", "").status, 200),
                _ => {
                    mock.replace("{\"version\": 1, \"na");
                    let refused = mock.request("POST", "/__argus/reload", "");
                    assert_eq!(refused.status, 422);
                    let problem = refused.json()["config"]["problem"].to_string();
                    assert!(problem.contains("is not a valid mock: EOF"), "{problem}");
                    mock.replace(&saying(&format!("word {number}")).to_string());
                }
            }
            let wanted = format!("word {number}");
            // After a replacement the old file is not served; a signal may arrive later than the request.
            assert_eq!(mock.request("GET", "/word", "").body, wanted.as_bytes());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(request.load(Ordering::Relaxed) > 200, "one per file: {request:?}");
    let health = mock.request("GET", "/__argus/health", "").json();
    assert_eq!(
        (&health["status"], &health["config"]["problem"]),
        (&json!("ok"), &Value::Null)
    );
    fs::remove_file(mock.path("mock.json")).expect("the file exists");
    assert_eq!(mock.request("POST", "/__argus/reload", "").status, 422);
    assert_eq!(mock.request("GET", "/word", "").status, 200);
}

#[test]
fn mock_stop_answers_open_requests() {
    let service = TcpListener::bind("127.0.0.1:0").expect("a port");
    service.set_nonblocking(true).expect("an option");
    let address = service.local_addr().expect("an address");
    let record = json!({ "mode": "record", "target": format!("http://{address}"), "recordingsDir": "kept" });
    let mut mock = MockServer::start(&config(&record, None));
    let mut idle = mock.connect();
    assert_eq!(
        idle.request("GET", "/__argus/health", &[], "")
            .expect("a response")
            .status,
        200
    );
    // A request that the mock forwards is in progress until the service responds.
    let open_request = || {
        let mut client = mock.connect();
        client
            .send(b"GET /thing HTTP/1.1\r\nhost: m\r\n\r\n")
            .expect("bytes are sent");
        let (forwarded, _) = wait::until(LIMIT, "the mock forwards it", || service.accept().ok());
        forwarded.set_nonblocking(false).expect("an option");
        let lines = BufReader::new(forwarded.try_clone().expect("a second handle")).lines();
        let head = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
        head.for_each(drop);
        (client, forwarded)
    };
    let (mut late, mut responding) = open_request();
    let (mut stuck, _silent) = open_request();
    mock.signal(Signal::TERM);
    responding
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate")
        .expect("the mock reads the response");
    assert_eq!(
        late.read().expect("a request in progress gets its response").body,
        b"late"
    );
    let ended = mock.ended(LIMIT);
    assert!(stuck.read().is_err());
    assert_eq!(ended.code(), Some(0), "{}", mock.log());
}

#[test]
fn openapi_mock_answers_and_validates() {
    let mock = json!({ "openapi": "api.yaml", "validate": true, "mode": "smart",
        "overrides": [{ "method": "PUT", "path": "/things/9", "response": { "body": "mine" } }] });
    let mock = MockServer::start(&config(&mock, Some(DOCUMENT)));
    let good = mock.request("PUT", "/things/7", r#"{"size":3,"note":"n"}"#);
    assert_eq!(
        (good.status, good.json()),
        (200, json!({ "id": 7, "size": 3, "note": "n" }))
    );
    let bad = mock.request("PUT", "/things/x", r#"{"size":0}"#);
    assert_eq!(
        (bad.status, bad.json()["error"]["code"].as_str()),
        (422, Some("MOCK_REQUEST_INVALID"))
    );
    let violations = bad.json()["error"]["details"]["violations"].clone();
    assert_eq!(
        (&violations[0]["in"], &violations[0]["name"]),
        (&json!("path"), &json!("id"))
    );
    assert_eq!(
        (&violations[1]["in"], &violations[1]["pointer"]),
        (&json!("body"), &json!("/size"))
    );
    assert_eq!(mock.request("PUT", "/things/9", "").body, b"mine");
    assert_eq!(mock.request("GET", "/things/9", "").status, 404);
}

#[test]
fn recordings_are_replayed_without_the_service() {
    let real = json!({ "routes": [
        { "method": "POST", "path": "/login", "response": {
            "headers": { "set-cookie": "sid=hunter2", "x-kept": "yes", "content-type": "application/json" },
            "body": { "token": "hunter2", "user": "{{request.body.user}}" } } },
        { "method": "GET", "path": "/base/list", "response": { "status": 203, "body": "page {{request.query.page}}" } },
    ] });
    let mut real = MockServer::start(&config(&real, None));
    let target = |base: &str| json!({ "mode": "record", "target": format!("http://{}{base}", real.address), "recordingsDir": "kept" });
    let mock = MockServer::start(&config(&target(""), None));
    let login = |user: &str, word: &str| {
        mock.request(
            "POST",
            "/login",
            &format!(r#"{{"user":"{user}","password":"{word}"}}"#),
        )
    };
    assert_eq!(
        login("ann", "hunter2").json(),
        json!({ "token": "hunter2", "user": "ann" })
    );
    assert_eq!(login("bob", "hunter2").json()["user"], "bob");
    let base = config(&target("/base"), None);
    let replay = config(&json!({ "mode": "replay", "recordingsDir": "kept" }), None);
    mock.replace(&base.to_string());
    assert_eq!(mock.request("POST", "/__argus/reload", "").status, 200);
    for page in [1, 2] {
        let got = mock.request("GET", &format!("/list?page={page}"), "");
        assert_eq!(
            (got.status, String::from_utf8_lossy(&got.body).into_owned()),
            (203, format!("page {page}"))
        );
    }
    let seen = real.request("GET", "/__argus/requests", "").json();
    let names: Vec<&str> = seen["requests"][0]["headers"]
        .as_array()
        .expect("headers")
        .iter()
        .filter_map(|header| header[0].as_str())
        .collect();
    assert!(
        names.contains(&"host") && !names.contains(&"connection"),
        "{names:?}"
    );

    real.signal(Signal::TERM);
    real.ended(LIMIT);
    let gone = mock.request("GET", "/list?page=3", "");
    assert_eq!(
        (gone.status, gone.json()["error"]["code"].as_str()),
        (502, Some("MOCK_NO_ANSWER"))
    );
    let files: Vec<String> = fs::read_dir(mock.path("kept"))
        .expect("a directory")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a text"))
        .collect();
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(files.iter().all(|file| !file.contains("hunter2")), "{files:?}");

    mock.replace(&replay.to_string());
    assert_eq!(mock.request("POST", "/__argus/reload", "").status, 200);
    assert_eq!(
        login("ann", "another").json(),
        json!({ "token": "[redacted]", "user": "ann" })
    );
    assert_eq!(login("bob", "another").json()["user"], "bob");
    assert_eq!(mock.request("GET", "/list?page=2", "").body, b"page 2");
    let unknown = mock.request("GET", "/list?page=3", "");
    assert_eq!(
        (unknown.status, unknown.json()["error"]["code"].as_str()),
        (404, Some("MOCK_NO_ROUTE"))
    );
}
