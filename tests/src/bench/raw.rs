//! The baseline: a small client with keep-alive connections that makes only the necessary calls.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use argus_tests::fixture::{IMAGE, LIMIT};
use argus_tests::{PrivateEngine, wait};
use serde_json::{Value, json};

/// Most calls in flight.
pub(crate) const IN_FLIGHT: usize = 8;

/// One keep-alive connection to the engine.
struct Client(UnixStream);

impl Client {
    fn connect(socket: &Path) -> Self {
        Self(UnixStream::connect(socket).expect("the engine listens"))
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).expect("the engine reads");
        let (mut seen, mut buffer) = (Vec::new(), [0; 8192]);
        loop {
            let count = self.0.read(&mut buffer).expect("the engine answers");
            assert!(count > 0, "{method} {path}: closed early");
            seen.extend_from_slice(&buffer[..count]);
            let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            if seen.len() >= end + 4 + length {
                let ok = head.starts_with("http/1.1 2");
                assert!(ok, "{method} {path}: {}", String::from_utf8_lossy(&seen));
                return;
            }
        }
    }
}

/// Creates a network and `count` services. With ports it probes each service from its start until it is healthy, while
/// it creates the others.
pub(crate) fn up(engine: &PrivateEngine, project: &str, count: usize, ports: Option<u16>) {
    let socket = engine.socket();
    let network = json!({ "Name": project, "Driver": "bridge" });
    Client::connect(&socket).call("POST", "/networks/create", Some(&network));
    let (next, address) = (AtomicUsize::new(0), engine.address());
    let (next, socket, address) = (&next, &socket, address.as_str());
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT.min(count) {
            scope.spawn(move || {
                let mut client = Client::connect(socket);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let name = format!("{project}-s{index}");
                    let mut body = json!({ "Image": "busybox:local", "HostConfig": { "NetworkMode": project },
                        "NetworkingConfig": { "EndpointsConfig": { project: { "Aliases": [format!("s{index}")] } } } });
                    if let Some(first) = ports {
                        let host = (usize::from(first) + index).to_string();
                        body["Image"] = json!(IMAGE);
                        body["ExposedPorts"] = json!({ "8080/tcp": {} });
                        body["HostConfig"]["PortBindings"] = json!({ "8080/tcp": [{ "HostPort": host }] });
                    }
                    client.call("POST", &format!("/containers/create?name={name}"), Some(&body));
                    client.call("POST", &format!("/containers/{name}/start"), None);
                    if let Some(port) = ports.and_then(|first| first.checked_add(u16::try_from(index).ok()?)) {
                        scope.spawn(move || wait::until(LIMIT, "a service is healthy", || healthy(address, port)));
                    }
                }
            });
        }
    });
}

/// Starts the containers of [`up`] that the engine stopped, and probes each until it is healthy.
pub(crate) fn again(engine: &PrivateEngine, project: &str, count: usize, first: u16) {
    let address = engine.address();
    let address = address.as_str();
    std::thread::scope(|scope| {
        each(engine, IN_FLIGHT, count, &|client: &mut Client, index| {
            client.call("POST", &format!("/containers/{project}-s{index}/start"), None);
            let port = first + u16::try_from(index).expect("a port");
            scope.spawn(move || wait::until(LIMIT, "a service is healthy", || healthy(address, port)));
        });
    });
}

/// Stops and removes containers, as many in parallel as Argus, then their networks.
pub(crate) fn clean(engine: &PrivateEngine, name: &str, count: usize, networks: usize) {
    const AT_ONCE: usize = 8;
    each(engine, AT_ONCE, count, &|client: &mut Client, index| {
        client.call("POST", &format!("/containers/{name}-s{index}/stop?t=3"), None);
        client.call("DELETE", &format!("/containers/{name}-s{index}?force=1"), None);
    });
    each(engine, AT_ONCE, networks, &|client: &mut Client, index| {
        client.call("DELETE", &format!("/networks/{name}-n{index}"), None);
    });
}

/// Runs `work` for each number, `at_once` of them in parallel, each on a keep-alive connection.
fn each(engine: &PrivateEngine, at_once: usize, count: usize, work: &(dyn Fn(&mut Client, usize) + Sync)) {
    let (next, socket) = (AtomicUsize::new(0), &engine.socket());
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(count) {
            scope.spawn(|| {
                let mut client = Client::connect(socket);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    work(&mut client, index);
                }
            });
        }
    });
}

/// Starts each of these containers as soon as its `die` event arrives, until `count` have died.
pub(crate) fn heal(engine: &PrivateEngine, project: &str, count: usize, ready: &std::sync::mpsc::Sender<()>) {
    let socket = engine.socket();
    let mut starter = Client::connect(&socket);
    let mut events = UnixStream::connect(&socket).expect("the engine listens");
    let filters = "%7B%22event%22%3A%5B%22die%22%5D%7D";
    let request = format!("GET /events?filters={filters} HTTP/1.1\r\nHost: docker\r\n\r\n");
    events.write_all(request.as_bytes()).expect("the engine reads");
    let (mut seen, mut buffer, mut healed) = (String::new(), [0; 8192], 0);
    while healed < count {
        let read = events.read(&mut buffer).expect("events");
        assert!(read > 0, "the events ended");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if seen.contains("\r\n\r\n") {
            // After the first event the receiver no longer waits.
            let _sent_before = ready.send(());
        }
        while let Some(end) = seen.find('\n') {
            let line: String = seen.drain(..=end).collect();
            let Ok(event) = serde_json::from_str::<Value>(line.trim()) else {
                continue;
            };
            let name = event["Actor"]["Attributes"]["name"].as_str().unwrap_or_default();
            if name.starts_with(&format!("{project}-s")) {
                starter.call("POST", &format!("/containers/{name}/start"), None);
                healed += 1;
            }
        }
    }
}

fn healthy(address: &str, port: u16) -> Option<()> {
    let mut stream = TcpStream::connect((address, port)).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.contains(" 200 ").then_some(())
}

/// Removes everything that [`up`] created.
pub(crate) fn down(engine: &PrivateEngine, project: &str, count: usize) {
    each(engine, IN_FLIGHT, count, &|client: &mut Client, index| {
        client.call("DELETE", &format!("/containers/{project}-s{index}?force=1"), None);
    });
    Client::connect(&engine.socket()).call("DELETE", &format!("/networks/{project}"), None);
}
