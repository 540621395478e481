//! Last lines of the log of a failed run, for its evidence.
//!
//! A busy engine can report the end of a container before it has written the last lines of its log. It stamps a line when it
//! reads it, so a line with a time after the end of the run belongs to such a backlog. [`RunLog`] then reads the log again
//! until it no longer changes.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::outcome::{ActionError, Evidence};
use argus_core::time::Timestamp;
use futures::future::{FutureExt, Shared};
use futures::stream::{BoxStream, StreamExt};
use tokio::time::{Sleep, sleep};

use crate::{LogLine, LogQuery, Stream};

/// Number of lines to request; the engine counts the lines of both streams together.
const MAX_LINES: u32 = 1_000;
/// A stream with fewer lines than this may have lost lines to the other stream.
const MIN_COMPLETE_LINES: usize = 100;
/// Size of a stream in bytes, including the timestamps of the engine. A smaller stream displaces no lines of the other
/// one.
const DISPLACING_BYTES: usize = 16 * 1024;
/// Numbers of lines to request when lines were displaced: first more than the pipes of a container hold, then all,
/// because reading a long log takes an engine seconds.
const RETRY_TAILS: [Option<u32>; 2] = [Some(64_000), None];
/// Maximum stored bytes per stream; the end of a longer stream is stored.
const MAX_STREAM_BYTES: usize = 512 * 1024;
/// Default deadline of a collection of evidence, below the deadline of the action: what arrives later is reported as missing.
pub const COLLECTION_TIMEOUT: Duration = Duration::from_secs(4);
/// Time between two reads of a log with a backlog.
const REREAD_INTERVAL: Duration = Duration::from_millis(200);
/// Time after the end of a run from which a written line shows that the engine may have dropped the rest. Docker stops reading
/// the output of a process 2 s after its end, and a busy one reads its last part some time before.
const DROPS_AFTER: Duration = Duration::from_millis(1_500);

/// The common deadline of all parts of a collection.
#[derive(Debug, Clone)]
pub struct Deadline {
    limit: Duration,
    end: Shared<Sleep>,
}

impl Deadline {
    /// Starts the deadline of a collection.
    pub fn start(limit: Duration) -> Self {
        let end = sleep(limit).shared();
        Self { limit, end }
    }

    /// Waits for the deadline. Returns the error of a part that did not arrive before it.
    pub async fn passed(&self) -> ActionError {
        self.end.clone().await;
        ActionError::Unknown(format!("no answer within {} s", self.limit.as_secs()))
    }
}

/// Log of a failed run.
#[derive(Debug)]
pub struct RunLog<F> {
    /// Opens the log of its container.
    pub open: F,
    /// Time of its first lines; `None` if it is unknown.
    pub since: Option<Timestamp>,
    /// End of the run by the engine's clock; `None` while its container runs.
    pub ended_at: Option<Timestamp>,
    /// Deadline of all reads.
    pub deadline: Deadline,
}

/// The last lines of one stream.
#[derive(Debug)]
struct StreamTail {
    lines: Vec<String>,
    /// Bytes of all lines, stored or not.
    bytes: usize,
    /// Reason why further lines are missing; `None` for a complete stream.
    cut: Option<String>,
}

type Tail = Result<StreamTail, ActionError>;

