//! Liveness of the controller behind the status files. They show the current state only if the running controller wrote them.

use argus_core::time::Timestamp;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, Truth};
use argus_reconciler::lock::LockHolder;
use argus_reconciler::state_dir::StateDir;

use crate::local_state::status;
use crate::view::ENGINE_READABLE;

/// Controller of a state directory, as another process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The running controller wrote the status files.
    Running,
    /// A controller runs, but files can be those of an earlier run, which was last seen at this time.
    Starting(Option<Timestamp>),
    /// No controller runs. The last one was last seen at this time.
    NotRunning(Option<Timestamp>),
}

impl Liveness {
    /// Reads the liveness of the controller of a state directory.
    pub(crate) fn read(state: &StateDir) -> Self {
        let is_alive = status::is_alive(state);
        let written = status::read_controller(state).ok().flatten();
        let holder = LockHolder::read(&state.lock()).filter(|_| is_alive);
        Self::new(is_alive, written.as_ref(), holder.as_ref())
    }

    /// `holder` is the holder of the lock, if this user can read it.
    fn new(is_alive: bool, written: Option<&ControllerStatus>, holder: Option<&LockHolder>) -> Self {
        let last_seen = written.and_then(last_seen);
        match written {
            _ if !is_alive => Self::NotRunning(last_seen),
            Some(written) if is_of_run(written, holder) && has_read_all(written) => Self::Running,
            Some(_) | None => Self::Starting(last_seen),
        }
    }

    /// Returns true if the files show the current state.
    pub(crate) fn is_running(self) -> bool {
        self == Self::Running
    }

    /// Marks a status of a file as the last known state, unless it is current.
    pub(crate) fn mark(self, status: EnvironmentStatus) -> EnvironmentStatus {
        let (Self::Starting(last_seen) | Self::NotRunning(last_seen)) = self else {
            return status;
        };
        // An unchanged status is not written again, so it was true until the controller ended.
        let as_of = last_seen.filter(|seen| Timestamp::parse(&status.as_of).is_some_and(|at| at < *seen));
        EnvironmentStatus {
            as_of: as_of.map_or(status.as_of, |at| at.to_string()),
            stale: true,
            ..status
        }
    }
}

/// Time of the stop. For a killed controller, the time of its last status.
fn last_seen(written: &ControllerStatus) -> Option<Timestamp> {
    Timestamp::parse(written.stopped_at.as_deref().unwrap_or(&written.as_of))
}

/// Returns true if the holder of the lock wrote `controller.json`, which is the last file of each write.
fn is_of_run(written: &ControllerStatus, holder: Option<&LockHolder>) -> bool {
    let locked_at = holder.and_then(|holder| Timestamp::parse(&holder.since));
    let started_at = Timestamp::parse(&written.started_at);
    let is_earlier = started_at.zip(locked_at).is_some_and(|(at, locked)| at < locked);
    written.stopped_at.is_none() && !is_earlier
}

/// Returns true if the controller has read its specs folder and listed the engine, or cannot. It then has written each status file.
fn has_read_all(written: &ControllerStatus) -> bool {
    // An engine that does not answer has no list to read.
    let mut read = written.conditions.iter().filter(|it| it.kind != ENGINE_READABLE);
    read.all(|condition| condition.status != Truth::Unknown)
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{Condition, Phase};

    use super::*;

    const OLD: &str = "2026-01-01T00:00:00Z";
    const LATER: &str = "2026-01-01T01:00:00Z";
    const NEW: &str = "2026-01-01T02:00:00Z";

    fn written(started_at: &str, stopped_at: Option<&str>) -> ControllerStatus {
        ControllerStatus {
            started_at: started_at.to_owned(),
            stopped_at: stopped_at.map(str::to_owned),
            as_of: started_at.to_owned(),
            ..ControllerStatus::default()
        }
    }

    fn holder(since: &str) -> LockHolder {
        LockHolder {
            since: since.to_owned(),
            ..LockHolder::default()
        }
    }

    fn seen(at: &str) -> Option<Timestamp> {
        Timestamp::parse(at)
    }

    #[test]
    fn only_files_of_the_running_controller_are_current() {
        use Liveness::{NotRunning, Running, Starting};
        let (killed, stopped, current) = (written(OLD, None), written(OLD, Some(LATER)), written(NEW, None));
        let of = |is_alive, written: Option<&ControllerStatus>, since: Option<&str>| {
            let holder = since.map(holder);
            Liveness::new(is_alive, written, holder.as_ref())
        };
        assert_eq!(of(false, None, None), NotRunning(None));
        assert_eq!(of(false, Some(&killed), Some(OLD)), NotRunning(seen(OLD)));
        assert_eq!(of(false, Some(&stopped), Some(OLD)), NotRunning(seen(LATER)));
        assert_eq!(of(true, None, Some(NEW)), Starting(None));
        assert_eq!(of(true, Some(&killed), Some(NEW)), Starting(seen(OLD)));
        assert_eq!(of(true, Some(&stopped), Some(NEW)), Starting(seen(LATER)));
        assert_eq!(of(true, Some(&current), Some(NEW)), Running);
        let with = |status| ControllerStatus {
            conditions: vec![Condition {
                kind: "SpecsAvailable".to_owned(),
                status,
                reason: String::new(),
                message: String::new(),
                last_transition_time: String::new(),
            }],
            ..current.clone()
        };
        assert_eq!(
            of(true, Some(&with(Truth::Unknown)), Some(NEW)),
            Starting(seen(NEW))
        );
        assert_eq!(of(true, Some(&with(Truth::True)), Some(NEW)), Running);
        assert_eq!(of(true, Some(&with(Truth::False)), Some(NEW)), Running);
        // The lock of another user is unreadable.
        assert_eq!(of(true, Some(&current), None), Running);
        assert_eq!(of(true, Some(&stopped), None), Starting(seen(LATER)));
    }

    #[test]
    fn last_known_state_is_stale_since_the_controller_was_seen() {
        let ready = |as_of: &str| EnvironmentStatus {
            phase: Phase::Ready,
            as_of: as_of.to_owned(),
            ..EnvironmentStatus::default()
        };
        let mark = |liveness: Liveness, as_of| {
            let marked = liveness.mark(ready(as_of));
            (marked.stale, seen(&marked.as_of))
        };
        assert_eq!(mark(Liveness::Running, OLD), (false, seen(OLD)));
        let ended = Liveness::NotRunning(seen(LATER));
        assert_eq!(mark(ended, OLD), (true, seen(LATER)));
        assert_eq!(mark(ended, NEW), (true, seen(NEW)));
        assert_eq!(mark(Liveness::Starting(None), OLD), (true, seen(OLD)));
    }
}
