//! Progress of followed logs: the logs to open next, and the lines that are new. It has no clock and makes no calls.
//!
//! A log is opened once per run of its container, and again when its stream broke. The engine then repeats lines of the
//! last seconds, which [`Progress::on_line`] recognises by their timestamps.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::time::Timestamp;

use crate::api::logs::time_range::Stamp;

/// Maximum time between the first output of a run and its start as the engine records it, which is later.
const START_MARGIN: Duration = Duration::from_millis(500);
/// Time that a repeated read goes back before the newest line, because the two streams are not in order.
const OVERLAP: Duration = Duration::from_secs(1);

/// A line was shown before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeated;

/// A container as the watch shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerView {
    pub(super) id: ContainerId,
    /// Name of its service for people.
    pub(super) name: String,
    pub(super) is_up: bool,
    /// Start of the last run; `None` before the first one, and until the next inspect.
    pub(super) started_at: Option<Timestamp>,
}

/// Log to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) id: ContainerId,
    /// Start of the part to read; `None` for the first read of the container.
    pub(super) since: Option<Timestamp>,
}

/// Start of a run of a container after another one of the same service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Border {
    pub(super) name: String,
    pub(super) id: ContainerId,
    pub(super) started_at: Timestamp,
    /// The container of the earlier run, if it was another one.
    pub(super) replaced: Option<ContainerId>,
}

/// State of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    /// Ended. It is not opened again yet, except for another run.
    Paused {
        is_complete: bool,
    },
    Closed {
        is_complete: bool,
    },
}

#[derive(Debug)]
struct Log {
    name: String,
    /// Start of the run for which it was opened.
    started_at: Timestamp,
    reading: Reading,
    /// The first line ever read. Repeated reads begin there, also after a read of the last lines only.
    first: Option<Stamp>,
    is_repeated: bool,
    /// Newest lines of stdout and stderr.
    newest: [Newest; 2],
}

/// Progress of all logs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    logs: BTreeMap<ContainerId, Log>,
    /// The last run of each service whose lines were shown.
    runs: BTreeMap<String, (ContainerId, Timestamp)>,
    /// Length of the longest name so far: the column does not change when a container is replaced.
    width: usize,
}

impl Progress {
    /// Returns the logs to open, and marks them as open.
    pub(super) fn open_due(&mut self, containers: &[ContainerView]) -> Vec<Opening> {
        containers
            .iter()
            .filter_map(|container| self.open(container))
            .collect()
    }

    fn open(&mut self, container: &ContainerView) -> Option<Opening> {
        let started_at = container.started_at?;
        self.width = self.width.max(container.name.len());
        let Some(log) = self.logs.get_mut(&container.id) else {
            let log = Log {
                name: container.name.clone(),
                started_at,
                reading: Reading::Open,
                first: None,
                is_repeated: false,
                newest: Default::default(),
            };
            self.logs.insert(container.id.clone(), log);
            return Some(Opening {
                id: container.id.clone(),
                since: None,
            });
        };
        let is_due = match log.reading {
            Reading::Open => false,
            _ if log.started_at != started_at => true,
            Reading::Paused { .. } => false,
            Reading::Closed { is_complete } => container.is_up || !is_complete,
        };
        if !is_due {
            return None;
        }
        log.reading = Reading::Open;
        let earlier = std::mem::replace(&mut log.started_at, started_at);
        log.is_repeated = true;
        log.newest.iter_mut().for_each(Newest::repeat);
        let newest = log.newest.iter().filter_map(|newest| newest.stamp).max();
        let newest = newest.map_or(earlier, Stamp::timestamp);
        Some(Opening {
            id: container.id.clone(),
            since: Some(newest - OVERLAP),
        })
    }

    /// Name of the service of an opened log.
    pub(super) fn name(&self, id: &ContainerId) -> &str {
        self.logs.get(id).map_or("", |log| &log.name)
    }

    /// Length of the longest name so far.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns true until every log is read to its end.
    pub(super) fn is_reading(&self) -> bool {
        let is_closed = |log: &Log| matches!(log.reading, Reading::Closed { is_complete: true });
        !self.logs.values().all(is_closed)
    }

