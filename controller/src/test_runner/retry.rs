//! Schedule of the attempts of a job: retries, and confirmations after a disruption.

use std::time::Duration;

use argus_crds::suite::{RetryBackoff, TestRetry};

use super::report::Attempt;

/// Next attempt of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Repeat the failed cases immediately, because a disruption explains their failure.
    Confirmation,
    /// Repeat everything after a delay.
    Retry(Duration),
}

/// Returns the next attempt. `None` after a pass, or after the last attempt.
///
/// The first attempt that failed during a disruption is confirmed and not counted, if `is_confirmed`.
pub(super) fn next_attempt(attempts: &[Attempt], retry: &TestRetry, is_confirmed: bool) -> Option<Next> {
    let last = attempts.last().filter(|last| !last.has_passed())?;
    let disrupted = attempts.iter().position(Attempt::needs_confirmation);
    let disrupted = disrupted.filter(|_| is_confirmed);
    let counted = attempts.len() - usize::from(disrupted.is_some());
    if disrupted == Some(attempts.len() - 1) && !last.is_confirmation {
        return Some(Next::Confirmation);
    }
    let most = usize::try_from(retry.max_attempts).unwrap_or(usize::MAX);
    if counted >= most {
        return None;
    }
    let delay = retry.delay.get();
    let steps = i32::try_from(counted).unwrap_or(i32::MAX);
    let factor = match retry.backoff {
        RetryBackoff::Linear => f64::from(steps),
        RetryBackoff::Exponential => retry.backoff_multiplier.powi(steps - 1),
    };
    let seconds = (delay.as_secs_f64() * factor).min(MAX_DELAY.as_secs_f64());
    Some(Next::Retry(Duration::from_secs_f64(seconds)))
}

/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use argus_crds::quantity::HumanDuration;

    use super::*;
    use crate::test_runner::report::tests::attempt;

    #[test]
    fn failure_is_retried_and_first_disruption_is_free() {
        let retry = |max_attempts, backoff| TestRetry {
            max_attempts,
            delay: HumanDuration::from_secs(2),
            backoff,
            backoff_multiplier: 3.0,
        };
        let (bad, good, disrupted) = (attempt(1, false), attempt(0, false), attempt(1, true));
        let seconds = |attempts: &[&Attempt], retry: TestRetry| {
            let attempts: Vec<_> = attempts.iter().map(|attempt| (*attempt).clone()).collect();
            next_attempt(&attempts, &retry, true).map(|next| match next {
                Next::Confirmation => 0,
                Next::Retry(delay) => delay.as_secs(),
            })
        };
        let linear = |most| retry(most, RetryBackoff::Linear);
        let exponential = |most| retry(most, RetryBackoff::Exponential);
        assert_eq!(seconds(&[], linear(3)), None);
        assert_eq!(seconds(&[&good], linear(3)), None);
        assert_eq!(seconds(&[&bad], linear(1)), None);
        assert_eq!(seconds(&[&bad], linear(3)), Some(2));
        assert_eq!(seconds(&[&bad, &bad], linear(3)), Some(4));
        assert_eq!(seconds(&[&bad, &bad, &bad], linear(3)), None);
        assert_eq!(seconds(&[&bad], exponential(3)), Some(2));
        assert_eq!(seconds(&[&bad, &bad], exponential(3)), Some(6));
        assert_eq!(seconds(&[&bad, &good], linear(3)), None);
        // Only the first disrupted attempt is not counted.
        let disrupted_once = [disrupted.clone()];
        assert_eq!(next_attempt(&disrupted_once, &linear(1), false), None);
        assert_eq!(
            next_attempt(&disrupted_once, &linear(1), true),
            Some(Next::Confirmation)
        );
        assert_eq!(seconds(&[&disrupted], linear(1)), Some(0));
        assert_eq!(seconds(&[&disrupted, &bad], linear(1)), None);
        assert_eq!(seconds(&[&disrupted, &disrupted], linear(1)), None);
        assert_eq!(seconds(&[&disrupted, &bad], linear(2)), Some(2));
        let far = retry(10, RetryBackoff::Exponential);
        let far = TestRetry {
            backoff_multiplier: 100.0,
            ..far
        };
        assert_eq!(seconds(&[&bad; 9], far), Some(600));
    }
}
