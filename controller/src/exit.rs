//! Exit codes, and failures on their way to one.

use std::process::ExitCode;

use argus_core::status::error_id;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_reconciler::clock;
use serde_json::{Value, json};

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Something that nobody foresaw.
    Unexpected,
    /// The command line is not understood.
    Usage,
    /// A spec is refused.
    Refused,
    /// The engine does not answer, or its breaker is open.
    Unreachable,
    /// Not ready in time.
    Late,
    /// Argus gave up.
    GaveUp,
    /// Another controller holds the state directory.
    Held,
    /// A second signal.
    Interrupted,
    /// As the demo service was told.
    AsTold(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::Late => 5,
            Self::GaveUp => 6,
            Self::Held => 7,
            Self::Interrupted => 130,
            Self::AsTold(number) => number,
        }
    }

    /// The exit code that stands for an error.
    pub(crate) fn of(code: Code) -> Self {
        match code {
            Code::SpecInvalid | Code::SpecConflict | Code::PolicyViolation => Self::Refused,
            Code::DockerUnavailable | Code::CircuitOpen | Code::ConnectionLost | Code::ApiTooOld => {
                Self::Unreachable
            }
            Code::Timeout => Self::Late,
            Code::ContainerRestartExhausted | Code::RetryExhausted | Code::LoopHalted => Self::GaveUp,
            Code::LeaseHeld => Self::Held,
            Code::DiskSpaceLow
            | Code::PortConflict
            | Code::PortExhaustion
            | Code::ContainerOom
            | Code::ContainerCrash
            | Code::HealthCheckTimeout
            | Code::NetworkUnreachable
            | Code::DnsResolutionFailed
            | Code::OrphanDetected
            | Code::CleanupFailed
            | Code::PrereqMissing
            | Code::ImageNotFound
            | Code::ImagePullFailed
            | Code::RegistryRateLimited
            | Code::AuthRequired
            | Code::BuildFailed
            | Code::ContainerStartFailed
            | Code::EntrypointNotFound
            | Code::NameConflict
            | Code::FlakySuspected
            | Code::PortStaleAllocation
            | Code::NetworkPoolExhausted
            | Code::NetworkStuck
            | Code::TestsFailed
            | Code::Held
            | Code::JournalUnwritable
            | Code::MockNoRoute
            | Code::MockRequestInvalid
            | Code::MockNoAnswer
            | Code::Internal => Self::Unexpected,
        }
    }
}

/// Why a command does not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read our output has seen enough; that is success.
    BrokenPipe,
    /// An error to be shown.
    Error {
        /// What is shown.
        error: Box<StructuredError>,
        /// How the process ends.
        exit: Exit,
        /// What to do, where something fits better than what its code suggests.
        hint: Option<String>,
    },
}

impl Failure {
    /// A failure with the exit code of its error.
    pub(crate) fn new(error: StructuredError) -> Self {
        let exit = Exit::of(error.code);
        Self::Error {
            error: Box::new(error),
            exit,
            hint: None,
        }
    }

    /// A failure of a kind, in words.
    pub(crate) fn of(code: Code, message: impl Into<String>) -> Self {
        Self::new(StructuredError::new(code, message))
    }

    /// What is asked for cannot be had.
    pub(crate) fn missing(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(StructuredError::missing(reason, message))
    }

    /// The command line asks for what cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(StructuredError::new(Code::SpecInvalid, message).reason(Reason::Usage))
            .exit(Exit::Usage)
            .hint("argus help")
    }

    /// A fault of the system around us, with its chain of causes.
    pub(crate) fn fault(doing: &str, why: &dyn std::error::Error) -> Self {
        let reason = chain(why);
        Self::of(Code::Internal, format!("{doing}: {reason}"))
            .about(json!({ "doing": doing, "reason": reason }))
            .quiet()
    }

    /// What is ours and makes no sense to us: nothing around us is to blame.
    pub(crate) fn bug(what: &str, why: &dyn std::error::Error) -> Self {
        let reason = chain(why);
        Self::of(Code::Internal, format!("{what}: {reason}"))
            .about(json!({ "doing": what, "reason": reason }))
    }

    /// The same failure with what it is about: an object.
    pub(crate) fn about(self, details: Value) -> Self {
        match self {
            Self::Error { error, exit, hint } => Self::Error {
                error: Box::new(error.details(details)),
                exit,
                hint,
            },
            Self::BrokenPipe => self,
        }
    }

    /// What it says.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error { error, .. } => &error.message,
            Self::BrokenPipe => "nobody reads",
        }
    }

    /// The error in it, as everything but a terminal shows it; a hint of its own is among the details.
    pub(crate) fn into_error(self) -> StructuredError {
        let error = match self {
            Self::Error { mut error, hint, .. } => {
                if let Some(hint) = hint {
                    error.details.insert("hint".to_owned(), hint.into());
                }
                *error
            }
            Self::BrokenPipe => StructuredError::new(Code::Internal, "nobody reads"),
        };
        stamped(error)
    }

    /// The same failure in an environment.
    pub(crate) fn environment(self, env: &str) -> Self {
        match self {
            Self::Error { error, exit, hint } => Self::Error {
                error: Box::new(error.environment(env)),
                exit,
                hint,
            },
            Self::BrokenPipe => self,
        }
    }

    /// The same failure with another exit code.
    pub(crate) fn exit(self, exit: Exit) -> Self {
        match self {
            Self::Error { error, hint, .. } => Self::Error { error, exit, hint },
            Self::BrokenPipe => self,
        }
    }

    /// The same failure with what to do, in place of the suggestions of its code.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Error { error, exit, .. } => Self::Error {
                error: Box::new(error.suggest(&[])),
                exit,
                hint: Some(hint.into()),
            },
            Self::BrokenPipe => self,
        }
    }

    /// The same failure without the suggestions of its code.
    pub(crate) fn quiet(self) -> Self {
        match self {
            Self::Error { error, exit, hint } => Self::Error {
                error: Box::new(error.suggest(&[])),
                exit,
                hint,
            },
            Self::BrokenPipe => self,
        }
    }
}

/// An error that arose in an answer and stands in no status: it gets its identity and its time here, like every other.
pub(crate) fn stamped(error: StructuredError) -> StructuredError {
    let now = clock::now();
    let id = error.error_id.clone().unwrap_or_else(|| {
        let env = error.environment.as_deref().unwrap_or_default();
        error_id(env, error.service.as_deref(), error.code, &error.message, now)
    });
    let at = error.timestamp.clone().unwrap_or_else(|| now.to_string());
    error.error_id(id).timestamp(at)
}

/// An error with all that stands behind it, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_exit_code_and_the_special_ones_have_theirs() {
        for (code, exit) in [
            (Code::SpecInvalid, 3),
            (Code::SpecConflict, 3),
            (Code::PolicyViolation, 3),
            (Code::DockerUnavailable, 4),
            (Code::CircuitOpen, 4),
            (Code::Timeout, 5),
            (Code::ContainerRestartExhausted, 6),
            (Code::LeaseHeld, 7),
            (Code::Internal, 1),
        ] {
            assert_eq!(Exit::of(code).number(), exit, "{code}");
        }
    }

    #[test]
    fn a_chain_says_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read `x`")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk is gone"));
        assert_eq!(chain(&error), "cannot read `x`: disk is gone");
    }
}
