//! Assembly of lines from frames. An engine splits a line of more than 16 KiB into several frames, and writes a timestamp at
//! the start of each. A frame may contain many lines.

use std::collections::VecDeque;

use argus_backend::LogLine;
use argus_core::quoting::start_of;
use argus_core::time::Timestamp;

/// Maximum length of a line in bytes. A service that writes no line ends must not fill the memory.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Incomplete lines of both streams, and the complete lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: [Vec<u8>; 2],
    ready: VecDeque<LogLine>,
    /// Each frame starts with a timestamp.
    timestamps: bool,
}

impl Lines {
    pub(super) fn new(timestamps: bool) -> Self {
        Self {
            timestamps,
            ..Self::default()
        }
    }

    /// Adds the content of one frame. The line keeps the timestamp of its first frame only.
    pub(super) fn add(&mut self, stderr: bool, bytes: &[u8]) {
        let is_continued = self.timestamps && !self.unfinished[usize::from(stderr)].is_empty();
        let bytes = if is_continued {
            without_timestamp(bytes)
        } else {
            bytes
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = &mut self.unfinished[usize::from(stderr)];
            let (text, ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let free = MAX_LINE_BYTES.saturating_sub(line.len()).min(text.len());
            line.extend_from_slice(text.get(..free).unwrap_or_default());
            if ended {
                self.finish(stderr);
            }
        }
    }

    /// Ends the streams: an incomplete line becomes a line.
    pub(super) fn end(&mut self) {
        for stderr in [false, true] {
            if !self.unfinished[usize::from(stderr)].is_empty() {
                self.finish(stderr);
            }
        }
    }

    /// Takes the next complete line.
    pub(super) fn take(&mut self) -> Option<LogLine> {
        self.ready.pop_front()
    }

    fn finish(&mut self, stderr: bool) {
        let bytes = std::mem::take(&mut self.unfinished[usize::from(stderr)]);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        // The replacement of invalid UTF-8 can make a line longer.
        let text = start_of(text, MAX_LINE_BYTES).to_owned();
        self.ready.push_back(LogLine { stderr, text });
    }
}

fn without_timestamp(frame: &[u8]) -> &[u8] {
    let blank = frame.iter().position(|byte| *byte == b' ');
    let stamp = blank.and_then(|at| std::str::from_utf8(&frame[..at]).ok());
    match stamp.and_then(Timestamp::parse).and(blank) {
        Some(at) => &frame[at + 1..],
        None => frame,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frames: &[(bool, &[u8])]) -> Vec<(bool, String)> {
        let mut lines = Lines::default();
        for (stderr, bytes) in frames {
            lines.add(*stderr, bytes);
        }
        lines.end();
        std::iter::from_fn(|| lines.take())
            .map(|line| (line.stderr, line.text))
            .collect()
    }

    #[test]
    fn frames_become_lines_of_their_stream() {
        let line = |stderr, text: &str| (stderr, text.to_owned());
        assert_eq!(
            read(&[(false, b"a\nb\r\n\nc")]),
            [
                line(false, "a"),
                line(false, "b"),
                line(false, ""),
                line(false, "c")
            ]
        );
        let mixed = read(&[(false, b"one "), (true, b"err\n"), (false, b"line\n")]);
        assert_eq!(mixed, [line(true, "err"), line(false, "one line")]);
        assert_eq!(read(&[(false, b"")]), []);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let part = vec![b'x'; 50_000];
        let lines = read(&[
            (false, &part),
            (false, &part),
            (false, &part),
            (false, b"\nnext\n"),
        ]);
        assert_eq!(
            lines.iter().map(|(_, text)| text.len()).collect::<Vec<_>>(),
            [64 * 1024, 4]
        );
        let garbage = vec![0xff; 60_000];
        assert!(read(&[(true, &garbage)])[0].1.len() <= 64 * 1024);
    }

    #[test]
    fn parts_of_a_long_line_join_without_timestamps() {
        let stamp = "2026-11-21T10:00:00.123456789Z";
        let mut lines = Lines::new(true);
        for text in ["the sword", "fish of", " Ann\n", "next\n"] {
            lines.add(true, format!("{stamp} {text}").as_bytes());
        }
        let texts: Vec<_> = std::iter::from_fn(|| lines.take())
            .map(|line| line.text)
            .collect();
        assert_eq!(
            texts,
            [format!("{stamp} the swordfish of Ann"), format!("{stamp} next")]
        );
    }
}
