//! What can go wrong with a call, chosen by seed.

use std::time::Duration;

use argus_core::outcome::ActionError;

use super::rng::Rng;

/// After this a call without an answer is given up.
const DEADLINE_MS: (u64, u64) = (2_000, 10_000);

/// How bad it is, in per cent of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultProfile {
    /// Calls that go wrong in one of the ways of [`Fault`].
    pub calls: u64,
    /// Sights of events that never come.
    pub lost: u64,
    /// Sights of events that come twice.
    pub repeated: u64,
    /// Sights of events that come late and out of order, as they were when they were taken.
    pub reordered: u64,
    /// Objects of a list without what only an inspect shows; the inspect follows.
    pub thin: u64,
    /// How far the eyes are behind, in milliseconds.
    pub lag: (u64, u64),
    /// How long a call takes, in milliseconds.
    pub call: (u64, u64),
    /// How long a list takes, in milliseconds.
    pub list: (u64, u64),
}

impl FaultProfile {
    /// Nothing goes wrong, everything takes a little time.
    pub fn calm() -> Self {
        Self {
            lag: (1, 20),
            call: (1, 30),
            list: (1, 20),
            ..Self::default()
        }
    }

    /// Some weather for a seed, from calm to very bad.
    pub fn of(chance: &mut Rng) -> Self {
        let worst = chance.below(4) * 10;
        let slow = [20, 200, 1_500, 6_000][usize::try_from(chance.below(4)).unwrap_or(0)];
        Self {
            calls: chance.below(worst + 1),
            lost: chance.below(worst + 1),
            repeated: chance.below(worst + 1),
            reordered: chance.below(worst + 1),
            thin: chance.below(worst + 1),
            lag: (0, chance.below(slow + 1)),
            call: (0, chance.below(slow + 1)),
            list: (0, chance.below(slow + 1)),
        }
    }
}

/// What happens to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is done, and the answer says so.
    None,
    /// It fails before anything is done, and the answer says so.
    Before(ActionError),
    /// It is done, and the answer is lost, cut off, or that of somebody in between.
    ReplyLost(ActionError),
    /// It is not done, and there is no answer until the deadline.
    Hangs(Duration),
    /// It is done at once, and there is no answer until the deadline.
    AppliedAndHangs(Duration),
    /// There is no answer until the deadline, and it is done so long after that.
    AppliedLate(Duration, Duration),
}

impl Fault {
    /// What happens to the next call.
    pub fn of(faults: &FaultProfile, chance: &mut Rng) -> Self {
        if !chance.percent(faults.calls) {
            return Self::None;
        }
        let deadline = chance.millis(DEADLINE_MS);
        let reset = || ActionError::ConnectionLost("reset by peer".to_owned());
        match chance.below(9) {
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
            _ => Self::AppliedLate(deadline, chance.millis((0, 15_000))),
        }
    }
}
