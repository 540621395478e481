//! Probes against servers that are good, bad, slow, and not there.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{http, tcp};

/// A server on a free port that handles one connection.
async fn once<F, T>(handle: F) -> (SocketAddr, tokio::task::JoinSet<()>)
where
    F: FnOnce(tokio::net::TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        handle(stream).await;
    });
    (address, server)
}

async fn answering(answer: &'static str) -> (bool, String) {
    let (address, _server) = once(move |mut stream| async move {
        let mut request = [0; 1_024];
        let read = stream.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let answer = http::probe(address, "/health").await;
    (answer.good, answer.output)
}

#[tokio::test]
async fn two_hundreds_and_three_hundreds_are_good() {
    for (answer, good) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
        ("HTTP/1.0 204 No Content\r\n\r\n", true),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://nowhere.invalid/\r\ncontent-length: 0\r\n\r\n",
            true,
        ),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", false),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            false,
        ),
        ("SSH-2.0-OpenSSH\r\n", false),
        ("", false),
    ] {
        let (was_good, output) = answering(answer).await;
        assert_eq!(was_good, good, "{answer:?}: {output}");
    }
}

#[tokio::test]
async fn a_port_that_accepts_and_hangs_up_is_a_proxy_without_a_service() {
    let (address, _server) = once(|stream| async move { drop(stream) }).await;
    let answer = tcp::probe(address).await;
    assert!(!answer.good, "{}", answer.output);
    let (address, _server) = once(|mut stream| async move {
        let mut byte = [0];
        let _until_the_probe_hangs_up =
            tokio::time::timeout(Duration::from_secs(5), stream.read(&mut byte)).await;
    })
    .await;
    assert!(tcp::probe(address).await.good);
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(!tcp::probe(free).await.good);
}
