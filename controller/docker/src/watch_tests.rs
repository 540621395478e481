//! Tests of the watch against an engine whose event stream fails.

#![allow(
    clippy::disallowed_methods,
    reason = "the engine of a test needs no supervisor, and the watch gets the real time"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Docker;

/// An engine without objects that answers every request except the one for its events.
struct EngineWithoutEvents {
    address: String,
    subscriptions: Arc<AtomicUsize>,
}

impl EngineWithoutEvents {
    async fn start(refusal: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let subscriptions = Arc::new(AtomicUsize::new(0));
        let count = subscriptions.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, refusal, count.clone()));
            }
        });
        Self {
            address,
            subscriptions,
        }
    }

    fn watch(&self) -> impl Stream<Item = WatchEvent> + use<> {
        let now = || {
            let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            Timestamp(i64::try_from(elapsed.unwrap().as_millis()).unwrap())
        };
        let docker = Docker::new(Endpoint::parse(&self.address).unwrap(), Arc::new(now));
        watch_events(docker.shared)
    }
}

async fn serve(mut connection: TcpStream, refusal: &'static str, subscriptions: Arc<AtomicUsize>) {
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        match connection.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&part[..read]),
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8(std::mem::take(&mut request)).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.contains("/events") {
            subscriptions.fetch_add(1, Ordering::Relaxed);
            drop(connection.write_all(refusal.as_bytes()).await);
            return;
        }
        let body = match path {
            path if path.contains("/volumes") => r#"{"Volumes":[]}"#,
            path if path.contains("_ping") => "OK",
            _ => "[]",
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        drop(connection.write_all(answer.as_bytes()).await);
    }
}

#[tokio::test]
async fn watch_continues_with_lists_when_only_the_event_stream_fails() {
    for refusal in [
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\u{1} garbage",
        "",
    ] {
        let engine = EngineWithoutEvents::start(refusal).await;
        let mut watch = Box::pin(engine.watch());
        let (mut lost, mut lists_after) = (false, 0);
        while lists_after < 3 {
            let next = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
            match next.expect("an event within 10 s").unwrap() {
                WatchEvent::EventsLost(..) => lost = true,
                WatchEvent::InitDone if lost => lists_after += 1,
                WatchEvent::Disconnected(_, reason) => panic!("{refusal}: {reason}"),
                _ => {}
            }
        }
        let subscriptions = engine.subscriptions.load(Ordering::Relaxed);
        assert!((3..10).contains(&subscriptions), "{subscriptions} subscriptions");
    }
}

#[test]
fn local_socket_is_tried_every_second() {
    let longest = |endpoint: &str| {
        let endpoint = Endpoint::parse(endpoint).unwrap();
        (0..100)
            .map(|attempt| retry_delay(&endpoint, attempt))
            .max()
            .unwrap()
    };
    assert_eq!(longest("unix:///run/docker.sock"), Duration::from_secs(1));
    assert!(longest("tcp://10.0.0.1:2375") > Duration::from_secs(50));
}

/// An engine that stops: it closes every connection, and its event stream reports one more end of a container.
async fn serve_stopping(
    mut connection: TcpStream,
    stops: Arc<tokio::sync::Notify>,
    stopped: Arc<AtomicUsize>,
) {
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        match connection.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&part[..read]),
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        if stopped.load(Ordering::Relaxed) > 0 {
            return;
        }
        let head = String::from_utf8(std::mem::take(&mut request)).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.contains("/events") {
            const START: &str =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            drop(connection.write_all(START.as_bytes()).await);
            stops.notified().await;
            stopped.store(1, Ordering::Relaxed);
            let event = r#"{"Type":"container","Action":"die","Actor":{"ID":"abc","Attributes":{"argusai.managed":"true"}},"time":1}"#;
            let chunk = format!("{:x}\r\n{event}\n\r\n", event.len() + 1);
            drop(connection.write_all(chunk.as_bytes()).await);
            // The stream stays open until the engine has ended.
            std::future::pending::<()>().await;
        }
        let body = match path {
            path if path.contains("/volumes") => r#"{"Volumes":[]}"#,
            path if path.contains("_ping") => "OK",
            _ => "[]",
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        drop(connection.write_all(answer.as_bytes()).await);
    }
}

#[tokio::test]
async fn stopping_engine_is_lost_before_its_event_stream_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let engine = EngineWithoutEvents {
        address: format!("tcp://{}", listener.local_addr().unwrap()),
        subscriptions: Arc::default(),
    };
    let stops = Arc::new(tokio::sync::Notify::new());
    let (signal, stopped) = (stops.clone(), engine.subscriptions.clone());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve_stopping(connection, signal.clone(), stopped.clone()));
        }
    });
    let mut watch = Box::pin(engine.watch());
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(4), watch.next()).await;
        next.expect("an event within 4 s").unwrap()
    };
    while next().await != WatchEvent::InitDone {}
    stops.notify_one();
    while !matches!(next().await, WatchEvent::Disconnected(..)) {}
}
