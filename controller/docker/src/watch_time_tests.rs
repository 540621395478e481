//! Tests of the watch in virtual time. The engine is behind pipes in memory: the clock advances only when no byte moves.

#![allow(
    clippy::disallowed_methods,
    reason = "the engine of a test needs no supervisor, and the watch gets the virtual time"
)]

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::{API_DEFAULT_VERSION, BollardRequest};
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::Docker;

const START_OF_EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Answer of the engine to a subscription to its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscription {
    /// Nothing at all.
    Unanswered,
    /// The head of a response without any event.
    Silent,
    /// The head, and the stop of a container on request.
    Working,
}

/// A running container of Argus, in a list and in an inspect.
const LISTED: &str = r#"[{"Id":"abc","Names":["/web"],"Image":"web:1","Created":100,"State":"running",
    "Status":"Up 2 minutes","Labels":{"argusai.managed":"true"}}]"#;
const INSPECTED: &str = r#"{"Id":"abc","Name":"/web","Image":"sha256:5","Created":"1970-01-01T00:01:40Z",
    "State":{"Status":"running","StartedAt":"1970-01-01T00:01:41Z","FinishedAt":"0001-01-01T00:00:00Z"},
    "Config":{"Image":"web:1","Labels":{"argusai.managed":"true"}}}"#;
const IMAGE: &str = r#"{"Id":"sha256:5","Config":{"Labels":{}}}"#;

/// An engine without objects, or with one running container.
struct FakeEngine {
    has_container: bool,
    /// It reads requests and answers none.
    is_frozen: AtomicBool,
    /// Answers to the first subscriptions; all later ones work.
    subscriptions: Mutex<VecDeque<Subscription>>,
    /// Method and end of the path of each request.
    requests: Mutex<Vec<String>>,
    stop: Notify,
}

impl FakeEngine {
    fn new(subscriptions: &[Subscription]) -> Arc<Self> {
        Self::create(subscriptions, false)
    }

    fn create(subscriptions: &[Subscription], has_container: bool) -> Arc<Self> {
        Arc::new(Self {
            has_container,
            is_frozen: AtomicBool::new(false),
            subscriptions: Mutex::new(subscriptions.iter().copied().collect()),
            requests: Mutex::default(),
            stop: Notify::new(),
        })
    }

    fn docker(self: &Arc<Self>) -> Docker {
        let start = Instant::now();
        let now = move || {
            let elapsed = i64::try_from(start.elapsed().as_millis()).unwrap();
            Timestamp(1_000_000_000 + elapsed)
        };
        let docker = Docker::new(Endpoint::parse("tcp://engine:1").unwrap(), Arc::new(now));
        let engine = self.clone();
        let transport = move |request: BollardRequest| exchange(engine.clone(), request);
        let address = Some("http://engine");
        let client =
            bollard::Docker::connect_with_custom_transport(transport, address, 120, API_DEFAULT_VERSION);
        docker.shared.connection.set_client(client.unwrap());
        docker
    }

    /// Number of requests since the last call.
    fn take_requests(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in std::mem::take(&mut *self.requests.lock().unwrap()) {
            *counts.entry(request).or_default() += 1;
        }
        counts
    }

