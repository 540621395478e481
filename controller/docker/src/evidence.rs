//! What a failed run left behind: its last lines, its peak of memory, and what its port answers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use argus_backend::{LogLine, LogQuery, Stream};
use argus_core::ident::ContainerId;
use argus_core::outcome::{ActionError, Done, Evidence};
use argus_core::time::Timestamp;
use futures::future::{FutureExt, Shared as SharedFuture};
use futures::stream::StreamExt;
use tokio::net::TcpStream;

use crate::Shared;
use crate::logs;
use crate::ownership;

/// Lines that are taken; the engine counts those of both streams together.
const LINES: u32 = 1_000;
/// Of a stream with fewer lines than this, the other one may have pushed some out of those.
const FEW: usize = 100;
/// Less than this, with the engine's times, pushes nothing out.
const LOUD: usize = 16 * 1024;
/// What was pushed out is looked for among so many lines first, more than the pipes of a container hold, then among
/// all: a long log takes an engine seconds.
const DEEPER: [Option<u32>; 2] = [Some(64_000), None];
/// What did not come by then is missing: below the deadline of the act, so that what came is not lost with it.
const LIMIT: Duration = Duration::from_secs(4);
/// The engine sets down a start when its own call returned; what ends at once has spoken by then.
const BEFORE_START: Duration = Duration::from_millis(500);
/// Most bytes of each stream that are kept; of more, the end.
const LONGEST: usize = 512 * 1024;
/// A connection that takes longer is none.
const CONNECT: Duration = Duration::from_secs(1);

/// What is asked for, as the act has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a ContainerId,
    pub(crate) since: Option<Timestamp>,
    pub(crate) port: Option<u16>,
}

/// The end of the time that there is, for everybody who waits for something.
type Over = SharedFuture<tokio::time::Sleep>;

/// Takes what there is in the time that there is; what cannot be had is said in the evidence itself.
///
/// # Errors
/// The container is gone, the engine does not answer, or nothing at all was to be had of its log.
pub(crate) async fn take(shared: &Shared, run: Run<'_>) -> Result<Done, ActionError> {
    let over = tokio::time::sleep(LIMIT).shared();
    let (stdout, stderr, questions) = tokio::join!(
        lines(shared, run, Stream::Stdout, Some(LINES), over.clone()),
        lines(shared, run, Stream::Stderr, Some(LINES), over.clone()),
        within(over.clone(), ask(shared, run)),
    );
    let (loud_stdout, loud_stderr) = (is_loud(&stdout), is_loud(&stderr));
    let (stdout, stderr) = tokio::join!(
        deeper(shared, run, Stream::Stdout, stdout, loud_stderr, over.clone()),
        deeper(shared, run, Stream::Stderr, stderr, loud_stdout, over.clone()),
    );
    if let (Err(why), Err(_)) = (&stdout, &stderr) {
        return Err(why.clone());
    }
    let mut evidence = Evidence {
        memory_peak: shared.peaks.known(run.id, run.since),
        ..Evidence::default()
    };
    for (name, came, kept) in [
        ("stdout", stdout, &mut evidence.stdout),
        ("stderr", stderr, &mut evidence.stderr),
    ] {
        match came {
            Ok(came) => {
                *kept = came.lines;
                evidence
                    .missing
                    .extend(came.cut.map(|why| format!("{name}: {why}")));
            }
            Err(gone @ ActionError::Gone) => return Err(gone),
            Err(away @ ActionError::Unreachable(_)) => return Err(away),
            Err(why) => evidence.missing.push(format!("{name}: {why}")),
        }
    }
    match questions {
        Ok(questions) => evidence.questions = questions,
        Err(why) => evidence.missing.push(format!("network: {why}")),
    }
    Ok(Done::Evidence(Box::new(evidence)))
}

/// What came of one stream.
#[derive(Debug)]
struct StreamTail {
    lines: Vec<String>,
    /// Of all its lines, kept or not.
    bytes: usize,
    /// Why more of them did not come.
    cut: Option<String>,
}

fn too_late() -> ActionError {
    ActionError::Unknown(format!("no answer within {} s", LIMIT.as_secs()))
}

async fn within<T>(over: Over, call: impl Future<Output = Result<T, ActionError>>) -> Result<T, ActionError> {
    tokio::select! {
        biased;
        came = call => came,
        () = over => Err(too_late()),
    }
}

fn is_loud(came: &Result<StreamTail, ActionError>) -> bool {
    came.as_ref().is_ok_and(|came| came.bytes >= LOUD)
}

