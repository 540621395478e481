//! First message of TLS, which shows that a port accepts TLS only: such a port answers with a message of TLS even if it refuses it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum time for the answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Types of messages of TLS in an answer: an alert, and the handshake of the server.
const ANSWERS: [u8; 2] = [0x15, 0x16];

/// Cipher suites of TLS 1.2 that most servers accept.
const SUITES: [u8; 8] = [0xc0, 0x2f, 0xc0, 0x30, 0xc0, 0x2b, 0x00, 0x2f];

/// Length of the body of the hello.
const BODY: u8 = 47;

/// Returns whether a port answers to the start of TLS with a message of TLS.
pub(crate) async fn is_answered(address: SocketAddr) -> bool {
    let answer = tokio::time::timeout(TIMEOUT, exchange(address)).await;
    matches!(answer, Ok(Ok([kind, 3])) if ANSWERS.contains(&kind))
}

/// Sends the hello. Returns the type and the version of the answer.
async fn exchange(address: SocketAddr) -> std::io::Result<[u8; 2]> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&client_hello()).await?;
    let mut start = [0; 2];
    stream.read_exact(&mut start).await?;
    Ok(start)
}

/// `ClientHello` of TLS 1.2 without extensions.
fn client_hello() -> Vec<u8> {
    const RANDOM: usize = 32;
    let mut body = vec![3, 3];
    body.extend([0x5a; RANDOM]);
    // Without a session.
    body.push(0);
    body.extend([0, 8]);
    body.extend(SUITES);
    // Without compression.
    body.extend([1, 0]);
    let mut hello = vec![0x16, 3, 1, 0, BODY + 4, 1, 0, 0, BODY];
    hello.extend(body);
    hello
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn is_answered_with(answer: &'static [u8]) -> bool {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 256];
            let read = stream.read(&mut hello).await.unwrap();
            assert_eq!(hello[..read], client_hello());
            stream.write_all(answer).await.unwrap();
        };
        tokio::join!(is_answered(address), server).0
    }

    #[tokio::test]
    async fn only_messages_of_tls_show_tls() {
        assert!(is_answered_with(&[0x15, 3, 3, 0, 2, 2, 40]).await);
        assert!(is_answered_with(&[0x16, 3, 3, 0, 80]).await);
        assert!(!is_answered_with(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
        assert!(!is_answered_with(b"").await);
    }

    #[test]
    fn lengths_of_the_hello_fit() {
        let hello = client_hello();
        assert_eq!(usize::from(hello[4]), hello.len() - 5);
        assert_eq!(usize::from(hello[8]), hello.len() - 9);
    }
}