    /// Answers one request.
    async fn serve(self: Arc<Self>, mut pipe: DuplexStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut part = [0; 4096];
            match pipe.read(&mut part).await {
                Ok(0) | Err(_) => return,
                Ok(read) => request.extend_from_slice(&part[..read]),
            }
        }
        let head = String::from_utf8(request).unwrap();
        let mut words = head.split([' ', '?']);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let ends = ["/containers/json", "/networks", "/volumes", "/events", "/_ping"];
        let end = ends.into_iter().find(|end| path.ends_with(end)).unwrap_or(path);
        self.requests.lock().unwrap().push(format!("{method} {end}"));
        if self.is_frozen.load(Ordering::SeqCst) {
            return pending().await;
        }
        if end == "/events" {
            return self.serve_events(pipe).await;
        }
        let (status, body) = match end {
            "/_ping" => ("200 OK", "OK"),
            "/volumes" => ("200 OK", r#"{"Volumes":[]}"#),
            "/containers/json" if self.has_container => ("200 OK", LISTED),
            path if self.has_container && path.ends_with("/abc/json") => ("200 OK", INSPECTED),
            path if path.contains("/images/") => ("200 OK", IMAGE),
            path if path.ends_with("/abc/json") => {
                ("404 Not Found", r#"{"message":"No such container: abc"}"#)
            }
            _ => ("200 OK", "[]"),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        drop(pipe.write_all(answer.as_bytes()).await);
    }

    /// Answers a subscription, which never ends.
    async fn serve_events(&self, mut pipe: DuplexStream) {
        let subscription = self.subscriptions.lock().unwrap().pop_front();
        let subscription = subscription.unwrap_or(Subscription::Working);
        if subscription != Subscription::Unanswered {
            drop(pipe.write_all(START_OF_EVENTS.as_bytes()).await);
        }
        if subscription == Subscription::Working {
            self.stop.notified().await;
            let event = r#"{"Type":"container","Action":"stop","Actor":{"ID":"abc","Attributes":{"argusai.managed":"true"}},"time":1000100}"#;
            let chunk = format!("{:x}\r\n{event}\n\r\n", event.len() + 1);
            drop(pipe.write_all(chunk.as_bytes()).await);
        }
        pending::<()>().await;
    }
}

/// Sends a request over a pipe of its own.
async fn exchange(
    engine: Arc<FakeEngine>,
    request: BollardRequest,
) -> Result<Response<Incoming>, bollard::errors::Error> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(engine.serve(theirs));
    let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// Watch of an engine that has been listed once.
async fn listed(docker: &Docker) -> BoxStream<'static, WatchEvent> {
    let mut watch = watch_events(docker.shared.clone()).boxed();
    while watch.next().await != Some(WatchEvent::InitDone) {}
    watch
}

#[tokio::test(start_paused = true)]
async fn idle_watch_only_lists_every_ten_seconds() {
    let engine = FakeEngine::create(&[], true);
    let docker = engine.docker();
    let mut watch = listed(&docker).await;
    let is_inspected = |event: &WatchEvent| matches!(event, WatchEvent::Apply(Object::Container(container)) if container.inspect.is_some());
    // The container is new, so one inspect follows the first list.
    while !is_inspected(&watch.next().await.unwrap()) {}
    let requests = engine.take_requests();
    let inspects = requests
        .iter()
        .filter(|(request, _)| request.ends_with("/containers/abc/json"));
    assert_eq!(inspects.map(|(_, count)| count).sum::<usize>(), 1, "{requests:?}");
    let mut others = Vec::new();
    let minute = async {
        while let Some(event) = watch.next().await {
            if !matches!(event, WatchEvent::Init | WatchEvent::InitDone) && !is_inspected(&event) {
                others.push(event);
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(65), minute).await;
    assert!(waited.is_err(), "a watch never ends");
    assert_eq!(others, [], "nothing changed");
    // Volumes of Argus and those of Compose have a list each.
    let lists = [
        ("GET /containers/json", 6),
        ("GET /networks", 6),
        ("GET /volumes", 12),
    ];
    assert_eq!(
        engine.take_requests(),
        BTreeMap::from(lists.map(|(list, count)| (list.to_owned(), count))),
        "no inspect of the unchanged container, no other request, and no write"
    );
}

#[tokio::test(start_paused = true)]
async fn stalled_event_stream_is_replaced_and_reported_once() {
    for stalled in [Subscription::Unanswered, Subscription::Silent] {
        let engine = FakeEngine::new(&[stalled]);
        let docker = engine.docker();
        let mut watch = listed(&docker).await;
        // A call that changed a container, without an event.
        let id = ContainerId::new("abc").unwrap();
        drop(docker.shared.in_flight.start(&id));
        let (mut gaps, mut lists) = (0, 0);
        while lists < 6 {
            match watch.next().await.unwrap() {
                WatchEvent::StreamGap => gaps += 1,
                WatchEvent::InitDone => lists += 1,
                WatchEvent::Disconnected(_, reason) => panic!("{stalled:?}: {reason}"),
                _ => {}
            }
        }
        assert_eq!(gaps, 1, "{stalled:?}");
        let requests = engine.take_requests();
        assert_eq!(requests.get("GET /events"), Some(&2), "{requests:?}");
        engine.stop.notify_one();
        let is_stop = |event: &WatchEvent| matches!(event, WatchEvent::StoppedByOther(of, _) if *of == id);
        let stopped = async { while !is_stop(&watch.next().await.unwrap()) {} };
        let waited = tokio::time::timeout(Duration::from_secs(1), stopped).await;
        assert!(
            waited.is_ok(),
            "{stalled:?}: the new stream reports events immediately"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn frozen_engine_is_reported_after_a_list_and_two_pings() {
    let engine = FakeEngine::new(&[]);
    let docker = engine.docker();
    let mut watch = listed(&docker).await;
    engine.take_requests();
    engine.is_frozen.store(true, Ordering::SeqCst);
    let lost = async {
        loop {
            if let Some(WatchEvent::Disconnected(_, reason)) = watch.next().await {
                return reason;
            }
        }
    };
    // It freezes just after a list, and none of its connections closes.
    let times = docker.shared.times;
    let limit = docker.shared.list_interval + times.read + 2 * times.ping;
    let reason = tokio::time::timeout(limit + Duration::from_millis(10), lost).await;
    let reason = reason.unwrap();
    assert!(reason.contains("no answer within 2 s"), "{reason}");
    let expected = [
        ("GET /_ping", 2),
        ("GET /containers/json", 1),
        ("GET /networks", 1),
        ("GET /volumes", 2),
    ];
    let expected = expected.map(|(request, count)| (request.to_owned(), count));
    assert_eq!(engine.take_requests(), BTreeMap::from(expected));
    // Each further attempt fails within the same deadline, until the engine answers.
    let mut attempts = 0;
    while attempts < 3 {
        attempts += u32::from(matches!(watch.next().await.unwrap(), WatchEvent::Retrying { .. }));
    }
    engine.is_frozen.store(false, Ordering::SeqCst);
    while !matches!(watch.next().await.unwrap(), WatchEvent::Connected(_)) {}
}

#[tokio::test(start_paused = true)]
async fn stop_of_the_run_after_our_restart_is_of_another_client() {
    let is_stop = |event: &WatchEvent| matches!(event, WatchEvent::StoppedByOther(..));
    for (stopped_run, is_reported) in [(101_000, false), (50_000, true)] {
        let engine = FakeEngine::create(&[], true);
        let docker = engine.docker();
        let id = ContainerId::new("abc").unwrap();
        // This backend has just stopped that run.
        let own_stops = &docker.shared.own_stops;
        let stopping = own_stops.begin(&id, Duration::from_secs(1), Timestamp(1_000_000_000));
        own_stops.on_run(&id, Some(Timestamp(stopped_run)));
        stopping.finish(Timestamp(1_000_100_000));
        let mut watch = listed(&docker).await;
        let is_inspected = |event: &WatchEvent| matches!(event, WatchEvent::Apply(Object::Container(container)) if container.inspect.is_some());
        while !is_inspected(&watch.next().await.unwrap()) {}
        engine.stop.notify_one();
        let reported = async { while !is_stop(&watch.next().await.unwrap()) {} };
        let reported = tokio::time::timeout(Duration::from_secs(1), reported).await;
        assert_eq!(reported.is_ok(), is_reported, "{stopped_run}");
    }
}
