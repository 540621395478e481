//! Collection of the evidence of a failed run: its last log lines, its memory peak, and the state of its port.

mod platform;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use argus_backend::{LogLine, LogQuery, Stream};
use argus_core::failed_run::is_wrong_format;
use argus_core::ident::ContainerId;
use argus_core::outcome::{ActionError, Done, Evidence};
use argus_core::time::Timestamp;
use futures::future::{FutureExt, Shared as SharedFuture};
use futures::stream::StreamExt;
use tokio::net::TcpStream;

use crate::Shared;
use crate::logs;
use crate::ownership;
use crate::service_sockets;

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
/// Deadline of the collection, below the deadline of the action: what arrives later is reported as missing.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum stored bytes per stream; the end of a longer stream is stored.
const MAX_STREAM_BYTES: usize = 512 * 1024;
/// Deadline of a test connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Missing part of the evidence of a run whose memory was never sampled.
const NO_PEAK: &str =
    "memory peak: the run ended before the first sample, or the engine runs on another host";

/// The run whose evidence is collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a ContainerId,
    pub(crate) since: Option<Timestamp>,
    /// Time of its first lines.
    pub(crate) lines_since: Option<Timestamp>,
    pub(crate) port: Option<u16>,
    /// True if the probe sends HTTP requests.
    pub(crate) http: bool,
}

/// The common deadline of all parts of a collection.
type Deadline = SharedFuture<tokio::time::Sleep>;

