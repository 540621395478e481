//! Restart budget: a limited number of restarts within a time span.

use std::collections::VecDeque;
use std::time::Duration;

use argus_core::time::Timestamp;

/// Budget of restarts that refills as time passes.
#[derive(Debug, Clone)]
pub struct TaskRestartBudget {
    allowed: usize,
    span: Duration,
    restarts: VecDeque<Timestamp>,
}

impl TaskRestartBudget {
    /// Permits `allowed` restarts within any `span`.
    pub fn new(allowed: usize, span: Duration) -> Self {
        Self {
            allowed,
            span,
            restarts: VecDeque::new(),
        }
    }

    /// Takes one restart. Returns the number within the span with this one, or `None` if the budget is spent.
    pub fn spend(&mut self, now: Timestamp) -> Option<usize> {
        while self
            .restarts
            .front()
            .is_some_and(|first| now.since(*first) >= self.span)
        {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= self.allowed {
            return None;
        }
        self.restarts.push_back(now);
        Some(self.restarts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_and_refills() {
        let mut budget = TaskRestartBudget::new(2, Duration::from_secs(10));
        assert_eq!(budget.spend(Timestamp(0)), Some(1));
        assert_eq!(budget.spend(Timestamp(4_000)), Some(2));
        assert_eq!(budget.spend(Timestamp(9_999)), None);
        assert_eq!(budget.spend(Timestamp(10_000)), Some(2));
        assert_eq!(budget.spend(Timestamp(13_999)), None);
        assert_eq!(budget.spend(Timestamp(40_000)), Some(1));
    }
}
