//! Requests to a service and to a listener outside of the environment, which must receive no connection.

use std::time::Duration;

use argus_core::time::Timestamp;
use argus_suite::{Action, Failure, Host, Moment, PublishedPort, Reach, Reply, Request, Scope};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::connect;
use super::request::send;

const LIMIT: Duration = Duration::from_secs(30);

/// A `GET` of a suite.
fn request(url: &str) -> Request {
    let text = format!("name: a\ncases:\n  - {{ name: a, request: {{ method: GET, url: '{url}' }} }}\n");
    let suite = argus_suite::parse("a.yaml", text.as_bytes()).suite.unwrap();
    let mut moment = Moment {
        now: Timestamp(0),
        random: &mut || 0,
    };
    match suite.cases[0]
        .resolve(&Scope::default(), &mut moment, "")
        .unwrap()
    {
        Action::Request(request) => *request,
        other @ Action::Container(_) => panic!("{other:?}"),
    }
}

fn reach(port: u16) -> Reach {
    Reach {
        ports: vec![PublishedPort {
            service: "web".to_owned(),
            address: "127.0.0.1".parse().unwrap(),
            requested: port,
            actual: port,
        }],
        engine: None,
        allowed: Some(Vec::new()),
    }
}

/// Sends a request, with redirects within the reach.
async fn send_within(reach: &Reach, url: &str) -> Reply {
    let find = async |host: &Host, port: u16| {
        let found = connect::find_addresses(host, port).await;
        let found = found.map_err(|error| Failure::new("request", error.to_string()))?;
        let chosen = reach.choose(host, port, &found, crate::engine::is_own);
        if chosen.is_empty() {
            Err(reach.refuse(host, port))
        } else {
            Ok(chosen)
        }
    };
    send(request(url), (&reach.ports, reach.engine.is_some()), &find, LIMIT).await
}

/// Answers each request with a redirect to `location`, or with 200 if the path is `/end`.
async fn serve(listener: TcpListener, location: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = vec![0; 4096];
        let read = stream.read(&mut head).await.unwrap_or_default();
        let answer = if head[..read].starts_with(b"GET /end") {
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
        } else {
            format!(
                "HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        };
        drop(stream.write_all(answer.as_bytes()).await);
    }
}

/// A listener that accepts nothing unless a connection is in its queue.
fn listen() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Sends a request to a service that redirects to `location`, where `SERVICE` and `STRANGER` are ports. Returns the reply, and true if
/// the stranger has received a connection.
async fn redirected(location: &str) -> (Reply, bool) {
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stranger = listen();
    let port = service.local_addr().unwrap().port();
    let location = location
        .replace("SERVICE", &port.to_string())
        .replace("STRANGER", &stranger.local_addr().unwrap().port().to_string());
    let url = format!("http://localhost:{port}/start");
    let reach = reach(port);
    let reply = tokio::select! {
        reply = send_within(&reach, &url) => reply,
        () = serve(service, location) => panic!("the service ended"),
    };
    let reached = stranger.accept().is_ok();
    (reply, reached)
}

#[tokio::test]
async fn redirect_inside_the_environment_is_followed() {
    for location in ["/end", "http://127.0.0.1:SERVICE/end", "//LOCALHOST:SERVICE/end"] {
        match redirected(location).await {
            (Reply::Response(response), false) => assert_eq!(response.status, 200, "{location}"),
            other => panic!("{location}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn redirect_to_another_port_is_refused_with_both() {
    for location in [
        "http://127.0.0.1:STRANGER/x",
        "//localhost:STRANGER/x",
        "http://0.0.0.0:STRANGER/x",
        "http://2130706433:STRANGER/x",
        "http://[::ffff:127.0.0.1]:STRANGER/x",
        "http://localhost:SERVICE@127.0.0.1:STRANGER/x",
    ] {
        let (reply, reached) = redirected(location).await;
        assert!(!reached, "{location}");
        let Reply::Failed(failure) = reply else {
            panic!("{location}: {reply:?}");
        };
        assert!(
            failure.message.contains("/start` redirects to `http://") && failure.message.contains("/x`: `"),
            "{failure:?}"
        );
        assert!(
            failure.code.is_some() && failure.message.contains("--allow-test-hosts"),
            "{failure:?}"
        );
    }
}

#[tokio::test]
async fn address_outside_receives_no_connection() {
    let stranger = listen();
    let port = stranger.local_addr().unwrap().port();
    let reach = reach(1);
    for host in [
        "127.0.0.1",
        "localhost",
        "0.0.0.0",
        "0177.0.0.1",
        "[::ffff:7f00:1]",
    ] {
        let reply = send_within(&reach, &format!("http://{host}:{port}/")).await;
        assert!(
            matches!(&reply, Reply::Failed(failure) if failure.code.is_some()),
            "{host}: {reply:?}"
        );
    }
    assert!(stranger.accept().is_err());
}

#[tokio::test]
async fn request_has_the_length_of_its_body() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = async {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            heads.push(String::from_utf8_lossy(&head[..read]).to_lowercase());
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
        }
        heads
    };
    let url = format!("http://127.0.0.1:{port}/");
    let (mut without_body, mut with_written_length) = (request(&url), request(&url));
    "POST".clone_into(&mut without_body.method);
    with_written_length.headers = vec![("Content-Length".to_owned(), "3".to_owned())];
    let find = async |_: &Host, port: u16| Ok(vec![([127, 0, 0, 1], port).into()]);
    let reach = reach(port);
    let calls = async {
        for request in [without_body, with_written_length] {
            let reply = send(request, (&reach.ports, false), &find, LIMIT).await;
            assert!(matches!(reply, Reply::Response(_)), "{reply:?}");
        }
    };
    let (heads, ()) = tokio::join!(answer, calls);
    assert!(heads[0].contains("content-length: 0\r\n"), "{}", heads[0]);
    assert!(!heads[1].contains("content-length"), "{}", heads[1]);
}