/// Collects the evidence that is available within the deadline; the evidence lists its missing parts.
///
/// # Errors
/// The container is gone, the engine is unreachable, or neither stream of the log could be read.
pub(crate) async fn collect(shared: &Shared, run: Run<'_>) -> Result<Done, ActionError> {
    let deadline = tokio::time::sleep(COLLECTION_TIMEOUT).shared();
    let (stdout, stderr, diagnostics) = tokio::join!(
        read_lines(shared, run, Stream::Stdout, Some(MAX_LINES), deadline.clone()),
        read_lines(shared, run, Stream::Stderr, Some(MAX_LINES), deadline.clone()),
        run_until(deadline.clone(), Box::pin(diagnose_network(shared, run))),
    );
    let (stdout_displaces, stderr_displaces) = (can_displace_lines(&stdout), can_displace_lines(&stderr));
    let (stdout, stderr) = tokio::join!(
        read_more_lines(
            shared,
            run,
            Stream::Stdout,
            stdout,
            stderr_displaces,
            deadline.clone()
        ),
        read_more_lines(
            shared,
            run,
            Stream::Stderr,
            stderr,
            stdout_displaces,
            deadline.clone()
        ),
    );
    if let (Err(why), Err(_)) = (&stdout, &stderr) {
        return Err(why.clone());
    }
    shared.peaks.sample_one(run.id);
    let mut evidence = Evidence {
        memory_peak: shared.peaks.peak_of(run.id, run.since),
        ..Evidence::default()
    };
    if evidence.memory_peak.is_none() && run.since.is_some() {
        evidence.missing.push(NO_PEAK.to_owned());
    }
    for (name, result, lines) in [
        ("stdout", stdout, &mut evidence.stdout),
        ("stderr", stderr, &mut evidence.stderr),
    ] {
        match result {
            Ok(tail) => {
                *lines = tail.lines;
                evidence
                    .missing
                    .extend(tail.cut.map(|why| format!("{name}: {why}")));
            }
            Err(gone @ ActionError::Gone) => return Err(gone),
            Err(unreachable @ ActionError::Unreachable(_)) => return Err(unreachable),
            Err(why) => evidence.missing.push(format!("{name}: {why}")),
        }
    }
    match diagnostics {
        Ok(found) => {
            evidence.network_diagnostics = found.results;
            evidence.listening = found.listening;
            evidence.healthy_paths = found.healthy_paths;
        }
        Err(why) => evidence.missing.push(format!("network: {why}")),
    }
    if evidence.stderr.last().is_some_and(|line| is_wrong_format(line)) {
        evidence.wrong_platform = platform::describe_difference(shared, run.id).await;
    }
    Ok(Done::Evidence(Box::new(evidence)))
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

fn timeout_error() -> ActionError {
    ActionError::Unknown(format!("no answer within {} s", COLLECTION_TIMEOUT.as_secs()))
}

async fn run_until<T>(
    deadline: Deadline,
    call: impl Future<Output = Result<T, ActionError>>,
) -> Result<T, ActionError> {
    tokio::select! {
        biased;
        result = call => result,
        () = deadline => Err(timeout_error()),
    }
}

/// True for a stream that may have displaced lines of the other one.
fn can_displace_lines(stream: &Result<StreamTail, ActionError>) -> bool {
    stream.as_ref().is_ok_and(|tail| tail.bytes >= DISPLACING_BYTES)
}

/// Reads more of a stream whose lines the other one may have displaced. Returns `first_read` when that finds no more in
/// time.
async fn read_more_lines(
    shared: &Shared,
    run: Run<'_>,
    stream: Stream,
    first_read: Result<StreamTail, ActionError>,
    can_be_displaced: bool,
    deadline: Deadline,
) -> Result<StreamTail, ActionError> {
    let is_short = first_read
        .as_ref()
        .is_ok_and(|tail| tail.lines.len() < MIN_COMPLETE_LINES && tail.cut.is_none());
    if !is_short || !can_be_displaced {
        return first_read;
    }
    for tail in RETRY_TAILS {
        match read_lines(shared, run, stream, tail, deadline.clone()).await {
            // A stream that was cut contains its beginning, but evidence needs its end.
            Ok(found) if found.cut.is_some() => return first_read,
            Ok(found) if found.lines.is_empty() => {}
            Ok(found) => return Ok(found),
            Err(_) => return first_read,
        }
    }
    first_read
}

/// Reads the last lines of one stream of this run, each prefixed with the engine's time.
async fn read_lines(
    shared: &Shared,
    run: Run<'_>,
    stream: Stream,
    tail: Option<u32>,
    deadline: Deadline,
) -> Result<StreamTail, ActionError> {
    let since = run.lines_since;
    let query = LogQuery {
        tail,
        timestamps: true,
        since,
        only: Some(stream),
        ..LogQuery::default()
    };
    gather_lines(logs::lines(shared, run.id, &query), since, deadline).await
}

/// Gathers the last lines that arrive before the deadline. Fails only when no line arrived before the error.
async fn gather_lines(
    mut all: impl futures::Stream<Item = Result<LogLine, ActionError>> + Unpin,
    since: Option<Timestamp>,
    deadline: Deadline,
) -> Result<StreamTail, ActionError> {
    let mut kept = std::collections::VecDeque::new();
    let (mut bytes, mut kept_bytes) = (0, 0);
    let mut cut = None;
    loop {
        let next = tokio::select! {
            biased;
            () = deadline.clone() => Some(Err(timeout_error())),
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

/// True for a line of this run. The engine's filter has whole seconds, and an earlier run may have ended in the same one.
fn is_of_this_run(line: &str, since: Option<Timestamp>) -> bool {
    let at = line
        .split_once(' ')
        .and_then(|(stamp, _)| Timestamp::parse(stamp));
    match (at, since) {
        (Some(at), Some(since)) => at >= since,
        (None, _) | (_, None) => true,
    }
}

/// State of the network of a container that still runs.
#[derive(Debug, Default)]
struct NetworkDiagnosis {
    results: BTreeMap<String, String>,
    listening: Option<Vec<SocketAddr>>,
    healthy_paths: Vec<String>,
}

/// Connects to the port of a container that still runs, lists its aliases by network, and the addresses on which it listens.
async fn diagnose_network(shared: &Shared, run: Run<'_>) -> Result<NetworkDiagnosis, ActionError> {
    let Some(port) = run.port else {
        return Ok(NetworkDiagnosis::default());
    };
    let (inspected, listening) = tokio::join!(
        ownership::inspect_container(shared, run.id.as_str()),
        Box::pin(service_sockets::find(shared, run.id)),
    );
    let inspected = inspected?.ok_or(ActionError::Gone)?;
    let mut found = BTreeMap::new();
    let mut healthy_paths = Vec::new();
    for (network, attachment) in &inspected.container.networks {
        found.insert(format!("aliases on {network}"), attachment.aliases.join(", "));
        let address = attachment
            .address
            .as_ref()
            .and_then(|text| text.split('/').next());
        let Some(address) = address.and_then(|text| text.parse::<IpAddr>().ok()) else {
            continue;
        };
        let address = SocketAddr::new(address, port);
        let result = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                if run.http && healthy_paths.is_empty() {
                    healthy_paths = service_sockets::find_healthy_paths(address).await;
                }
                "connected".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        };
        found.insert(format!("tcp {address}"), result);
    }
    if inspected.container.networks.is_empty() {
        found.insert("network".to_owned(), "not attached to any network".to_owned());
    }
    if let Some(listening) = &listening {
        let addresses: Vec<String> = listening.iter().map(ToString::to_string).collect();
        let addresses = if addresses.is_empty() {
            "no TCP port".to_owned()
        } else {
            addresses.join(", ")
        };
        found.insert("listens on".to_owned(), addresses);
    }
    if !healthy_paths.is_empty() {
        found.insert("healthy paths".to_owned(), healthy_paths.join(", "));
    }
    Ok(NetworkDiagnosis {
        results: found,
        listening,
        healthy_paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_earlier_run_are_left_out() {
        let since = Timestamp::parse("2026-11-21T10:00:00.5Z");
        for (line, of_this_run) in [
            ("2026-11-21T10:00:00.499999999Z old", false),
            ("2026-11-21T10:00:00.500000001Z new", true),
            ("no time at all", true),
        ] {
            assert_eq!(is_of_this_run(line, since), of_this_run, "{line}");
        }
        assert!(is_of_this_run("2026-11-21T10:00:00.1Z x", None));
    }

    fn line(text: &str) -> LogLine {
        LogLine {
            stderr: false,
            text: text.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lines_before_a_cut_or_an_error_are_kept() {
        let broken = || Err(ActionError::Unknown("reset".to_owned()));
        let slow =
            futures::stream::iter([Ok(line("one")), Ok(line("two"))]).chain(futures::stream::pending());
        let silent = futures::stream::pending();
        let deadline = || tokio::time::sleep(COLLECTION_TIMEOUT).shared();
        let tail = gather_lines(slow.boxed(), None, deadline()).await.unwrap();
        assert_eq!(tail.lines, ["one", "two"]);
        assert_eq!(tail.cut.as_deref(), Some("outcome unknown: no answer within 4 s"));
        let torn = futures::stream::iter([Ok(line("one")), broken()]);
        let tail = gather_lines(torn, None, deadline()).await.unwrap();
        assert_eq!((tail.lines.len(), tail.cut.is_some()), (1, true));
        let whole = gather_lines(futures::stream::iter([Ok(line("one"))]), None, deadline()).await;
        assert_eq!(whole.unwrap().cut, None);
        // No response is not an empty log: the caller retries.
        assert!(gather_lines(silent.boxed(), None, deadline()).await.is_err());
        assert!(
            gather_lines(futures::stream::iter([broken()]), None, deadline())
                .await
                .is_err()
        );
        let empty = gather_lines(futures::stream::empty().boxed(), None, deadline()).await;
        assert!(empty.unwrap().lines.is_empty());
    }
}
