//! `argus logs --follow` of all environments. It also follows containers that start later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_backend::{Backend as _, LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use argus_docker::Docker;
use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};

use super::print_line;
use crate::api::logs::sources::{LogSource, Sources, find_all_sources};
use crate::client::ControllerClient;
use crate::engine;
use crate::exit::Failure;
use crate::output::Format;
use crate::settings::Settings;

/// Time between the end of a container and the next attempt to follow it.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// A line of a container; `None` at the end of its stream.
type NextLine = (LogSource, Option<Result<LogLine, ActionError>>);

/// Progress in the log of one container.
#[derive(Default)]
struct Position {
    is_open: bool,
    /// Timestamp of the newest printed line.
    newest: Option<String>,
}

/// Prints the lines of all containers as they arrive, and never ends.
pub(super) async fn follow_all(
    settings: &Settings,
    query: &LogQuery,
    format: Option<Format>,
) -> Result<(), Failure> {
    let docker = engine::connect_docker(settings).await?;
    let client = ControllerClient::for_command(settings.clone());
    let mut changes = client.watch_statuses();
    let mut lines = SelectAll::new();
    let mut positions: BTreeMap<ContainerId, Position> = BTreeMap::new();
    loop {
        let sources = client
            .run_blocking(|client| find_all_sources(client.state()))
            .await?;
        let existing: BTreeSet<&ContainerId> = sources.all.iter().map(|(_, id)| id).collect();
        positions.retain(|id, position| position.is_open || existing.contains(id));
        for source in &sources.all {
            let position = positions.entry(source.1.clone()).or_default();
            if !std::mem::replace(&mut position.is_open, true) {
                lines.push(open(&docker, source.clone(), query, position.newest.clone()));
            }
        }
        loop {
            tokio::select! {
                () = changes.changed() => break,
                Some(((name, id), line)) = lines.next() => {
                    let position = positions.entry(id).or_default();
                    match line {
                        Some(Ok(line)) => print(&sources, &name, line, position, query, format)?,
                        // The container ended. It may start again, or another one replaces it.
                        None => {
                            position.is_open = false;
                            break;
                        }
                        Some(Err(error)) => return Err(engine::engine_failure("cannot read logs", &error)),
                    }
                }
            }
        }
    }
}

/// Lines of a container after the newest printed one. The end of the stream arrives after [`REOPEN_DELAY`].
fn open(
    docker: &Docker,
    source: LogSource,
    query: &LogQuery,
    newest: Option<String>,
) -> BoxStream<'static, NextLine> {
    let query = LogQuery {
        timestamps: true,
        tail: query.tail.filter(|_| newest.is_none()),
        since: newest.as_deref().and_then(Timestamp::parse),
        ..query.clone()
    };
    let lines = docker.logs(&source.1, query).map(Some);
    let end = stream::once(async {
        tokio::time::sleep(REOPEN_DELAY).await;
        None
    });
    // The engine starts with the first line of the second.
    let is_new = move |line: &Option<Result<LogLine, ActionError>>| match line {
        Some(Ok(line)) => newest
            .as_deref()
            .is_none_or(|newest| split_stamp(&line.text).0 > newest),
        Some(Err(_)) | None => true,
    };
    lines
        .take_while(|line| std::future::ready(!matches!(line, Some(Err(ActionError::Gone)))))
        .chain(end)
        .filter(move |line| std::future::ready(is_new(line)))
        .map(move |line| (source.clone(), line))
        .boxed()
}

fn print(
    sources: &Sources,
    name: &str,
    line: LogLine,
    position: &mut Position,
    query: &LogQuery,
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut line = sources.redact(line, position.newest.is_none());
    let (stamp, text) = split_stamp(&line.text);
    position.newest = position.newest.take().max(Some(stamp.to_owned()));
    if !query.timestamps {
        line.text = String::from(text);
    }
    let width = sources.all.iter().map(|(name, _)| name.len()).max();
    print_line(name, width, line, format)
}

/// Splits a line into the engine's timestamp, which has a fixed width, and the text.
fn split_stamp(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}
