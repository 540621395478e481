//! One blocking HTTP request over a unix socket, so that tests see the engine without the code under test.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// A response, read to its end.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The body as received.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; `Null` if there is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// True if the status is 2xx or 3xx (304 is the engine's `already so`).
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

/// Sends one request and reads the response until the server closes. Uses HTTP/1.0, so that the body is not chunked.
pub fn request(
    socket: &Path,
    method: &str,
    path: &str,
    kind: &str,
    body: &[u8],
    limit: Duration,
) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(stream, &[head.as_bytes(), body].concat())
}

/// Calls a tool over MCP. Returns the complete structured content of its response, which must have some.
#[must_use]
pub fn call(socket: &Path, tool: &str, arguments: &Value, limit: Duration) -> Value {
    let mut arguments = arguments.clone();
    if let Some(all) = arguments.as_object_mut() {
        all.entry("maxTextBytes").or_insert(json!(1 << 20));
    }
    let output = result(socket, tool, &arguments, limit)["structuredContent"].clone();
    assert!(output.is_object(), "{tool} {arguments}: {output}");
    output
}

/// Calls a tool over MCP. Returns its result: text and structured content.
#[must_use]
pub fn result(socket: &Path, tool: &str, arguments: &Value, limit: Duration) -> Value {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    let body = call.to_string();
    let mut stream = UnixStream::connect(socket).expect("the server listens");
    stream.set_read_timeout(Some(limit)).expect("a socket");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: argus\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .expect("the server accepts the head");
    let answer = exchange(stream, body.as_bytes()).expect("a response");
    let output = answer.json()["result"].clone();
    assert!(output.is_object(), "{tool} {arguments}: {answer:?}");
    output
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

/// Reads the next response of a keep-alive connection, by its content length.
pub fn next(stream: &mut impl BufRead) -> io::Result<Answer> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| bad("no status"))?;
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| bad("no length"))?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { status, body })
}

/// Number of heartbeats without an event after which a test fails: a minute.
const SILENCE: u32 = 4;

/// Sends these bytes and reads the response until the server closes.
pub fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> io::Result<Answer> {
    stream.write_all(bytes)?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    parse(&raw).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))
}

/// A stream of server-sent events.
#[derive(Debug)]
pub struct Events<S> {
    stream: S,
    raw: Vec<u8>,
}

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The event name.
    pub name: String,
    /// The event id; empty if it has none.
    pub id: String,
    /// The data as received.
    pub data: String,
}

impl Event {
    /// The data as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or(Value::Null)
    }
}

impl<S: Read + Write> Events<S> {
    /// Opens the stream of events. `query` may be empty; `last` is the id of the last event received before.
    pub fn open(stream: S, host: &str, query: &str, last: Option<&str>) -> io::Result<Self> {
        Self::of(stream, host, &format!("/events{query}"), last)
    }

    /// Opens the stream of another path.
    pub fn of(mut stream: S, host: &str, path: &str, last: Option<&str>) -> io::Result<Self> {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{last}\r\n");
        stream.write_all(head.as_bytes())?;
        Ok(Self {
            stream,
            raw: Vec::new(),
        })
    }

    /// Reads the next event and skips comments, heads and chunk lengths. `None` at the end of the stream.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut silence = 0;
        loop {
            let Some(line) = self.line()? else { return Ok(None) };
            if line.starts_with(':') {
                silence += 1;
            }
            if silence == SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match line.split_once(": ").or_else(|| line.split_once(':')) {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", data)) => event.data.push_str(data),
                _ if line.is_empty() && !event.data.is_empty() => return Ok(Some(event)),
                _ => {}
            }
        }
    }

    /// Reads the next comment, without its colon, and skips everything before it. `None` at the end of the stream.
    pub fn comment(&mut self) -> io::Result<Option<String>> {
        while let Some(line) = self.line()? {
            if let Some(comment) = line.strip_prefix(':') {
                return Ok(Some(comment.trim().to_owned()));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.raw.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.raw.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line);
                return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
            }
            let mut buffer = [0; 16 * 1024];
            let read = self.stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.raw.extend_from_slice(&buffer[..read]);
        }
    }
}
