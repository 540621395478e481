//! How much of its work the controller can do, as one pure function of facts.

pub use argus_crds::status::Mode;

use crate::desired::Criticality;

/// Everything that decides about the mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact by itself, and any of them may hold with any other"
)]
pub struct ModeInputs {
    /// What is done cannot be written down first.
    pub journal_unwritable: bool,
    /// What was kept cannot be understood, and not be put aside either.
    pub state_corrupt: bool,
    /// It was one of the two, and no person has resumed the controller since.
    pub until_resumed: bool,
    /// The last run did not end cleanly, and what it left is not looked through yet.
    pub recovering: bool,
    /// The engine does not answer.
    pub engine_unreachable: bool,
    /// The engine's breaker is open.
    pub breaker_open: bool,
    /// The spec folder cannot be read.
    pub specs_unavailable: bool,
    /// An image is wanted, and its registry cannot be had.
    pub registry_unreachable: bool,
    /// The most critical service that was given up.
    pub given_up: Option<Criticality>,
}

impl ModeInputs {
    /// The mode that follows: the one that allows least of those for which there is a reason.
    pub fn mode(&self) -> Mode {
        if self.journal_unwritable || self.state_corrupt || self.until_resumed {
            Mode::Safe
        } else if self.recovering {
            Mode::Recovery
        } else if self.engine_unreachable || self.breaker_open {
            Mode::Minimal
        } else if self.specs_unavailable || self.registry_unreachable {
            Mode::Limited
        } else {
            match self.given_up {
                // Nobody misses what is optional.
                None | Some(Criticality::Optional) => Mode::Full,
                Some(Criticality::Critical | Criticality::Important | Criticality::Recoverable) => {
                    Mode::Reduced
                }
            }
        }
    }
}

/// How much a mode forbids; more is worse.
pub fn severity(mode: Mode) -> u8 {
    match mode {
        Mode::Full => 0,
        Mode::Reduced => 1,
        Mode::Limited => 2,
        Mode::Minimal => 3,
        Mode::Recovery => 4,
        Mode::Safe => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Worsen = fn(&mut ModeInputs);

    const REASONS: [(Worsen, Mode); 9] = [
        (|facts| facts.journal_unwritable = true, Mode::Safe),
        (|facts| facts.state_corrupt = true, Mode::Safe),
        (|facts| facts.until_resumed = true, Mode::Safe),
        (|facts| facts.recovering = true, Mode::Recovery),
        (|facts| facts.engine_unreachable = true, Mode::Minimal),
        (|facts| facts.breaker_open = true, Mode::Minimal),
        (|facts| facts.specs_unavailable = true, Mode::Limited),
        (|facts| facts.registry_unreachable = true, Mode::Limited),
        (
            |facts| facts.given_up = Some(Criticality::Recoverable),
            Mode::Reduced,
        ),
    ];

    #[test]
    fn each_reason_has_its_mode() {
        assert_eq!(ModeInputs::default().mode(), Mode::Full);
        for (worsen, mode) in REASONS {
            let mut facts = ModeInputs::default();
            worsen(&mut facts);
            assert_eq!(facts.mode(), mode, "{facts:?}");
        }
        for (criticality, mode) in [
            (Criticality::Critical, Mode::Reduced),
            (Criticality::Important, Mode::Reduced),
            (Criticality::Optional, Mode::Full),
        ] {
            let given_up = Some(criticality);
            let facts = ModeInputs {
                given_up,
                ..ModeInputs::default()
            };
            assert_eq!(facts.mode(), mode, "{facts:?}");
        }
    }

    #[test]
    fn one_reason_more_never_allows_more() {
        for set in 0..1_u32 << REASONS.len() {
            let mut facts = ModeInputs::default();
            let chosen = |index: usize| set & (1 << index) != 0;
            for (index, (worsen, _)) in REASONS.iter().enumerate() {
                if chosen(index) {
                    worsen(&mut facts);
                }
            }
            for (index, (worsen, _)) in REASONS.iter().enumerate() {
                let mut worse = facts;
                worsen(&mut worse);
                assert!(
                    severity(worse.mode()) >= severity(facts.mode()),
                    "{index}: {facts:?}"
                );
            }
        }
    }
}
