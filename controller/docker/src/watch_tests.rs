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
fn reconnects_double_from_500_ms_to_their_cap() {
    let delays = |endpoint: &str, cap: u64| {
        let endpoint = Endpoint::parse(endpoint).unwrap();
        let base_of = |attempt| delay(Growth::Exponential, RETRY_BASE, Duration::from_secs(cap), attempt);
        for attempt in 1..=100 {
            let base = base_of(attempt);
            let next = retry_delay(&endpoint, attempt);
            assert!(
                next >= base.mul_f64(0.85) && next <= base.mul_f64(1.15),
                "{attempt}: {next:?}"
            );
            assert!(next <= Duration::from_secs(cap), "{attempt}: {next:?}");
        }
        let has_jitter = |attempt| {
            let base = base_of(attempt);
            retry_delay(&endpoint, attempt).abs_diff(base) > base / 50
        };
        assert!((1..=7).any(has_jitter), "no jitter for {endpoint}");
        let first: Vec<_> = (1..=8).map(|attempt| base_of(attempt).as_millis()).collect();
        first
    };
    assert_eq!(
        delays("tcp://10.0.0.1:2375", 60),
        [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]
    );
    assert_eq!(
        delays("unix:///run/docker.sock", 1),
        [500, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000]
    );
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

/// An engine whose second list and first event have types that the API does not have.
async fn serve_unreadable(
    mut connection: TcpStream,
    lists: Arc<AtomicUsize>,
    subscriptions: Arc<AtomicUsize>,
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
        let head = String::from_utf8(std::mem::take(&mut request)).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path.contains("/events") {
            const START: &str =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            drop(connection.write_all(START.as_bytes()).await);
            if subscriptions.fetch_add(1, Ordering::Relaxed) == 0 {
                let event = r#"{"Type":"container","Action":["odd"]}"#;
                let chunk = format!("{:x}\r\n{event}\n\r\n", event.len() + 1);
                drop(connection.write_all(chunk.as_bytes()).await);
            }
            std::future::pending::<()>().await;
        }
        let body = match path {
            path if path.contains("/containers/json") && lists.fetch_add(1, Ordering::Relaxed) == 1 => {
                r#"[{"Id":["odd"]}]"#
            }
            path if path.contains("/volumes") => r#"{"Volumes":[]}"#,
            path if path.contains("/version") => r#"{"Version":"99.1"}"#,
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
async fn unreadable_event_and_list_are_reported_and_listed_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let engine = EngineWithoutEvents {
        address: format!("tcp://{}", listener.local_addr().unwrap()),
        subscriptions: Arc::default(),
    };
    let (lists, subscriptions) = (Arc::<AtomicUsize>::default(), engine.subscriptions.clone());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve_unreadable(connection, lists.clone(), subscriptions.clone()));
        }
    });
    let mut watch = Box::pin(engine.watch());
    let (mut warnings, mut lists_after) = (Vec::new(), 0);
    while lists_after < 1 || warnings.len() < 2 {
        let next = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        match next.expect("an event within 20 s").unwrap() {
            WatchEvent::Unreadable(what) => warnings.push(what.to_string()),
            WatchEvent::InitDone if warnings.len() == 2 => lists_after += 1,
            WatchEvent::Disconnected(_, reason) => panic!("{reason}"),
            _ => {}
        }
    }
    for (what, text) in [
        ("an event", r#""Action":["odd"]"#),
        ("the list of containers", r#"[{"Id":["odd"]}]"#),
    ] {
        let has = |warning: &&String| {
            warning.contains(&format!("cannot read {what} of the engine (version 99.1)"))
                && warning.contains(text)
        };
        assert_eq!(warnings.iter().filter(has).count(), 1, "{warnings:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_socket_ends_the_wait_for_a_retry() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docker.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let endpoint = Endpoint::parse(&format!("unix://{}", path.display())).unwrap();
    let shared = Docker::new(endpoint, Arc::new(|| Timestamp(0))).shared;
    let almost = MAX_RETRY_DELAY.saturating_sub(Duration::from_millis(1));
    let unchanged = tokio::time::timeout(almost, wait_for_retry(&shared, MAX_RETRY_DELAY));
    assert!(unchanged.await.is_err());

    let change = async {
        tokio::time::sleep(MAX_RETRY_DELAY / 2).await;
        let before = shared.connection.socket_identity();
        let mut mode = 0o600;
        // Some file systems store times in steps of milliseconds.
        while shared.connection.socket_identity() == before {
            mode ^= 0o060;
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
    };
    let both = async { tokio::join!(wait_for_retry(&shared, MAX_RETRY_DELAY), change) };
    let early = MAX_RETRY_DELAY / 2 + 2 * SOCKET_CHECK_INTERVAL;
    assert!(tokio::time::timeout(early, both).await.is_ok());
}
