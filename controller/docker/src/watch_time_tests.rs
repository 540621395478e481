//! Tests of the watch in virtual time. The engine is behind pipes in memory: the clock advances only when no byte moves.

#![allow(
    clippy::disallowed_methods,
    reason = "the engine of a test needs no supervisor, and the watch gets the virtual time"
)]

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Mutex;

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

/// An engine without objects.
struct FakeEngine {
    /// Answers to the first subscriptions; all later ones work.
    subscriptions: Mutex<VecDeque<Subscription>>,
    /// Method and end of the path of each request.
    requests: Mutex<Vec<String>>,
    stop: Notify,
}

impl FakeEngine {
    fn new(subscriptions: &[Subscription]) -> Arc<Self> {
        Arc::new(Self {
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
        if end == "/events" {
            return self.serve_events(pipe).await;
        }
        let (status, body) = match end {
            "/_ping" => ("200 OK", "OK"),
            "/volumes" => ("200 OK", r#"{"Volumes":[]}"#),
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
    let engine = FakeEngine::new(&[]);
    let docker = engine.docker();
    let mut watch = listed(&docker).await;
    engine.take_requests();
    let mut others = Vec::new();
    let minute = async {
        while let Some(event) = watch.next().await {
            if !matches!(event, WatchEvent::Init | WatchEvent::InitDone) {
                others.push(event);
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(65), minute).await;
    assert!(waited.is_err(), "a watch never ends");
    assert_eq!(others, [], "nothing changed");
    let lists = ["GET /containers/json", "GET /networks", "GET /volumes"];
    assert_eq!(
        engine.take_requests(),
        BTreeMap::from(lists.map(|list| (list.to_owned(), 6))),
        "no other request, and no write"
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
