//! Operating mode of the controller, derived from its inputs by one pure function.

pub use argus_crds::status::Mode;

use crate::desired::Criticality;

/// Inputs of [`ModeInputs::mode`].
///
/// ```
/// use argus_core::mode::{Mode, ModeInputs};
///
/// assert_eq!(ModeInputs::default().mode(), Mode::Full);
/// let inputs = ModeInputs { breaker_open: true, specs_unavailable: true, ..ModeInputs::default() };
/// assert_eq!(inputs.mode(), Mode::Minimal);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the inputs are independent, and every combination is possible"
)]
pub struct ModeInputs {
    /// The journal cannot be written, so no action can be recorded before it is performed.
    pub journal_unwritable: bool,
    /// The stored state is corrupt and cannot be quarantined.
    pub state_corrupt: bool,
    /// One of the two conditions above occurred, and no person has resumed the controller since.
    pub needs_resume: bool,
    /// The last run did not end cleanly, and its open intents are not resolved yet.
    pub recovering: bool,
    /// The engine is unreachable.
    pub engine_unreachable: bool,
    /// The circuit breaker of the engine is open.
    pub breaker_open: bool,
    /// The specs folder cannot be read.
    pub specs_unavailable: bool,
    /// A required image cannot be pulled, because its registry is unreachable.
    pub image_registry_unreachable: bool,
    /// Highest criticality among the services that were given up; `None` if there are none.
    pub given_up: Option<Criticality>,
}

impl ModeInputs {
    /// Returns the most restrictive mode that any of the inputs requires.
    pub fn mode(&self) -> Mode {
        if self.journal_unwritable || self.state_corrupt || self.needs_resume {
            Mode::Safe
        } else if self.recovering {
            Mode::Recovery
        } else if self.engine_unreachable || self.breaker_open {
            Mode::Minimal
        } else if self.specs_unavailable || self.image_registry_unreachable {
            Mode::Limited
        } else {
            match self.given_up {
                // An optional service does not affect the mode.
                None | Some(Criticality::Optional) => Mode::Full,
                Some(Criticality::Critical | Criticality::Important | Criticality::Recoverable) => {
                    Mode::Reduced
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type AddReason = fn(&mut ModeInputs);

    const REASONS: [(AddReason, Mode); 9] = [
        (|inputs| inputs.journal_unwritable = true, Mode::Safe),
        (|inputs| inputs.state_corrupt = true, Mode::Safe),
        (|inputs| inputs.needs_resume = true, Mode::Safe),
        (|inputs| inputs.recovering = true, Mode::Recovery),
        (|inputs| inputs.engine_unreachable = true, Mode::Minimal),
        (|inputs| inputs.breaker_open = true, Mode::Minimal),
        (|inputs| inputs.specs_unavailable = true, Mode::Limited),
        (|inputs| inputs.image_registry_unreachable = true, Mode::Limited),
        (
            |inputs| inputs.given_up = Some(Criticality::Recoverable),
            Mode::Reduced,
        ),
    ];

    #[test]
    fn each_reason_selects_its_mode() {
        assert_eq!(ModeInputs::default().mode(), Mode::Full);
        for (add_reason, mode) in REASONS {
            let mut inputs = ModeInputs::default();
            add_reason(&mut inputs);
            assert_eq!(inputs.mode(), mode, "{inputs:?}");
        }
        for (criticality, mode) in [
            (Criticality::Critical, Mode::Reduced),
            (Criticality::Important, Mode::Reduced),
            (Criticality::Optional, Mode::Full),
        ] {
            let given_up = Some(criticality);
            let inputs = ModeInputs {
                given_up,
                ..ModeInputs::default()
            };
            assert_eq!(inputs.mode(), mode, "{inputs:?}");
        }
    }

    /// Returns the rank of a mode, from 0 (`Full`) to 5 (`Safe`); a higher rank forbids more.
    fn restriction_level(mode: Mode) -> u8 {
        match mode {
            Mode::Full => 0,
            Mode::Reduced => 1,
            Mode::Limited => 2,
            Mode::Minimal => 3,
            Mode::Recovery => 4,
            Mode::Safe => 5,
        }
    }

    #[test]
    fn additional_reason_never_lowers_the_severity() {
        for set in 0..1_u32 << REASONS.len() {
            let mut inputs = ModeInputs::default();
            let chosen = |index: usize| set & (1 << index) != 0;
            for (index, (add_reason, _)) in REASONS.iter().enumerate() {
                if chosen(index) {
                    add_reason(&mut inputs);
                }
            }
            for (index, (add_reason, _)) in REASONS.iter().enumerate() {
                let mut worse = inputs;
                add_reason(&mut worse);
                assert!(
                    restriction_level(worse.mode()) >= restriction_level(inputs.mode()),
                    "{index}: {inputs:?}"
                );
            }
        }
    }
}
