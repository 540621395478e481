//! Logs of simulated containers. A busy engine writes the last lines of a run after its end.

use std::time::Duration;

use argus_core::ident::ContainerId;

use super::model::{Model, StoredContainer, service_of};
use crate::{LogLine, LogQuery, Stream};

/// Time between two lines that the engine writes after the end of a run.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

impl Model {
    /// Writes the last line of each failed run of `ENVIRONMENT/SERVICE` this long after its end.
    pub fn delay_log(&mut self, service: &str, delay: Duration) {
        self.log_delays.insert(service.to_owned(), delay);
    }

    /// Lines of the last run of a container that the engine has written, if the run has ended. All are on stderr.
    pub(super) fn log(&self, id: &ContainerId, query: &LogQuery) -> Vec<LogLine> {
        let stored = self.containers.get(id);
        let Some(stored) = stored.filter(|stored| self.has_output && !stored.container.state.is_up()) else {
            return Vec::new();
        };
        let info = stored.container.inspect.as_ref();
        let Some(ended_at) = info.and_then(|info| info.finished_at) else {
            return Vec::new();
        };
        let delay = self.log_delays.get(&service_of(&stored.container));
        let last_at = match delay {
            Some(delay) => ended_at + *delay,
            None => ended_at - Duration::from_millis(1),
        };
        let backlog = (0_u32..).map(|number| (ended_at + WRITE_INTERVAL * number, format!("line {number}")));
        let lines = backlog
            .take_while(|(at, _)| *at < last_at)
            .chain([(last_at, stored.last_line())]);
        let now = self.engine_time(self.now);
        let written: Vec<_> = lines.take_while(|(at, _)| *at <= now).collect();
        let most = query.tail.map_or(usize::MAX, |tail| tail as usize);
        let skipped = match query.only {
            Some(Stream::Stdout) => written.len(),
            Some(Stream::Stderr) | None => written.len().saturating_sub(most),
        };
        let shown = written.into_iter().skip(skipped).map(|(at, text)| LogLine {
            stderr: true,
            text: if query.timestamps {
                format!("{at} {text}")
            } else {
                text
            },
        });
        shown.collect()
    }
}

impl StoredContainer {
    /// Last line of a failed run.
    pub(super) fn last_line(&self) -> String {
        format!("ended with {}", self.code)
    }
}
