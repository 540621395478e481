//! Log lines of a container, complete or as they are written.

mod lines;

use std::time::Duration;

use argus_backend::{LogLine, LogQuery, Stream};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::Shared;
use crate::error::{self, Op};
use lines::Lines;

/// Log lines, oldest first. Without `follow` a pause of the engine beyond the deadline of a change is an error.
pub(crate) fn lines(
    shared: &Shared,
    id: &ContainerId,
    query: &LogQuery,
) -> BoxStream<'static, Result<LogLine, ActionError>> {
    let client = match shared.connection.client() {
        Ok(client) => client,
        Err(unreachable) => return stream::once(async { Err(unreachable) }).boxed(),
    };
    let options = LogsOptionsBuilder::default()
        .stdout(query.only != Some(Stream::Stderr))
        .stderr(query.only != Some(Stream::Stdout))
        .since(query.since.map_or(0, whole_seconds))
        .follow(query.follow)
        .timestamps(query.timestamps)
        .tail(
            &query
                .tail
                .map_or_else(|| "all".to_owned(), |tail| tail.to_string()),
        )
        .build();
    let parts = client
        .logs(id.as_str(), Some(options))
        .map_err(|failure| error::classify(Op::Logs, &failure))
        .boxed();
    let reader = Reader {
        parts: Some(parts),
        lines: Lines::new(query.timestamps),
        follow: query.follow,
        max_pause: shared.times.write,
    };
    stream::unfold(reader, |mut reader| async {
        let line = reader.next().await?;
        Some((line, reader))
    })
    .boxed()
}

fn whole_seconds(at: Timestamp) -> i32 {
    i32::try_from(at.0.div_euclid(1000)).unwrap_or(0)
}

struct Reader {
    /// Frames of the engine; `None` after their end.
    parts: Option<BoxStream<'static, Result<LogOutput, ActionError>>>,
    lines: Lines,
    /// Wait for further lines without a deadline.
    follow: bool,
    /// Maximum pause of the engine.
    max_pause: Duration,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<LogLine, ActionError>> {
        loop {
            if let Some(line) = self.lines.take() {
                return Some(Ok(line));
            }
            let parts = self.parts.as_mut()?;
            let part = if self.follow {
                parts.next().await
            } else {
                match tokio::time::timeout(self.max_pause, parts.next()).await {
                    Ok(part) => part,
                    Err(_) => Some(Err(ActionError::TimedOut(format!(
                        "no log within {} s",
                        self.max_pause.as_secs()
                    )))),
                }
            };
            match part {
                Some(Ok(LogOutput::StdErr { message })) => self.lines.add(true, &message),
                Some(Ok(
                    LogOutput::StdOut { message }
                    | LogOutput::StdIn { message }
                    | LogOutput::Console { message },
                )) => self.lines.add(false, &message),
                Some(Err(failure)) => {
                    self.parts = None;
                    return Some(Err(failure));
                }
                None => {
                    self.parts = None;
                    self.lines.end();
                }
            }
        }
    }
}