/// Looks for more of a stream that the other one may have drowned; `came` where there is no more, or no time.
async fn deeper(
    shared: &Shared,
    run: Run<'_>,
    stream: Stream,
    came: Result<StreamTail, ActionError>,
    other_is_loud: bool,
    over: Over,
) -> Result<StreamTail, ActionError> {
    let few = came
        .as_ref()
        .is_ok_and(|came| came.lines.len() < FEW && came.cut.is_none());
    if !few || !other_is_loud {
        return came;
    }
    for tail in DEEPER {
        match lines(shared, run, stream, tail, over.clone()).await {
            // What was cut is the beginning, and the end is what is looked for.
            Ok(found) if found.cut.is_some() => return came,
            Ok(found) if found.lines.is_empty() => {}
            Ok(found) => return Ok(found),
            Err(_) => return came,
        }
    }
    came
}

/// The last lines of one stream of this run, each with the engine's time in front.
async fn lines(
    shared: &Shared,
    run: Run<'_>,
    stream: Stream,
    tail: Option<u32>,
    over: Over,
) -> Result<StreamTail, ActionError> {
    let since = run.since.map(|started| started - BEFORE_START);
    let query = LogQuery {
        tail,
        timestamps: true,
        since,
        only: Some(stream),
        ..LogQuery::default()
    };
    gather(logs::lines(shared, run.id, &query), since, over).await
}

/// The last of these lines, as far as they come in time; an error only where nothing came before it.
async fn gather(
    mut all: impl futures::Stream<Item = Result<LogLine, ActionError>> + Unpin,
    since: Option<Timestamp>,
    over: Over,
) -> Result<StreamTail, ActionError> {
    let mut kept = std::collections::VecDeque::new();
    let (mut bytes, mut held) = (0, 0);
    let mut cut = None;
    loop {
        let next = tokio::select! {
            biased;
            () = over.clone() => Some(Err(too_late())),
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
        held += text.len();
        kept.push_back(text);
        while kept.len() > 1 && (held > LONGEST || kept.len() > LINES as usize) {
            held -= kept.pop_front().map_or(0, |old: String| old.len());
        }
    }
    Ok(StreamTail {
        lines: kept.into(),
        bytes,
        cut,
    })
}

/// The engine cuts to the second; an earlier run may have ended within the same.
fn is_of_this_run(line: &str, since: Option<Timestamp>) -> bool {
    let at = line
        .split_once(' ')
        .and_then(|(stamp, _)| Timestamp::parse(stamp));
    match (at, since) {
        (Some(at), Some(since)) => at >= since,
        (None, _) | (_, None) => true,
    }
}

/// What a container that still runs answers on its port, and under which names it can be found.
async fn ask(shared: &Shared, run: Run<'_>) -> Result<BTreeMap<String, String>, ActionError> {
    let Some(port) = run.port else {
        return Ok(BTreeMap::new());
    };
    let held = ownership::inspect(shared, run.id.as_str())
        .await?
        .ok_or(ActionError::Gone)?;
    let mut found = BTreeMap::new();
    for (network, at) in &held.container.networks {
        found.insert(
            format!("dns on {network}"),
            format!("known as {}", at.aliases.join(", ")),
        );
        let address = at.address.as_ref().and_then(|text| text.split('/').next());
        let Some(address) = address.and_then(|text| text.parse::<IpAddr>().ok()) else {
            continue;
        };
        let address = SocketAddr::new(address, port);
        let answer = match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => "connected".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT.as_secs()),
        };
        found.insert(format!("tcp {address}"), answer);
    }
    if held.container.networks.is_empty() {
        found.insert("dns".to_owned(), "it is on no network".to_owned());
    }
    Ok(found)
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
    async fn what_came_before_a_log_was_cut_or_broke_is_kept() {
        let broken = || Err(ActionError::Unknown("reset".to_owned()));
        let slow =
            futures::stream::iter([Ok(line("one")), Ok(line("two"))]).chain(futures::stream::pending());
        let silent = futures::stream::pending();
        let over = || tokio::time::sleep(LIMIT).shared();
        let came = gather(slow.boxed(), None, over()).await.unwrap();
        assert_eq!(came.lines, ["one", "two"]);
        assert_eq!(came.cut.as_deref(), Some("outcome unknown: no answer within 4 s"));
        let torn = futures::stream::iter([Ok(line("one")), broken()]);
        let came = gather(torn, None, over()).await.unwrap();
        assert_eq!((came.lines.len(), came.cut.is_some()), (1, true));
        let whole = gather(futures::stream::iter([Ok(line("one"))]), None, over()).await;
        assert_eq!(whole.unwrap().cut, None);
        // Nothing at all is not a log without lines: it is asked for again.
        assert!(gather(silent.boxed(), None, over()).await.is_err());
        assert!(
            gather(futures::stream::iter([broken()]), None, over())
                .await
                .is_err()
        );
        let empty = gather(futures::stream::empty().boxed(), None, over()).await;
        assert!(empty.unwrap().lines.is_empty());
    }
}
