//! Parser that finds the heads of requests in a stream of bytes, and passes every byte on unchanged.

/// A part of the stream, in order; the bytes of a request follow it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A new request begins.
    Request {
        /// Method and path with ids replaced.
        class: String,
        /// Method and path with its query, as sent.
        request: String,
    },
    /// Bytes to pass on.
    Bytes(Vec<u8>),
}

#[derive(Debug, Default)]
enum At {
    #[default]
    Head,
    Body(usize),
    Chunk,
    ChunkData(usize),
    Trailer,
    /// Bytes after an upgrade, which are no longer HTTP.
    Raw,
}

/// The reader's position in the stream.
#[derive(Debug, Default)]
pub(super) struct Framing {
    at: At,
    held: Vec<u8>,
}

impl Framing {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.held.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while !self.held.is_empty() && self.step(&mut pieces) {}
        pieces
    }

    /// Makes one step. False if it needs more bytes.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.at {
            At::Head => {
                let Some(end) = find(&self.held, b"\r\n\r\n") else {
                    return false;
                };
                let head = String::from_utf8_lossy(&self.held[..end]).into_owned();
                pieces.push(request(&head));
                self.at = after_head(&head);
                self.pass(end + 4, pieces);
            }
            At::Body(left) => {
                let count = left.min(self.held.len());
                self.at = if count == left {
                    At::Head
                } else {
                    At::Body(left - count)
                };
                self.pass(count, pieces);
            }
            At::Chunk => {
                let Some(end) = find(&self.held, b"\r\n") else {
                    return false;
                };
                let line = String::from_utf8_lossy(&self.held[..end]).into_owned();
                let size =
                    usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16).unwrap_or(0);
                self.at = if size == 0 {
                    At::Trailer
                } else {
                    At::ChunkData(size + 2)
                };
                self.pass(end + 2, pieces);
            }
            At::ChunkData(left) => {
                let count = left.min(self.held.len());
                self.at = if count == left {
                    At::Chunk
                } else {
                    At::ChunkData(left - count)
                };
                self.pass(count, pieces);
            }
            At::Trailer => {
                let Some(end) = find(&self.held, b"\r\n") else {
                    return false;
                };
                self.at = if end == 0 { At::Head } else { At::Trailer };
                self.pass(end + 2, pieces);
            }
            At::Raw => self.pass(self.held.len(), pieces),
        }
        true
    }

    fn pass(&mut self, count: usize, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Bytes(self.held.drain(..count).collect()));
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn request(head: &str) -> Piece {
    let mut words = head.lines().next().unwrap_or("").split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    Piece::Request {
        class: class_of(method, path),
        request: format!("{method} {path}"),
    }
}

fn after_head(head: &str) -> At {
    let mut at = At::Head;
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        match name.as_str() {
            "upgrade" => return At::Raw,
            "transfer-encoding" if value.contains("chunked") => at = At::Chunk,
            "content-length" => {
                let size = value.parse().unwrap_or(0);
                at = if size == 0 { At::Head } else { At::Body(size) };
            }
            _ => {}
        }
    }
    at
}

/// Method and path without version and query, with each id or name replaced by `*`: `POST /containers/*/start`.
#[must_use]
pub fn class_of(method: &str, path: &str) -> String {
    const COLLECTIONS: [&str; 6] = [
        "containers",
        "networks",
        "volumes",
        "images",
        "exec",
        "distribution",
    ];
    const VERBS: [&str; 6] = ["json", "create", "prune", "get", "load", "search"];
    let path = path.split('?').next().unwrap_or("");
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts
        .first()
        .is_some_and(|part| part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        parts.remove(0);
    }
    if parts.len() > 1 && COLLECTIONS.contains(&parts[0]) && !VERBS.contains(&parts[1]) {
        // An image name may contain slashes: `images/host:5000/app/json`.
        let end = if parts[0] == "images" && parts.len() > 2 {
            parts.len() - 1
        } else {
            2
        };
        parts.splice(1..end, ["*"]);
    }
    format!("{method} /{}", parts.join("/"))
}