    /// Returns true if the first line of a stream of the log has not been read.
    pub(super) fn is_first_line(&self, id: &ContainerId, stderr: bool) -> bool {
        let newest = |log: &Log| log.newest[usize::from(stderr)].stamp;
        self.logs.get(id).is_none_or(|log| newest(log).is_none())
    }

    /// Records a line. Returns the border before it, if it begins a run.
    pub(super) fn on_line(
        &mut self,
        id: &ContainerId,
        stderr: bool,
        stamp: Option<Stamp>,
    ) -> Result<Option<Border>, Repeated> {
        let log = self.logs.get_mut(id).ok_or(Repeated)?;
        if let Some(stamp) = stamp {
            let is_before = *log.first.get_or_insert(stamp) > stamp;
            if is_before && log.is_repeated || !log.newest[usize::from(stderr)].accept(stamp) {
                return Err(Repeated);
            }
            if stamp < Stamp::from(log.started_at - START_MARGIN) && self.runs.contains_key(&log.name) {
                return Ok(None);
            }
        }
        Ok(self.enter_run(id))
    }

    /// Records the end of a stream. The log is not opened again before [`Progress::on_delay`], except for another run. Returns
    /// the border of a run without output.
    pub(super) fn on_end(&mut self, id: &ContainerId, is_complete: bool) -> Option<Border> {
        let log = self.logs.get_mut(id)?;
        log.reading = Reading::Paused { is_complete };
        if is_complete { self.enter_run(id) } else { None }
    }

    /// Records that the delay after the end of a stream is over.
    pub(super) fn on_delay(&mut self, id: &ContainerId) {
        if let Some(log) = self.logs.get_mut(id)
            && let Reading::Paused { is_complete } = log.reading
        {
            log.reading = Reading::Closed { is_complete };
        }
    }

    /// Records the removal of a container: nothing more can be read.
    pub(super) fn on_gone(&mut self, id: &ContainerId) -> Option<Border> {
        self.on_end(id, true)
    }

    /// Forgets removed containers whose logs are read.
    pub(super) fn forget_missing(&mut self, containers: &[ContainerView]) {
        self.logs.retain(|id, log| {
            let exists = containers.iter().any(|container| container.id == *id);
            let is_open = log.reading == Reading::Open;
            exists || is_open
        });
    }

    /// Enters the run of a log. Returns its border if it is later than the last one of the service.
    fn enter_run(&mut self, id: &ContainerId) -> Option<Border> {
        let log = self.logs.get(id)?;
        let run = (id.clone(), log.started_at);
        let Some(last) = self.runs.get(&log.name) else {
            self.runs.insert(log.name.clone(), run);
            return None;
        };
        if last.1 >= log.started_at {
            return None;
        }
        let replaced = (last.0 != *id).then(|| last.0.clone());
        let border = Border {
            name: log.name.clone(),
            id: id.clone(),
            started_at: log.started_at,
            replaced,
        };
        self.runs.insert(log.name.clone(), run);
        Some(border)
    }
}

/// Newest line of a stream. The engine can write several lines in one nanosecond.
#[derive(Debug, Default)]
struct Newest {
    stamp: Option<Stamp>,
    count: usize,
    /// During a repeated read: number of lines with this timestamp so far.
    repeated: Option<usize>,
}

impl Newest {
    /// Begins a repeated read.
    fn repeat(&mut self) {
        self.repeated = self.stamp.map(|_| 0);
    }

    /// Returns true for a new line.
    fn accept(&mut self, stamp: Stamp) -> bool {
        match (self.stamp, self.repeated) {
            (Some(newest), Some(_)) if stamp < newest => return false,
            (Some(newest), Some(repeated)) if stamp == newest && repeated < self.count => {
                self.repeated = Some(repeated + 1);
                return false;
            }
            (Some(newest), _) if stamp == newest => self.count += 1,
            _ => {
                self.stamp = Some(stamp);
                self.count = 1;
            }
        }
        self.repeated = None;
        true
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
