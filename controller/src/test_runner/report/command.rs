//! Result of a run of one command: its exit code.

use super::{Attempt, Report};
use crate::process::exit::{Exit, Failure};

impl Report {
    /// Returns the exit code of the last attempt of a command.
    ///
    /// # Errors
    /// The command could not run.
    pub(crate) fn command_exit(&mut self) -> Result<Exit, Failure> {
        if let Some(failure) = self.ended_by.take() {
            return Err(failure);
        }
        let attempts = self.suites.iter().flat_map(|suite| &suite.attempts);
        Ok(match attempts.last() {
            Some(last) if !self.interrupted => exit_of(last),
            Some(_) | None => Exit::Interrupted,
        })
    }
}

/// Exit code of a command for the shell, which adds 128 to a signal.
fn exit_of(attempt: &Attempt) -> Exit {
    let signal = attempt.signal.map(|signal| 128 + signal);
    match attempt.exit_code.or(signal).map(u8::try_from) {
        _ if attempt.timed_out => Exit::TimedOut,
        Some(Ok(code)) => Exit::Code(code),
        Some(Err(_)) | None => Exit::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runner::report::tests::attempt;

    #[test]
    fn exit_code_is_that_of_a_shell() {
        let passed = attempt(0, false);
        let end = |exit_code, signal, timed_out| {
            let ended = Attempt {
                exit_code,
                signal,
                timed_out,
                ..passed.clone()
            };
            exit_of(&ended).number()
        };
        assert_eq!(end(Some(7), None, false), 7);
        assert_eq!(end(None, Some(9), false), 137);
        assert_eq!(end(None, Some(15), true), 5);
        assert_eq!(end(None, None, false), 1);
    }
}
