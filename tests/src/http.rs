//! One HTTP request over a unix socket, blocking: so that tests see the engine without the code they test.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// An answer, read to its end.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The body as it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `Null` when there is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Whether the status is 2xx or 3xx (304 is how the engine says "already so").
    #[must_use]
    pub fn ok(&self) -> bool {
        (200..400).contains(&self.status)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// Sends one request and reads the answer until the other side closes. HTTP/1.0, so that no chunks have to be undone.
pub fn request(
    socket: &Path,
    method: &str,
    path: &str,
    kind: &str,
    body: &[u8],
    limit: Duration,
) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    parse(&raw).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))
}

fn parse(raw: &[u8]) -> Option<Answer> {
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        body: raw[end + 4..].to_vec(),
    })
}