impl<F> RunLog<F>
where
    F: Fn(LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> + Sync,
{
    /// Adds the last lines of both streams that arrive before the deadline, each prefixed with the engine's time. A stream
    /// whose last lines may be missing is listed as truncated.
    ///
    /// # Errors
    /// The container is gone, the engine is unreachable, or neither stream could be read.
    pub async fn add_to(&self, evidence: &mut Evidence) -> Result<(), ActionError> {
        let [stdout, stderr] = self.read().await;
        if let (Err(why), Err(_)) = (&stdout, &stderr) {
            return Err(why.clone());
        }
        for (name, result, lines) in [
            ("stdout", stdout, &mut evidence.stdout),
            ("stderr", stderr, &mut evidence.stderr),
        ] {
            match result {
                Ok(tail) => {
                    *lines = tail.lines;
                    let truncated = tail.cut.map(|why| format!("{name}: truncated: {why}"));
                    evidence.missing.extend(truncated);
                }
                Err(fatal @ (ActionError::Gone | ActionError::Unreachable(_))) => return Err(fatal),
                Err(why) => evidence.missing.push(format!("{name}: {why}")),
            }
        }
        Ok(())
    }

    /// Reads stdout and stderr.
    async fn read(&self) -> [Tail; 2] {
        let [stdout, stderr] = self.read_until_written().await;
        let (stdout_displaces, stderr_displaces) = (can_displace_lines(&stdout), can_displace_lines(&stderr));
        let (stdout, stderr) = tokio::join!(
            self.read_more_lines(Stream::Stdout, stdout, stderr_displaces),
            self.read_more_lines(Stream::Stderr, stderr, stdout_displaces),
        );
        [stdout, stderr].map(|tail| self.with_dropped_end(tail))
    }

    /// Reads both streams, and repeats that until they no longer change if the engine wrote lines after the end of the run.
    async fn read_until_written(&self) -> [Tail; 2] {
        let mut tails = self.read_both().await;
        while tails.iter().any(|tail| self.lag(tail).is_some()) {
            tokio::select! {
                biased;
                _ = self.deadline.passed() => {}
                () = sleep(REREAD_INTERVAL) => {}
            }
            let again = self.read_both().await;
            let is_whole = |tail: &Tail| tail.as_ref().is_ok_and(|tail| tail.cut.is_none());
            if !again.iter().all(is_whole) {
                for tail in tails.iter_mut().flatten() {
                    let why = || "the engine had not written its end yet".to_owned();
                    tail.cut.get_or_insert_with(why);
                }
                break;
            }
            let is_written = again.each_ref().map(last_line) == tails.each_ref().map(last_line);
            tails = again;
            if is_written {
                break;
            }
        }
        tails
    }

    async fn read_both(&self) -> [Tail; 2] {
        let read = |stream| self.read_lines(stream, Some(MAX_LINES));
        let (stdout, stderr) = tokio::join!(read(Stream::Stdout), read(Stream::Stderr));
        [stdout, stderr]
    }

    /// Reads the last lines of one stream of this run.
    async fn read_lines(&self, stream: Stream, tail: Option<u32>) -> Tail {
        let query = LogQuery {
            tail,
            timestamps: true,
            since: self.since,
            only: Some(stream),
            ..LogQuery::default()
        };
        gather_lines((self.open)(query), self.since, self.deadline.clone()).await
    }

    /// Reads more of a stream whose lines the other one may have displaced. Returns `first_read` when that finds no more
    /// in time.
    async fn read_more_lines(&self, stream: Stream, first_read: Tail, can_be_displaced: bool) -> Tail {
        let is_short = first_read
            .as_ref()
            .is_ok_and(|tail| tail.lines.len() < MIN_COMPLETE_LINES && tail.cut.is_none());
        if !is_short || !can_be_displaced {
            return first_read;
        }
        for tail in RETRY_TAILS {
            match self.read_lines(stream, tail).await {
                // A stream that was cut contains its beginning, but evidence needs its end.
                Ok(found) if found.cut.is_some() => return first_read,
                Ok(found) if found.lines.is_empty() => {}
                Ok(found) => return Ok(found),
                Err(_) => return first_read,
            }
        }
        first_read
    }

    /// Marks a stream that the engine may have cut, because it still wrote lines near its own time limit.
    fn with_dropped_end(&self, mut tail: Tail) -> Tail {
        let lag = self.lag(&tail).filter(|lag| *lag >= DROPS_AFTER);
        if let (Some(lag), Ok(tail)) = (lag, &mut tail) {
            let seconds = lag.as_secs_f64();
            tail.cut.get_or_insert_with(|| {
                format!("the engine still wrote it {seconds:.1} s after the end of the run and may have dropped the rest")
            });
        }
        tail
    }

    /// Time from the end of the run to the last line of the stream; `None` if the line is older.
    fn lag(&self, tail: &Tail) -> Option<Duration> {
        let (last_at, ended_at) = (time_of(last_line(tail)?)?, self.ended_at?);
        (last_at >= ended_at).then(|| last_at.since(ended_at))
    }
}

fn last_line(tail: &Tail) -> Option<&String> {
    tail.as_ref().ok()?.lines.last()
}

/// True for a stream that may have displaced lines of the other one.
fn can_displace_lines(tail: &Tail) -> bool {
    tail.as_ref().is_ok_and(|tail| tail.bytes >= DISPLACING_BYTES)
}

/// Gathers the last lines that arrive before the deadline. Fails only when no line arrived before the error.
async fn gather_lines(
    mut all: impl futures::Stream<Item = Result<LogLine, ActionError>> + Unpin,
    since: Option<Timestamp>,
    deadline: Deadline,
) -> Tail {
    let mut kept = VecDeque::new();
    let (mut bytes, mut kept_bytes) = (0, 0);
    let mut cut = None;
    loop {
        let next = tokio::select! {
            biased;
            why = deadline.passed() => Some(Err(why)),
            next = all.next() => next,
        };
        let text = match next {
            None => break,
            Some(Ok(line)) => line.text,
            Some(Err(why)) if kept.is_empty() => return Err(why),
            Some(Err(why)) => {
                cut = Some(why.to_string());
                break;
            }
        };
        if !is_of_this_run(&text, since) {
            continue;
        }
        bytes += text.len();
        kept_bytes += text.len();
        kept.push_back(text);
        while kept.len() > 1 && (kept_bytes > MAX_STREAM_BYTES || kept.len() > MAX_LINES as usize) {
            kept_bytes -= kept.pop_front().map_or(0, |old: String| old.len());
        }
    }
    Ok(StreamTail {
        lines: kept.into(),
        bytes,
        cut,
    })
}

/// Returns the text after the engine's time, if the line belongs to the run whose lines begin at `since`.
pub fn text_of_run(line: &str, since: Option<Timestamp>) -> Option<&str> {
    let text = match time_of(line) {
        Some(_) => line.split_once(' ').map_or("", |(_, text)| text),
        None => line,
    };
    is_of_this_run(line, since).then_some(text)
}

/// True for a line of this run. The engine's filter has whole seconds, and an earlier run may have ended in the same one.
fn is_of_this_run(line: &str, since: Option<Timestamp>) -> bool {
    match (time_of(line), since) {
        (Some(at), Some(since)) => at >= since,
        (None, _) | (_, None) => true,
    }
}

/// Time at which the engine read a line.
fn time_of(line: &str) -> Option<Timestamp> {
    let (stamp, _) = line.split_once(' ')?;
    Timestamp::parse(stamp)
}

#[cfg(test)]
#[path = "run_log_tests.rs"]
mod tests;
