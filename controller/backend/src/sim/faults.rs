//! Faults of calls and of the watch, chosen by seed.

use std::time::Duration;

use argus_core::outcome::ActionError;

use super::rng::Rng;

/// Range of the deadline of a call without a response, in milliseconds.
const DEADLINE_RANGE_MS: (u64, u64) = (2_000, 10_000);

/// Frequency of the faults, and the delays, of a simulated engine. Frequencies are percentages from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultProfile {
    /// Percentage of calls that fail with one of the faults of [`Fault`].
    pub calls: u64,
    /// Percentage of watch events that are never delivered.
    pub lost: u64,
    /// Percentage of watch events that are delivered twice.
    pub repeated: u64,
    /// Percentage of watch events that are delivered late and out of order, with the object as it was at the event.
    pub reordered: u64,
    /// Percentage of listed objects without the details of an inspect; the details follow.
    pub without_inspect: u64,
    /// Minimum and maximum delay of the watch, in milliseconds.
    pub lag: (u64, u64),
    /// Minimum and maximum duration of a call, in milliseconds.
    pub call: (u64, u64),
    /// Minimum and maximum duration of a list, in milliseconds.
    pub list: (u64, u64),
}

impl FaultProfile {
    /// No faults and short delays.
    pub fn no_faults() -> Self {
        Self {
            lag: (1, 20),
            call: (1, 30),
            list: (1, 20),
            ..Self::default()
        }
    }

    /// A random profile: each frequency from 0 to 30 %, each delay from 0 to 6 s.
    pub fn of(rng: &mut Rng) -> Self {
        let worst = rng.below(4) * 10;
        let slow = [20, 200, 1_500, 6_000][usize::try_from(rng.below(4)).unwrap_or(0)];
        Self {
            calls: rng.below(worst + 1),
            lost: rng.below(worst + 1),
            repeated: rng.below(worst + 1),
            reordered: rng.below(worst + 1),
            without_inspect: rng.below(worst + 1),
            lag: (0, rng.below(slow + 1)),
            call: (0, rng.below(slow + 1)),
            list: (0, rng.below(slow + 1)),
        }
    }
}

/// Outcome of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the engine performs the call and responds.
    None,
    /// The call fails with this error before it has an effect.
    Before(ActionError),
    /// The engine performs the call; its response is lost, cut off, or replaced by an error of a proxy.
    ReplyLost(ActionError),
    /// The engine does not perform the call, and sends no response within this deadline.
    Hangs(Duration),
    /// The engine performs the call immediately, but sends no response within this deadline.
    AppliedAndHangs(Duration),
    /// The engine sends no response within the first duration, and performs the call the second duration later.
    AppliedLate(Duration, Duration),
}

impl Fault {
    /// A random outcome for the next call.
    pub fn of(faults: &FaultProfile, rng: &mut Rng) -> Self {
        if !rng.percent(faults.calls) {
            return Self::None;
        }
        let deadline = rng.millis(DEADLINE_RANGE_MS);
        let reset = || ActionError::ConnectionLost("reset by peer".to_owned());
        match rng.below(9) {
            0 => Self::Before(ActionError::Unreachable("connection refused".to_owned())),
            1 => Self::Before(ActionError::Engine(
                "containerd.sock: connection refused".to_owned(),
            )),
            2 => Self::Before(reset()),
            3 => Self::ReplyLost(reset()),
            4 => Self::ReplyLost(ActionError::Unknown("the answer ends in the middle".to_owned())),
            5 => Self::ReplyLost(ActionError::Engine("504: gateway timeout".to_owned())),
            6 => Self::Hangs(deadline),
            7 => Self::AppliedAndHangs(deadline),
            _ => Self::AppliedLate(deadline, rng.millis((0, 15_000))),
        }
    }
}
