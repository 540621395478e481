//! Budgets of evaluations. They count steps and bytes instead of time: an evaluation of equal inputs ends at the same place on
//! every machine.
//!
//! A document of a few lines can describe a value of any size. Each evaluation of such text therefore takes a [`Budget`] as an
//! argument, and ends with an error when it is exceeded.

/// Steps and bytes that an evaluation may use. Once exceeded, it stays exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    max_steps: u64,
    max_bytes: u64,
    steps: u64,
    bytes: u64,
    exceeded: Option<Exceeded>,
}

/// An evaluation needs more than its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Maximum number of steps.
    #[error("more than {0} steps")]
    Steps(u64),
    /// Maximum number of bytes.
    #[error("more than {0} bytes")]
    Bytes(u64),
}

impl Budget {
    /// Creates a budget.
    pub const fn new(max_steps: u64, max_bytes: u64) -> Self {
        Self {
            max_steps,
            max_bytes,
            steps: 0,
            bytes: 0,
            exceeded: None,
        }
    }

    /// Uses steps. Call it before the steps are taken: those that exceed the maximum are not counted.
    pub fn steps(&mut self, count: u64) -> Result<(), Exceeded> {
        match self.steps.checked_add(count) {
            Some(steps) if steps <= self.max_steps => self.steps = steps,
            Some(_) | None => self.exceed(Exceeded::Steps(self.max_steps)),
        }
        self.exceeded.map_or(Ok(()), Err)
    }

    /// Uses bytes, until [`Budget::release`].
    pub fn bytes(&mut self, count: u64) -> Result<(), Exceeded> {
        match self.bytes.checked_add(count) {
            Some(bytes) if bytes <= self.max_bytes => self.bytes = bytes,
            Some(_) | None => self.exceed(Exceeded::Bytes(self.max_bytes)),
        }
        self.exceeded.map_or(Ok(()), Err)
    }

    fn exceed(&mut self, exceeded: Exceeded) {
        self.exceeded.get_or_insert(exceeded);
    }

    /// Gives bytes back that are no longer held.
    pub fn release(&mut self, count: u64) {
        self.bytes = self.bytes.saturating_sub(count);
    }

    /// Steps so far, and the bytes that are held; never more than the maximum.
    pub fn used(&self) -> (u64, u64) {
        (self.steps, self.bytes)
    }

    /// The exceeded maximum.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeded_budget_stays_exceeded() {
        let mut budget = Budget::new(3, 8);
        assert_eq!((budget.steps(3), budget.bytes(8)), (Ok(()), Ok(())));
        budget.release(2);
        assert_eq!((budget.bytes(2), budget.used()), (Ok(()), (3, 8)));
        assert_eq!(budget.bytes(1), Err(Exceeded::Bytes(8)));
        budget.release(9);
        assert_eq!(budget.steps(0), Err(Exceeded::Bytes(8)), "it is not reset");
        let mut other = Budget::new(3, 8);
        assert_eq!(other.steps(1), Ok(()));
        assert_eq!(other.steps(u64::MAX), Err(Exceeded::Steps(3)));
        assert_eq!(other.used(), (1, 0));
        assert_eq!(Exceeded::Steps(3).to_string(), "more than 3 steps");
    }
}
